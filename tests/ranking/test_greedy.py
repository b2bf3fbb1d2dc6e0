"""Greedy does what its definition says, for logits of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from worlds import REWARDS, random_instance


def greedy_by_the_judge(instance: sw.Instance, k: int) -> float:
    """Grow by the best newcomer, every value taken from the judge; the best set passed."""
    chosen: list[int] = []
    passed = []
    for _ in range(k):
        others = [c for c in range(instance.m) if c not in chosen]
        values = [instance.value([*chosen, c]) for c in others]
        chosen.append(others[int(np.argmax(values))])
        passed.append(max(values))
    return max(passed)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.sampled_from([0.5, 5.0, 500.0, 5000.0]))
def test_the_same_as_a_greedy_that_asks_the_judge(seed: int, heads: int, sink: bool, sharpness: float) -> None:
    instance = random_instance(seed, n=7, heads=heads, sink=sink, sharpness=sharpness, rewards=REWARDS[:6])
    assert sw.rank(instance, 4, "greedy").value == pytest.approx(greedy_by_the_judge(instance, 4), rel=1e-9)


def test_rows_without_weight() -> None:
    weight = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    instance = sw.Instance.from_weights(weight, [1.0, 2.0, -4.0], reward=sw.Linear())
    assert sw.rank(instance, 3, "greedy").value == pytest.approx(greedy_by_the_judge(instance, 3))
