"""Whole-catalogue certificates: a number that F(S) of no feasible set S of all n items exceeds.

**Order and beginnings.** Order the items by some σ, largest first: by the score s_i if there is one head; if there are
several, by the largest of the item's standardised scores, max_h (s_i^h − mean_h) / deviation_h, so that what comes late
scores little in every head (any order is valid). The first m members of S in this order are a *beginning* C of S; all
others come later, so in head h they score at most M_h(C), the largest s_j^h of what comes later. Every set is found by
beginning with one item, then a next one, and so on: a tree, searched best first.

**An average is capped.** Let x attend to T ⊇ A = C ∪ {i}, and let D be the weight of A and the sink in its row, avg
their average. The r other members of T score at most M_h and weigh at most W = r e^reach together, where reach is the
largest logit of x with any item. So the average over T is a mixture of avg and of something ≤ M_h, in which the latter
has a share of at most W / (D + W):

    avg_x^h(T)  ≤  cap_x^h(A)  =  avg + W / (D + W) · max(M_h − avg, 0),       and as f does not decrease

    reward_i(C)  =  f_i( base_i + Σ_h cap_i^h(C ∪ {i}) )      bounds what i earns in any S that begins with C,
    left_ci(C)   =  f_c( base_c + Σ_h cap_c^h(C ∪ {i}) )      bounds what c ∈ C earns if i is in S.

**The bound of a beginning.** Let S consist of C and q later members R. c ∈ C earns at most the least of left_ci over
i ∈ R, hence at most their mean:

    F(S)  ≤  Σ_{i∈R} ( reward_i + (1/q) Σ_{c∈C} left_ci )  ≤  the q largest of these brackets, added.

With fewer than q later members: the largest rewards, so many of them, and the largest Σ_c left_ci. If i is the *next*
member, M_h may be replaced by M_h(C ∪ {i}) in all of this, and the other members add at most the q − 1 largest positive
rewards. The value of C alone is computed.

**Cells.** For the items of a cell the same, with every logit at the worse end of its interval (cell_bounds.py) and the
largest score of the cell: an average with weights between limits is largest when all above it weigh most and all below
least, and D is least when all weigh least. A cell counts as often as it has items. It is opened, that is its items are
regarded one by one, only when its bound is among the q largest, or when the search reaches it. So a step costs cells
and opened items, not n; the one pass over all n items is that over their scores, which tells the largest of each cell.

**Rounding.** F grows with every score, so the search works with scores raised by more than all rounding of logits,
weights and averages can matter (``_pads``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Mask, Rows
from setwise._validation import real_number, whole_number
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.frontier import BEST, HEAP, LOST, NODES, OPENED, SIZE, Tree
from setwise.bounds.catalog.group_bounds import HUGE, Members, Regarded
from setwise.bounds.catalog.score_order import Order, Scored, fill_caps, list_first, score_cells, score_items
from setwise.bounds.catalog.search import Problem, Work, search
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.eligibility import Eligibility
from setwise.model.users import User

_LISTED = 512  # items whose place in the order is known exactly
_BINS = 512  # steps in which σ is told apart below
_LEVELS = 64  # thresholds of σ at the root; below it one for a single head, else some
_LEVELS_BELOW = 8
_HEAP, _NODES = 1 << 17, 1 << 13
_WEIGHTS = 1e-10  # weights and rewards are computed to a relative 1e-11
_UNDERFLOW = 1e-180  # products with the smallest weights may vanish below
_STEPS = 4  # between two looks at the clock


@dataclass(frozen=True, eq=False)
class WholeBound:
    """What was proven about all feasible sets of the catalogue.

    upper_bound  F(S) ≤ this for every feasible S; at least ``value``
    value        the value of the best set known: the one passed, or that of ``better``
    better       rows of a set that the search met and that is better than the value passed, or None
    proven       whether no set is better than ``value``, but for rounding
    nodes        beginnings bounded
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
        """The share of the bound that is not reached, (upper bound − value) / upper bound; 0 when proven."""
        return 0.0 if self.proven or self.upper_bound <= 0 else 1 - self.value / self.upper_bound


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

    ``value`` is that of the best set known; sets that cannot be better are not searched. The bound holds whenever the
    search stops: when the time is over, or when nothing better is left.
    """
    budget = real_number("budget_ms", budget_ms)
    search = WholeCatalogSearch(cells, user, k, value, eligible=eligible)
    search.run(budget - search.ms)
    return search.found()


class WholeCatalogSearch:
    """The search behind ``whole_catalog_bound``, in as many goes as one likes; the arguments are the same.

    ``finished`` says whether nothing better is left than the best set known, ``ms`` how long it has taken so far.
    ``scored`` is the result of ``scores`` for this user and these ``eligible`` items, if it is known already.
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
    ) -> None:
        began = time.perf_counter()
        k = min(whole_number("k", k), len(cells.catalog))
        self._cells, self._user = cells, cells.catalog.user(user)
        self._tree = _tree(k, _known(value), cells.catalog.heads)
        items = scores(cells, [self._user], [eligible])[0] if scored is None else scored
        problem = _problem(cells, items)
        self._parts = problem, self._tree, _members(cells, self._user, k), _work(cells, k), k
        self._value, self._longest = float(value), 0.0  # seconds of a step
        self.finished = False
        self.ms = 1000 * (time.perf_counter() - began)

    def offer(self, value: float) -> None:
        """A set of this value is known by now."""
        self._value = max(self._value, _known(value))
        self._tree.value[BEST] = max(float(self._tree.value[BEST]), self._value)

    def run(self, budget_ms: float) -> None:
        """Go on for so many milliseconds; the root is bounded whatever the time."""
        began = now = time.perf_counter()
        while not self.finished and (self._longest == 0 or now + self._longest - began < budget_ms / 1000):
            self.finished = bool(search(*self._parts, 1 if self._longest == 0 else _STEPS))
            before, now = now, time.perf_counter()
            self._longest = max(self._longest, now - before) if self._longest else 1e-9
        self.ms += 1000 * (now - began)

    def found(self) -> WholeBound:
        """What is known so far."""
        tree, value = self._tree, self._value
        left = max(float(tree.value[LOST]), float(tree.key[0]) if tree.number[HEAP] else -np.inf)
        bound = max(float(tree.value[BEST]), left)
        better: Rows | None = np.sort(self._cells.rows[tree.best[: tree.number[SIZE]]]) if tree.number[SIZE] else None
        if better is not None:
            found = objective.set_value(self._cells.catalog, self._user, better)
            better, value = (better, found) if found > value else (None, value)
        upper = max(value, bound + _WEIGHTS * (abs(bound) + abs(float(tree.others[0, 0]))))
        return WholeBound(
            upper_bound=np.inf if upper >= HUGE else upper,
            value=value,
            better=better,
            proven=left <= float(tree.value[BEST]),
            nodes=int(tree.number[NODES]),
            opened=int(tree.number[OPENED]),
            ms=self.ms,
        )


