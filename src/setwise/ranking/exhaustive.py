"""Exhaustive search: brute force over every feasible set. The other rankers are tested against it."""

from __future__ import annotations

import math

import numpy as np

from setwise._validation import read_only
from setwise.errors import TooLarge
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.ranking.ranker import Ranker, Ranking

MAX_SETS = 50_000_000


def count_sets(constraints: Constraints, free: int) -> int:
    """The number of sets with so many free candidates, without the limits of groups."""
    return sum(math.comb(free, size) for size in range(min(constraints.k - len(constraints.pinned), free) + 1))


def exhaustive(instance: Instance, constraints: Constraints) -> Ranking:
    """The best of all feasible sets; raises TooLarge above 5·10^7 sets (counted without the limits of groups)."""
    from setwise.ranking import kernels  # compiled: imported when needed, so that `import setwise` is fast

    free = np.flatnonzero(constraints.open & ~np.isin(np.arange(instance.m), constraints.pinned))
    sets = count_sets(constraints, len(free))
    if sets > MAX_SETS:
        raise TooLarge(
            f"exhaustive search must visit at most {MAX_SETS:,} sets, got {sets:,.3g} "
            f"({len(free)} free candidates, k = {constraints.k}); lower k, pass fewer candidates or use another ranker."
        )
    k = min(constraints.k, instance.m)
    table = RewardTable.of(instance.rewards)
    no_sink = np.full((instance.heads, instance.m), -np.inf)
    labels, minimums = constraints.labels, constraints.minimums
    arrays = (
        instance.logit,
        instance.score,
        instance.base,
        no_sink if instance.sink_logit is None else instance.sink_logit,
        np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score,
        table.code,
        table.parameter,
        table.first_knot,
        table.knot,
        instance.reward_class,
        instance.weights,
        constraints.pinned,
        free,
        labels,
        constraints.limits,
        minimums,
        constraints.sums.cost,
        constraints.sums.least,
        constraints.sums.most,
    )
    counts = np.zeros((len(labels), max(int(labels.max(initial=0)) + 1, minimums.shape[1])), np.int64)
    indices, visited, finite = kernels.best_subset(*map(read_only, arrays), counts, k)
    value = instance.value(indices)
    # Values beyond the largest double compare equal, so nothing is proven.
    return Ranking(indices, value, value if finite else math.inf, bool(finite), int(visited))


EXHAUSTIVE = Ranker("exhaustive", exhaustive, "exhaustive search", lower_limits=True)
