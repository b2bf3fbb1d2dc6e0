"""Beam search: the paper's, which it compares with Phase Two, and the usual one of a given width.

**By candidate solutions** (the paper's). A candidate solution is a tuple (b_1, …, b_k): the ℓ-th item is the one whose
addition has the b_ℓ-th largest increment of F among the items that may be added; (1, …, 1) is greedy. A tuple with a
b_ℓ beyond the number of those items does not exist. Tuples are tried in order of increasing total branching
Σ_ℓ (b_ℓ − 1), and those of equal total so that early changes come first: (2, 1, 1), (1, 2, 1), (1, 1, 2), and then
(3, 1, 1), (2, 2, 1), (2, 1, 2), (1, 3, 1), … Early, because an early change leads to the most different sets, and a
change of the last item alone can only be worse than none.

No prefix is computed twice. Let ℓ be the last place with b_ℓ > 1. A tuple is evaluated by adding the b_ℓ-th candidate
to its first ℓ − 1 items and continuing greedily; its children raise b_ℓ, or one of the entries after it, by 1. Every
tuple but (1, …, 1) is the child of exactly one tuple, whose total is smaller by 1; so a queue yields the order above.

``order`` chooses other tuples. The paper says only that b_1, …, b_k are tuned. ``"first"`` is (j, 1, …, 1), greedy
after the j-th best first item; ``"last"`` is (1, …, 1, j), greedy with the j-th best last item, which can never improve
on greedy. ``"total"`` is the order above.

**By width.** Every candidate is added to every set of a level (the first level is the pinned items alone); the
``width`` best distinct results are the next level. ``width`` = 1 is greedy, and a width beyond the number of sets
evaluates all of them.

Both return the best set on the way, as F is not monotone in S. With a budget they stop at its end; a set that grows
then is filled up (partial_set.py).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

import numpy as np

from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.partial_set import PartialSet, best_set, end_of, most_promising
from setwise.ranking.ranker import Ranker, Ranking

SOLUTIONS = 100  # the budget when none is given


def beam(
    instance: Instance,
    constraints: Constraints,
    solutions: int | None = None,
    width: int | None = None,
    order: str | None = None,
    budget_ms: float | None = None,
) -> Ranking:
    """The best of the first ``solutions`` candidate solutions (100) by ``order``, or of a beam of ``width``.

    The search ends after ``budget_ms``, with one candidate solution at least.
    """
    until = end_of(budget_ms)
    start = PartialSet.from_pinned(instance, constraints)
    if order is not None and order not in ORDERS:
        raise InvalidInput("order", f"one of {', '.join(ORDERS)}", repr(order), "choose one of those")
    if width is None:
        most = SOLUTIONS if solutions is None else whole_number("solutions", solutions)
        return _by_solutions(start, most, ORDERS[order or "total"], until)
    if solutions is not None or order is not None:
        raise InvalidInput("solutions or order, and width", "given one at a time", "both", "drop one")
    return _by_width(start, whole_number("width", width), until)


Node = tuple[PartialSet, int]  # a prefix and the rank of the next candidate


def _every_child(prefix: PartialSet, rank: int, extensions: list[PartialSet]) -> list[Node]:
    """The next rank at this place, and the second at every later place."""
    return [(prefix, rank + 1), *((partial, 2) for partial in extensions)]


def _first_place(prefix: PartialSet, rank: int, extensions: list[PartialSet]) -> list[Node]:
    return [(prefix, rank + 1)]


def _last_place(prefix: PartialSet, rank: int, extensions: list[PartialSet]) -> list[Node]:
    """The set but its last item, from greedy on."""
    return [(extensions[-2], 2)] if len(extensions) > 1 else [(prefix, rank + 1)]


ORDERS: dict[str, Callable[[PartialSet, int, list[PartialSet]], list[Node]]] = {
    "total": _every_child,
    "first": _first_place,
    "last": _last_place,
}


def _by_solutions(
    start: PartialSet,
    solutions: int,
    children_of: Callable[[PartialSet, int, list[PartialSet]], list[Node]],
    until: float,
) -> Ranking:
    """The queue holds the point where a tuple differs from its parent: a prefix and the rank of the next candidate."""
    queue = deque([(start, 1)])
    best, evaluations = start, _evaluations(start)
    trace, made = list[float](), list[float]()
    while queue and len(trace) < solutions:
        prefix, rank = queue.popleft()
        extensions = prefix.greedy_extensions(rank, until)
        valued = extensions if until == math.inf else most_promising(extensions)
        found = best_set(valued or [prefix])  # no extension: the pinned items fill the set
        best = best_set([best, found])
        evaluations += sum(partial.evaluations for partial in extensions)
        made.append(found.value)
        trace.append(best.value)
        if time.perf_counter() >= until:
            break
        children = children_of(prefix, rank, extensions)
        room = solutions - len(trace) - len(queue)  # prefixes beyond the budget are not stored
        queue.extend(islice((child for child in children if child[1] <= len(child[0].ranked)), room))
    return Ranking(best.chosen, best.value, evaluations=evaluations, trace=np.array(trace), solutions=np.array(made))


def _by_width(start: PartialSet, width: int, until: float) -> Ranking:
    level, best, evaluations = _next_level([start], width), start, _evaluations(start)
    while level:
        best = best_set([best, *level])
        if time.perf_counter() >= until:
            best = best_set([best, *level[0].greedy_extensions(1, until)])
            break
        evaluations += sum(len(partial.ranked) for partial in level)
        level = _next_level(level, width)
    return Ranking(best.chosen, best.value, evaluations=evaluations)


def _evaluations(start: PartialSet) -> int:
    """The pinned items, if any, are evaluated as a set as well."""
    return bool(len(start.chosen)) + len(start.ranked)


def _next_level(level: list[PartialSet], width: int) -> list[PartialSet]:
    """The ``width`` best distinct sets with one more item."""
    parent = np.repeat(np.arange(len(level)), [len(partial.ranked) for partial in level])
    added = np.concatenate([partial.ranked for partial in level])
    members = np.stack([partial.chosen for partial in level])
    size = members.shape[1] + 1  # a set occurs at most this often among the extensions
    order = np.argsort(-np.concatenate([partial.values for partial in level]), kind="stable")[: width * size]
    sets = np.sort(np.column_stack([members[parent[order]], added[order]]), axis=1)
    first = np.unique(sets, axis=0, return_index=True)[1]
    return [level[parent[at]].add(added[at]) for at in order[np.sort(first)[:width]]]


BEAM = Ranker("beam", beam, "beam search", interactive=True, slow_growth=True, lower_limits=True)
