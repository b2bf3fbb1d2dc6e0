"""Branch and bound on one instance: the compiled search with its arrays, to be run a piece at a time.

Padding. Everything is computed in doubles and rounded outwards, so that no set exceeds a bound by the judge's own
arithmetic either. A weight e^(l − top) with |l − top| ≤ 600 is right to a part in 10^13, and so is a sum of k of them;
an average a of scores that are at least −z is then wrong by a part in 10^12 of Σ w|s| / Σ w ≤ |a| + 2z. So with
ε = 10^-12 + k·10^-15 every head's average is raised by 3ε (|a| + z), the self term by ε of itself, every argument of a
reward by 10^-15 of its terms and every reward by 10^-14 + k·10^-15 of itself, which covers sums of them too; bounds are
sums, never differences. Averages are certified by the sign of h(α), whose terms w_ij (s_j − α) carry relative errors
only. Rows of logits that span more than e^600 get the largest score instead.

Rewards beyond 10^290 count as infinite: a bound that holds one is infinite, and nothing is proven then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Rows
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import evaluate

if TYPE_CHECKING:
    from setwise.bounds.candidates.best_first import Tree
    from setwise.bounds.candidates.item_bounds import Node, Problem

WIDEST = 600.0  # logits of one row further apart than this are not all told apart as weights
FIRST_SLOTS = 4096
UNLIMITED = 2**62


class BranchAndBound:
    """A search for the best feasible set, and a bound on all of them that tightens as it runs."""

    def __init__(self, instance: Instance, constraints: Constraints, open_nodes: int) -> None:
        self.instance, self.constraints, self._most_slots = instance, constraints, max(open_nodes, 1)
        self._k = min(constraints.k, instance.m)
        self._free = constraints.joinable(constraints.pinned)
        self.finished = self.full = False
        self._scores = _scores_met(instance, constraints)
        self._share = 1e-12 + 1e-15 * self._k
        self._trivial = self._trivial_bounds()
        self._parts: tuple[Problem, Node, Tree] | None = None  # made when first needed: all the above is cheap

    # --- the answer so far ---

    @property
    def best(self) -> Rows:
        """The best set known, empty when none was offered or found."""
        from setwise.bounds.candidates.best_first import SIZE

        if self._parts is None:
            return np.empty(0, np.intp)
        tree = self._parts[2]
        return tree.best[: tree.tally[SIZE]].astype(np.intp)

    @property
    def bound(self) -> float:
        """No feasible set is worth more."""
        from setwise.bounds.candidates.best_first import CUT, OPEN
        from setwise.bounds.candidates.item_bounds import HUGE

        bound = self._trivial.max()
        if self._parts is not None:
            tree = self._parts[2]
            bound = max(tree.level[CUT], tree.bound[0] if tree.tally[OPEN] else -math.inf)
        return float(bound) if bound < HUGE / 2 else math.inf

    @property
    def proven(self) -> bool:
        """Whether ``best`` is known to be the best: the search has ended, among values that doubles tell apart."""
        from setwise.bounds.candidates.best_first import VALUE
        from setwise.bounds.candidates.item_bounds import ABYSS

        if self._parts is None or not self.finished:
            return False
        return bool(self._parts[2].level[VALUE] > ABYSS / 2 and math.isfinite(self.bound))

    @property
    def nodes(self) -> int:
        """Subproblems expanded so far."""
        return self._counted("NODES")

    @property
    def work(self) -> int:
        """Steps of the inner loops so far, roughly."""
        return self._counted("WORK")

    @property
    def next_work(self) -> int:
        """Steps that the next node will take, roughly, and before the first those of getting ready."""
        heads, m = self.instance.score.shape
        return self._counted("NEXT") or m * m * (12 * heads + 4)

    def _counted(self, what: str) -> int:
        from setwise.bounds.candidates import best_first as tree_kernels

        return 0 if self._parts is None else int(self._parts[2].tally[getattr(tree_kernels, what)])

    # --- the search ---

    def offer(self, indices: ArrayLike) -> None:
        """Let the search know a feasible set: what cannot beat it is not looked at."""
        from setwise.bounds.candidates import best_first as tree_kernels

        chosen = np.asarray(indices, np.int64)
        if len(chosen):
            problem, _, tree = self._ready()
            tree.trial[: len(chosen)] = chosen
            tree_kernels.offer(problem, tree, len(chosen))

    def run(self, most_nodes: int = UNLIMITED, most_work: int = UNLIMITED) -> None:
        """Go on until done, or until so many nodes or so much work in all; one node at least if nodes are left."""
        from setwise.bounds.candidates import best_first as tree_kernels

        while not (self.finished or self.full):
            problem, node, tree = self._ready()
            status = tree_kernels.search(problem, node, tree, most_nodes, most_work)
            self.finished = status == tree_kernels.FINISHED
            if status != tree_kernels.FULL:
                return
            slots = len(tree.bound)
            self.full = slots >= self._most_slots
            if not self.full:
                self._parts = problem, node, _grown(tree, 2 * slots)

    def _ready(self) -> tuple[Problem, Node, Tree]:
        if self._parts is None:
            heads, m = self.instance.score.shape
            tree = _tree(self._k, m, FIRST_SLOTS + 2 * m + self._k)
            self._plant(tree)
            problem = _problem(self.instance, self.constraints, self._scores, self._share)
            self._parts = problem, _node(heads, m, self._k), tree
        return self._parts

    def _plant(self, tree: Tree) -> None:
        """One root for every size a set may have."""
        from setwise.bounds.candidates.best_first import FREE, OPEN

        pinned = self.constraints.pinned
        bits = np.zeros(tree.mask.shape[1] * 64, bool)
        bits[: self.instance.m] = self._free
        mask = np.packbits(bits, bitorder="little").view(np.uint64)
        sizes = np.flatnonzero(self._trivial > -math.inf)
        for at, size in enumerate(sizes[np.argsort(-self._trivial[sizes])]):  # falling bounds are a heap
            slot = tree.free[len(tree.free) - 1 - at]
            tree.bound[at], tree.slot[at] = self._trivial[size], slot
            tree.kind[slot] = len(pinned), size - len(pinned), 0, 1
            tree.chosen[slot, : len(pinned)] = pinned
            tree.mask[slot] = mask
        tree.tally[OPEN] = len(sizes)
        tree.tally[FREE] -= len(sizes)

    def _trivial_bounds(self) -> Floats:
        """For each size 0 … k a bound on sets of that size, all attention on one score a head; −∞ where none are."""
        from setwise.bounds.candidates.item_bounds import ABYSS, HUGE

        it, high = self.instance, self._scores.max(axis=1)
        argument = it.base + high.sum() + 3 * self._share * (np.abs(it.base) + np.abs(self._scores).max(axis=1).sum())
        with np.errstate(over="ignore"):
            reward = np.clip(evaluate(it.rewards, it.reward_class, argument), ABYSS, HUGE)
        pinned = reward[self.constraints.pinned]
        free = np.sort(reward[self._free])[::-1][: self._k - len(pinned)]
        total = pinned.sum() + np.concatenate([[0.0], np.cumsum(free)])
        total = total + 1e-12 * (np.abs(pinned).sum() + np.abs(free).sum())
        result = np.full(self._k + 1, -math.inf)
        result[len(pinned) : len(pinned) + len(total)] = total
        result[0] = -math.inf  # the empty set is not feasible
        return result


def _scores_met(instance: Instance, constraints: Constraints) -> Floats:
    """Every number that an average of a head may be made of: (H, …)."""
    columns = [instance.score[:, constraints.open]]
    if instance.sink_score is not None:
        columns.append(instance.sink_score[:, None])
    own = np.diagonal(instance.logit, axis1=1, axis2=2)
    if instance.sink_logit is None and np.isneginf(own).any():
        columns.append(np.zeros((instance.heads, 1)))  # who attends to nothing averages 0
    return np.concatenate(columns, axis=1)


def _is_wide(weight: Floats, sink_weight: Floats) -> NDArray[np.bool_]:
    """Which rows of weights, sink included, have logits too far apart: (H, m)."""
    least = math.exp(-WIDEST)
    wide = np.asarray(weight.min(axis=2) < least)
    if wide.any():  # weights of 0 are exact
        wide = np.asarray(((weight < least) & (weight > 0)).any(axis=2))
    return wide | ((sink_weight < least) & (sink_weight > 0))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """In row order and read-only: one compiled version serves frozen and other arrays alike."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _problem(instance: Instance, constraints: Constraints, scores: Floats, share: float) -> Problem:
    from setwise.bounds.candidates.item_bounds import Problem

    table = RewardTable.of(instance.rewards)
    shape, weight = (instance.heads, instance.m), np.ascontiguousarray(instance.weight)
    sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
    rounding = np.full(len(table.code), 1e-14 + 1e-15 * min(constraints.k, instance.m))
    least = scores.min(axis=1)
    spread = instance.score.max(axis=1) - instance.score.mean(axis=1)
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
        constraints.labels,
        constraints.limits,
        np.argsort(-spread, kind="stable"),
    )
    return Problem(*(_read_only(array) for array in arrays))


