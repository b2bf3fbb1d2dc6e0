"""How the front chooses candidates among rows that are at the shards: from scores and pair values, without vectors.

A single index chooses by the scores of the best rows, by their cells, and by the value of the pair that a row makes
with the anchor (``recommend/retrieve.py``). The shards return the scores and cells with their search, and value the
pairs in a round of their own. Products with base vectors depend, in their last bits, on how many rows are multiplied at
a time; so base vectors come to the front, which multiplies the rows that a single index would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Ints, Rows
from setwise.model.users import User
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.shard_measures import Anchor, Measured
from setwise.recommend.cluster.shard_reader import Filter
from setwise.retrieval.partners import best_pairs


class RemoteMeasures:
    """Measures of rows of a cluster, for one request; ``by_shard`` says where rows are."""

    def __init__(
        self,
        shards: Shards,
        user: User,
        measured: Mapping[int, Measured],
        by_shard: Callable[[Ints], dict[int, Ints]],
        rows_found: Ints,
        asked: Filter,
        base: bool,
    ) -> None:
        self._shards, self._user, self._by_shard = shards, user, by_shard
        rows = np.concatenate([one.rows for one in measured.values()])
        order = np.argsort(rows)
        self._rows = rows[order]
        self._score = np.concatenate([one.score for one in measured.values()], axis=1)[:, order]
        self._cells = np.concatenate([one.cells for one in measured.values()])[order]
        self._firsts = dict(one.first for one in measured.values())
        self._found = rows_found
        self._base: Array | None = self._asked("bases", rows_found) if base else None
        self._added: Array | None = None
        if asked.scores is not None:
            self._added = self._asked("added", rows_found, None, asked, user)

    def _asked(self, what: str, rows: Ints, parts: Array | None = None, *others: Any) -> Array:
        """An answer of the shards for each of these rows, in their order, which may be any."""
        order = np.argsort(rows)
        ascending = rows[order]
        wanted = self._by_shard(ascending)
        own = {
            shard: () if parts is None else (parts[order[np.searchsorted(ascending, mine)]],)
            for shard, mine in wanted.items()
        }
        answers = self._shards.ask(what, {shard: (mine, *own[shard], *others) for shard, mine in wanted.items()})
        given = np.concatenate([wanted[shard] for shard in answers])
        result = np.concatenate(list(answers.values()))[np.argsort(given)]
        return result[np.argsort(order)]

    def scores(self, rows: Rows) -> tuple[Floats, Floats]:
        """Total scores (m,) and scores by head (H, m) of rows that are among the best."""
        score = np.ascontiguousarray(self._score[:, np.searchsorted(self._rows, rows)])
        return score.sum(axis=0) + self._self_terms(rows), score

    def _self_terms(self, rows: Rows) -> Floats:
        at = np.searchsorted(self._found, rows)
        added = np.zeros(len(rows)) if self._added is None else self._added[at]
        if self._base is None or self._user.base is None:
            return added
        return np.asarray(self._base[at].astype(np.float64) @ self._user.base + added)

    def cells(self, rows: Rows) -> NDArray[np.int32]:
        """The cells of rows that are among the best."""
        return self._cells[np.searchsorted(self._rows, rows)]

    def partners(self, anchor: int, rows: Rows, most: int) -> Rows:
        """At most ``most`` of ``rows``: those that make the best pairs with the ``anchor``, best first."""
        if not len(rows):
            return rows
        base = self._self_terms(np.append(rows, anchor))
        if anchor not in self._firsts:  # two rows whose totals differ by rounding
            (shard, mine), *_ = self._by_shard(np.array([anchor])).items()
            self._firsts[anchor] = self._shards.ask("vectors_of", {shard: (mine,)})[shard]
        given = Anchor(self._firsts[anchor], float(base[-1]))
        return best_pairs(rows, self._asked("pairs", rows, base[:-1], given, self._user), most)
