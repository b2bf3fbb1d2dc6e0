"""Exhaustive search: every feasible set of up to k candidates. The truth that other rankers are tested against."""

from __future__ import annotations

import math

import numpy as np

from setwise.errors import TooLarge
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.ranking.ranker import Ranker, Ranking

MOST_SETS = 50_000_000


def exhaustive(instance: Instance, constraints: Constraints) -> Ranking:
    """The best of all feasible sets; refuses above 5·10^7 of them (limits by group not counted)."""
    from setwise.ranking import kernels  # compiled: imported when first needed, so that `import setwise` stays light

    free = np.flatnonzero(constraints.open & ~np.isin(np.arange(instance.m), constraints.pinned))
    room = min(constraints.k - len(constraints.pinned), len(free))
    sets = sum(math.comb(len(free), size) for size in range(room + 1))
    if sets > MOST_SETS:
        raise TooLarge(
            f"exhaustive search must visit at most {MOST_SETS:,} sets, got {sets:,.3g} "
            f"({len(free)} free candidates, k = {constraints.k}); lower k, pass fewer candidates or use another ranker."
        )
    k = min(constraints.k, instance.m)
    table = RewardTable.of(instance.rewards)
    no_sink = np.full((instance.heads, instance.m), -np.inf)
    labels = constraints.labels
    indices, visited, tame = kernels.best_subset(
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
        constraints.pinned,
        free,
        labels,
        constraints.limits,
        np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.int64),
        k,
    )
    value = instance.value(indices)
    # Beyond the largest double values cannot be told apart, and nothing is proven.
    return Ranking(indices, value, value if tame else math.inf, bool(tame), int(visited))


EXHAUSTIVE = Ranker("exhaustive", exhaustive, "exhaustive search")
