"""Compiled parts of swap search for limits on sums: which exchanges are within them, and what they count meanwhile.

While a set grows, a candidate counts less by the price of its numbers (bounds/prices.py): growth by value alone spends
a budget on the first items. What a set lacks of a least sum counts against it, more than items can bring.
"""

from __future__ import annotations

from setwise._types import Floats, Ints
from setwise.kernels.options import INNER, njit


@njit(**INNER)
def fits(cost: Floats, most: Floats, spent: Floats, c: int, left: int) -> bool:
    """Whether a set of these sums keeps the upper limits when c joins and ``left`` (−1: none) leaves."""
    kept = True
    for r in range(len(cost)):
        kept = kept and spent[r] - (cost[r, left] if left >= 0 else 0.0) + cost[r, c] <= most[r]
    return kept


@njit(**INNER)
def lacking(cost: Floats, least: Floats, spent: Floats, c: int, left: int) -> float:
    """What the set lacks of the least sums, as a share of them, when c joins and ``left`` leaves (−1: none)."""
    lacks = 0.0
    for r in range(len(cost)):
        if least[r] > 0.0:
            total = spent[r] + (cost[r, c] if c >= 0 else 0.0) - (cost[r, left] if left >= 0 else 0.0)
            lacks += max(least[r] - total, 0.0) / least[r]
    return lacks


@njit(**INNER)
def add_costs(cost: Floats, members: Ints, size: int, spent: Floats) -> None:
    """Write the sums of the first ``size`` members to ``spent``."""
    for r in range(len(cost)):
        spent[r] = 0.0
        for place in range(size):
            spent[r] += cost[r, members[place]]


@njit(**INNER)
def count_sums(
    cost: Floats, least: Floats, spent: Floats, offset: Floats, scale: float, penalty: float, left: int, total: Floats
) -> None:
    """Change ``total``, the values with each candidate in place of ``left``, by prices and by what sums lack."""
    if scale > 0.0:
        for c in range(len(total)):
            total[c] += scale * offset[c]
    if penalty > 0.0:
        for c in range(len(total)):
            total[c] -= penalty * lacking(cost, least, spent, c, left)