def _known(value: float) -> float:
    if np.isnan(value):
        raise InvalidInput("value", "a number, or −∞ when no set is known", "NaN", "pass the value of a feasible set")
    return float(value)


def _masks(cells: CellBounds, eligible: Sequence[Eligibility | None]) -> Mask:
    """Whether each item is eligible, for each user: (B, n)."""
    n = len(cells.catalog)
    masks = np.ones((len(eligible), n), bool)
    for mask, one in zip(masks, eligible, strict=True):
        if one is not None and one.n != n:
            raise InvalidInput(
                "eligible", f"about the {n} items of the catalogue", f"about {one.n}", "use one catalogue"
            )
        if one is not None and one.mask is not None:
            mask[:] = one.mask
    return masks


# --- what the compiled search reads and writes ------------------------------------------------------------------------


def scores(cells: CellBounds, users: Sequence[User], eligible: Sequence[Eligibility | None]) -> list[Scored]:
    """The scores and the order of all items, for each user with the items eligible for that user: one pass for all."""
    catalog, n = cells.catalog, len(cells.catalog)
    pads = [_pads(cells, user) for user in users]
    shown = _masks(cells, eligible)
    score, total = np.empty((len(users), catalog.heads, n)), np.empty((len(users), n))
    asked, pad = np.stack([user.heads for user in users]), np.stack([pad for pad, _ in pads])
    score_items(catalog.value, asked, pad, shown, cells.place, score, total)
    if catalog.heads > 1:
        total[:] = [np.where(each > -np.inf, _leading(own), -np.inf) for each, own in zip(total, score, strict=True)]
    bases = [objective.base_scores(catalog, user, cells.rows) for user in users]
    for base, (_, padding) in zip(bases, pads, strict=True):
        base += padding
    return [Scored(*parts) for parts in zip(score, bases, total, strict=True)]


def _problem(cells: CellBounds, items: Scored) -> Problem:
    """The catalogue with a user's scores, the order, and what each cell has at most."""
    heads, n_cells = len(items.score), cells.partition.n_cells
    in_cells, size = (
        Scored(np.empty((heads, n_cells)), np.empty(n_cells), np.empty(n_cells)),
        np.empty(n_cells, np.int64),
    )
    score_cells(items, cells.start, in_cells, size)
    return Problem(
        cells.table,
        cells.cell_groups,
        cells.item_groups,
        cells.start,
        in_cells,
        items,
        size,
        _order(items, min(_LISTED, int(size.sum()))),
    )


