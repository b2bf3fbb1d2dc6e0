"""The blend: a weighted sum of base models, with weights that are chosen on held-out sessions.

    score_i = Σ_m w_m · score_i^m

Each model first has its own settings. The weights are then chosen one at a time, over a few multiples of the inverse
spread of each model's scores, as long as the held-out hits increase. Only the items that one of the models places among
its best take part: no other item can enter a slate.

The measure is the number of hits with ranks down to four times the slate (``smoothed_hits``): with a few hundred
sessions, hits among the first k alone are too coarse to compare two weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from setwise._types import Floats, Floats32, Mask

POOL = 200  # best items of each model that take part
STEPS = (0.0, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)  # multiples of the inverse spread
ROUNDS = 3
LEAST_SPREAD = 1e-6  # of scores, relative to their size: less is rounding
LEAST_GAIN = 0.002  # relative: a smaller gain does not change a weight


class Pool(NamedTuple):
    """The items of each held-out session that take part: scores (M, B, P), and which are targets (B, P)."""

    scores: Floats32
    target: Mask


def pooled(scores: Sequence[Floats32], seen: Mask, target: Mask) -> Pool:
    """The pool of the score matrices (B, n) of all models; ``seen`` items are left out, as no slate shows them."""
    open_scores = [np.where(seen, -np.inf, of_model) for of_model in scores]
    most = min(POOL, seen.shape[1])
    best = [np.argpartition(-of_model, most - 1, axis=1)[:, :most] for of_model in open_scores]
    items = np.concatenate(best, axis=1)
    items.sort(axis=1)
    repeated = np.zeros(items.shape, bool)
    repeated[:, 1:] = items[:, 1:] == items[:, :-1]
    parts = np.stack([np.take_along_axis(of_model, items, axis=1) for of_model in scores]).astype(np.float32)
    dropped = repeated | np.take_along_axis(seen, items, axis=1)
    parts[:, dropped] = -np.inf
    return Pool(parts, np.take_along_axis(target, items, axis=1) & ~dropped)


def smoothed_hits(scores: Floats32, target: Mask, k: int) -> float:
    """Hits per session: 1 for a rank up to k/2, then linearly less, 0 beyond 4k."""
    depth = min(4 * k, scores.shape[1])
    best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    order = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable"), 1)
    credit = np.clip((4 * k - np.arange(depth)) / (3.5 * k), 0, 1)
    return float((np.take_along_axis(target, order, axis=1) * credit).sum(axis=1).mean())


def hits(scores: Floats32, target: Mask, k: int) -> Floats:
    """Hits among the k best items of each session."""
    best = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
    return np.asarray(np.take_along_axis(target, best, axis=1).sum(axis=1), np.float64)


def spread(scores: Floats32) -> Floats:
    """The typical spread of each model's scores within a session.

    Scores that differ by rounding alone have none: their size counts in its place, or 1 if all are zero.
    """
    finite = np.where(np.isfinite(scores), scores, np.nan)
    within = np.asarray(np.nanmean(np.nanstd(finite, axis=2), axis=1), np.float64) + 1e-12
    size = np.asarray(np.nanmean(np.abs(finite), axis=(1, 2)), np.float64)
    return np.where((size > 0) & (within > LEAST_SPREAD * size), within, np.where(size > 0, size, 1.0))


def blend_weights(pool: Pool, k: int) -> Floats:
    """The weight of each model, by coordinate search from equal weights in units of the inverse spread."""
    unit, models = 1 / spread(pool.scores), len(pool.scores)
    step = np.ones(models)
    best = _measure(pool, unit * step, k)
    for _ in range(ROUNDS):
        before = best
        for model in range(models):
            for value in STEPS:
                trial = step.copy()
                trial[model] = value
                if not trial.any():
                    continue
                measure = _measure(pool, unit * trial, k)
                if measure > best * (1 + LEAST_GAIN):
                    step, best = trial, measure
        if best <= before:
            break
    return np.asarray(unit * step)


def combined(pool: Pool, weights: Floats) -> Floats32:
    """The blended scores (B, P)."""
    total = np.zeros(pool.target.shape, np.float32)
    for weight, scores in zip(weights, pool.scores, strict=True):
        if weight:
            total += np.float32(weight) * scores
    return np.where(np.isfinite(pool.scores[0]), total, -np.inf).astype(np.float32)


def _measure(pool: Pool, weights: Floats, k: int) -> float:
    return smoothed_hits(combined(pool, weights), pool.target, k)
