"""Top-k: the k candidates of largest reward alone, f_i(a_i({i})), whatever the rest of the set.

This is the fair rival of a set optimiser: a recommender that knows what every item is worth by itself. Where items do
not interact, or k = 1, it is optimal. Candidates of negative reward are left out, unless all are negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking


def top_k(instance: Instance, constraints: Constraints) -> Ranking:
    """Add the allowed candidate of largest reward alone, up to k times."""
    indices = in_order(constraints, instance.alone)
    return Ranking(_worthwhile(instance, constraints, indices), 0.0, evaluations=1)


def in_order(constraints: Constraints, measure: Floats) -> NDArray[np.intp]:
    """Add the allowed candidate of largest ``measure`` to the pinned ones, up to k members.

    They are sorted once, where no limit makes a candidate depend on the others.
    """
    if len(constraints.sums):
        return in_turn(constraints, lambda _: measure)
    allowed = np.flatnonzero(constraints.joinable(constraints.pinned))
    order = allowed[np.argsort(-measure[allowed], kind="stable")]
    if len(constraints.labels):
        return _limited(constraints, order)
    return np.append(constraints.pinned, order[: constraints.k - len(constraints.pinned)])


def _limited(constraints: Constraints, order: NDArray[np.intp]) -> NDArray[np.intp]:
    """The pinned items and the first of ``order`` that the limits allow, up to k members.

    A candidate that a limit forbids once is never allowed again: counts grow, and where all places that are left are
    needed for lower limits, so are all that follow.
    """
    chosen = constraints.pinned.tolist()
    labels, most, least = constraints.labels.T.tolist(), constraints.limits.tolist(), constraints.minimums.tolist()
    counts = [[0] * (int(row.max(initial=0)) + 1) for row in constraints.labels]
    missing = [sum(row) for row in least]
    for item in [*chosen, *order.tolist()]:
        of_item, places = labels[item], constraints.k - len(chosen)
        if item not in chosen:
            if not places:
                break
            full = any(label >= 0 and counts[group][label] >= most[group] for group, label in enumerate(of_item))
            if full or any(
                lack >= places and not _needed(least[group], counts[group], of_item[group])
                for group, lack in enumerate(missing)
            ):
                continue
            chosen.append(item)
        for group, label in enumerate(of_item):
            if label >= 0:
                if missing and _needed(least[group], counts[group], label):
                    missing[group] -= 1
                counts[group][label] += 1
    return np.array(chosen, np.intp)


def _needed(least: list[int], counts: list[int], label: int) -> bool:
    """Whether a further member with this label is missing."""
    return label >= 0 and counts[label] < least[label]


def best_by(constraints: Constraints, measure: Floats) -> NDArray[np.intp]:
    """``in_order``, in any order."""
    if constraints.is_joint or len(constraints.pinned) or constraints.k >= len(measure):
        return in_order(constraints, measure)
    if not constraints.open.all():
        measure = np.where(constraints.open, measure, -np.inf)
    return measure.argpartition(len(measure) - constraints.k)[-constraints.k :]


def in_turn(constraints: Constraints, measure: Callable[[list[int]], Floats]) -> NDArray[np.intp]:
    """Add the allowed candidate of largest ``measure(chosen)`` to the pinned ones, up to k members."""
    chosen = [int(one) for one in constraints.pinned]
    joinable = constraints.joinable(chosen)
    while len(chosen) < constraints.k:
        allowed = joinable.nonzero()[0]
        if not len(allowed):
            break
        chosen.append(int(allowed[measure(chosen)[allowed].argmax()]))
        joinable = constraints.still_joinable(joinable, chosen)
    return np.array(chosen, np.intp)


def _worthwhile(instance: Instance, constraints: Constraints, indices: NDArray[np.intp]) -> NDArray[np.intp]:
    """The set without items of negative reward alone, where that is feasible."""
    alone = instance.alone[indices]
    kept = (alone >= 0) | np.isin(indices, constraints.pinned)
    if not kept.any():
        kept[np.argmax(alone)] = True
    fewer = indices[kept]
    return fewer if constraints.admits(fewer) and constraints.meets_minimums(fewer) else indices


TOP_K = Ranker("top-k", top_k, "top-k", uses_attention=False, by_reward_alone=True, interactive=True, lower_limits=True)
