"""Exact: branch and bound from the set that swap search finds, until no other set can be better.

The bounds are those of setwise.bounds.candidates: how high each average can rise with the remaining places, which
added candidate scores highest in each head, and the largest joint reward of pairs. Nodes are expanded best first, so
that an early stop leaves the smallest bound that so many nodes can give.

With several heads and a budget, most of the time first goes to a search that bounds all heads together
(setwise.bounds.lifts). The smaller of the two bounds is returned.

``proven`` means that no feasible set is worth more than F(S) + 5·10^-10 · Σ_{i∈S} |f_i(a_i(S))|, the rounding of F
itself aside, and ``upper_bound`` is at most that number. ``evaluations`` counts the nodes for which branch and bound
computed bounds.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from setwise._validation import milliseconds, whole_number
from setwise.bounds.candidates.branch_and_bound import UNLIMITED, BranchAndBound
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.swap import swap

START_ROUNDS = 20  # swap search may evaluate this many times k·m sets: about ten neighbourhoods
START_SHARE = 0.25  # and use this share of the budget
CLOCK_READS = 50  # in one budget
FIRST_PACE = 2.5e5  # steps per millisecond, before any were timed
JOINT_SHARE = 0.7  # of the time that is left goes to the search that bounds all heads together
TOLERANCE = 5e-10  # relative to Σ |f_i|: that of branch and bound
CAUTION = 1.5  # a node may take this many times its estimated time: it is not started when that is too late


def exact(
    instance: Instance,
    constraints: Constraints,
    *,
    nodes: int | None = None,
    budget_ms: float | None = None,
    open_nodes: int = 200_000,
    seed: int = 0,
) -> Ranking:
    """The best set, with an upper bound on all others.

    The search ends when the set is proven optimal, after ``nodes`` nodes, after ``budget_ms`` milliseconds, or when
    about ``open_nodes`` nodes (100 to 200 bytes each) are open. It then returns the best set and the best bound found.
    """
    began = time.perf_counter()
    most = UNLIMITED if nodes is None else whole_number("nodes", nodes)
    budget = milliseconds(budget_ms)
    whole_number("open_nodes", open_nodes)
    start = swap(
        instance,
        constraints,
        evaluations=START_ROUNDS * min(constraints.k, instance.m) * instance.m,
        budget_ms=None if budget is None else START_SHARE * budget,
        seed=seed,
    )
    search = BranchAndBound(instance, constraints, open_nodes, start.indices)
    if budget is None:
        search.offer(start.indices)
        search.run(most)
        return _ranking(instance, search, start)
    deadline = began + budget / 1000
    start, joint = _bound_heads_together(instance, constraints, start, deadline)
    if not _proves(joint, instance, start):
        _run_until(deadline, budget / 1000 / CLOCK_READS, search, start, most)
    return _ranking(instance, search, start, joint)


def _bound_heads_together(
    instance: Instance, constraints: Constraints, start: Ranking, deadline: float
) -> tuple[Ranking, float]:
    """The better of ``start`` and of what the search by lifts found, and its bound; ∞ where it does not apply."""
    from setwise.bounds.lifts.instance_lifts import InstanceLifts, is_suitable, seconds_to_start

    rows, k = np.flatnonzero(constraints.open), min(constraints.k, instance.m)
    left = deadline - time.perf_counter()
    if (
        len(constraints.pinned)
        or len(constraints.sums)
        or JOINT_SHARE * left < seconds_to_start(instance)
        or not is_suitable(instance, k)
    ):
        return start, math.inf
    lifts = InstanceLifts(instance, rows, k, start.value)
    lifts.run(deadline - (1 - JOINT_SHARE) * left)
    if len(lifts.best) and constraints.admits(lifts.best):
        value = instance.value(lifts.best)
        if value > start.value:
            start = replace(start, indices=lifts.best, value=value)
    return start, lifts.bound


def _proves(bound: float, instance: Instance, found: Ranking) -> bool:
    """Whether a finite bound exceeds the value by no more than the tolerance."""
    if not math.isfinite(bound):
        return False
    return bound <= found.value + TOLERANCE * float(np.abs(instance.rewards_of(found.indices)).sum())


def _run_until(deadline: float, interval: float, search: BranchAndBound, start: Ranking, most: int) -> None:
    """Run in slices of about ``interval`` seconds; do not start a node that, at the pace so far, would end too late."""
    pace = FIRST_PACE * 1000
    if time.perf_counter() + CAUTION * search.next_work / pace > deadline:
        return
    search.offer(start.indices)
    began = time.perf_counter()
    while not (search.finished or search.full or search.nodes >= most):
        done, now = search.work, time.perf_counter()
        if now + CAUTION * search.next_work / pace > deadline:
            return
        search.run(most, done + int(pace * min(interval, deadline - now)))
        if search.work:
            pace = search.work / (time.perf_counter() - began)


def _ranking(instance: Instance, search: BranchAndBound, start: Ranking, joint: float = math.inf) -> Ranking:
    """The set of the search, or of the start when no node was expanded, with the smaller of the two bounds."""
    indices = search.best if len(search.best) else start.indices
    found = Ranking(indices, instance.value(indices), min(search.bound, joint), search.proven, max(1, search.nodes))
    proven = search.proven or _proves(joint, instance, found)
    return replace(found, proven=proven, upper_bound=max(found.upper_bound, found.value))


EXACT = Ranker("exact", exact, "branch and bound")
