"""Whole-catalogue bounds: an upper bound on F(S) over all sets S of at most k eligible items of the catalogue.

**Constraints.** They only remove sets, so a bound that ignores some of them holds. Pinned items are made the first of
the order: the sets that contain them are those whose prefix they are. One limit, "at most so many items of each label",
enters every sum of largest brackets, and labels that are full leave the tree. Other limits are ignored, and the search
for several heads ignores pins: the set that the search finds (``better``) may violate those.

**Order and prefixes.** Order the items by some σ, largest first: by the score s_i if there is one head; if there are
several, by the largest of the item's standardised scores, max_h (s_i^h − mean_h) / deviation_h, so that items late in
the order score little in every head (any order is valid). The first m members of S in this order are a *prefix* C of S.
All others come later, so in head h they score at most M_h(C), the largest s_j^h of the later items. The prefixes form a
tree, which is searched best first.

**Bound on an average.** Let S have the prefix C and contain a later item i, let A = C ∪ {i} and x ∈ A. In head h, let D
be the sum of x's weights on A and the sink, and avg the average of their scores with these weights. The r = |S| − |A|
other members of S score at most M_h and have a total weight of at most W = r e^reach, where reach is the largest logit
of x with any item. So the average over S is a mixture of avg and of a number ≤ M_h, in which the latter has a share of
at most W / (D + W):

    avg_x^h(S)  ≤  cap_x^h(A)  =  avg + W / (D + W) · max(M_h − avg, 0),       and as f does not decrease

    reward_i(C)  =  f_i( base_i + Σ_h cap_i^h(C ∪ {i}) )      bounds the reward of i in any S with prefix C and i ∈ S,
    left_ci(C)   =  f_c( base_c + Σ_h cap_c^h(C ∪ {i}) )      bounds the reward of c ∈ C if i ∈ S.

**Bound of a prefix.** Let q = k − |C|, and let S consist of C and q later members R. The reward of c ∈ C is at most the
least left_ci over i ∈ R, hence at most their mean:

    F(S)  ≤  Σ_{i∈R} ( reward_i + (1/q) Σ_{c∈C} left_ci )  ≤  the sum of the q largest of these brackets.

If S has r < q later members, r > 0: F(S) is at most the sum of the r largest rewards, plus the largest Σ_c left_ci.
S = C is evaluated exactly. If i is the *next* member, M_h may be replaced by M_h(C ∪ {i}) in all of this, and the other
members add at most the q − 1 largest positive rewards.

**Cells.** The items of a cell are bounded together, with the largest score of the cell and each logit at the end of its
interval (cells.py) that gives the larger bound: an average with weights between limits is largest when all scores above
it have their largest weight and all below their least, and D is least when all weights are least. A cell of c eligible
items contributes its bound up to c times. It is opened, so that its items are bounded one by one, only if its bound is
among the q largest or the search reaches it. Cells in which no member of a better set can lie are dropped for all
longer prefixes (open_cells.py). So a step costs time for open cells and opened items, not for n items. The only
pass over all n items computes their scores and the largest of each cell.

**Several heads.** A second search takes them together (bounds/lifts/); the smaller of the two bounds counts. It gets
the time, unless the search over prefixes has the smaller bound. Where items attend mostly to themselves and the sink, a
third one goes first (bounds/lifts/signed_search.py).

**Rounding.** F grows with every score. The search uses scores that are raised by more than the effect of all rounding
of logits, weights and averages (user_scores.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Ints, Rows
from setwise._validation import real_number, whole_number
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.frontier import (
    BEST,
    GROUP,
    HEAP,
    KEY,
    LOST,
    MISSING,
    NODE,
    NODES,
    OFFSET,
    OPENED,
    ROOT,
    SHIFT,
    SIZE,
)
from setwise.bounds.catalog.group_bounds import HUGE
from setwise.bounds.catalog.reader import CatalogReader, GroupLimit, LocalReader
from setwise.bounds.catalog.score_order import Scored
from setwise.bounds.catalog.search import search_prefixes
from setwise.bounds.catalog.search_arrays import (
    LISTED,
    catalog_arrays,
    empty_members,
    first_frontier,
    pinned_first,
    workspace,
)
from setwise.bounds.catalog.user_scores import WEIGHTS, largest_terms
from setwise.bounds.catalog.worths import Worths, worths_of_items
from setwise.bounds.gap import relative_gap, zero_scale
from setwise.bounds.lifts.catalog_lifts import LiftSearch
from setwise.bounds.lifts.signed_search import SignedSearch
from setwise.bounds.prices import Prices
from setwise.errors import InvalidInput
from setwise.model.eligibility import Eligibility
from setwise.model.users import User

_STEPS, _QUICK = 4, 0.0005  # the most steps of the search between two readings of the clock, if they take less seconds
_PROVEN_WITHIN = 1e-6  # of the rewards: how far the bound of a proven set may be above its value
_LONG, _SHORT = 0.5, 0.002  # seconds, for turns of the two searches
_FETCHED, _MOST_FETCHED = 1024, 8192  # items brought at a time, at first and later, where they are elsewhere
_ENTRIES = 256  # open entries whose cells are brought together


@dataclass(frozen=True, eq=False)
class WholeBound:
    """An upper bound over all sets of at most k eligible items, and the best set known.

    upper_bound  F(S) ≤ this for every such S; at least ``value``
    value        the value of the best set known: the one passed, or that of ``better``
    better       rows of a set that the search found and that is better than the value passed, or None; it may violate
                 pins and group limits
    proven       whether ``value`` is proven optimal, up to rounding
    nodes        prefixes bounded
    opened       cells opened
    ms           time taken
    """

    upper_bound: float
    value: float
    better: Rows | None
    proven: bool
    nodes: int
    opened: int
    ms: float

    @property
    def gap(self) -> float:
        """The relative gap (upper bound − value) / upper bound; 0 if proven (``bounds/gap.py``)."""
        return relative_gap(self.value, self.upper_bound, self.proven)


def whole_catalog_bound(
    cells: CellBounds,
    user: ArrayLike | User,
    k: int,
    value: float = -np.inf,
    *,
    eligible: Eligibility | None = None,
    budget_ms: float = 100.0,
) -> WholeBound:
    """Bound F over every set of at most k ``eligible`` items; without that argument, of any items.

    ``value`` is that of the best set known; sets that cannot be better are pruned. The bound holds whenever the search
    stops: at the end of the budget, or when no better set is left.
    """
    budget = real_number("budget_ms", budget_ms)
    search = WholeCatalogSearch(cells, user, k, value, eligible=eligible)
    search.run(budget - search.ms)
    return search.found()


class WholeCatalogSearch:
    """The search of ``whole_catalog_bound`` with the same arguments, for callers that run it in several steps.

    ``finished`` is whether no open entry can be better than the best set known. Entries that were dropped for lack of
    memory still count in the bound, so this is not yet a proof: see ``found().proven``. ``ms`` is the time used so far.
    ``scored`` may pass the result of ``scores`` for this user and these ``eligible`` items. Every set contains the
    ``pinned`` rows, which are eligible, and keeps the ``limit``. ``near`` are the rows of the best set known. Items
    that are elsewhere are read through a reader. ``lifts`` and ``signed`` are the searches beside that over prefixes,
    where they apply.
    """

    def __init__(
        self,
        cells: CellBounds | CatalogReader,
        user: ArrayLike | User,
        k: int,
        value: float = -np.inf,
        *,
        eligible: Eligibility | None = None,
        scored: Scored | None = None,
        pinned: Rows | None = None,
        limit: GroupLimit | None = None,
        near: Rows | None = None,
        prices: Prices | None = None,
        admits: Callable[[Rows], bool] | None = None,
    ) -> None:
        began = time.perf_counter()
        k = min(whole_number("k", k), len(cells.catalog))
        self._reader: CatalogReader = LocalReader(cells) if isinstance(cells, CellBounds) else cells
        reader, self._user = self._reader, cells.catalog.user(user)
        items = reader.scored(self._user, eligible) if scored is None else scored
        pins = np.empty(0, np.int64) if pinned is None or len(pinned) > LISTED else np.sort(reader.places(pinned))
        self.prices, self._admits = prices, admits
        worths = self._worths()
        self._data = catalog_arrays(reader, pinned_first(items, pins), limit, worths)
        if len(self._data.column) and len(pins):
            self._open(np.searchsorted(reader.start, pins, side="right") - 1)
        self._frontier = first_frontier(k, -np.inf, self._data, pins)
        self._root = len(pins)
        members = empty_members(reader, self._user, k)
        self._parts = self._frontier, members, workspace(reader, self._data.cell_worths, k), k
        self.lifts = None if worths else LiftSearch.of(self._data, reader, members, k, float(value))
        self._room = _FETCHED
        self._value, self._longest, self._steps = float(value), 0.0, 1  # seconds between two readings of the clock
        weights = cells.pair_weights if isinstance(cells, CellBounds) and not worths else None
        self.signed = SignedSearch.of(self._data, weights, members, k, float(value))
        self.offer(value, near)
        self.finished = False
        self.ms = 1000 * (time.perf_counter() - began)

    def offer(self, value: float, near: Rows | None = None) -> None:
        """Raise the best known value to this, that of the set ``near``; sets that cannot beat it are pruned."""
        self._value = max(self._value, _known(value))
        counted = self._value
        if self.prices is not None:  # of a set that is not known, the least that it counts
            unknown = near is None or value < self._value
            offset = -self.prices.constant if unknown else float(self.prices.offset[near].sum())
            counted += offset
        self._frontier.value[BEST] = max(float(self._frontier.value[BEST]), counted)
        if self.lifts is not None:
            self.lifts.offer(self._value)
        if self.signed is not None:
            self.signed.offer(self._value, None if near is None else self._reader.places(near))

    def run(self, budget_ms: float) -> None:
        """Search for ``budget_ms`` milliseconds; the root is bounded even without a budget."""
        began = now = time.perf_counter()
        lifts, mine = self.lifts, 0.0  # seconds of the search over prefixes since that by lifts
        while not self.finished and (self._longest == 0 or now + self._longest - began < budget_ms / 1000):
            self.finished = bool(search_prefixes(self._data, *self._parts, self._steps))
            if self._frontier.tally[MISSING] >= 0:
                self._fetch()
                now = time.perf_counter()
                continue
            before, now = now, time.perf_counter()
            mine += now - before
            self._steps = min(2 * self._steps, _STEPS) if now - before < _QUICK else 1
            self._longest = max(self._longest, now - before) if self._longest else 1e-9
            # With pins, which lifts and signed changes ignore, they get half of the time.
            end = began + budget_ms / 1000 / (2 if self._root else 1)
            now = self._run_signed(end)
            if lifts is not None and not self.finished:
                self._run_lifts(lifts, end, now + self._slice(lifts, end - now, mine))
                lifts, now, mine = None if self._root else lifts, time.perf_counter(), 0.0
        self.ms += 1000 * (now - began)

    def _worths(self) -> Worths | None:
        """What the rewards of the items count for, by place; None where they count as they are."""
        n, weights = len(self._reader.catalog), self._user.weights
        if weights is None and self.prices is None:
            return None
        place, by_place = self._reader.places(np.arange(n)), np.zeros((2, n))
        by_place[0, place] = 1.0 if weights is None else weights
        by_place[1, place] = 0.0 if self.prices is None else self.prices.offset
        return worths_of_items(*by_place)

    def _fetch(self) -> None:
        """Bring the cell that the search needs, and others that it may need next."""
        frontier, _, work, _ = self._parts
        wanted, column = int(frontier.tally[MISSING]), self._data.column
        if frontier.tally[GROUP] == ROOT:  # cells of the prefix in the order in which they are opened
            worth = np.where(self._data.size > 0, work.worth, -np.inf)
            others = np.argsort(-worth, kind="stable")
            others = others[worth[others] > -np.inf]
        else:  # those of the open entries
            order = np.argsort(-frontier.key[: frontier.tally[HEAP]], kind="stable")[:_ENTRIES]
            others = -2 - ((frontier.entry[order] & ((1 << SHIFT) - 1)) - OFFSET)
            others = others[others >= 0]
        places = np.r_[wanted, others]
        _, first = np.unique(places, return_index=True)
        some = places[np.sort(first)]
        some = some[column[some] < 0]
        sizes = np.cumsum(self._data.start[some + 1] - self._data.start[some])
        self._open(some[: max(1, int(np.searchsorted(sizes, self._room)))])
        self._room = min(2 * self._room, _MOST_FETCHED)

    def _open(self, cells: Ints) -> None:
        """Bring the items of these cells."""
        self._reader.fetch(cells)
        groups, column = self._reader.items()
        self._data = self._data._replace(items=groups, column=column)

    def _run_signed(self, until: float) -> float:
        """Continue the search by signed changes, which goes first where there is one; return the time."""
        signed, best = self.signed, float(self._frontier.value[BEST])
        if signed is not None and not signed.finished and not self.finished:
            signed.offer(best)
            signed.run(until)
            self.finished = signed.bound <= best
        return time.perf_counter()

    def _slice(self, lifts: LiftSearch, left: float, mine: float) -> float:
        """The seconds that the search by lifts gets next.

        That is all there is, unless the search over prefixes has the smaller bound: then a third of what that one took.
        With more than half a second left, lifts pause once at half of it, so that both are compared.
        """
        if lifts.bound == math.inf or self._root:
            return 0.5 * left if left > _LONG else math.inf
        leads = (self._frontier.tally[HEAP] > 0 or self._frontier.tally[NODE] >= 0) and self._left < lifts.bound
        return max(mine / 3, _SHORT) if leads else math.inf

    def _run_lifts(self, lifts: LiftSearch, until: float, pause: float) -> None:
        """Continue the search by lifts; what it finds counts here too."""
        if lifts.finished:
            return
        frontier = self._frontier
        lifts.offer(float(frontier.value[BEST]))
        lifts.run(until, pause)
        if self._root:
            return
        value, items = lifts.best
        if value > frontier.value[BEST]:
            frontier.value[BEST], frontier.tally[SIZE] = value, len(items)
            frontier.best[: len(items)] = items
        self.finished = lifts.finished and lifts.bound <= frontier.value[BEST]

    @property
    def _left(self) -> float:
        """The largest bound of the open entries, that of a step that waits for a cell included."""
        frontier = self._frontier
        waiting = float(frontier.value[KEY]) if frontier.tally[NODE] >= 0 else -np.inf
        return max(waiting, float(frontier.key[0]) if frontier.tally[HEAP] else -np.inf)

    @property
    def _zero_scale(self) -> float:
        """What rounding is compared with where all rewards are 0."""
        terms, weights = largest_terms(self._reader, self._user), self._user.weights
        heaviest = 1.0 if weights is None else float(weights.max())
        return heaviest * zero_scale(self._reader.catalog.rewards, terms, int(self._parts[3]))

    @property
    def counted_most(self) -> Rows | None:
        """The rows of the set that counts most at the prices, whether it keeps the sums or not; or None."""
        size = int(self._frontier.tally[SIZE])
        return self._reader.valued(self._user, self._frontier.best[:size])[0] if size else None

    def found(self) -> WholeBound:
        """The bound and the best set so far."""
        frontier, value = self._frontier, self._value
        left = max(float(frontier.value[LOST]), self._left)
        left = min([left, *(search.bound for search in (self.lifts, self.signed) if search is not None)])
        bound = max(float(frontier.value[BEST]), left)
        better: Rows | None = None
        if frontier.tally[SIZE]:
            rows, found = self._reader.valued(self._user, frontier.best[: frontier.tally[SIZE]])
            kept = found > value and (self._admits is None or self._admits(rows))
            better, value = (rows, found) if kept else (None, value)
        size, closed = abs(bound) + abs(float(frontier.others[self._root, 0])), left <= float(frontier.value[BEST])
        if self.prices is not None:
            bound += self.prices.constant
            size += abs(self.prices.constant) + int(self._parts[3]) * float(np.abs(self.prices.offset).max())
        scale = size if value else max(size, self._zero_scale)
        upper = max(value, bound + WEIGHTS * size)
        return WholeBound(
            upper_bound=np.inf if upper >= HUGE else upper,
            value=value,
            better=better,
            # Clipped rewards prove nothing, and neither do scores that are raised by much, as for huge logits.
            proven=closed and upper < HUGE and upper - value <= _PROVEN_WITHIN * scale,
            nodes=int(frontier.tally[NODES]) + (0 if self.lifts is None else self.lifts.nodes),
            opened=int(frontier.tally[OPENED]),
            ms=self.ms,
        )


def _known(value: float) -> float:
    if np.isnan(value):
        raise InvalidInput("value", "a number, or −∞ when no set is known", "NaN", "pass the value of a feasible set")
    return float(value)
