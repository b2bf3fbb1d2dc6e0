"""``duckdb``: Phase One as one SQL query over a table in memory. Slow, exact, and independent of all our own code."""

from __future__ import annotations

import duckdb
import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats32
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors

# max(…, k) orders pairs by score, then by lowest row: the same answer whichever of DuckDB's threads comes first.
QUERY = """
SELECT cell, generate_subscripts(best, 1) - 1 AS place, unnest(best, recursive := true)
FROM (
    SELECT cell, max({{'score': array_inner_product(vector, $user::FLOAT[{width}]), 'minus': -row}}, $per_cell) AS best
    FROM items {allowed}
    GROUP BY cell
)
"""


class DuckDB(SortedVectors):
    """The vectors sorted by cell, which are saved, and a database of its own, filled anew on loading."""

    def __init__(self, vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> None:
        super().__init__(vectors, order, start)
        self._database = _filled(vectors, order, start)

    def search(self, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None = None) -> Hits:
        hits = Hits.none(len(users), len(self.start) - 1, per_cell)
        allowed = "" if barred is None else "ANTI JOIN barred USING (row)"
        query = QUERY.format(width=self.vectors.shape[1], allowed=allowed)
        # A connection serves one thread at a time. A cursor is a connection, and what it registers only it can see.
        with self._database.cursor() as cursor:
            if barred is not None:
                cursor.register("barred", {"row": np.flatnonzero(barred)})
            for b, user in enumerate(users):
                best = cursor.execute(query, {"user": user.tolist(), "per_cell": per_cell}).fetchnumpy()
                hits.rows[b, best["cell"], best["place"]] = -best["minus"]
                hits.scores[b, best["cell"], best["place"]] = best["score"]
        return hits


def _filled(vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> duckdb.DuckDBPyConnection:
    """A database in memory with the table items (row, cell, vector)."""
    database = duckdb.connect(":memory:")
    cell = np.repeat(np.arange(len(start) - 1), np.diff(start))
    # DuckDB reads numpy column by column, so the vectors travel as columns and are put together on arrival.
    columns = {f"v{j}": column for j, column in enumerate(vectors.T)}
    database.register("source", {"row": order, "cell": cell, **columns})
    database.execute(
        "CREATE TABLE items AS SELECT row, cell, array_value(*COLUMNS(* EXCLUDE (row, cell))) AS vector FROM source"
    )
    database.unregister("source")
    return database
