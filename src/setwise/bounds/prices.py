"""Prices: sums over a set as offsets of its items' rewards, so that a bound without them counts them.

Every feasible set keeps low_r ≤ Σ_{i∈S} c_ri ≤ high_r. With a price λ_r of each sum, positive for its upper limit and
negative for its lower one, and λ⁺ = max(λ, 0), λ⁻ = max(−λ, 0),

    F(S)  ≤  Σ_{i∈S} ( ω_i f_i(a_i(S)) + δ_i )  +  λ⁺ · high − λ⁻ · low,        δ_i = −Σ_r λ_r c_ri,

because what is added is not negative (Lagrange). A bound on the first part over all sets, whether they keep the sums or
not, plus the constant bounds F over the feasible ones. It holds for all prices; good prices make it tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from setwise._types import Floats
from setwise.model.sums import SumLimit

_ROUNDING = 1e-14  # relative, of a sum of products


class Prices(NamedTuple):
    """The prices of sums, what they add to each item, and the constant."""

    price: Floats  # (R,)
    offset: Floats  # (n,)
    constant: float

    @classmethod
    def of(cls, price: Floats, sums: Sequence[SumLimit]) -> Prices:
        """These prices of these sums; a price of a limit that is not stated counts as 0."""
        stated = np.array([p if np.isfinite(limit.high if p > 0 else limit.low) else 0.0 for p, limit in zip(price, sums, strict=True)])
        parts = np.array([p * limit.cost for p, limit in zip(stated, sums, strict=True)])
        ends = np.array([p * (limit.high if p > 0 else limit.low) if p else 0.0 for p, limit in zip(stated, sums, strict=True)])
        offset = -parts.sum(axis=0) + _ROUNDING * np.abs(parts).sum(axis=0)
        return cls(stated, offset, float(ends.sum() + _ROUNDING * np.abs(ends).sum()))
