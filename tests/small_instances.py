"""Small random instances with every optional part, for tests against exhaustive search."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import setwise as sw
from worlds import REWARDS

MORE_REWARDS = (
    *REWARDS,
    sw.Linear(0.3, -2.0),
    sw.Exp(-1.5, -0.5),
    sw.Logistic(4.0, -6.0),
    sw.ReLU(1.0, -1.0),
    sw.Constant(-0.2),
)


class Case(NamedTuple):
    """An instance, k, and constraints to pass to ``rank``: exclude, include, at_most."""

    instance: sw.Instance
    k: int
    constraints: dict[str, Any]


def small_instance(rng: np.random.Generator, most: int = 7) -> Case:
    """2 to ``most`` candidates with random heads, ties, missing and huge logits, sink, limits and pinned items."""
    m, heads = int(rng.integers(2, most + 1)), int(rng.integers(1, 5))
    logit = rng.choice([0.3, 1.0, 5.0, 400.0], p=[0.25, 0.4, 0.25, 0.1]) * rng.normal(size=(heads, m, m))
    score = rng.choice([0.3, 1.0, 5.0]) * rng.normal(size=(heads, m)) + rng.choice([-2.0, 0.0, 0.0, 2.0])
    base = rng.normal(size=m) if rng.random() < 0.4 else None
    if rng.random() < 0.25:  # ties
        logit, score = np.round(logit), np.round(score)
    if rng.random() < 0.2:  # twins
        score[:, 1], logit[:, :, 1], logit[:, 1] = score[:, 0], logit[:, :, 0], logit[:, 0]
    if rng.random() < 0.2:
        logit[rng.random(logit.shape) < rng.choice([0.2, 0.9])] = -np.inf
    sink = (
        {"sink_logit": rng.normal(size=(heads, m)), "sink_score": rng.normal(size=heads)} if rng.random() < 0.3 else {}
    )
    some = rng.permutation(len(MORE_REWARDS))[: rng.integers(1, 4)]
    reward = ([MORE_REWARDS[i] for i in some], rng.integers(len(some), size=m))
    exclusive = [np.arange(m) // 2, np.arange(m) % 2] if rng.random() < 0.1 else []  # an ordered slate of two places
    groups = {"g": rng.integers(-1, 3, m), "h": rng.integers(0, 2, m)}
    instance = sw.Instance(logit, score, reward, base, **sink, groups=groups, exclusive=exclusive)
    return Case(instance, int(rng.integers(1, 6)), _constraints(rng, instance))


def _constraints(rng: np.random.Generator, instance: sw.Instance) -> dict[str, Any]:
    constraints: dict[str, Any] = {}
    shuffled = rng.permutation(instance.m)
    if rng.random() < 0.2:
        constraints["include"] = shuffled[:1]
    if rng.random() < 0.2 and instance.m > 2:
        constraints["exclude"] = shuffled[1:2]
    if rng.random() < 0.25:
        constraints["at_most"] = {"g": int(rng.integers(1, 3)), "h": int(rng.integers(1, 3))}
    return constraints
