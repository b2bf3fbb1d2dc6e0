"""Scores of any recommender on the scale of log-odds, so that a penalty for similar items means the same for all.

Factor models, neighbours and neural networks score in units of their own: 0.02 may be the whole difference between the
best item and the hundredth. ``scaled`` maps scores s to arguments, in the same order:

    "auto"       (s_i − c) / τ, with c the k-th largest score and τ how much the k largest scores exceed the next k on
                 average: one unit is the difference between the items that are shown by score and those that just miss
    "log-odds"   s_i as it is
    outcomes     α s_i + β, fitted by logistic regression to past scores and their outcomes (Platt)

``given_up`` compares a chosen set with the best scores: the k best exceed k average candidates by an advantage, and the
share of it that the chosen set lacks depends neither on the scale nor on the zero of the scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import real_array
from setwise.errors import InvalidInput

SCALES = ("auto", "log-odds")
_STEPS = 100  # of Newton's method
_RIDGE = 1e-6  # keeps the fit finite where scores separate the outcomes


def scaled(scores: Floats, k: int, scale: str, outcomes: tuple[ArrayLike, ArrayLike] | None) -> Floats:
    """The scores as arguments; the module's docstring lists the ways."""
    if scale not in SCALES:
        raise InvalidInput("scale", f"one of {', '.join(SCALES)}", repr(scale), "choose one of those")
    if outcomes is not None:
        slope, offset = fitted(outcomes)
        return np.asarray(slope * scores + offset)
    if scale == "log-odds" or not len(scores):
        return scores
    order = np.sort(scores)[::-1]
    shown, missed = order[:k], order[k : 2 * k]
    unit = shown.sum() / len(shown) - missed.sum() / len(missed) if len(missed) else 0.0
    unit = unit or order.std() or 1.0
    return np.asarray((scores - shown[-1]) / unit)


def fitted(outcomes: tuple[ArrayLike, ArrayLike]) -> tuple[float, float]:
    """Slope and offset that map past scores to the log-odds of their outcomes, by logistic regression."""
    if not isinstance(outcomes, tuple) or len(outcomes) != 2:
        raise InvalidInput("outcomes", "a pair (past scores, past outcomes)", type(outcomes).__name__, "pass both")
    past = real_array("past scores", outcomes[0], ("n",), np.float64)
    hit = real_array("past outcomes", np.asarray(outcomes[1], np.float64), (len(past),), np.float64)
    if not len(past) or hit.min() < 0 or hit.max() > 1 or hit.min() == hit.max() or past.min() == past.max():
        must = "scores that differ, with some outcomes of 0 and some of 1"
        raise InvalidInput("outcomes", must, "others", "pass more of the past, or leave outcomes out")
    centre, spread = past.mean(), past.std()
    design = np.stack([(past - centre) / spread, np.ones(len(past))], axis=1)
    slope, offset = logistic_regression(design, hit)
    if slope <= 0:
        got = "outcomes that fall with it"
        raise InvalidInput("past scores", "higher where outcomes are better", got, "check the sign of the scores")
    return float(slope / spread), float(offset - slope * centre / spread)


def logistic_regression(design: Floats, hit: Floats) -> NDArray[np.float64]:
    """Maximum likelihood by Newton's method with halved steps; weights (2,)."""
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (hit - chance) - _RIDGE * len(hit) * weights
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + _RIDGE * len(hit) * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights + step * min(1.0, 5.0 / max(np.abs(step).max(), 1e-12))  # far steps may not converge
        if np.abs(step).max() < 1e-10:
            break
    return weights


def given_up(scores: Floats, chosen: NDArray[np.intp], best: NDArray[np.intp]) -> float:
    """The share of the best set's advantage over average candidates that the chosen set lacks."""
    mean, of_best = scores.sum() / len(scores), scores[best].sum()
    advantage = float(of_best - len(best) * mean)
    missing = float(of_best - scores[chosen].sum() - (len(best) - len(chosen)) * mean)
    return missing / advantage if advantage > 0 else 0.0
