"""Greedy: add the item that raises F most, k times; the tuple (1, …, 1) of the paper's beam search.

F is not monotone in S, so the run continues to k items and the best set on the way is returned.
"""

from __future__ import annotations

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.partial_set import PartialSet, best_set, end_of, most_promising
from setwise.ranking.ranker import Ranker, Ranking


def greedy(instance: Instance, constraints: Constraints, budget_ms: float | None = None) -> Ranking:
    """Add the best candidate to the pinned items until the set is full; return the best set on the way.

    After ``budget_ms`` the set is filled up with the candidates that were worth most in the last step.
    """
    until = end_of(budget_ms)
    start = PartialSet.from_pinned(instance, constraints)
    sets = [start, *start.greedy_extensions(1, until)]
    best = best_set(sets if budget_ms is None else [start, *most_promising(sets[1:])])
    evaluations = bool(len(start.chosen)) + sum(partial.evaluations for partial in sets)
    return Ranking(best.chosen, best.value, evaluations=evaluations)


GREEDY = Ranker("greedy", greedy, "greedy", interactive=True, lower_limits=True)
