"""At least one succeeds: the catalogue has the model's values, and the limits of ρ are coverage and top-k."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.preferences.at_least_one import AtLeastOne


def cases(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of 8 items on 40 cases, some without a success, and the weights of a user."""
    rng = np.random.default_rng(seed)
    outcomes = (rng.random((40, 8)) < 0.3).astype(float)
    outcomes[:3] = 0.0
    weights = rng.random(40) * (rng.random(40) < 0.6)
    return outcomes, weights / weights.sum()


@pytest.mark.parametrize("redundancy", [1e-3, 0.3, 1.0, 10.0])
def test_the_catalogue_has_the_values_of_the_model(redundancy: float) -> None:
    outcomes, weights = cases(0)
    model = AtLeastOne(outcomes, redundancy)
    catalog, user, instance = model.to_catalog(3), model.user(weights), model.instance(weights, 3)
    for items in itertools.combinations(range(8), 3):
        expected = pytest.approx(model.value(weights, items), rel=1e-9)
        assert sw.set_value(catalog, user, list(items)) == expected
        assert instance.value(list(items)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_without_redundancy_the_best_set_covers_most_cases(seed: int) -> None:
    outcomes, weights = cases(seed)
    model = AtLeastOne(outcomes, 1e-5)
    found = sw.rank(model.instance(weights, 3), 3)
    best = max(model.success(weights, items) for items in itertools.combinations(range(8), 3))
    assert model.success(weights, found.indices) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_with_much_redundancy_the_best_set_is_the_top_k(seed: int) -> None:
    outcomes, weights = cases(seed)
    found = sw.rank(AtLeastOne(outcomes, 1e6).instance(weights, 3), 3)
    assert set(found.indices.tolist()) == set(np.argsort(-(weights @ outcomes))[:3].tolist())


def test_items_that_fail_together_are_not_combined() -> None:
    outcomes = np.array([[1, 1, 0]] * 6 + [[0, 0, 1]] * 4, float)  # items 0 and 1 succeed on the same cases
    found = sw.rank(AtLeastOne(outcomes).instance(np.full(10, 0.1), 2), 2)
    assert 2 in found.indices.tolist()
    assert len(found.indices) == 2


@pytest.mark.parametrize(
    ("outcomes", "redundancy", "sentence"),
    [
        ([[0.5, 1.0]], 1.0, "outcomes must be 0 or 1"),
        ([[0.0, 0.0]], 1.0, "outcomes must be with a success"),
        ([[0.0, 1.0]], 0.0, "redundancy must be"),
        ([[0.0, 1.0]], 1e-9, "redundancy must be at least 1e-06"),
    ],
)
def test_models_that_are_refused(outcomes: list, redundancy: float, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        AtLeastOne(outcomes, redundancy)


@pytest.mark.parametrize(
    ("weights", "sentence"), [([1.0], "weights"), ([-1.0, 1.0], "at least 0"), ([1, 0], "positive")]
)
def test_weights_that_are_refused(weights: list, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        AtLeastOne([[0.0, 0.0], [0.0, 1.0]]).instance(weights, 1)
