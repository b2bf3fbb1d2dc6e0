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
among the q largest or the search reaches it. So a step costs time for cells and opened items, not for n items. The only
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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Rows
from setwise._validation import real_number, whole_number
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.frontier import BEST, HEAP, LOST, NODES, OFFSET, OPENED, ROOT, SHIFT, SIZE, Frontier
from setwise.bounds.catalog.group_bounds import HUGE, GroupBounds, Members
from setwise.bounds.catalog.score_order import (
    Order,
    Scored,
    fill_caps,
    score_cells,
    select_first,
)
from setwise.bounds.catalog.search import CatalogArrays, Workspace, search_prefixes
from setwise.bounds.catalog.user_scores import WEIGHTS, rounding_pads, scores
from setwise.bounds.gap import relative_gap
from setwise.bounds.lifts.catalog_lifts import LiftSearch
from setwise.bounds.lifts.signed_search import SignedSearch
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.eligibility import Eligibility
from setwise.model.users import User

_LISTED = 512  # the first items of the order, each at its exact position
_BINS = 512  # bins of σ, of equal width, for the later items
_LEVELS = 64  # thresholds of σ at the root for which the rewards of the other members are bounded
_LEVELS_BELOW = 8  # thresholds below the root if there are several heads; with one head, 1
_HEAP, _NODES = 1 << 17, 1 << 13  # the most open entries and prefixes kept; of an entry beyond them only the bound
_STEPS = 4  # steps of the search between two readings of the clock
_PROVEN_WITHIN = 1e-6  # of the rewards: how far the bound of a proven set may be above its value
_LONG, _SHORT = 0.5, 0.002  # seconds, for turns of the two searches


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


def compile_search(cells: CellBounds, user: User) -> None:
    """Run every compiled function of the search once, so that no request waits for the compiler."""
    search = WholeCatalogSearch(cells, user, 2)
    search.run(0.0)
    if search._lifts is not None:
        search._lifts.run_stages()
    if search._signed is not None:
        search._signed.run(math.inf)


class GroupLimit(NamedTuple):
    """A set has at most ``most`` items of each label."""

    labels: NDArray[np.int64]  # (n,) by row of the catalogue; −1 for items that are not counted
    most: int


