"""Calibration: after it, F(S) is the number of hits that people really make on slates like S.

A model is right on average over what it was trained on, and wrong where an optimiser goes: it picks the items and the
company whose worth was overrated. So the reward is fitted once more on slates that the optimiser itself chose, with
their outcomes: f(a) = logistic(scale · a + bias), two numbers by maximum likelihood, scale > 0 so that f increases.
As another f changes which slates are chosen, one repeats: choose, observe, fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise._validation import whole_number
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.rewards import Logistic

if TYPE_CHECKING:
    from setwise.training.simple_transformer import SimpleTransformer

LEAST_SCALE = 1e-3  # a flatter f would say nothing; it must increase
_STEPS = 100


def calibrated(model: SimpleTransformer, slates: Slates) -> SimpleTransformer:
    """``model`` with the logistic reward that makes these outcomes most likely."""
    reward = fitted_logistic(model.arguments(slates.history, slates.shown), slates.outcome)
    return model.rewarded(reward, {"calibrated_on": len(slates)})


def fitted_logistic(argument: Floats, outcome: NDArray[np.floating]) -> Logistic:
    """The increasing logistic function of greatest likelihood (Newton's method on two numbers, step halved if worse).

    Outcomes are drawn slightly towards their mean, as if one hit and one miss more had been seen: with all hits or all
    misses the likelihood has no maximum otherwise.
    """
    if not len(argument):
        raise InvalidInput("slates", "with an item or more", "none", "show some slates first")
    hits = float(np.sum(outcome))
    y = (np.asarray(outcome, np.float64) * len(argument) + (hits + 1) / (len(argument) + 2)) / (len(argument) + 1)
    mean, centre, spread = float(y.mean()), float(argument.mean()), float(argument.std())
    if spread <= 1e-9 * (1 + abs(centre)):  # all alike up to rounding: there is nothing to tell hits by
        return Logistic(1.0, _matching_bias(argument, mean))
    x = np.column_stack([(argument - centre) / spread, np.ones(len(argument))])
    theta = np.array([0.0, np.log(mean / (1 - mean))])  # where no p is near 0 or 1: Newton's method starts well
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
    if scale < LEAST_SCALE:  # arguments that order outcomes the wrong way round: keep f increasing, match the mean
        scale = LEAST_SCALE
        return Logistic(scale, _matching_bias(scale * argument, mean))
    return Logistic(float(scale), float(theta[1] - theta[0] * centre / spread))


def _matching_bias(argument: Floats, mean: float) -> float:
    """The bias with which the logistic function of ``argument`` has this mean: bisection."""
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


def log_loss(promised: Floats, outcome: NDArray[np.floating]) -> float:
    """The mean −log likelihood of the outcomes, item by item."""
    p = np.clip(promised, 1e-12, 1 - 1e-12)
    return float(-np.mean(outcome * np.log(p) + (1 - outcome) * np.log(1 - p)))


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram: in each bin of promises, their mean, what came of them, and how many there were."""

    promised: Floats
    observed: Floats
    count: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The expected calibration error: |promised − observed|, weighted by count."""
        return float(np.average(np.abs(self.promised - self.observed), weights=self.count))

    def rows(self) -> list[dict[str, Any]]:
        """The diagram as plain rows."""
        return [
            {"promised": float(p), "observed": float(o), "count": int(c)}
            for p, o, c in zip(self.promised, self.observed, self.count, strict=True)
        ]


def reliability(promised: Floats, observed: NDArray[np.floating], bins: int = 10) -> Reliability:
    """Bins of equal count, in the order of the promises; fewer where there are fewer items."""
    if not len(promised):
        raise InvalidInput("slates", "with an item or more", "none", "show some slates first")
    order = np.argsort(promised, kind="stable")
    parts = np.array_split(order, min(whole_number("bins", bins), len(order)))
    return Reliability(
        np.array([promised[part].mean() for part in parts]),
        np.array([np.mean(observed[part], dtype=np.float64) for part in parts]),
        np.array([len(part) for part in parts]),
    )
