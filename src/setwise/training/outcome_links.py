"""From the value F of a set to its outcome: links, and the losses of a predicted outcome.

link       loss         outcome
identity   squared      any number
softplus   squared      numbers of at least 0, most of them near 0: sets below the floor need not be separated
logistic   logistic     0 or 1, or a share
identity   ranking      only the order of outcomes counts: log(1 + e^−(F(S) − F(T))) over pairs of a batch

Every link is non-decreasing, so the set of the largest F has the largest predicted outcome.
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats
from setwise.errors import InvalidInput

LOSSES = {"identity": ("squared", "ranking"), "softplus": ("squared",), "logistic": ("logistic",)}
SKEW = 2.0  # outcomes of at least 0 whose mean is this many times their median are mostly near 0


def suggested_link(outcome: Floats) -> str:
    """The link logistic for outcomes of 0 and 1, softplus for numbers of at least 0, mostly near 0, else identity."""
    if np.isin(outcome, (0.0, 1.0)).all():
        return "logistic"
    skewed = outcome.min() >= 0 and outcome.mean() > SKEW * np.median(outcome)
    return "softplus" if skewed else "identity"


def linked(link: str, f: Floats) -> Floats:
    """The outcome of each F."""
    if link == "softplus":
        return np.logaddexp(0.0, f)
    return sigmoid(f) if link == "logistic" else f


def unlinked(link: str, mean: float) -> float:
    """The constant with which a model of no items predicts the mean outcome."""
    if link == "softplus":
        return math.log(math.expm1(max(mean, 1e-3)))
    if link == "logistic":
        share = min(max(mean, 1e-3), 1 - 1e-3)
        return math.log(share / (1 - share))
    return mean


def losses(link: str, loss: str, f: Floats, target: Floats) -> Floats:
    """The loss of each set; not for ranking, which is one of pairs of sets."""
    if loss == "logistic":
        return np.asarray(np.logaddexp(0.0, f) - target * f)
    return np.asarray((linked(link, f) - target) ** 2)


def slopes(link: str, loss: str, f: Floats, target: Floats) -> Floats:
    """The derivative of the loss of each set of a batch with respect to its F."""
    if loss == "logistic":
        return sigmoid(f) - target
    if loss == "ranking":
        better = np.sign(target[:, None] - target)
        pull = -better * sigmoid(-better * (f[:, None] - f))
        return np.asarray(pull.sum(axis=1) / max(len(f) - 1, 1))
    if link == "softplus":
        return 2 * (np.logaddexp(0.0, f) - target) * sigmoid(f)
    return 2 * (f - target)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^−x)."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def check_range(link: str, target: Floats) -> None:
    """Refuse outcomes that no F gives by this link."""
    low, high = {"softplus": (0.0, math.inf), "logistic": (0.0, 1.0)}.get(link, (-math.inf, math.inf))
    if target.min() < low or target.max() > high:
        todo = "transform the outcome, or use another link"
        raise InvalidInput("outcome", f"between {low:g} and {high:g}", f"{target.min():g} to {target.max():g}", todo)
