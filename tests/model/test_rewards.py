"""Every reward family: its values, that it never decreases, its Lipschitz constant, and the paper's g and h."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from reward_families import rewards
from setwise.errors import InvalidInput
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import FAMILIES, evaluate, from_spec, to_spec
from worlds import REWARDS

points, errors = st.floats(-20, 20), st.floats(0, 5)


@given(rewards, points, errors)
def test_never_decreases(f, x: float, step: float) -> None:
    assert f(x + step) >= f(x) - 1e-12 * abs(f(x))


@given(rewards, points, errors)
def test_lipschitz(f, x: float, step: float) -> None:
    assert abs(f(x + step) - f(x)) <= f.lipschitz * step + 1e-9 if math.isfinite(f.lipschitz) else True


@given(rewards, points, errors)
def test_the_inequality_of_g_and_h(f, x: float, eps: float) -> None:
    g, h = f.g(eps), f.h(eps)
    assert 0 <= g <= 1
    assert h >= 0
    assert f(x - eps) >= (1 - g) * f(x) - h - 1e-9 * (1 + abs(f(x)))


@given(rewards, points, points)
def test_shifted(f, x: float, c: float) -> None:
    assert f.shifted(c)(x) == pytest.approx(
        f(x + c), rel=1e-7, abs=1e-7 * (1 + f.lipschitz if f.lipschitz < 1e6 else 1)
    )


@given(rewards)
def test_equality_by_value_and_specification(f) -> None:
    twin = from_spec(to_spec(f))
    assert twin == f
    assert hash(twin) == hash(f)
    assert type(twin) is type(f)


def test_lipschitz_constants_are_attained() -> None:
    x = np.linspace(-30, 30, 600_001)
    for f in REWARDS:
        if math.isfinite(f.lipschitz):
            steepest = np.max(np.diff(f(x)) / np.diff(x))
            assert steepest == pytest.approx(f.lipschitz, rel=1e-3)


def test_known_values() -> None:
    assert sw.Logistic()(0.0) == 0.5
    assert sw.Logistic()(-745.0) == pytest.approx(math.exp(-745.0), rel=1e-6)
    assert sw.Logistic()(-1e6) == 0.0
    assert sw.Linear(2, 1)(3) == 7
    assert sw.ReLU()(-1) == 0
    assert sw.LeakyReLU(slope=0.1)(-2) == pytest.approx(-0.2)
    assert sw.Tanh()(0) == 0
    assert sw.Softplus()(0) == pytest.approx(math.log(2))
    assert sw.Softplus()(1e6) == 1e6
    assert sw.Exp()(1) == pytest.approx(math.e)
    assert sw.Exp(-1)(1) == pytest.approx(-1 / math.e)
    assert sw.Exp()(1e6) == math.inf
    np.testing.assert_array_equal(sw.PiecewiseLinear((0, 1), (0, 2))([-1, 0.5, 3]), [0, 1, 2])
    np.testing.assert_array_equal(sw.Constant(3)([[1, 2]]), [[3, 3]])


def test_g_and_h_of_the_exponentials() -> None:
    assert sw.Exp(2).g(0.5) == pytest.approx(1 - math.exp(-1))
    assert sw.Exp(2).h(0.5) == 0
    assert sw.Exp(-2).h(0.5) == math.inf
    assert sw.Exp(-2).h(0.0) == 0
    assert sw.Logistic(2).h(0.1) == pytest.approx(0.05)


def test_evaluate_by_class() -> None:
    x = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    out = evaluate((sw.Linear(), sw.Constant(7)), np.array([0, 1, 0]), x)
    np.testing.assert_array_equal(out, [[0, 7, 2], [3, 7, 5]])


def test_the_examples_of_worlds_cover_every_family() -> None:
    assert {type(reward) for reward in REWARDS} == set(FAMILIES.values())


def test_codes_are_distinct_and_stored_in_the_table() -> None:
    assert sorted(family.code for family in FAMILIES.values()) == list(range(len(FAMILIES)))
    table = RewardTable.of(REWARDS)
    assert table.knot.shape == (4, 2)
    assert table.parameter[3].tolist() == [0.9, -0.1, 0.2]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: sw.Logistic(scale=-1),
            "scale must be at least 0, because a reward must not decrease, got -1.0; put the sign into the values.",
        ),
        (lambda: sw.Logistic(scale=math.nan), "scale must be a finite number, got nan; remove NaN and infinity before calling."),
        (lambda: sw.Linear(bias="x"), "bias must be a finite number, got 'x'; pass a plain float."),
        (lambda: sw.LeakyReLU(slope=-1), "slope must be at least 0, because a reward must not decrease, got -1.0; use 0 for ReLU."),
        (lambda: sw.Logistic(scale=True), "scale must be a finite number, got True; pass a plain float."),
        (lambda: sw.Logistic(scale="1.5"), "scale must be a finite number, got '1.5'; pass a plain float."),
        (lambda: sw.Linear().h(-1.0), "eps must be at least 0, got -1.0; pass the size of the error."),
        (lambda: sw.Exp().g(-5.0), "eps must be at least 0, got -5.0; pass the size of the error."),
        (lambda: sw.Exp(0), "scale must be different from 0, got 0.0; use Constant for a reward that does not change."),
        (
            lambda: sw.PiecewiseLinear((0, 1), (1, 0)),
            "y must be non-decreasing, because a reward must not decrease, got [1, 0]; put the sign into the values.",
        ),
        (lambda: sw.PiecewiseLinear((1, 1), (0, 1)), "x must be strictly increasing, got [1, 1]; sort the knots and drop repeated ones."),
        (
            lambda: sw.PiecewiseLinear((1,), (0,)),
            "x and y must be two lists of equal length, at least 2, got 1 and 1 numbers; pair the knots.",
        ),
        (lambda: from_spec(["Exp"]), "spec must be a mapping with the key 'family', got list; correct the specification."),
        (lambda: from_spec({"family": ["Exp"]}), f"family must be one of {', '.join(FAMILIES)}, got ['Exp']; correct the specification."),
        (lambda: from_spec({"family": "Cubic"}), f"family must be one of {', '.join(FAMILIES)}, got 'Cubic'; correct the specification."),
        (lambda: from_spec({"family": "Exp", "x": 1}), "spec must be the parameters of Exp, got ['x']; correct the specification."),
    ],
)  # fmt: skip
def test_errors(make, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == sentence
