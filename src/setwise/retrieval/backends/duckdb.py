"""``duckdb``: Phase One as one SQL query over a table in memory. Slow, exact, independent of our compiled code."""

from __future__ import annotations

import duckdb
import numpy as np

from setwise._types import Floats32, Ints, Mask
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors

# max(…, k) orders pairs by score, then by lowest row: the result does not depend on the order of DuckDB's threads.
QUERY = """
SELECT cell, generate_subscripts(best, 1) - 1 AS place, unnest(best, recursive := true)
FROM (
    SELECT cell, max({{'score': array_inner_product(vector, $user::FLOAT[{width}]), 'minus': -row}}, $per_cell) AS best
    FROM items {allowed}
    GROUP BY cell
)
"""


class DuckDB(SortedVectors):
    """The vectors sorted by cell, which are saved, and a database in memory, which is filled again on loading."""

    def __init__(self, vectors: Floats32, order: Ints, start: Ints) -> None:
        super().__init__(vectors, order, start)
        self._database = _filled(vectors, order, start)

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        hits = Hits.none(len(users), len(self.start) - 1, per_cell)
        allowed = "" if eligible is None else "ANTI JOIN excluded USING (row)"
        query = QUERY.format(width=self.vectors.shape[1], allowed=allowed)
        # A connection serves one thread at a time. A cursor is a connection with registered tables of its own.
        with self._database.cursor() as cursor:
            if eligible is not None:
                cursor.register("excluded", {"row": np.flatnonzero(~eligible)})
            for b, user in enumerate(users):
                best = cursor.execute(query, {"user": user.tolist(), "per_cell": per_cell}).fetchnumpy()
                hits.rows[b, best["cell"], best["place"]] = -best["minus"]
                hits.scores[b, best["cell"], best["place"]] = best["score"]
        return hits


def _filled(vectors: Floats32, order: Ints, start: Ints) -> duckdb.DuckDBPyConnection:
    """A database in memory with the table items (row, cell, vector)."""
    database = duckdb.connect(":memory:")
    cell = np.repeat(np.arange(len(start) - 1), np.diff(start))
    # DuckDB reads numpy column by column, so the vectors are passed as columns and assembled in the query.
    columns = {f"v{j}": column for j, column in enumerate(vectors.T)}
    database.register("source", {"row": order, "cell": cell, **columns})
    database.execute(
        "CREATE TABLE items AS SELECT row, cell, array_value(*COLUMNS(* EXCLUDE (row, cell))) AS vector FROM source"
    )
    database.unregister("source")
    return database
