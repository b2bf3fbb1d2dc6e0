"""Branch and bound on one instance: it owns the arrays of the compiled search and runs it in steps.

**Rounding.** All arithmetic is in doubles and rounded upwards, so that no set exceeds a bound in the arithmetic of the
reference objective either. A weight e^(l − top) with |l − top| ≤ 600 is right to a part in 10^13, and so is a sum of k
of them; an average a of scores that are at least −z is then wrong by a part in 10^12 of Σ w|s| / Σ w ≤ |a| + 2z. With
ε = 10^-12 + k·10^-15, every head's average is raised by 3ε (|a| + z), the self term by ε of itself, every argument of a
reward by 10^-15 of its terms and every reward by 10^-14 + k·10^-15 of itself, which covers sums of rewards too; bounds
are sums, never differences. Averages are proven by the sign of h(α), whose terms w_ij (s_j − α) carry relative errors
only. Rows whose logits differ by more than 600 get the largest score instead.

Rewards above 10^290 count as infinite: a bound with such a reward is infinite, and nothing is proven.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Rows
from setwise._validation import read_only
from setwise.bounds.prices import Prices, good_prices
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import evaluate

if TYPE_CHECKING:
    from setwise.bounds.candidates.best_first import NodeQueue
    from setwise.bounds.candidates.item_bounds import InstanceArrays, NodeWorkspace

WIDEST = 600.0  # a row whose logits differ by more has weights that doubles cannot represent together
FIRST_SLOTS = 4096
UNLIMITED = 2**62


class BranchAndBound:
    """A search for the best feasible set, with an upper bound on F over all feasible sets that falls as it runs."""

    def __init__(self, instance: Instance, constraints: Constraints, open_nodes: int, near: ArrayLike = ()) -> None:
        """``near`` is a good set, by which sums are priced."""
        self.instance, self.constraints, self._most_slots = instance, constraints, max(open_nodes, 1)
        price, members = np.zeros(0), np.asarray(near, np.intp)
        if len(constraints.sums):
            price = good_prices(instance, constraints, members if len(members) else constraints.pinned)
        self._prices = Prices.of_sums(price, constraints.sums) if len(price) else None
        self._k = min(constraints.k, instance.m)
        self._free = constraints.joinable(constraints.pinned)
        self.finished = self.full = False
        self._scores = _attended_scores(instance, constraints)
        self._share = 1e-12 + 1e-15 * self._k
        self._trivial = self._trivial_bounds()
        self._parts: tuple[InstanceArrays, NodeWorkspace, NodeQueue] | None = None  # made when first needed

    # --- results so far ---

    @property
    def best(self) -> Rows:
        """The best set known; empty if none was offered or found."""
        from setwise.bounds.candidates.best_first import SIZE

        if self._parts is None:
            return np.empty(0, np.intp)
        queue = self._parts[2]
        return queue.best[: queue.tally[SIZE]].astype(np.intp)

    @property
    def bound(self) -> float:
        """An upper bound on F over all feasible sets."""
        from setwise.bounds.candidates.best_first import CUT, OPEN
        from setwise.bounds.candidates.item_bounds import HUGE

        bound = self._trivial.max()
        if self._parts is not None:
            queue = self._parts[2]
            bound = max(queue.level[CUT], queue.bound[0] if queue.tally[OPEN] else -math.inf)
        if self._prices is not None:
            bound += self._prices.constant
        return float(bound) if bound < HUGE / 2 else math.inf

    @property
    def proven(self) -> bool:
        """Whether ``best`` is proven optimal: the search is finished and its values are in the range of doubles."""
        from setwise.bounds.candidates.best_first import VALUE
        from setwise.bounds.candidates.item_bounds import LOWEST

        if self._parts is None or not self.finished:
            return False
        return bool(self._parts[2].level[VALUE] > LOWEST / 2 and math.isfinite(self.bound))

    @property
    def nodes(self) -> int:
        """The number of nodes expanded so far."""
        return self._tally("NODES")

    @property
    def work(self) -> int:
        """An estimate of the steps of the inner loops so far."""
        return self._tally("WORK")

    @property
    def next_work(self) -> int:
        """An estimate of the steps of the next node; before the first node, of preparing the arrays."""
        heads, m = self.instance.score.shape
        return self._tally("NEXT") or m * m * (12 * heads + 4)

    def _tally(self, what: str) -> int:
        from setwise.bounds.candidates import best_first

        return 0 if self._parts is None else int(self._parts[2].tally[getattr(best_first, what)])

    # --- the search ---

    def offer(self, indices: ArrayLike) -> None:
        """Make a feasible set the incumbent if it is better; nodes that cannot beat it are pruned."""
        from setwise.bounds.candidates import best_first

        chosen = np.asarray(indices, np.int64)
        if len(chosen):
            data, _, queue = self._prepared()
            queue.trial[: len(chosen)] = chosen
            best_first.offer_set(data, queue, len(chosen))

    def run(self, max_nodes: int = UNLIMITED, max_work: int = UNLIMITED) -> None:
        """Expand nodes until finished, or until these totals of nodes or work are reached; at least one node."""
        from setwise.bounds.candidates import best_first

        while not (self.finished or self.full):
            data, node, queue = self._prepared()
            status = best_first.search_nodes(data, node, queue, max_nodes, max_work)
            self.finished = status == best_first.FINISHED
            if status != best_first.FULL:
                return
            slots = len(queue.bound)
            self.full = slots >= self._most_slots
            if not self.full:
                self._parts = data, node, _with_slots(queue, 2 * slots)

    def _prepared(self) -> tuple[InstanceArrays, NodeWorkspace, NodeQueue]:
        if self._parts is None:
            heads, m = self.instance.score.shape
            queue = _node_queue(self._k, m, FIRST_SLOTS + 2 * m + self._k)
            self._push_roots(queue)
            data = _instance_arrays(self.instance, self.constraints, self._scores, self._share, self._prices)
            self._parts = data, _node_workspace(heads, m, self._k), queue
        return self._parts

    def _push_roots(self, queue: NodeQueue) -> None:
        """Push one root for every feasible set size."""
        from setwise.bounds.candidates.best_first import FREE, OPEN

        pinned = self.constraints.pinned
        bits = np.zeros(queue.mask.shape[1] * 64, bool)
        bits[: self.instance.m] = self._free
        mask = np.packbits(bits, bitorder="little").view(np.uint64)
        sizes = np.flatnonzero(self._trivial > -math.inf)
        for at, size in enumerate(sizes[np.argsort(-self._trivial[sizes])]):  # a descending list is a heap
            slot = queue.free[len(queue.free) - 1 - at]
            queue.bound[at], queue.slot[at] = self._trivial[size], slot
            queue.kind[slot] = len(pinned), size - len(pinned), 0, 1
            queue.chosen[slot, : len(pinned)] = pinned
            queue.mask[slot] = mask
        queue.tally[OPEN] = len(sizes)
        queue.tally[FREE] -= len(sizes)

    def _trivial_bounds(self) -> Floats:
        """Bounds for set sizes 0 … k: all attention on the highest score of each head; −∞ for infeasible sizes."""
        from setwise.bounds.candidates.item_bounds import HUGE, LOWEST

        it, high = self.instance, self._scores.max(axis=1)
        argument = it.base + high.sum() + 3 * self._share * (np.abs(it.base) + np.abs(self._scores).max(axis=1).sum())
        with np.errstate(over="ignore"):
            reward = np.clip(evaluate(it.rewards, it.reward_class, argument, it.reward_weight), LOWEST, HUGE)
        if self._prices is not None:
            reward = np.clip(reward + self._prices.offset + 1e-12 * np.abs(self._prices.offset), LOWEST, HUGE)
        pinned = reward[self.constraints.pinned]
        free = np.sort(reward[self._free])[::-1][: self._k - len(pinned)]
        total = pinned.sum() + np.concatenate([[0.0], np.cumsum(free)])
        total = total + 1e-12 * (np.abs(pinned).sum() + np.abs(free).sum())
        result = np.full(self._k + 1, -math.inf)
        result[len(pinned) : len(pinned) + len(total)] = total
        result[0] = -math.inf  # the empty set is not feasible
        return result


def _attended_scores(instance: Instance, constraints: Constraints) -> Floats:
    """The scores that an average of a head may contain: (H, …)."""
    columns = [instance.score[:, constraints.open]]
    if instance.sink_score is not None:
        columns.append(instance.sink_score[:, None])
    own = np.diagonal(instance.logit, axis1=1, axis2=2)
    if instance.sink_logit is None and np.isneginf(own).any():
        columns.append(np.zeros((instance.heads, 1)))  # an item that attends to nothing has average 0
    return np.concatenate(columns, axis=1)


def _is_wide(weight: Floats, sink_weight: Floats) -> NDArray[np.bool_]:
    """Mask of the rows of weights, sink included, whose logits differ by more than ``WIDEST``: (H, m)."""
    least = math.exp(-WIDEST)
    wide = np.asarray(weight.min(axis=2) < least)
    if wide.any():  # weights of 0 are exact
        wide = np.asarray(((weight < least) & (weight > 0)).any(axis=2))
    return wide | ((sink_weight < least) & (sink_weight > 0))


def _instance_arrays(
    instance: Instance, constraints: Constraints, scores: Floats, share: float, prices: Prices | None
) -> InstanceArrays:
    from setwise.bounds.candidates.item_bounds import InstanceArrays

    table = RewardTable.of(instance.rewards)
    shape, weight = (instance.heads, instance.m), np.ascontiguousarray(instance.weight)
    sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
    rounding = np.full(len(table.code), 1e-14 + 1e-15 * min(constraints.k, instance.m))
    least = scores.min(axis=1)
    spread = instance.score.max(axis=1) - instance.score.mean(axis=1)
    offset, sums = np.zeros(instance.m) if prices is None else prices.offset, constraints.sums
    arrays = (
        instance.logit,
        weight,
        instance.score,
        np.full(shape, -np.inf) if instance.sink_logit is None else instance.sink_logit,
        instance.sink_weight,
        _is_wide(weight, instance.sink_weight),
        np.stack([sink_score, least, share * np.maximum(-least, 0.0), np.full_like(least, share)], axis=1),
        np.stack([instance.base, share * np.abs(instance.base)], axis=1),
        np.column_stack([table.code, table.parameter, table.first_knot[:-1], table.first_knot[1:], rounding]),
        table.knot,
        instance.reward_class.astype(np.int64),
        np.stack([instance.weights, offset, rounding[0] * np.abs(offset)], axis=1),
        constraints.labels,
        constraints.limits,
        sums.cost,
        np.stack([sums.least, sums.most, sums.low - sums.margin, sums.high + sums.margin]),
        np.array([0.0 if prices is None else prices.constant]),
        np.argsort(-spread, kind="stable"),
    )
    return InstanceArrays(*(read_only(array) for array in arrays))


def _node_workspace(heads: int, m: int, k: int) -> NodeWorkspace:
    from setwise.bounds.candidates.item_bounds import NodeWorkspace
    from setwise.bounds.candidates.pair_bounds import KNOTS

    rows = m + k
    return NodeWorkspace(
        item=np.empty(rows, np.int64),
        weight=np.empty((rows, heads, m)),
        score=np.empty((heads, m)),
        sums=np.empty((rows, heads, 3)),
        single=np.empty(rows),
        fresh=np.empty(rows, np.bool_),
        ceiling=np.empty(heads),
        local=np.empty(m, np.int64),
        known=np.full((k + 1, m, heads + 1), np.inf),
        known_order=np.tile(np.arange(m), (k + 1, 1)),
        pair=np.empty((rows, m)),
        key=np.empty(m),
        given_candidate=np.empty((m, 5)),
        alive=np.empty(m, np.bool_),
        best=np.empty((4, k + 1)),
        who=np.empty(k + 1, np.int64),
        chord=np.empty((3, KNOTS)),
        order=np.empty(m, np.int64),
        by_single=np.empty(m, np.int64),
        place=np.empty(m, np.int64),
    )


def _node_queue(k: int, m: int, slots: int) -> NodeQueue:
    from setwise.bounds.candidates.best_first import NodeQueue

    return NodeQueue(
        bound=np.empty(slots),
        slot=np.empty(slots, np.int64),
        free=np.arange(slots)[::-1].copy(),
        kind=np.empty((slots, 4), np.int64),
        chosen=np.empty((slots, k), np.int32),
        mask=np.empty((slots, (m + 63) // 64), np.uint64),
        tally=np.array([0, slots, 0, 0, 0, 0]),
        level=np.full(2, -np.inf),
        best=np.empty(k, np.int64),
        trial=np.empty(k, np.int64),
    )


def _with_slots(queue: NodeQueue, slots: int) -> NodeQueue:
    """A copy of the queue with more slots."""
    from setwise.bounds.candidates.best_first import FREE

    old = len(queue.bound)
    larger = {}
    for name in ("bound", "slot", "free", "kind", "chosen", "mask"):
        array = getattr(queue, name)
        larger[name] = np.empty((slots, *array.shape[1:]), array.dtype)
        larger[name][:old] = array
    unused = queue.tally[FREE]
    larger["free"][unused : unused + slots - old] = np.arange(old, slots)
    queue.tally[FREE] += slots - old
    return queue._replace(**larger)
