"""Random rewards of every registered family, for tests that run over the registry.

A family without a generator makes the import fail, so a new reward cannot be left out of the tests of the compiled
kernels and of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

import setwise as sw
from setwise.model.rewards import FAMILIES, Reward

Generator = np.random.Generator


def _scale(rng: Generator) -> float:
    """Up to 5, sometimes exactly 0."""
    return 0.0 if rng.random() < 0.05 else float(rng.uniform(0, 5))


def _bias(rng: Generator) -> float:
    return float(rng.uniform(-5, 5))


def _exp(rng: Generator) -> Reward:
    return sw.Exp(float(rng.uniform(0.01, 2) * rng.choice([-1, 1])), float(rng.uniform(-2, 2)))


def _piecewise(rng: Generator) -> Reward:
    count = int(rng.integers(2, 7))
    x = np.sort(rng.choice(101, size=count, replace=False) / 10 - 5)
    y = np.sort(np.round(rng.uniform(-5, 5, count), int(rng.integers(0, 4))))  # rounding makes level pieces
    return sw.PiecewiseLinear(tuple(x), tuple(y))


GENERATORS: dict[str, Callable[[Generator], Reward]] = {
    "Logistic": lambda rng: sw.Logistic(_scale(rng), _bias(rng)),
    "Linear": lambda rng: sw.Linear(_scale(rng), _bias(rng)),
    "ReLU": lambda rng: sw.ReLU(_scale(rng), _bias(rng)),
    "LeakyReLU": lambda rng: sw.LeakyReLU(_scale(rng), _bias(rng), float(rng.uniform(0, 3))),
    "Tanh": lambda rng: sw.Tanh(_scale(rng), _bias(rng)),
    "Softplus": lambda rng: sw.Softplus(_scale(rng), _bias(rng)),
    "Exp": _exp,
    "PiecewiseLinear": _piecewise,
    "Constant": lambda rng: sw.Constant(_bias(rng)),
}

if set(GENERATORS) != set(FAMILIES):
    raise AssertionError(f"write a generator for {sorted(set(FAMILIES) ^ set(GENERATORS))} in tests/reward_families.py")


def random_reward(family: str, rng: Generator) -> Reward:
    """A reward of this family with random parameters."""
    return GENERATORS[family](rng)


def random_rewards(rng: Generator, count: int) -> list[Reward]:
    """So many rewards of random families."""
    return [random_reward(str(rng.choice(list(FAMILIES))), rng) for _ in range(count)]


rewards = st.builds(
    lambda family, seed: random_reward(family, np.random.default_rng(seed)),
    st.sampled_from(list(FAMILIES)),
    st.integers(0, 10**6),
)
