"""norm_bound: an upper bound over all sets from the longest vectors alone, for requests without time for another.

No score of head h exceeds the longest value vector times ‖u^h‖, an average of scores is no larger, and no base term
exceeds the longest base vector times ‖u⁰‖. With x the sum of these and f the largest reward at x, F(S) ≤ |S| f: k f if
f is positive, else f.
"""

from __future__ import annotations

import math

import numpy as np

from setwise.bounds.catalog.user_scores import Measured
from setwise.model.users import User

MARGIN = 1e-9  # more than the rounding of norms and products


def norm_bound(cells: Measured, user: User, k: int) -> float:
    """F(S) ≤ this for every set S of at most k items; ∞ if a reward overflows."""
    catalog = cells.catalog
    _, _, value, base = cells.norms
    if catalog.sink is not None:
        value = np.maximum(value, np.linalg.norm(catalog.sink.value.astype(np.float64), axis=1))
    x = float(value @ np.linalg.norm(user.heads, axis=1))
    if user.base is not None:
        x += float(base[0] * np.linalg.norm(user.base))
    x += MARGIN * x
    scores = cells.added(user)
    if scores is not None:
        added = scores.whole()
        x += float(added.max()) + MARGIN * float(np.abs(added).max())
    with np.errstate(over="ignore"):
        largest = max(float(reward.value(np.array([x]))[0]) for reward in catalog.rewards)
    if not math.isfinite(largest):
        return math.inf
    largest += MARGIN * abs(largest)
    if user.weights is not None:  # a negative reward counts at least for the largest weight of all, which may be 0
        largest *= float(user.weights.max() if largest > 0 else user.weights.min()) * (
            1.0 + math.copysign(MARGIN, largest)
        )
    return max(k * largest, largest)
