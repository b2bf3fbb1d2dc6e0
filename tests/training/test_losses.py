"""The three losses against their formulas in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from setwise.training.losses import LOSSES, choice_loss, item_loss, set_loss

ARGUMENTS = arrays(np.float32, (4, 3), elements=st.floats(-8, 8, width=32))
OUTCOMES = arrays(np.float32, (4, 3), elements=st.sampled_from([0.0, 0.5, 1.0]))
LENGTHS = arrays(np.int64, 4, elements=st.integers(1, 3))


def logistic(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a.astype(np.float64)))


def masked(lengths: np.ndarray) -> np.ndarray:
    return np.arange(3) < lengths[:, None]


def of(loss, *parts: np.ndarray) -> float:
    return float(loss(*(torch.from_numpy(part) for part in parts)))


@given(ARGUMENTS, OUTCOMES, LENGTHS)
def test_item(argument: np.ndarray, outcome: np.ndarray, lengths: np.ndarray) -> None:
    shown = masked(lengths)
    p, y = logistic(argument)[shown], outcome[shown]
    expected = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    assert of(item_loss, argument, outcome, shown) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@given(ARGUMENTS, OUTCOMES, LENGTHS)
def test_set(argument: np.ndarray, outcome: np.ndarray, lengths: np.ndarray) -> None:
    shown = masked(lengths)
    p = np.array([logistic(row)[mask].mean() for row, mask in zip(argument, shown, strict=True)])
    y = np.array([row[mask].mean() for row, mask in zip(outcome, shown, strict=True)])
    expected = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    assert of(set_loss, argument, outcome, shown) == pytest.approx(expected, rel=1e-3, abs=1e-5)


@given(ARGUMENTS, OUTCOMES, LENGTHS)
def test_choice(argument: np.ndarray, outcome: np.ndarray, lengths: np.ndarray) -> None:
    shown, losses = masked(lengths), []
    for a, y, mask in zip(argument.astype(np.float64), outcome, shown, strict=True):
        if y[mask].sum() > 0:
            weight = np.exp(a[mask]) / np.exp(a[mask]).sum()
            losses.append(-(y[mask] / y[mask].sum() * np.log(weight)).sum())
    expected = np.mean(losses) if losses else 0.0
    assert of(choice_loss, argument, outcome, shown) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_arguments_and_padding_leave_gradients_finite(name: str) -> None:
    argument = torch.tensor([[1e4, -1e4, 7.0], [0.0, 3.0, -9.0]], requires_grad=True)
    outcome = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    shown = torch.tensor([[True, True, False], [True, True, False]])
    loss = LOSSES[name](argument, outcome, shown)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(argument.grad).all()
    assert not argument.grad[:, 2].any(), "padding has no gradient"


def test_slates_without_a_choice_have_no_loss() -> None:
    argument = torch.tensor([[1.0, 2.0]], requires_grad=True)
    loss = choice_loss(argument, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not argument.grad.any()
