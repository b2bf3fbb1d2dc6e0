"""The sets to measure next in the rounds of protein design: the covariance against its definition, the posterior, and the choice of the batch."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from next_sets import NOISE, PairPosterior, covariance, largest_expected_best, next_sets, similarity


def random_sets(rng: np.random.Generator, count: int, n: int, size: int) -> np.ndarray:
    """Sets of distinct items, some with empty places."""
    rows = np.array([rng.permutation(n)[:size] for _ in range(count)])
    rows[rng.random(rows.shape) < 0.15] = -1
    return rows


def covariance_by_definition(one: np.ndarray, two: np.ndarray, alike: np.ndarray) -> float:
    """Σ cov(b_i, b_j) + Σ cov(P_ii', P_jj') over the items and the pairs of both sets."""
    s, t = one[one >= 0], two[two >= 0]
    total = sum(alike[i, j] for i in s for j in t)
    for i, other in itertools.combinations(s, 2):
        for j, second in itertools.combinations(t, 2):
            total += alike[i, j] * alike[other, second] + alike[i, second] * alike[other, j]
    return float(total)


@pytest.mark.parametrize("seed", range(5))
def test_covariance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = random_sets(rng, 5, 7, 4), random_sets(rng, 6, 7, 4)
    alike = similarity(7, rng.normal(size=(7, 2)), rng.integers(3, size=7) if seed % 2 else None)
    expected = [[covariance_by_definition(s, t, alike) for t in two] for s in one]
    np.testing.assert_allclose(covariance(one, two, alike), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_is_that_of_a_gaussian_process(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, others, outcome = random_sets(rng, 12, 6, 3), random_sets(rng, 9, 6, 3), rng.normal(size=12)
    alike = similarity(6, rng.normal(size=(6, 2)))
    kernel = covariance(sets, sets, alike) + NOISE * np.eye(12)
    expected = outcome.mean() + covariance(others, sets, alike) @ np.linalg.solve(kernel, outcome - outcome.mean())
    np.testing.assert_allclose(PairPosterior(sets, outcome, alike).mean().values(others), expected, atol=1e-10)


def test_samples_have_the_mean_and_the_covariance_of_the_posterior() -> None:
    rng = np.random.default_rng(0)
    sets, others, outcome = random_sets(rng, 8, 6, 3), random_sets(rng, 4, 6, 3), rng.normal(size=8)
    alike = similarity(6, rng.normal(size=(6, 2)))
    posterior = PairPosterior(sets, outcome, alike)
    drawn = np.array([posterior.sample(rng).values(others) for _ in range(6000)])
    cross, kernel = covariance(others, sets, alike), covariance(sets, sets, alike) + NOISE * np.eye(8)
    residual = outcome - outcome.mean()
    variance = residual @ np.linalg.solve(kernel, residual) / 8
    expected = variance * (covariance(others, others, alike) - cross @ np.linalg.solve(kernel, cross.T))
    error = np.sqrt(expected.diagonal().max() / 6000)
    assert np.abs(drawn.mean(axis=0) - posterior.mean().values(others)).max() < 5 * error
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.1 * expected.diagonal().max())


@pytest.mark.parametrize("seed", range(20))
def test_the_greedy_batch_has_its_guarantee(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn, best = rng.normal(size=(9, 6)), 0.2

    def gain(rows: tuple[int, ...]) -> float:
        return float((np.maximum(drawn[list(rows)].max(axis=0), best) - best).mean())

    sets = np.arange(9)[:, None]
    chosen = tuple(largest_expected_best(drawn, drawn.mean(axis=1), sets, best, 3, 3))
    assert len(set(chosen)) == 3
    assert chosen[0] == max(range(9), key=lambda row: gain((row,)))
    for size in (1, 2):  # each further one adds most
        others = [row for row in range(9) if row not in chosen[:size]]
        assert gain(chosen[: size + 1]) == pytest.approx(max(gain((*chosen[:size], row)) for row in others))
    most = max(gain(rows) for rows in itertools.combinations(range(9), 3))
    assert gain(chosen) >= (1 - 1 / math.e) * most


def test_where_nothing_is_expected_to_improve_the_average_decides() -> None:
    average = np.array([0.1, 0.4, 0.3, 0.2])
    assert largest_expected_best(np.zeros((4, 5)), average, np.arange(4)[:, None], 1.0, 3, 3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("beaten", [-1.0, 9.0])
def test_no_item_is_in_too_many_sets_unless_nothing_else_is_left(beaten: float) -> None:
    """Item 0 is in the four best sets; two may have it, and it comes back when the others are used up."""
    sets = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [5, 6], [5, -1], [7, -1]])
    average = np.array([7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    drawn = np.diag(average)  # each sample has its own best set
    chosen = largest_expected_best(drawn, average, sets, beaten, 7, 2).tolist()
    assert chosen == [0, 1, 4, 5, 6, 2, 3]


def test_a_batch_finds_what_random_sets_do_not() -> None:
    """Four sites of six items; a pair is worth much, and measured sets show it."""
    variants = np.array(list(itertools.product(range(6), repeat=4))) + 6 * np.arange(4)
    rng = np.random.default_rng(3)
    single, pair = rng.normal(size=24), rng.normal(size=(24, 24))
    outcome = single[variants].sum(axis=1)
    for a, b in itertools.combinations(range(4), 2):
        outcome = outcome + pair[variants[:, a], variants[:, b]]
    seen = rng.permutation(len(variants))[:200]
    chosen = next_sets(variants[seen], outcome[seen], variants, 20, n_items=24)
    assert len(set(chosen)) == 20
    assert not set(chosen) & set(seen)
    assert outcome[chosen].max() > outcome[seen].max()
    assert outcome[chosen].max() > np.quantile(outcome, 0.995)
    assert np.unique(variants[chosen], return_counts=True)[1].max() <= 13  # two thirds of 20
    again = next_sets(variants[seen], outcome[seen], variants, 20, n_items=24)
    assert again.tolist() == chosen.tolist()


def test_measured_sets_are_not_chosen_again_in_another_order() -> None:
    rng = np.random.default_rng(5)
    sets = np.array([rng.permutation(30)[:2] for _ in range(12)])
    candidates = np.concatenate([sets[:, ::-1], [[0, 1], [1, 2]]])
    chosen = next_sets(sets, rng.normal(size=12), candidates, 2, n_items=30)
    assert sorted(chosen.tolist()) == [12, 13]
