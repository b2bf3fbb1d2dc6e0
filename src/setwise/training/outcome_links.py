"""From the value F of a set to its outcome: links, and the losses of a predicted outcome.

link       loss         outcome
identity   squared      any number
softplus   squared      numbers of at least 0, most of them near 0: sets below the floor need not be separated
logistic   logistic     0 or 1, or a share
identity   ranking      only the order of outcomes counts: log(1 + e^−(F(S) − F(T))) over pairs of a batch

Every link is non-decreasing, so the set of the largest F has the largest predicted outcome.

**Knee.** On a log scale, effects may multiply below some outcome κ and only add up above it. The link softplus with a
knee κ is

    y = log(1 + e^κ softplus(F − κ))  ≈  0 for F ≪ 0,  F for 0 ≪ F ≪ κ,  κ + log(1 + F − κ) for F ≫ κ,

and the softplus of F itself for κ = ∞.

**Unit.** Steps and first parameters of a fit are of size 1, so outcomes are divided by a unit: with the link identity,
which is linear, by their standard deviation, and F is multiplied by it afterwards. The link softplus is curved near 0,
and outcomes in another unit are another model: theirs is a power of 1,000, 1 for means from 0.03 to 30.

**Emphasis.** Who looks for the best set does not need to know how bad the bad ones are. With an emphasis ε the loss of
the set of rank r (0 the best) of N counts as much as

    w_r  ∝  1 / (ε N + r + 1),        mean of w = 1,

so that the best ε N sets have about log 2 / log(1 + 1/ε) of all weight, 15 % for ε = 0.01. Ranks do not change with the
scale of the outcome. (Tripp, Daxberger and Hernández-Lobato, 2020, weight the data of generative models in this way.)
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats
from setwise.errors import InvalidInput

LOSSES = {"identity": ("squared", "ranking"), "softplus": ("squared",), "logistic": ("logistic",)}
HIGHEST_KNEE = 50.0  # e^50 is far from overflow
CURVED_UNIT = 1000.0  # units of the link softplus are its powers
SKEW = 2.0  # outcomes of at least 0 whose mean is this many times their median are mostly near 0


def suggested_link(outcome: Floats) -> str:
    """The link logistic for outcomes of 0 and 1, softplus for numbers of at least 0, mostly near 0, else identity."""
    if np.isin(outcome, (0.0, 1.0)).all():
        return "logistic"
    skewed = outcome.min() >= 0 and outcome.mean() > SKEW * np.median(outcome)
    return "softplus" if skewed else "identity"


def outcome_unit(link: str, outcome: Floats, knee: float = math.inf) -> float:
    """By what outcomes are divided for a fit; a knee is an outcome on a log scale, which has no unit."""
    if link == "identity":
        return float(outcome.std()) or 1.0
    mean = float(outcome.mean())
    if link != "softplus" or knee != math.inf or not mean:
        return 1.0
    return float(CURVED_UNIT ** round(math.log(mean, CURVED_UNIT)))


def linked(link: str, f: Floats, knee: float = math.inf) -> Floats:
    """The outcome of each F."""
    if link == "softplus":
        return _softplus(f, knee)[0]
    return sigmoid(f) if link == "logistic" else f


def unlinked(link: str, mean: float) -> float:
    """The constant with which a model of no items predicts the mean outcome."""
    if link == "softplus":
        floored = max(mean, 1e-3)
        return floored + math.log(-math.expm1(-floored))  # log(e^mean − 1), for outcomes of any size
    if link == "logistic":
        share = min(max(mean, 1e-3), 1 - 1e-3)
        return math.log(share / (1 - share))
    return mean


def losses(link: str, loss: str, f: Floats, target: Floats, knee: float = math.inf) -> Floats:
    """The loss of each set; not for ranking, which is one of pairs of sets."""
    if loss == "logistic":
        return np.asarray(np.logaddexp(0.0, f) - target * f)
    return np.asarray((linked(link, f, knee) - target) ** 2)


def slopes(link: str, loss: str, f: Floats, target: Floats, knee: float = math.inf) -> Floats:
    """The derivative of the loss of each set of a batch with respect to its F."""
    if loss == "logistic":
        return sigmoid(f) - target
    if loss == "ranking":
        better = np.sign(target[:, None] - target)
        pull = -better * sigmoid(-better * (f[:, None] - f))
        return np.asarray(pull.sum(axis=1) / max(len(f) - 1, 1))
    if link == "softplus":
        y, rise = _softplus(f, knee)
        return 2 * (y - target) * rise
    return 2 * (f - target)


def losses_and_slopes(link: str, loss: str, f: Floats, target: Floats, knee: float = math.inf) -> tuple[Floats, Floats]:
    """``losses`` and ``slopes`` at once; for softplus, whose logarithms cost most of a fit, they share the link."""
    if link != "softplus":
        return losses(link, loss, f, target, knee), slopes(link, loss, f, target, knee)
    y, rise = _softplus(f, knee)
    error = y - target
    return error**2, 2 * error * rise


def _softplus(f: Floats, knee: float) -> tuple[Floats, Floats]:
    """The link softplus and its derivative; with s = softplus(x), e^(x − s) is the sigmoid of x."""
    x = f if knee == math.inf else f - knee
    s = np.logaddexp(0.0, x)
    rise = np.exp(x - s)
    if knee == math.inf:
        return s, rise
    scaled = math.exp(knee) * s
    return np.log1p(scaled), rise * (math.exp(knee) / (1 + scaled))


def set_weights(outcome: Floats, emphasis: float | None) -> Floats:
    """The weight of each set's loss: 1 without an emphasis. Equal outcomes have the mean of their weights."""
    count = len(outcome)
    if emphasis is None:
        return np.ones(count)
    if not (isinstance(emphasis, (int, float)) and 0 < emphasis < math.inf):
        raise InvalidInput("emphasis", "a number above 0, such as 0.01", repr(emphasis), "choose one, or leave it out")
    by_rank = 1 / (emphasis * count + np.arange(count) + 1)
    _, label, copies = np.unique(-outcome, return_inverse=True, return_counts=True)
    ends = np.cumsum(copies)
    shared = np.add.reduceat(by_rank, ends - copies) / copies
    return np.asarray(shared[label] / by_rank.mean())


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^−x)."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def checked_knee(link: str, knee: float | None) -> float:
    """The knee as a number, ∞ for none."""
    if knee is None:
        return math.inf
    if link != "softplus" or not (isinstance(knee, (int, float)) and 0 < knee <= HIGHEST_KNEE):
        must, todo = f"above 0 and at most {HIGHEST_KNEE:g}, with the link softplus", "choose one, or leave it out"
        raise InvalidInput("knee", must, f"{knee!r} with the link {link}", todo)
    return float(knee)


def check_range(link: str, target: Floats) -> None:
    """Refuse outcomes that no F gives by this link."""
    low, high = {"softplus": (0.0, math.inf), "logistic": (0.0, 1.0)}.get(link, (-math.inf, math.inf))
    if target.min() < low or target.max() > high:
        todo = "transform the outcome, or use another link"
        raise InvalidInput("outcome", f"between {low:g} and {high:g}", f"{target.min():g} to {target.max():g}", todo)