def _node(heads: int, m: int, k: int) -> Node:
    from setwise.bounds.candidates.item_bounds import Node
    from setwise.bounds.candidates.pair_bounds import KNOTS

    rows = m + k
    return Node(
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
        about=np.empty((m, 5)),
        alive=np.empty(m, np.bool_),
        best=np.empty((4, k + 1)),
        who=np.empty(k + 1, np.int64),
        chord=np.empty((3, KNOTS)),
        order=np.empty(m, np.int64),
        by_single=np.empty(m, np.int64),
        place=np.empty(m, np.int64),
    )


def _tree(k: int, m: int, slots: int) -> Tree:
    from setwise.bounds.candidates.best_first import Tree

    return Tree(
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


def _grown(tree: Tree, slots: int) -> Tree:
    """The same tree with more slots."""
    from setwise.bounds.candidates.best_first import FREE

    old = len(tree.bound)
    larger = {}
    for name in ("bound", "slot", "free", "kind", "chosen", "mask"):
        array = getattr(tree, name)
        larger[name] = np.empty((slots, *array.shape[1:]), array.dtype)
        larger[name][:old] = array
    unused = tree.tally[FREE]
    larger["free"][unused : unused + slots - old] = np.arange(old, slots)
    tree.tally[FREE] += slots - old
    return tree._replace(**larger)
