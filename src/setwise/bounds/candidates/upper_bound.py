"""``upper_bound``: an upper bound on F over all feasible sets of an instance.

It runs the first nodes of branch and bound (best_first.py), with incumbents built from the highest scores and from the
best partners of a few anchor items. The bounds used, in this order:

1. a_i(S) ≤ Σ_h max_T a_i^h(T) over sets T of the right size: a ratio of sums, maximised by Dinkelbach's method.
2. The highest added score of a head caps every average of that head. There is one case for each added item.
3. With two items i, j in the set, U_i|j bounds the reward of i. F(S) is at most the sum of these bounds given any one
   added item, and at most their average over all added items.

The result is the largest bound of an open node, or the value of the incumbent if no node can beat it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise.bounds.candidates.branch_and_bound import BranchAndBound
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate

WORK = 20_000_000  # steps of the inner loops: at most fifty to a hundred milliseconds
OPEN_NODES = 50_000
ANCHORS = 3  # incumbents built around an anchor item, beside the one of highest scores


def upper_bound(
    instance: Instance,
    k: int,
    exclude: ArrayLike = (),
    include: ArrayLike = (),
    at_most: Mapping[str, int] | None = None,
) -> float:
    """An upper bound on F(S) over feasible sets S of at most k candidates; ``rank(…, "exact")`` proves the optimum."""
    if not isinstance(instance, Instance):
        raise InvalidInput("instance", "a setwise.Instance", type(instance).__name__, "use Instance.from_catalog")
    return bounded(instance, Constraints.of(instance, k, exclude, include, at_most=at_most))


def bounded(instance: Instance, constraints: Constraints) -> float:
    """``upper_bound`` for constraints that are known."""
    search = BranchAndBound(instance, constraints, OPEN_NODES)
    search.offer(_highest_set(constraints, instance.total_score))
    for anchor in np.argsort(-np.where(constraints.open, instance.total_score, -np.inf), kind="stable")[:ANCHORS]:
        with_anchor = _rewards_with(instance, int(anchor))
        with_anchor[anchor] = np.inf
        search.offer(_highest_set(constraints, with_anchor))
    search.run(max_work=WORK)
    return search.bound


def _highest_set(constraints: Constraints, measure: Floats) -> NDArray[np.intp]:
    """The pinned items and then feasible ones in descending order of ``measure``."""
    chosen = list(constraints.pinned)
    while len(chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(chosen))
        if not len(allowed):
            break
        chosen.append(allowed[np.argmax(measure[allowed])])
    return np.array(chosen, np.intp)


def _rewards_with(instance: Instance, anchor: int) -> Floats:
    """f_i(a_i({i, anchor})) for every candidate i, without the sink."""
    own, lent = np.diagonal(instance.weight, axis1=1, axis2=2), instance.weight[:, :, anchor]
    share = np.divide(lent, own + lent, out=np.zeros_like(lent), where=lent > 0)
    average = instance.score + share * (instance.score[:, anchor, None] - instance.score)
    return evaluate(
        instance.rewards, instance.reward_class, instance.base + average.sum(axis=0), instance.reward_weight
    )
