"""InstanceLifts: an upper bound over all sets of an instance's candidates by lifts (node_bounds.py), for several heads.

All open candidates are listed, so there is no scan: levels are found for them, and the tree (tree.py) is searched best
first. Group limits are ignored. They only remove sets, so the bound holds for the sets that keep them; the best set
found may break them.

**Rounding.** Logits are data, so only weights, averages and rewards are rounded. Scores are raised by 4·10⁻¹¹ of
the largest of their head, base terms by as much of themselves, rewards as in node_bounds.py.
"""

from __future__ import annotations

import time

import numpy as np

from setwise._types import Rows
from setwise.bounds.catalog.group_bounds import HUGE, RewardArrays
from setwise.bounds.lifts.catalog_lifts import (
    CHILD_ROUNDS,
    FIRST_ROUNDS,
    ROUNDS,
    TOGETHER,
    lift_node,
    lift_tree,
)
from setwise.bounds.lifts.node_bounds import LiftItems, LiftNode
from setwise.bounds.lifts.scan import fill_given_weights
from setwise.bounds.lifts.tree import BEST, LOST, OPEN, SIZE, LiftTree, find_levels, open_root, search_lists
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import evaluate

ROWS = 48  # candidates of largest reward, which have weights of their own
NODES = 1 << 13
WORK = 200_000  # lifts between two readings of the clock
MARGIN = 4e-11  # weights are right to 1e-11
SECONDS = 2e-9  # of a lift


def is_suitable(instance: Instance, k: int) -> bool:
    """Whether the search applies: several heads, two places, finite logits, no positions and no weights of rewards."""
    if instance.heads == 1 or k < 2 or instance.positions is not None or instance.reward_weight is not None:
        return False
    return bool(np.isfinite(instance.logit).all())


def seconds_to_start(instance: Instance) -> float:
    """About how long the first levels take."""
    return SECONDS * (TOGETHER + FIRST_ROUNDS + ROUNDS) * instance.heads * instance.m * min(instance.m, ROWS)


class InstanceLifts:
    """The search; ``finished`` when it can do no more."""

    def __init__(self, instance: Instance, rows: Rows, k: int, value: float) -> None:
        self._rows, self._k = rows, min(k, len(rows))
        self._parts = _parts(instance, rows, self._k, value)
        self.finished = self._planted = False

    @property
    def bound(self) -> float:
        """An upper bound on F over all sets of at most k of the rows."""
        tree = self._parts[2]
        if not self._planted:
            return float("inf")
        left = max(float(tree.value[BEST]), float(tree.value[LOST]))
        bound = max(left, float(tree.key[0])) if tree.tally[OPEN] else left
        return bound if bound < HUGE else float("inf")

    @property
    def best(self) -> Rows:
        """The best set that the search found; empty if none is better than the value passed."""
        tree = self._parts[2]
        return np.asarray(self._rows[tree.found[: tree.tally[SIZE]]], np.intp)

    def run(self, until: float) -> None:
        """Search until ``time.perf_counter()`` reaches ``until``, or the end."""
        items, node, tree = self._parts
        if not self._planted:
            levels = np.full((len(items.row_item) + 1, len(items.sink_score)), -np.inf)
            levels[-1] = np.inf
            find_levels(items, node, tree, levels, self._k, TOGETHER, FIRST_ROUNDS)
            open_root(items, node, tree, levels, self._k, ROUNDS)
            self._planted = True
        while not self.finished and time.perf_counter() < until:
            self.finished = bool(search_lists(items, node, tree, self._k, CHILD_ROUNDS, WORK, -np.inf))


def _parts(instance: Instance, rows: Rows, k: int, value: float) -> tuple[LiftItems, LiftNode, LiftTree]:
    heads, listed = instance.heads, len(rows)
    largest = np.abs(instance.score).max(axis=1)
    sink = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
    margin = MARGIN * np.maximum(largest, np.abs(sink)) + 1e-180
    score, sink_score = instance.score + margin[:, None], sink + margin
    base = instance.base[rows] + MARGIN * np.abs(instance.base[rows])
    free = evaluate(instance.rewards, instance.reward_class[rows], base + score[:, rows].max(axis=1).sum())
    chosen = np.sort(np.argsort(-np.nan_to_num(free), kind="stable")[:ROWS])
    row_of = np.full(listed, -1, np.int64)
    row_of[chosen] = np.arange(len(chosen))
    sink_logit = np.empty((0, 0)) if instance.sink_logit is None else instance.sink_logit[:, rows]
    table = RewardTable.of(instance.rewards)
    items = LiftItems(
        table=RewardArrays(table.code, table.parameter, table.first_knot, table.knot),
        query=np.empty((0, heads, 0)),
        key=np.empty((0, heads, 0)),
        logit=np.ascontiguousarray(instance.logit[:, rows[:, None], rows]),
        sink_logit=np.ascontiguousarray(sink_logit),
        sink_key=np.empty((0 if instance.sink_logit is None else 1, heads, 0)),
        sink_score=sink_score,
        score=np.ascontiguousarray(score[:, rows]),
        base=base,
        reward_class=instance.reward_class[rows].astype(np.int64),
        row_of=row_of,
        row_item=chosen,
        weight=np.empty((len(chosen), heads, listed)),
        sink=np.empty((len(chosen), heads)),
        steep=np.zeros(1),
        ceiling=np.full(heads, -np.inf),
        label=np.empty(0, np.int64),
        most=np.zeros(1, np.int64),
    )
    fill_given_weights(items)
    node = lift_node(len(chosen), heads, listed, k)
    return items, node, lift_tree(NODES, len(chosen), heads, listed, k, value)
