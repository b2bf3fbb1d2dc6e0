"""The table of what each item does to each other: recovered from slates, and exported as attention without loss."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.datasets import Restaurant, Slates
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training import SimpleTransformer
from setwise.training.pair_table import fit_pair_table
from setwise.training.slate_model import SlateModel


def _indifferent(n: int) -> SlateModel:
    """A pointwise model with the same argument, −1, for every item and user."""
    zero = np.zeros((n, 1, 1))
    catalog = Catalog(zero, zero, zero, Logistic(), base=np.ones((n, 1)), ids=[f"item {i}" for i in range(n)])
    return SlateModel(
        catalog, Encoder(np.zeros((n, 2)), np.zeros((1, 1, 2)), np.zeros((1, 1)), np.zeros((1, 2)), [-1.0])
    )


def _slates(effect: np.ndarray, slates: int, k: int, rng: np.random.Generator) -> Slates:
    """Random slates whose items are liked with probability σ(−1 + Σ_j H_ij)."""
    n = len(effect)
    shown = np.argsort(rng.random((slates, n)), axis=1)[:, :k]
    argument = effect[shown[:, :, None], shown[:, None]].sum(axis=2) - 1
    outcome = rng.random(shown.shape) < 1 / (1 + np.exp(-argument))
    history = Ragged.of(np.zeros((slates, 1), int))
    return Slates(history, Ragged.of(shown), outcome.ravel().astype(np.float32), [f"item {i}" for i in range(n)])


def _learned_effect(model: SlateModel) -> np.ndarray:
    """H_ij as the argument of i in {i, j} less that of i alone."""
    n = len(model.catalog())
    nobody = Ragged.of(np.zeros((n * n, 0), int))
    pairs = [[i, j] if i != j else [i] for i in range(n) for j in range(n)]
    shown = Ragged.of(pairs)
    first = model.arguments(nobody, shown)[shown.offsets[:-1]].reshape(n, n)
    return first - np.diag(first)[:, None]


def test_planted_effects_are_recovered() -> None:
    rng = np.random.default_rng(0)
    effect = np.zeros((10, 10))
    effect[1, 2], effect[2, 1], effect[3, 4], effect[7, 5] = 2.0, -1.5, 1.5, 2.5
    model = fit_pair_table(_indifferent(10), _slates(effect, 6000, 4, rng), _slates(effect, 1500, 4, rng))
    learned = _learned_effect(model)
    assert np.abs(learned - effect).max() < 0.35
    assert np.count_nonzero(np.abs(learned) > 0.05) < 25  # most of the 86 pairs without effect have none


def test_without_effects_nearly_nothing_is_learned() -> None:
    rng = np.random.default_rng(1)
    nothing = np.zeros((8, 8))
    model = fit_pair_table(_indifferent(8), _slates(nothing, 3000, 3, rng), _slates(nothing, 1000, 3, rng))
    assert np.abs(_learned_effect(model)).max() < 0.3


def test_slates_of_different_lengths() -> None:
    """Only pairs that were shown together get an effect."""
    rng = np.random.default_rng(2)
    shown = [rng.permutation(3)[: rng.integers(1, 4)].tolist() for _ in range(400)] + [[3]] * 50
    outcome = np.array([float(i == 0) for slate in shown for i in slate], np.float32)
    slates = Slates(Ragged.of([[]] * 450), Ragged.of(shown), outcome, ["a", "b", "c", "d"])
    learned = _learned_effect(fit_pair_table(_indifferent(4), slates, slates))
    assert max(np.abs(learned[3]).max(), np.abs(learned[:, 3]).max()) < 1e-5


@pytest.mark.nightly
def test_training_keeps_the_table_where_it_is_best() -> None:
    restaurant = Restaurant.make(16, n_users=5, seed=3)
    model = SimpleTransformer.fit(restaurant.log(6000, 5, greed=3.0), dim=6, heads=2, epochs=4, batch=64)
    summary = model.summary
    assert summary["kept"] == min(summary["log_loss"], key=summary["log_loss"].get) == "pair_table"
    gain = summary["gain_of_pair_table"]
    assert gain["log_loss"] == pytest.approx(summary["log_loss"]["pointwise"] - summary["log_loss"]["pair_table"])
    assert gain["log_loss"] > 2 * gain["standard_error"] > 0
    learned = _learned_effect(model)
    assert np.corrcoef(learned.ravel(), restaurant.effect.ravel())[0, 1] > 0.7
