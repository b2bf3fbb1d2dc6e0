"""The relative gap between a value and an upper bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from setwise.model.rewards import Reward

_UNDERFLOW = 1e-160  # of smaller rewards some products underflow


def relative_gap(value: float, upper_bound: float, proven: bool) -> float:
    """(upper_bound − value) / upper_bound: the share of the bound that the value does not reach.

    0 if proven. The divisor is |value| if the bound is not positive. 1 if there is no finite bound or no finite value.
    """
    if proven:
        return 0.0
    if not (math.isfinite(upper_bound) and math.isfinite(value)):
        return 1.0
    size = upper_bound if upper_bound > 0 else abs(value)
    return (upper_bound - value) / size if size > 0 else 0.0


def zero_scale(rewards: Sequence[Reward], terms: float, k: int) -> float:
    """What rounding is compared with where all rewards of a set of k items are 0, which have no size of their own.

    The terms of their arguments, of size ``terms`` together, were rounded all the same. So this is k times the largest
    |f(a)| with |a| ≤ terms, for the family in which it is least; and never less than what underflows.
    """
    return k * min(max(abs(float(one(x))) for x in (-terms, terms)) for one in rewards) + _UNDERFLOW
