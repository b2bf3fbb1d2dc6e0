"""Corollary "rank partition": from δ to W', with γ and the rank within what is promised in advance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proofs.nonnegative_rank import average_error, row_stochastic
from proofs.rank_partition import rank_partition

from counts import examples


@examples(60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0.05, 4.0), st.booleans())
def test_gamma_and_rank_keep_their_promise(seed: int, d: int, delta: float, share_keys: bool) -> None:
    rng = np.random.default_rng(seed)
    query, key = rng.normal(size=(2, 25, d)) * rng.uniform(0.1, 1.5)
    made = rank_partition(query, key, delta, share_keys=share_keys)
    ratio = row_stochastic(query @ key.T) / made.surrogate.weight
    assert np.abs(ratio - 1).max() <= made.most_gamma + 1e-9
    assert made.surrogate.rank == made.cell_of.max() + 1 <= min(25, made.most_rank)
    assert np.linalg.matrix_rank(made.surrogate.weight) <= made.surrogate.rank
    longest = max(np.linalg.norm(query, axis=1).max(), np.linalg.norm(key, axis=1).max())
    assert made.most_gamma <= 17 * delta * longest, "the paper's γ"


def test_the_error_of_an_average_is_attained() -> None:
    """Two columns of odds 1 : √ω and √ω : 1, ω = (1 + γ)/(1 − γ): the average of scores 0 and 1 moves by all of it."""
    for gamma in (0.1, 0.6, 0.99):
        root = np.sqrt((1 + gamma) / (1 - gamma))
        moved = root / (1 + root) - 1 / (1 + root)
        assert average_error(gamma) == pytest.approx(moved)
        assert average_error(gamma) < 2 * gamma, "the paper's 2γ"
    assert average_error(0.6) == pytest.approx(1 / 3)
    assert average_error(1.0) == 1.0


@examples(100)
@given(st.integers(0, 10**6), st.floats(0.01, 0.95))
def test_no_average_moves_further(seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    weight, score = rng.random(6) + 0.01, rng.random(6)
    other = weight / rng.choice([1 - gamma, 1 + gamma], 6)
    moved = abs(weight @ score / weight.sum() - other @ score / other.sum())
    assert moved <= average_error(gamma) + 1e-12
