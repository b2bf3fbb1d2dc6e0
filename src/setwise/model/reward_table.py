"""RewardTable: reward functions as arrays, in the form that the compiled kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise._validation import frozen
from setwise.errors import InvalidInput
from setwise.model.rewards import FAMILIES, Reward, registered

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RewardTable:
    """τ rewards as arrays for the compiled kernels: code, three parameters, and interpolation knots."""

    code: NDArray[np.int64]  # (τ,)
    parameter: Floats  # (τ, 3)
    first_knot: NDArray[np.int64]  # (τ + 1,): the knots of function c are first_knot[c] to first_knot[c + 1]
    knot: Floats  # (total, 2)

    def __post_init__(self) -> None:
        known = {family.code for family in FAMILIES.values()}
        unknown = set(self.code.tolist()) - known
        if unknown:
            raise InvalidInput("reward codes", f"among {sorted(known)}", sorted(unknown), "use RewardTable.of")

    @classmethod
    def of(cls, rewards: Sequence[Reward]) -> RewardTable:
        """The table of these functions, in this order; read-only, so that one compiled version reads all tables."""
        checked = [registered(reward) for reward in rewards]
        parameter = np.zeros((len(checked), 3))
        knots: list[tuple[float, float]] = []
        first_knot = [0]
        for row, reward in zip(parameter, checked, strict=True):
            row[: len(reward.parameters)] = reward.parameters
            knots.extend(reward.knots)
            first_knot.append(len(knots))
        return cls(
            frozen(np.array([reward.code for reward in checked], np.int64)),
            frozen(parameter),
            frozen(np.array(first_knot, np.int64)),
            frozen(np.array(knots, np.float64).reshape(-1, 2)),
        )
