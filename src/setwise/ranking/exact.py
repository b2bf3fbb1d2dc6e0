"""Exact: branch and bound from the set that swap search finds, until no other can be better.

The bounds are those of setwise.certificates (branch_and_bound.py, tree_kernels.py and what they import): how high each
average can rise with the places left, who the highest newcomer of each head is, what pairs can be worth together.
Subproblems are expanded best first, so that stopping early leaves the smallest bound that so many of them can give.

``proven`` means that the search has ended: no feasible set is worth more than F(S) + 5·10^-10 · Σ_{i∈S} |f_i(a_i(S))|,
the rounding of F itself aside, and ``upper_bound`` says as much. ``evaluations`` counts subproblems for which bounds
were computed.
"""

from __future__ import annotations

import time

from setwise._validation import milliseconds, whole_number
from setwise.bounds.candidates.branch_and_bound import UNLIMITED, BranchAndBound
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.swap import swap

START_ROUNDS = 20  # the start may evaluate so many times k·m sets: some ten neighbourhoods of swaps
START_SHARE = 0.25  # and take so much of the budget
LOOKS = 50  # at the clock in one budget
FIRST_PACE = 2.5e5  # steps a millisecond, before any were timed
CAUTION = 1.5  # a node may take so many times what its work suggests: it is not begun when that is too late


def exact(
    instance: Instance,
    constraints: Constraints,
    *,
    nodes: int | None = None,
    budget_ms: float | None = None,
    open_nodes: int = 200_000,
    seed: int = 0,
) -> Ranking:
    """The best set, with a bound on all others.

    Ends when proven, or after so many ``nodes`` or milliseconds, or when about ``open_nodes`` subproblems (some 100 to
    200 bytes each) wait; then the best set found and the best bound proven are the answer.
    """
    began = time.perf_counter()
    most = UNLIMITED if nodes is None else whole_number("nodes", nodes)
    budget = milliseconds(budget_ms)
    search = BranchAndBound(instance, constraints, whole_number("open_nodes", open_nodes))
    start = swap(
        instance,
        constraints,
        evaluations=START_ROUNDS * min(constraints.k, instance.m) * instance.m,
        budget_ms=None if budget is None else START_SHARE * budget,
        seed=seed,
    )
    if budget is None:
        search.offer(start.indices)
        search.run(most)
    else:
        _run_until(began + budget / 1000, budget / 1000 / LOOKS, search, start, most)
    return _answer(instance, search, start)


def _run_until(deadline: float, look: float, search: BranchAndBound, start: Ranking, most: int) -> None:
    """Run in slices of about ``look`` seconds; no node is begun that, at the pace so far, would end too late."""
    pace = FIRST_PACE * 1000
    if time.perf_counter() + CAUTION * search.next_work / pace > deadline:
        return
    search.offer(start.indices)
    began = time.perf_counter()
    while not (search.finished or search.full or search.nodes >= most):
        done, now = search.work, time.perf_counter()
        if now + CAUTION * search.next_work / pace > deadline:
            return
        search.run(most, done + int(pace * min(look, deadline - now)))
        if search.work:
            pace = search.work / (time.perf_counter() - began)


def _answer(instance: Instance, search: BranchAndBound, start: Ranking) -> Ranking:
    """The set that the search ends with, or the start where it did not begin, and whether the bound proves it."""
    indices = search.best if len(search.best) else start.indices
    value = instance.value(indices)
    return Ranking(indices, value, max(search.bound, value), search.proven, max(1, search.nodes))


EXACT = Ranker("exact", exact, "branch and bound")