class WholeCatalogSearch:
    """The search of ``whole_catalog_bound`` with the same arguments, for callers that run it in several steps.

    ``finished`` is whether no open entry can be better than the best set known. Entries that were dropped for lack of
    memory still count in the bound, so this is not yet a proof: see ``found().proven``. ``ms`` is the time used so far.
    ``scored`` may pass the result of ``scores`` for this user and these ``eligible`` items. Every set contains the
    ``pinned`` rows, which are eligible, and keeps the ``limit``. ``near`` are the rows of the best set known.
    """

    def __init__(
        self,
        cells: CellBounds,
        user: ArrayLike | User,
        k: int,
        value: float = -np.inf,
        *,
        eligible: Eligibility | None = None,
        scored: Scored | None = None,
        pinned: Rows | None = None,
        limit: GroupLimit | None = None,
        near: Rows | None = None,
    ) -> None:
        began = time.perf_counter()
        k = min(whole_number("k", k), len(cells.catalog))
        self._cells, self._user = cells, cells.catalog.user(user)
        items = scores(cells, [self._user], [eligible])[0] if scored is None else scored
        pins = np.empty(0, np.int64) if pinned is None or len(pinned) > _LISTED else np.sort(cells.place[pinned])
        data = _catalog_arrays(cells, pinned_first(items, pins), limit)
        self._frontier = _frontier(k, _known(value), cells.catalog.heads, pins)
        self._root = len(pins)
        members = _members(cells, self._user, k)
        self._value, self._longest = float(value), 0.0  # seconds of a step
        self._parts = data, self._frontier, members, _workspace(cells, k), k
        self._lifts = LiftSearch.of(data, members, k, float(value))
        self._signed = SignedSearch.of(data, cells.pair_weights, members, k, float(value))
        self.offer(value, near)
        self.finished = False
        self.ms = 1000 * (time.perf_counter() - began)

    def offer(self, value: float, near: Rows | None = None) -> None:
        """Raise the best known value to this, that of the set ``near``; sets that cannot beat it are pruned."""
        self._value = max(self._value, _known(value))
        self._frontier.value[BEST] = max(float(self._frontier.value[BEST]), self._value)
        if self._lifts is not None:
            self._lifts.offer(self._value)
        if self._signed is not None:
            self._signed.offer(self._value, None if near is None else self._cells.place[near])

    def run(self, budget_ms: float) -> None:
        """Search for ``budget_ms`` milliseconds; the root is bounded even without a budget."""
        began = now = time.perf_counter()
        lifts, mine = self._lifts, 0.0  # seconds of the search over prefixes since that by lifts
        while not self.finished and (self._longest == 0 or now + self._longest - began < budget_ms / 1000):
            self.finished = bool(search_prefixes(*self._parts, 1 if self._longest == 0 else _STEPS))
            before, now = now, time.perf_counter()
            mine += now - before
            self._longest = max(self._longest, now - before) if self._longest else 1e-9
            # With pins, which lifts and signed changes ignore, they get half of the time.
            end = began + budget_ms / 1000 / (2 if self._root else 1)
            now = self._run_signed(end)
            if lifts is not None and not self.finished:
                self._run_lifts(lifts, end, now + self._slice(lifts, end - now, mine))
                lifts, now, mine = None if self._root else lifts, time.perf_counter(), 0.0
        self.ms += 1000 * (now - began)

    def _run_signed(self, until: float) -> float:
        """Continue the search by signed changes, which goes first where there is one; return the time."""
        signed, best = self._signed, float(self._frontier.value[BEST])
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
        leads = bool(self._frontier.tally[HEAP]) and float(self._frontier.key[0]) < lifts.bound
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

    def found(self) -> WholeBound:
        """The bound and the best set so far."""
        frontier, value = self._frontier, self._value
        left = max(float(frontier.value[LOST]), float(frontier.key[0]) if frontier.tally[HEAP] else -np.inf)
        left = min([left, *(search.bound for search in (self._lifts, self._signed) if search is not None)])
        bound = max(float(frontier.value[BEST]), left)
        better: Rows | None = (
            np.sort(self._cells.rows[frontier.best[: frontier.tally[SIZE]]]) if frontier.tally[SIZE] else None
        )
        if better is not None:
            found = objective.set_value(self._cells.catalog, self._user, better)
            better, value = (better, found) if found > value else (None, value)
        size = abs(bound) + abs(float(frontier.others[self._root, 0]))
        upper = max(value, bound + WEIGHTS * size)
        return WholeBound(
            upper_bound=np.inf if upper >= HUGE else upper,
            value=value,
            better=better,
            # Clipped rewards prove nothing, and neither do scores that are raised by much, as for huge logits.
            proven=left <= float(frontier.value[BEST]) and upper < HUGE and upper - value <= _PROVEN_WITHIN * size,
            nodes=int(frontier.tally[NODES]) + (0 if self._lifts is None else self._lifts.nodes),
            opened=int(frontier.tally[OPENED]),
            ms=self.ms,
        )


def _known(value: float) -> float:
    if np.isnan(value):
        raise InvalidInput("value", "a number, or −∞ when no set is known", "NaN", "pass the value of a feasible set")
    return float(value)


# --- arrays of the compiled search ------------------------------------------------------------------------


def pinned_first(items: Scored, pins: NDArray[np.int64]) -> Scored:
    """The same scores, with the pinned items first in the order."""
    if not len(pins):
        return items
    total = items.total.copy()
    total[pins] = total.max() + max(1.0, abs(float(total.max())))
    return items._replace(total=total)


