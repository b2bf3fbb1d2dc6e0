"""Sums of a slate file, checked in exact decimal numbers; and the prices by which its bound counts them.

A number counts as it is written: 0.1 is a tenth here, not the double next to it. Prices λ are part of the claim. For
every set that keeps low_r ≤ Σ c_ri ≤ high_r, and whatever the prices are,

    F(S)  ≤  Σ_{i∈S} ( ω_i f_i − Σ_r λ_r c_ri )  +  Σ_r λ_r e_r,        e_r = high_r if λ_r > 0, else low_r,

so a proof that the first part is at most the claim less the second is a proof of the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Rows

SLACK = 1e-9  # relative: by more a set must be beyond a limit to be left out of a proof
LARGEST = 1e3  # what prices may add, in sizes of the value: rounding of larger ones could hide a better set


class SumCheck(NamedTuple):
    """A limit on the sum of ``cost`` (n,), NaN where an item has no number."""

    name: str
    cost: Floats
    low: float
    high: float


def sum_checks(query: Mapping[str, Any], numbers: Callable[[str, Any], Floats | None]) -> list[SumCheck]:
    """The limits of a query; ``numbers`` reads an attribute's name, a list or a mapping by id."""
    checks: list[SumCheck] = []
    for argument in ("sum_at_most", "sum_at_least"):
        for name, entry in query.get(argument, {}).items():
            limit, of = (entry["limit"], entry.get("of", name)) if isinstance(entry, dict) else (entry, name)
            cost = numbers(f"{argument}['{name}']", of)
            assert cost is not None
            checks.append(
                SumCheck(name, cost, *((-math.inf, limit) if argument == "sum_at_most" else (limit, math.inf)))
            )
    return checks


def broken_sums(checks: Sequence[SumCheck], rows: Sequence[int]) -> Iterator[str]:
    """The limits that a set does not keep."""
    for name, cost, low, high in checks:
        if any(math.isnan(cost[row]) for row in rows):
            yield f"an item has no '{name}'"
            continue
        total = sum((Fraction(repr(float(cost[row]))) for row in rows), Fraction(0))
        if math.isfinite(high) and total > Fraction(repr(high)):
            yield f"the sum of '{name}' is {float(total):.9g}, more than {high:.9g}"
        if math.isfinite(low) and total < Fraction(repr(low)):
            yield f"the sum of '{name}' is {float(total):.9g}, less than {low:.9g}"


def offsets(checks: Sequence[SumCheck], prices: Mapping[str, float], n: int) -> tuple[Floats, float]:
    """What the prices add to each item (n,), and the constant; NaN if a price is of no limit of the query."""
    offset, constant = np.zeros(n), 0.0
    for name, price in prices.items():
        ends = [(check, end) for check in checks if check.name == name for end in (check.low, check.high)]
        ends = [(check, end) for check, end in ends if math.isfinite(end) and (price > 0) == (end == check.high)]
        if price == 0:
            continue
        if not ends:
            return offset, math.nan
        offset -= price * np.where(np.isnan(ends[0][0].cost), 0.0, ends[0][0].cost)
        constant += price * ends[0][1]
    return offset, constant


class SumRows(NamedTuple):
    """Limits on sums over the items of a proof, a little wider than stated: (R, items), (R,), (R,)."""

    cost: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, checks: Sequence[SumCheck], rows: Rows) -> SumRows:
        """The limits over these rows."""
        cost = np.array([check.cost[rows] for check in checks], np.float64).reshape(len(checks), len(rows))
        low, high = (np.array([getattr(check, end) for check in checks], np.float64) for end in ("low", "high"))
        return cls(cost, low - SLACK * np.abs(low), high + SLACK * np.abs(high))

    def possible(self, members: list[int], later: Rows, q: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the later items can be in a set of these members and up to q of them that keeps the limits."""
        stay = np.ones(len(later), bool)
        for cost, low, high in zip(self.cost, self.low, self.high, strict=True):
            spent, own = float(cost[members].sum()), cost[later]
            stay &= spent + own <= high
            largest = float(np.sort(own)[::-1][: max(q - 1, 0)].sum())
            stay &= spent + own + largest >= low
        return stay
