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
    if constraints.is_joint:
        return in_turn(constraints, lambda _: measure)
    allowed = np.flatnonzero(constraints.joinable(constraints.pinned))
    order = allowed[np.argsort(-measure[allowed], kind="stable")]
    return np.append(constraints.pinned, order[: constraints.k - len(constraints.pinned)])


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
