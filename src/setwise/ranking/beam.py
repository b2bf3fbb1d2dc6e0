"""Beam search, as the paper defines it for its Phase Two's rival, and the usual one of a given width.

**By candidate solutions** (the paper's). A candidate solution is a tuple (b_1, …, b_k): the ℓ-th item is the one whose
addition has the b_ℓ-th largest increment of F among the items that may still join; (1, …, 1) is greedy. A tuple with a
b_ℓ beyond the number of those items does not exist. Tuples are tried in order of increasing total branching
Σ_ℓ (b_ℓ − 1), and those of equal total so that early changes come first: (2, 1, 1), (1, 2, 1), (1, 1, 2), and then
(3, 1, 1), (2, 2, 1), (2, 1, 2), (1, 3, 1), … Early, because an early change leads to the most different sets, and a
change of the last item alone can only be worse than none.

No prefix is computed twice. Let ℓ be the last place with b_ℓ > 1. A tuple is tried by joining the b_ℓ-th newcomer to
its first ℓ − 1 items and going on greedily, and its children raise b_ℓ, or one of the ones after it, by 1. Every tuple
but (1, …, 1) is the child of exactly one, whose total is smaller by 1; so a queue gives them in the order above.

**By width.** All sets on a level, at first the pinned items alone, are joined by every newcomer; the ``width`` best
distinct ones are the next level. ``width`` = 1 is greedy, and a width beyond the number of sets tries all of them.

Both return the best set passed on the way, as F is not monotone in S.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

import numpy as np

from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.partial_set import Growing, best_of
from setwise.ranking.ranker import Ranker, Ranking

SOLUTIONS = 100  # the budget when none is given


def beam(
    instance: Instance, constraints: Constraints, solutions: int | None = None, width: int | None = None
) -> Ranking:
    """The best of the first ``solutions`` candidate solutions (100), or of a beam of ``width``."""
    start = Growing.from_pinned(instance, constraints)
    if width is None:
        return _by_solutions(start, SOLUTIONS if solutions is None else whole_number("solutions", solutions))
    if solutions is not None:
        raise InvalidInput("solutions and width", "given one at a time", "both", "drop one")
    return _by_width(start, whole_number("width", width))


def _by_solutions(start: Growing, solutions: int) -> Ranking:
    """The queue holds where a tuple leaves its parent: a prefix, and the rank of the newcomer that joins it."""
    queue = deque([(start, 1)])
    best, evaluations = start, _evaluations(start)
    trace, made = list[float](), list[float]()
    while queue and len(trace) < solutions:
        prefix, rank = queue.popleft()
        passed = prefix.completed(rank)
        found = best_of(passed or [prefix])  # where the pinned items take every place
        best = best_of([best, found])
        evaluations += sum(len(partial.ranked) for partial in passed)
        made.append(found.value)
        trace.append(best.value)
        children = [(prefix, rank + 1), *((partial, 2) for partial in passed)]
        room = solutions - len(trace) - len(queue)  # prefixes that would never be tried are not kept
        queue.extend(islice((child for child in children if child[1] <= len(child[0].ranked)), room))
    return Ranking(best.chosen, best.value, evaluations=evaluations, trace=np.array(trace), solutions=np.array(made))


def _by_width(start: Growing, width: int) -> Ranking:
    level, best, evaluations = _grown([start], width), start, _evaluations(start)
    while level:
        best = best_of([best, *level])
        evaluations += sum(len(partial.ranked) for partial in level)
        level = _grown(level, width)
    return Ranking(best.chosen, best.value, evaluations=evaluations)


def _evaluations(start: Growing) -> int:
    """The pinned items are a set as well, if there are any."""
    return bool(len(start.chosen)) + len(start.ranked)


def _grown(level: list[Growing], width: int) -> list[Growing]:
    """The ``width`` best distinct sets that have one item more."""
    parent = np.repeat(np.arange(len(level)), [len(partial.ranked) for partial in level])
    joiner = np.concatenate([partial.ranked for partial in level])
    members = np.stack([partial.chosen for partial in level])
    size = members.shape[1] + 1  # a set has no more parents than members, so that many times the width is enough
    order = np.argsort(-np.concatenate([partial.values for partial in level]), kind="stable")[: width * size]
    sets = np.sort(np.column_stack([members[parent[order]], joiner[order]]), axis=1)
    first = np.unique(sets, axis=0, return_index=True)[1]
    return [level[parent[at]].joined_by(joiner[at]) for at in order[np.sort(first)[:width]]]


BEAM = Ranker("beam", beam, "beam search", interactive=True, slow_growth=True)
