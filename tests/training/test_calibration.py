"""Calibration: known parameters are recovered; the reward is increasing, finite and right on on-policy slates."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_networks import ITEMS, random_network

from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.base_terms import BaseTerms
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.neighbours import Neighbours
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training.calibration import LEAST_SCALE, fit_logistic, item_log_losses, reliability
from setwise.training.export import export_model
from setwise.training.network import Shape
from setwise.training.on_policy import optimised_slates
from setwise.training.slate_model import SlateModel


def draw_outcomes(reward: Logistic, argument: np.ndarray, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(len(argument)) < reward.value(argument)).astype(np.float32)


@pytest.mark.parametrize(("scale", "bias"), [(1.0, 0.0), (0.3, -1.5), (2.0, 1.0), (0.05, 0.2)])
def test_a_known_function_is_recovered(scale: float, bias: float) -> None:
    argument = np.random.default_rng(1).normal(0.5, 2.0, 200_000)
    fitted = fit_logistic(argument, draw_outcomes(Logistic(scale, bias), argument))
    assert fitted.scale == pytest.approx(scale, abs=0.03)
    assert fitted.bias == pytest.approx(bias, abs=0.03)


@given(st.integers(0, 10_000), st.floats(-5, 5), st.floats(0.01, 50), st.integers(1, 60))
def test_it_is_the_maximum_of_the_likelihood(seed: int, centre: float, spread: float, count: int) -> None:
    """No other increasing logistic is likelier for the outcomes with one hit and one miss added."""
    rng = np.random.default_rng(seed)
    argument, outcome = rng.normal(centre, spread, count), rng.integers(0, 2, count).astype(np.float32)
    fitted = fit_logistic(argument, outcome)
    assert fitted.scale >= LEAST_SCALE
    y = (outcome * count + (outcome.sum() + 1) / (count + 2)) / (count + 1)

    def loss(scale: float, bias: float) -> float:
        a = scale * argument + bias
        return float(np.sum(np.logaddexp(0, a) - y * a))

    best = loss(fitted.scale, fitted.bias)
    for step in (0.9, 0.999, 1.001, 1.1):
        if fitted.scale * step >= LEAST_SCALE:
            assert best <= loss(fitted.scale * step, fitted.bias) + 1e-6
    for step in (-0.1, -0.001, 0.001, 0.1):
        assert best <= loss(fitted.scale, fitted.bias + step) + 1e-6


def test_inversely_ordered_outcomes_give_an_increasing_function() -> None:
    argument = np.linspace(-3, 3, 400)
    fitted = fit_logistic(argument, (argument < 0).astype(np.float32))
    assert fitted.scale == LEAST_SCALE
    assert fitted.value(argument).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize(
    "argument", [np.linspace(-3, 3, 50), np.full(50, 2.5), np.array([7.0]), np.linspace(-1e4, 1e4, 50)]
)
def test_only_hits_or_only_misses_stay_finite(outcome: float, argument: np.ndarray) -> None:
    fitted = fit_logistic(argument, np.full(len(argument), outcome, np.float32))
    predicted = fitted.value(argument)
    assert np.isfinite([fitted.scale, fitted.bias]).all()
    assert fitted.scale >= LEAST_SCALE
    assert abs(predicted.mean() - outcome) < 1 / 3
    assert ((predicted > 0) & (predicted < 1)).all()


def test_perfectly_separated_outcomes_stay_finite() -> None:
    argument = np.linspace(-1, 1, 100)
    fitted = fit_logistic(argument, (argument > 0).astype(np.float32))
    assert 1 < fitted.scale < 1e6


def test_losses_of_certain_predictions_are_finite() -> None:
    certain = np.array([0.0, 1.0, 0.0, 1.0], np.float32)
    np.testing.assert_allclose(
        item_log_losses(certain, np.array([0.0, 1.0, 1.0, 0.0], np.float32)), [0, 0, 27.6, 27.6], atol=0.1
    )


def test_constant_arguments() -> None:
    argument = np.full(300, 0.1) + np.random.default_rng(0).choice([0, 1e-17], 300)
    outcome = np.arange(300) % 3 == 0
    fitted = fit_logistic(argument, outcome.astype(np.float32))
    assert fitted.value(argument).mean() == pytest.approx(1 / 3, abs=0.01)
    assert fitted.scale < 100, "rounding errors are not differences"


def test_predictions_are_right_on_on_policy_slates() -> None:
    """An overconfident model, its on-policy slates, and outcomes drawn from another function."""
    network = random_network(Shape(dim=4, heads=2, d_kq=2, d_v=3), n=ITEMS)
    model = export_model(network, range(ITEMS), {}).with_reward(Logistic(3.0, 2.0))
    rng = np.random.default_rng(0)
    history = Ragged.of(rng.integers(ITEMS, size=(400, 3)))
    shown = Ragged.of(optimised_slates(model.catalog(), model.users(history), list(history), 4))
    outcome = draw_outcomes(Logistic(0.5, -1.0), model.arguments(history, shown))
    slates = Slates(history, shown, outcome, range(ITEMS))
    better = model.calibrated(slates)
    assert model.predict(slates).mean() > outcome.mean() + 0.2
    assert better.predict(slates).mean() == pytest.approx(outcome.mean(), abs=0.005)
    assert better.reliability(slates, 5).error < model.reliability(slates, 5).error / 4
    assert better.summary["calibrated_on"] == 400


def test_fitting_without_items_is_refused() -> None:
    with pytest.raises(InvalidInput, match="slates must be with an item or more, got none"):
        fit_logistic(np.zeros(0), np.zeros(0))


# --- reliability ---


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 12))
def test_bins_partition_the_predictions_in_order(seed: int, count: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, observed = rng.random(count), rng.integers(0, 2, count).astype(np.float32)
    diagram = reliability(predicted, observed, bins)
    assert len(diagram.count) == min(bins, count)
    assert diagram.count.sum() == count
    assert diagram.count.max() - diagram.count.min() <= 1
    assert (np.diff(diagram.predicted) >= 0).all()
    assert np.average(diagram.predicted, weights=diagram.count) == pytest.approx(predicted.mean())
    assert np.average(diagram.observed, weights=diagram.count) == pytest.approx(observed.mean())
    assert 0 <= diagram.error <= 1


def test_a_diagram_as_rows() -> None:
    diagram = reliability(np.array([0.9, 0.1, 0.7, 0.3]), np.array([1, 0, 0, 1], np.float32), 2)
    assert diagram.rows() == [
        {"predicted": pytest.approx(0.2), "observed": 0.5, "count": 2},
        {"predicted": pytest.approx(0.8), "observed": 0.5, "count": 2},
    ]
    assert diagram.error == pytest.approx(0.3)


def test_diagrams_without_items_or_bins_are_refused() -> None:
    with pytest.raises(InvalidInput, match="slates must be with an item or more"):
        reliability(np.zeros(0), np.zeros(0))
    with pytest.raises(InvalidInput, match="bins must be a whole number"):
        reliability(np.ones(3), np.ones(3), 0)


@pytest.mark.nightly
@pytest.mark.parametrize("history", [[], [*range(30)]])
def test_the_users_of_a_long_log_are_not_in_memory_together(history: list[int]) -> None:
    """With or without a history, a user may have a score of each item: a log of 10^6 slates took 20 GB."""
    n, slates = 3000, 12_000
    rng = np.random.default_rng(0)
    catalog = Catalog(*rng.normal(size=(3, n, 1)), reward=Logistic())
    related = Neighbours(np.arange(0, 100 * n + 1, 100), np.tile(rng.permutation(n), 100), np.ones(100 * n, np.float32))
    terms = BaseTerms(neighbours=(related,), new_user=rng.normal(size=n))
    encoder = Encoder(rng.normal(size=(n, 2)), rng.normal(size=(1, 1, 2)), np.zeros((1, 1)), base_terms=terms)
    model, shown = SlateModel(catalog, encoder), Ragged.cut(rng.integers(n, size=2 * slates), np.full(slates, 2))
    tracemalloc.start()
    try:
        found = model.arguments(Ragged.of([history] * slates), shown)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * n * slates / 2
    few = np.arange(slates - 3, slates)
    np.testing.assert_allclose(found[-6:], model.arguments(Ragged.of([history] * 3), shown.taken(few)), rtol=1e-12)
