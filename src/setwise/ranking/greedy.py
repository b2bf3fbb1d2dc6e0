"""Greedy: add the item that raises F most, k times; the tuple (1, …, 1) of the paper's beam search.

F is not monotone in S, so the run continues to k items and the best set on the way is returned.
"""

from __future__ import annotations

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.partial_set import PartialSet, best_set
from setwise.ranking.ranker import Ranker, Ranking


def greedy(instance: Instance, constraints: Constraints) -> Ranking:
    """Add the best candidate to the pinned items until the set is full; return the best set on the way."""
    start = PartialSet.from_pinned(instance, constraints)
    sets = [start, *start.greedy_extensions(rank=1)]
    best = best_set(sets)
    evaluations = bool(len(start.chosen)) + sum(len(partial.ranked) for partial in sets)
    return Ranking(best.chosen, best.value, evaluations=evaluations)


GREEDY = Ranker("greedy", greedy, "greedy", interactive=True, lower_limits=True)
