"""Calibration: make F(S) the expected number of hits on slates like S.

A model is right on average over its training data, and wrong on the slates that an optimiser selects, because the
optimiser prefers items and combinations whose value is overestimated. The reward is therefore fitted again on slates
that the optimiser chose, with their outcomes: f(a) = logistic(scale · a + bias), two parameters by maximum likelihood,
scale > 0 so that f increases. Another f changes which slates are chosen, so the steps are repeated: choose, observe,
fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Ints
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.rewards import Logistic

LEAST_SCALE = 1e-3  # f must increase
_STEPS = 100


def fit_logistic(argument: Floats, outcome: NDArray[np.floating]) -> Logistic:
    """The increasing logistic function of maximum likelihood: damped Newton's method on two parameters.

    Outcomes are shrunk slightly towards their mean, as if one more hit and one more miss had been observed. Without
    this the likelihood has no maximum when all outcomes are hits or all are misses.
    """
    if not len(argument):
        raise InvalidInput("slates", "with an item or more", "none", "pass slates with outcomes")
    hits = float(np.sum(outcome))
    y = (np.asarray(outcome, np.float64) * len(argument) + (hits + 1) / (len(argument) + 2)) / (len(argument) + 1)
    mean, centre, spread = float(y.mean()), float(argument.mean()), float(argument.std())
    if spread <= 1e-9 * (1 + abs(centre)):  # constant up to rounding: only the bias can be fitted
        return Logistic(1.0, _matching_bias(argument, mean))
    x = np.column_stack([(argument - centre) / spread, np.ones(len(argument))])
    theta = np.array([0.0, np.log(mean / (1 - mean))])  # no p is near 0 or 1, so Newton's method converges
    loss = _loss(theta, x, y)
    for _ in range(_STEPS):
        p = _logistic(x @ theta)
        gradient = x.T @ (p - y)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-9 * len(x) * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while (better := _loss(theta - step, x, y)) > loss and np.abs(step).max() > 1e-12:
            step /= 2
        if np.abs(step).max() <= 1e-12 or better > loss:
            break
        theta, loss = theta - step, better
    scale = theta[0] / spread
    if scale < LEAST_SCALE:  # arguments that order outcomes inversely: keep f increasing and match the mean
        scale = LEAST_SCALE
        return Logistic(scale, _matching_bias(scale * argument, mean))
    return Logistic(float(scale), float(theta[1] - theta[0] * centre / spread))


def _matching_bias(argument: Floats, mean: float) -> float:
    """The bias for which the mean of logistic(argument + bias) is ``mean``, by bisection."""
    low, high = -100.0 - float(argument.max()), 100.0 - float(argument.min())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _logistic(argument + middle).mean() < mean else (low, middle)
    return (low + high) / 2


def _logistic(x: Floats) -> Floats:
    return np.asarray(Logistic().value(x))


def _loss(theta: Floats, x: Floats, y: Floats) -> float:
    a = x @ theta
    return float(np.sum(np.logaddexp(0, a) - y * a))


def log_loss(predicted: Floats, outcome: NDArray[np.floating]) -> float:
    """The mean −log likelihood of the outcomes over the items."""
    return float(item_log_losses(predicted, outcome).mean())


def item_log_losses(predicted: Floats, outcome: NDArray[np.floating]) -> Floats:
    """−log likelihood of the outcome of each item."""
    p = np.clip(np.asarray(predicted, np.float64), 1e-12, 1 - 1e-12)  # in float32 the upper end would be 1
    return np.asarray(-(outcome * np.log(p) + (1 - outcome) * np.log(1 - p)))


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram: for each bin the mean prediction, the mean outcome and the number of items."""

    predicted: Floats
    observed: Floats
    count: Ints

    @property
    def error(self) -> float:
        """The expected calibration error: |predicted − observed|, weighted by count."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.count))

    def rows(self) -> list[dict[str, Any]]:
        """The diagram as plain rows."""
        return [
            {"predicted": float(p), "observed": float(o), "count": int(c)}
            for p, o, c in zip(self.predicted, self.observed, self.count, strict=True)
        ]


def reliability(predicted: Floats, observed: NDArray[np.floating], bins: int = 10) -> Reliability:
    """A diagram of ``bins`` bins of equal count by prediction; fewer bins where there are fewer items."""
    if not len(predicted):
        raise InvalidInput("slates", "with an item or more", "none", "pass slates with outcomes")
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, min(whole_number("bins", bins), len(order)))
    return Reliability(
        np.array([predicted[part].mean() for part in parts]),
        np.array([np.mean(observed[part], dtype=np.float64) for part in parts]),
        np.array([len(part) for part in parts]),
    )
