"""SignedSearch: an upper bound over all sets of a catalogue by signed changes and prices, for several heads.

1. The levels of all items are their averages in the best set known. Changes of all pairs are computed with them
   (signed_changes.py), which is one pass over the weights of all pairs (pair_weights.py).
2. Prices divide every change between the two items (prices.py), step by step.
3. Items that cannot be in a set better than the best one known are dropped. If they are many, both stages are repeated
   for the others: the rewards vary less, and fewer weights can be in a set.

The bound is the least one seen. It holds after every stage. Pins and limits are ignored.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from setwise.bounds.lifts.pair_weights import PairWeights
from setwise.bounds.lifts.prices import PriceState, improve_prices
from setwise.bounds.lifts.signed_changes import Lines, SignedItems, fill_changes, reference_levels, share_pairs

if TYPE_CHECKING:
    from setwise.bounds.catalog.group_bounds import Members
    from setwise.bounds.catalog.prefix_members import CatalogArrays

STEPS, TOGETHER = 300, 5  # of the prices: the most, and between two readings of the clock
DROPPED = 0.7  # the share of items that must be dropped for another round
PATIENCE, PROGRESS = 40, 0.01  # a round ends when so many steps reduced the gap by less than this share
LARGEST = 1e6  # scores and base terms; larger ones would lose too much to single precision
_DROP = 3  # the number of the last stage
_LISTED_SECONDS = 2e-9  # of that stage for each weight: items that are left share few of them
_PAIRS = 1 << 19  # weights that are read between two readings of the clock
_SECONDS = 5e-10  # for each weight: the first stage takes about three times as long; it is not begun with less left


class SignedSearch:
    """The search; ``finished`` when it can do no more."""

    def __init__(self, data: CatalogArrays, weights: PairWeights, members: Members, k: int, value: float) -> None:
        self._k, self._bound, self.finished = k, math.inf, False
        self._value = max(value, 0.0)  # logistic rewards are positive
        self._items = items = _signed_items(data, weights, members)
        self._near = np.argsort(-np.where(items.able, items.base, -np.inf), kind="stable")[:k]
        self._needed = _SECONDS * items.weight.size
        self._begin()

    @classmethod
    def of(
        cls, data: CatalogArrays, weights: PairWeights | None, members: Members, k: int, value: float
    ) -> Self | None:
        """The search for sets of two items and more if the catalogue has weights of pairs; else None."""
        if weights is None or k == 1:
            return None
        able = data.scored_items.total > -np.inf
        sizes = [data.scored_items.score[:, able], data.scored_items.base[able], members.sink_score]
        if not able.any() or not max(float(np.abs(size).max()) for size in sizes) <= LARGEST:
            return None
        return cls(data, weights, members, k, value)

    @property
    def bound(self) -> float:
        """An upper bound on F over all sets, without the margin of the caller."""
        return max(self._value, self._bound)

    def offer(self, value: float, near: NDArray[np.int64] | None = None) -> None:
        """Raise the best known value to this; a search that has not begun starts from the items ``near``."""
        self._value = max(self._value, value)
        if near is not None and len(near) and self._bound == math.inf and self._stage == self._at == 0:
            self._near = near

    def run(self, until: float) -> None:
        """Search until ``time.perf_counter()`` reaches ``until``, or the end."""
        if self._stage == 0 and self._at == 0 and until - time.perf_counter() < self._needed:
            return
        while not self.finished and time.perf_counter() < until:
            if self._stage == _DROP and until - time.perf_counter() < _LISTED_SECONDS * self._items.weight.size:
                return
            self.proceed()
        if self.finished:
            self._change = np.empty((0, 0), np.float32)  # the search may be kept for long

    def proceed(self) -> None:
        """Do a part of the current stage, which takes about a millisecond, or drop items."""
        (self._fill, self._share, self._price, self._drop)[self._stage]()

    # --- stages ---

    def _begin(self) -> None:
        """Prepare the arrays of a round."""
        n, k = len(self._items.base), self._k
        self._stage = self._at = self._stuck = 0
        self._change = np.empty((n, n), np.float32)
        self._lines = Lines(np.empty(n), np.empty(n), np.empty(n))
        self._level = np.empty((n, len(self._items.spread)))
        self._least = math.inf
        self._state = PriceState(
            worth=np.full(n, np.inf),
            stale=np.ones(n, np.bool_),
            threshold=np.empty(n),
            weight=np.empty(n),
            best=np.empty(k + 1),
            row=np.empty(k),
            tally=np.zeros(1, np.int64),
        )

    def _fill(self) -> None:
        """Compute the changes of some rows."""
        items, n = self._items, len(self._items.base)
        end = min(n, self._at + max(1, _PAIRS // (n * len(items.spread))))
        reference_levels(items, self._near, self._k - 1, self._at, end, self._level)
        fill_changes(items, self._level, self._k - 1, self._at, end, self._change, self._lines)
        self._at = end
        if end == n:
            self._stage = 1
            self._at = 0

    def _share(self) -> None:
        """Turn the changes of some rows into equal charges."""
        n = len(self._items.base)
        end = min(n, self._at + max(32, _PAIRS // n))
        half = (0.5 * self._lines.slope).astype(np.float32)
        share_pairs(self._items, half, self._at, end, self._change)
        self._at = end
        if end == n:
            self._stage = 2
            self._floor, self._empty = self._price_of_empty()

    def _price_of_empty(self) -> tuple[float, float]:
        """−μ and the worth of an empty place, which is at most about that of a member of the best set, if μ > 0."""
        lines, others = self._lines, self._k - 1
        each = np.where(self._items.able, lines.slope * lines.empty, -np.inf)
        each = np.sort(each)[::-1][:others]

        def worth(price: float) -> float:
            return float(np.maximum(each + price, 0.0).sum()) * (1 + 1e-12)

        price = 0.0
        for length in (0.064, 0.032, 0.016, 0.008, 0.004):
            if worth(price + length) <= 0.8 * self._value / self._k:
                price += length
        return -price, worth(price)

    def _price(self) -> None:
        """Take some steps of the prices."""
        before = self._least
        bound = improve_prices(
            self._change, self._lines.reward, self._items.able, self._k, self._floor, self._empty, self._value,
            TOGETHER, self._state,
        )  # fmt: skip
        self._least = min(before, bound * (1 + 1e-12))
        self._bound = min(self._bound, self._least)
        slow = self._least > before - PROGRESS * (self._least - self._value) * TOGETHER / PATIENCE
        self._stuck = self._stuck + TOGETHER if slow else 0
        if self._bound <= self._value:
            self.finished = True
        elif self._stuck >= PATIENCE or self._state.tally[0] >= STEPS:
            self._stage = _DROP

    def _drop(self) -> None:
        """Drop items that no better set contains, and begin another round if they are many."""
        state, able = self._state, self._items.able
        top = np.sort(np.append(state.worth[able], np.full(self._k, self._empty)))[::-1][: self._k - 1].sum()
        left = np.flatnonzero(able & (state.worth + top > self._value))
        if len(left) == 0:
            self._bound = min(self._bound, self._value)
        if len(left) == 0 or len(left) > (1 - DROPPED) * able.sum():
            self.finished = True
            return
        place = np.full(len(able), -1)
        place[left] = np.arange(len(left))
        self._near = place[self._near][place[self._near] >= 0]
        self._items = _listed(self._items, left)
        self._begin()


def _signed_items(data: CatalogArrays, weights: PairWeights, members: Members) -> SignedItems:
    scored, table = data.scored_items, data.table
    able = scored.total > -np.inf
    score = np.ascontiguousarray(np.where(able, scored.score, 0.0))
    kind = data.items.reward_class
    return SignedItems(
        weight=weights.weight,
        sink=weights.sink,
        largest=weights.largest,
        score=score,
        score_32=score.astype(np.float32),
        sink_score=members.sink_score,
        base=scored.base,
        scale=table.parameter[kind, 0],
        bias=table.parameter[kind, 1],
        able=able,
        spread=np.maximum(np.abs(score).max(axis=1), np.abs(members.sink_score)),
    )


def _listed(items: SignedItems, at: NDArray[np.int64]) -> SignedItems:
    """The items at these places alone."""
    weight = np.ascontiguousarray(items.weight[at][:, :, at])
    count = items.largest.shape[2] - 1
    largest = np.zeros((len(at), weight.shape[1], count + 1))
    size = min(count, len(at))
    best = -np.sort(-np.partition(weight, len(at) - size, axis=2)[:, :, len(at) - size :], axis=2)
    largest[:, :, 1 : size + 1] = np.cumsum(best, axis=2, dtype=np.float64) * (1 + 1e-6)
    largest[:, :, size + 1 :] = largest[:, :, size : size + 1]
    one = {name: getattr(items, name)[at] for name in ("sink", "base", "scale", "bias", "able")}
    return SignedItems(
        weight=weight,
        largest=largest,
        score=np.ascontiguousarray(items.score[:, at]),
        score_32=np.ascontiguousarray(items.score_32[:, at]),
        sink_score=items.sink_score,
        spread=items.spread,
        **one,
    )
