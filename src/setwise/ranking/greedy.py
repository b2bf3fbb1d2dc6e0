"""Greedy: add the item that raises F most, k times; the tuple (1, …, 1) of the paper's beam search.

F is not monotone in S, so the run goes on to k items and the best set seen on the way is returned.
"""

from __future__ import annotations

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.partial_set import Growing, best_of
from setwise.ranking.ranker import Ranker, Ranking


def greedy(instance: Instance, constraints: Constraints) -> Ranking:
    """Grow from the pinned items by the best newcomer; return the best of the sets passed."""
    start = Growing.from_pinned(instance, constraints)
    passed = [start, *start.completed(rank=1)]
    best = best_of(passed)
    evaluations = bool(len(start.chosen)) + sum(len(partial.ranked) for partial in passed)
    return Ranking(best.chosen, best.value, evaluations=evaluations)


GREEDY = Ranker("greedy", greedy, "greedy", interactive=True)