def _leading(score: Floats) -> Floats:
    """σ for several heads, from scores (H, n): the largest of an item's standardised scores, (n,)."""
    scale = np.abs(score).max(axis=1, keepdims=True)
    small = score / np.where(scale > 0, scale, 1.0)  # so that squares neither overflow nor vanish
    deviation = small.std(axis=1, keepdims=True)
    return np.asarray(
        ((small - small.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1.0)).max(axis=0)
    )


def _order(items: Scored, listed: int) -> Order:
    """The first places of the order, and the largest scores from each place on."""
    total = items.total
    first = np.empty(listed, np.int64)
    lowest = list_first(total, first, np.empty(listed))
    first = first[np.lexsort((first, -total[first]))]
    rank = np.full(len(total), -1, np.int16)
    rank[first] = np.arange(listed)
    edge = total[first]
    order = Order(rank, edge, np.array([(edge[-1] - lowest) / _BINS]), np.empty((listed + _BINS + 1, len(items.score))))
    fill_caps(items, order)
    return order


def _pads(cells: CellBounds, user: User) -> tuple[Floats, float]:
    """By how much scores of each head, and the base term, are raised: more than rounding can matter.

    A sum of d products errs by d 2⁻⁵³ of the product of the norms. So do logits, by ε, which changes weights by a
    factor e^ε, and with those an average by at most 2 ε max|s|. Judge and search both err; a factor 8 is to spare.
    """
    catalog = cells.catalog
    query, key, value, base = cells.norms
    length = np.linalg.norm(user.heads, axis=1)
    if catalog.sink is not None:
        key = np.maximum(key, np.linalg.norm(catalog.sink.key.astype(np.float64), axis=1))
        value = np.maximum(value, np.linalg.norm(catalog.sink.value.astype(np.float64), axis=1))
    d, d_v = catalog.query.shape[2], catalog.value.shape[2]
    with np.errstate(over="ignore"):
        relative = np.minimum(8 * 2.0**-52 * (d_v + 4 * d * query * key) + _WEIGHTS, 4.0)  # 4: whatever the weights
    pad = relative * value * length + _UNDERFLOW
    if user.base is None:
        return pad, 0.0
    return pad, float((8 * 2.0**-52 * len(user.base) + _WEIGHTS) * base[0] * np.linalg.norm(user.base))


def _members(cells: CellBounds, user: User, k: int) -> Members:
    catalog = cells.catalog
    _, heads, d = catalog.query.shape
    vectors, numbers = (k, heads, d), (k, heads)
    sink_key, sink_score = np.zeros((0, heads, d)), np.zeros(heads)
    if catalog.sink is not None:
        sink_key = np.array(catalog.sink.key[None], np.float64)
        sink_score = np.einsum("hd,hd->h", np.asarray(catalog.sink.value, np.float64), user.heads)
        sink_score += _pads(cells, user)[0]
    return Members(
        item=np.zeros(k, np.int64),
        query=np.empty(vectors),
        key=np.empty(vectors),
        score=np.empty(numbers),
        base=np.empty(k),
        reward_class=np.zeros(k, np.int64),
        top=np.empty(numbers),
        weighted=np.empty(numbers),
        weight=np.empty(numbers),
        reach=np.empty(numbers),
        sink_key=sink_key,
        sink_score=sink_score,
    )


def _regarded(heads: int, k: int, groups: int) -> Regarded:
    return Regarded(np.empty((6, groups)), np.empty((3, heads, groups)), np.empty((2, k + 2, groups)))


def _work(cells: CellBounds, k: int) -> Work:
    n, heads, _ = cells.catalog.query.shape
    n_cells = cells.partition.n_cells
    return Work(
        cells=_regarded(heads, k, n_cells),
        items=_regarded(heads, k, int(np.diff(cells.start).max())),
        limit=np.empty((heads, n_cells)),
        worth=np.empty(n_cells),
        rest=np.empty(heads),
        child=np.empty(n, np.int64),
        child_key=np.empty(n),
        best=np.empty(k),
        chosen=np.empty(k, np.int64),
        opened=np.empty(n_cells, np.bool_),
    )


def _tree(k: int, value: float, heads: int) -> Tree:
    """A heap with one entry, the root, still to be divided; room that is not used is never touched."""
    tree = Tree(
        number=np.array([1, 1, 0, 0]),
        value=np.array([value, -np.inf]),
        best=np.zeros(k, np.int64),
        key=np.empty(_HEAP),
        node=np.empty(_HEAP, np.int64),
        what=np.empty(_HEAP, np.int64),
        parent=np.empty(_NODES, np.int64),
        item=np.empty(_NODES, np.int64),
        depth=np.empty(_NODES, np.int64),
        others=np.empty((_NODES, _LEVELS)),
        levels=np.array([_LEVELS, 1 if heads == 1 else _LEVELS_BELOW]),
    )
    tree.key[0], tree.node[0], tree.what[0] = np.inf, 0, -1
    tree.parent[0], tree.item[0], tree.depth[0] = 0, -1, 0
    return tree
