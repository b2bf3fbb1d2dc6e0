"""The relative gap between a value and an upper bound."""

from __future__ import annotations

import math


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
