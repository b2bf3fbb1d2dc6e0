"""A number that no feasible set of an instance exceeds.

The first nodes of branch and bound (tree_kernels.py), started from the sets that single scores and single leaders
suggest. What they prove, in the order in which it is tried:

1. a_i(S) ≤ Σ_h max_T a_i^h(T) over companies T of the right size: a ratio of sums, solved by Dinkelbach's method.
2. The highest newcomer of a head caps every average of that head; there are as many cases as newcomers, and few matter.
3. With two items i, j in the set, U_i|j bounds the reward of i; every set is worth no more than its members' rewards
   given any one newcomer, and than their average over all newcomers.

The bound is the largest over the cases still open, or the value of the set known where none can beat it.
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

WORK = 20_000_000  # steps of the inner loops: some fifty to a hundred milliseconds at most
OPEN_NODES = 50_000
LEADERS = 3  # sets to begin with, beside the one of highest scores


def upper_bound(
    instance: Instance,
    k: int,
    exclude: ArrayLike = (),
    include: ArrayLike = (),
    at_most: Mapping[str, int] | None = None,
) -> float:
    """At least F(S) for every feasible S of at most k candidates; ``rank(…, "exact")`` goes on until it is reached."""
    if not isinstance(instance, Instance):
        raise InvalidInput("instance", "a setwise.Instance", type(instance).__name__, "use Instance.from_catalog")
    constraints = Constraints.of(instance, k, exclude, include, at_most)
    search = BranchAndBound(instance, constraints, OPEN_NODES)
    search.offer(_greatest(constraints, instance.total_score))
    for leader in np.argsort(-np.where(constraints.open, instance.total_score, -np.inf), kind="stable")[:LEADERS]:
        beside = _rewards_beside(instance, int(leader))
        beside[leader] = np.inf
        search.offer(_greatest(constraints, beside))
    search.run(most_work=WORK)
    return search.bound


def _greatest(constraints: Constraints, measure: Floats) -> NDArray[np.intp]:
    """The pinned, and whoever may still join them in the order of ``measure``: a set to measure others by."""
    chosen = list(constraints.pinned)
    while len(chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(chosen))
        if not len(allowed):
            break
        chosen.append(allowed[np.argmax(measure[allowed])])
    return np.array(chosen, np.intp)


def _rewards_beside(instance: Instance, leader: int) -> Floats:
    """f_i(a_i({i, leader})) for every candidate i, the sink left out."""
    own, lent = np.diagonal(instance.weight, axis1=1, axis2=2), instance.weight[:, :, leader]
    share = np.divide(lent, own + lent, out=np.zeros_like(lent), where=lent > 0)
    average = instance.score + share * (instance.score[:, leader, None] - instance.score)
    return evaluate(instance.rewards, instance.reward_class, instance.base + average.sum(axis=0))