def _catalog_arrays(cells: CellBounds, items: Scored, limit: GroupLimit | None) -> CatalogArrays:
    """The catalogue with a user's scores, the order, and the largest score of each cell."""
    heads, n_cells = len(items.score), cells.partition.n_cells
    in_cells, size = (
        Scored(np.empty((heads, n_cells)), np.empty(n_cells), np.empty(n_cells)),
        np.empty(n_cells, np.int64),
    )
    score_cells(items, cells.start, in_cells, size)
    return CatalogArrays(
        cells.table,
        cells.cell_groups,
        cells.item_groups,
        cells.start,
        in_cells,
        items,
        size,
        _order(items, min(_LISTED, int(size.sum()))),
        np.empty(0, np.int64) if limit is None else np.ascontiguousarray(limit.labels[cells.rows], np.int64),
        np.array([0 if limit is None else limit.most]),
    )


def _order(items: Scored, listed: int) -> Order:
    """The order: its first places, and the largest scores from each place on."""
    total = items.total
    first = np.empty(listed, np.int64)
    lowest = select_first(total, first, np.empty(listed))
    first = first[np.lexsort((first, -total[first]))]
    rank = np.full(len(total), -1, np.int16)
    rank[first] = np.arange(listed)
    edge = total[first]
    order = Order(rank, edge, np.array([(edge[-1] - lowest) / _BINS]), np.empty((listed + _BINS + 1, len(items.score))))
    fill_caps(items, order)
    return order


def _members(cells: CellBounds, user: User, k: int) -> Members:
    catalog = cells.catalog
    _, heads, d = catalog.query.shape
    vectors, numbers = (k, heads, d), (k, heads)
    sink_key, sink_score = np.zeros((0, heads, d)), np.zeros(heads)
    if catalog.sink is not None:
        sink_key = np.array(catalog.sink.key[None], np.float64)
        sink_score = np.einsum("hd,hd->h", np.asarray(catalog.sink.value, np.float64), user.heads)
        sink_score += rounding_pads(cells, user)[0]
    return Members(
        item=np.zeros(k, np.int64),
        query=np.empty(vectors),
        key=np.empty(vectors),
        score=np.empty(numbers),
        base=np.empty(k),
        reward_class=np.zeros(k, np.int64),
        sums=np.empty((k, heads, 3)),
        reach=np.empty(numbers),
        sink_key=sink_key,
        sink_score=sink_score,
    )


def _group_bounds(heads: int, k: int, groups: int) -> GroupBounds:
    return GroupBounds(np.empty((6, groups)), np.empty((3, heads, groups)), np.empty((2, k + 2, groups)))


def _workspace(cells: CellBounds, k: int) -> Workspace:
    n, heads, _ = cells.catalog.query.shape
    n_cells = cells.partition.n_cells
    return Workspace(
        cells=_group_bounds(heads, k, n_cells),
        items=_group_bounds(heads, k, int(np.diff(cells.start).max())),
        limit=np.empty((heads, n_cells)),
        worth=np.empty(n_cells),
        rest=np.empty(heads),
        child=np.empty(n, np.int64),
        child_key=np.empty(n),
        best=np.empty(k),
        chosen=np.empty(k, np.int64),
        chosen_label=np.empty(k, np.int64),
        opened=np.empty(n_cells, np.bool_),
    )


def _frontier(k: int, value: float, heads: int, pins: NDArray[np.int64]) -> Frontier:
    """A heap with one entry, the prefix of the pinned items; unused memory is never touched."""
    frontier = Frontier(
        tally=np.array([1, 1 + len(pins), 0, 0]),
        value=np.array([value, -np.inf]),
        best=np.zeros(k, np.int64),
        key=np.empty(_HEAP),
        entry=np.empty(_HEAP, np.int64),
        parent=np.empty(_NODES, np.int64),
        item=np.empty(_NODES, np.int64),
        depth=np.empty(_NODES, np.int64),
        others=np.empty((_NODES, _LEVELS)),
        levels=np.array([_LEVELS, 1 if heads == 1 else _LEVELS_BELOW]),
    )
    depth = np.arange(len(pins) + 1)
    frontier.key[0], frontier.entry[0] = np.inf, (len(pins) << SHIFT) + ROOT + OFFSET
    frontier.parent[depth], frontier.item[depth], frontier.depth[depth] = np.maximum(depth - 1, 0), -1, depth
    frontier.item[depth[1:]] = pins
    return frontier
