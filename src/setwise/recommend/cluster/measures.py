"""How the front chooses candidates among rows that are at the shards: from scores and pair values, without vectors.

A single index chooses by the scores of the best rows, by their cells, and by the value of the pair that a row makes
with the anchor (``recommend/retrieve.py``). The shards return the scores with their search, and value the pairs in a
round of their own. Products with base vectors depend, in their last bits, on how many rows are multiplied at a time;
so base vectors come to the front, which multiplies the rows that a single index would.

**Records with the pairs.** When pairs are valued, all other candidates are known. So each shard returns these as
records with the pairs, and its own best partners too: about as many as come from one of S shards that are alike. What
is missing afterwards takes a round more. All values are fetched where the last partner and the next row have the same
value, because which of them one index takes depends on all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Ints, Rows
from setwise.model.users import User
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.merging import Merged
from setwise.recommend.cluster.packed import Packed, Records
from setwise.recommend.cluster.shard_measures import Anchor, Paired
from setwise.recommend.cluster.shard_reader import Filter
from setwise.retrieval.partners import best_pairs

SPREAD = 3.0  # standard deviations of the number of partners from one of S shards, of which the items are alike


class RemoteMeasures:
    """Measures of rows of a cluster, for one request; ``by_shard`` says where rows are.

    ``firsts`` are the vectors of possible anchors. ``sure`` are rows that are candidates whatever is measured.
    ``records`` are those that came with the pairs.
    """

    def __init__(
        self,
        shards: Shards,
        user: User,
        merged: Merged,
        firsts: Mapping[int, Packed],
        by_shard: Callable[[Ints], dict[int, Ints]],
        asked: Filter,
        base: bool,
        sure: Ints,
    ) -> None:
        self._shards, self._user, self._by_shard = shards, user, by_shard
        self._rows, self._score, self._cells = merged.found.best, merged.score, merged.cells
        self._firsts, self._sure = dict(firsts), sure
        self._plain = not base and not asked.adds_scores  # self terms are zero
        self.records: list[Records] = []
        self._found = np.sort(np.concatenate(merged.found))
        self._base: Array | None = self._asked("bases", self._found) if base else None
        self._added: Array | None = None
        if asked.scores is None and asked.history is not None and asked.history.new_user is None:
            self._added = asked.history.of(self._found)
        elif asked.adds_scores:
            self._added = self._asked("added", self._found, None, asked, user)

    def _asked(self, what: str, rows: Ints, parts: Array | None = None, *others: Any) -> Array:
        """An answer of the shards for each of these rows, in their order, which may be any."""
        order = np.argsort(rows)
        ascending = rows[order]
        wanted = self._by_shard(ascending)
        parts_of = {
            shard: () if parts is None else (parts[order[np.searchsorted(ascending, rows_there)]],)
            for shard, rows_there in wanted.items()
        }
        answers = self._shards.ask(
            what, {shard: (rows_there, *parts_of[shard], *others) for shard, rows_there in wanted.items()}
        )
        answered = np.concatenate([wanted[shard] for shard in answers])
        result = np.concatenate(list(answers.values()))[np.argsort(answered)]
        return result[np.argsort(order)]

    def scores(self, rows: Rows) -> tuple[Floats, Floats]:
        """Total scores (m,) and scores by head (H, m) of rows that are among the best."""
        score = np.ascontiguousarray(self._score[:, np.searchsorted(self._rows, rows)])
        return score.sum(axis=0) + self._self_terms(rows), score

    def _self_terms(self, rows: Rows) -> Floats:
        if self._plain:
            return np.zeros(len(rows))
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
            (shard, row), *_ = self._by_shard(np.array([anchor])).items()
            self._firsts[anchor] = self._shards.ask("vectors_of", {shard: (row,)})[shard]
        anchored = Anchor(self._firsts[anchor], float(base[-1]))
        paired = self._paired(rows, base[:-1], anchored, most)
        self.records = [reply.records for reply in paired]
        best = _best_of(paired, most)
        if best is not None:
            return best
        return best_pairs(rows, self._asked("pairs", rows, base[:-1], anchored, self._user), most)

    def _paired(self, rows: Rows, base: Floats, anchor: Anchor, most: int) -> list[Paired]:
        """The best pairs of every shard, and the records that come with them."""
        order = np.argsort(rows)
        wanted = self._by_shard(rows[order])
        others = np.union1d(np.setdiff1d(self._rows, rows, assume_unique=True), self._sure)
        sure, none = self._by_shard(others), np.empty(0, np.int64)
        share = most / max(len(wanted), 1)
        fetched = min(most, math.ceil(share + SPREAD * math.sqrt(share))) if len(wanted) > 1 else most
        asked = {}
        for shard in sorted({*wanted, *sure}):
            rows_there = wanted.get(shard, none)
            terms = None if self._plain else base[order[np.searchsorted(rows, rows_there, sorter=order)]]
            asked[shard] = rows_there, terms, sure.get(shard, none), anchor, self._user, most, fetched
        return list(self._shards.ask("paired", asked).values())


def _best_of(paired: list[Paired], most: int) -> Rows | None:
    """The rows of the ``most`` largest values; None where these do not say which rows they are."""
    rows, values = (np.concatenate([reply[at] for reply in paired]) for at in (0, 1))
    if sum(reply.total for reply in paired) <= most:
        return rows[np.argsort(-values, kind="stable")]
    order = np.argsort(-values, kind="stable")
    return rows[order[:most]] if values[order[most - 1]] > values[order[most]] else None
