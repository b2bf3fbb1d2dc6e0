"""Reward functions of a ``RewardTable`` in torch, on any device: the functions of kernels/rewards.py, elementwise.

As there, an unknown code evaluates to NaN; catalogues with one are not ranked on a device (``KNOWN``).
"""

from __future__ import annotations

import torch

from setwise.kernels import rewards as codes
from setwise.model.reward_table import RewardTable

KNOWN = frozenset(
    (
        codes.LOGISTIC,
        codes.LINEAR,
        codes.RELU,
        codes.LEAKY_RELU,
        codes.TANH,
        codes.SOFTPLUS,
        codes.EXP,
        codes.PIECEWISE_LINEAR,
        codes.CONSTANT,
    )
)


def evaluated(table: RewardTable, of_class: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    """f(x), entry by entry; ``of_class`` is the number of each entry's function and may broadcast; None: the first.

    ``x`` may be overwritten.
    """
    if len(table.code) == 1 or of_class is None:
        return _family(table, 0, x)
    result = torch.full_like(x, torch.nan)
    for number in range(len(table.code)):
        result = torch.where(of_class == number, _family(table, number, x.clone()), result)
    return result


def _family(table: RewardTable, number: int, x: torch.Tensor) -> torch.Tensor:
    """f(x) of one function; ``x`` is overwritten where that saves an array."""
    code, (first, second, third) = int(table.code[number]), table.parameter[number].tolist()
    if code == codes.CONSTANT:
        return x.fill_(first)
    if code == codes.PIECEWISE_LINEAR:
        return _interpolated(table, number, x)
    z = x.mul_(first).add_(second)
    if code == codes.LOGISTIC:
        return z.sigmoid_()
    if code == codes.LINEAR:
        return z
    if code == codes.RELU:
        return z.clamp_min_(0.0)
    if code == codes.LEAKY_RELU:
        return torch.where(z >= 0.0, z, third * z)
    if code == codes.TANH:
        return z.tanh_()
    if code == codes.SOFTPLUS:
        return torch.logaddexp(z, torch.zeros_like(z))
    if code == codes.EXP:
        return z.exp_() if first > 0.0 else z.exp_().neg_()
    return z.fill_(torch.nan)


def _interpolated(table: RewardTable, number: int, x: torch.Tensor) -> torch.Tensor:
    """Linear interpolation of the knots, constant outside of them."""
    knots = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
    at, height = (torch.tensor(knots[:, side].copy(), dtype=x.dtype, device=x.device) for side in (0, 1))
    if len(at) == 1:
        return x.fill_(float(height[0]))
    right = torch.searchsorted(at, x.contiguous(), right=True).clamp(1, len(at) - 1)
    share = ((x - at[right - 1]) / (at[right] - at[right - 1])).clamp(0.0, 1.0)
    return height[right - 1] + share * (height[right] - height[right - 1])
