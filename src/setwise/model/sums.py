"""Limits on sums over a set: low ≤ Σ_{i∈S} c_i ≤ high, as of prices or tokens.

    sum_at_most   {name: limit}, or {name: {"limit": limit, "of": numbers}}
    sum_at_least  likewise

Without ``of`` the name is that of an attribute of numbers; with it the request brings the numbers itself: one for each
item, or {id: number}. All numbers are at least 0. An item without a number is not eligible: its sum would not be known.

**Exactness.** A sum is within a limit if it is so in decimal numbers, as they are written: 0.1 + 0.2 is within 0.3.
``in_whole_units`` makes whole numbers of decimal ones, whose sums are exact in doubles. Where that is not possible, as
for 1/3, a set must be within a limit by a part in 10¹².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Mask, Rows
from setwise._validation import LARGEST, did_you_mean, real_number
from setwise.errors import InvalidInput
from setwise.model.attributes import Attributes, Categorical

SUMS = ("sum_at_most", "sum_at_least")  # the arguments
KEYS = {"limit", "of"}
LARGEST_SIZE = 500  # items of a set whose size is limited by sums alone
MARGIN = 1e-12  # relative: how far within a limit a sum of numbers must be that are not decimal
_DECIMALS, _EXACT = 9, 2.0**53


class SumLimit(NamedTuple):
    """low ≤ Σ_{i∈S} cost_i ≤ high; an end that is not limited is infinite."""

    name: str
    cost: Floats  # (n,), NaN where it is not known
    low: float
    high: float

    def taken(self, rows: Any) -> SumLimit:
        """The same limit on these items only."""
        return self._replace(cost=self.cost[rows])


Numbers = Callable[[str, str, Any], Floats]  # (argument, name, what ``of`` states or None) -> (n,)


def sum_limits(stated: Mapping[str, Any], numbers: Numbers) -> tuple[SumLimit, ...]:
    """The limits that ``sum_at_most`` and ``sum_at_least`` state, checked; two on the same numbers are one."""
    limits: dict[str, SumLimit] = {}
    for argument in SUMS:
        form = f"{argument}={{'price': 100}}"
        entries = stated.get(argument)
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            raise InvalidInput(argument, "a mapping {name: limit}", repr(entries), f"write {form}")
        for name, entry in entries.items():
            parameter = f"{argument}[{name!r}]"
            limit, of = _parts(parameter, entry)
            cost = _checked(parameter, name, numbers(parameter, name, of))
            low, high = (-np.inf, limit) if argument == "sum_at_most" else (limit, np.inf)
            known = limits.get(name)
            if known is not None and not np.array_equal(known.cost, cost, equal_nan=True):
                todo = "use one name for each, or the same numbers"
                raise InvalidInput(parameter, "about the numbers of sum_at_most", "others of this name", todo)
            limits[name] = (
                SumLimit(name, cost, low, high)
                if known is None
                else known._replace(low=max(known.low, low), high=min(known.high, high))
            )
            low, high = limits[name].low, limits[name].high
            if low > high:
                raise InvalidInput(parameter, f"at most the limit of sum_at_most, {high:g}", low, "lower it")
    return tuple(limits.values())


def _parts(parameter: str, entry: Any) -> tuple[float, Any]:
    """The limit, and the numbers that the request brings or None."""
    of = None
    if isinstance(entry, Mapping):
        if not {"limit"} <= entry.keys() <= KEYS:
            raise InvalidInput(parameter, "a limit, or {'limit': …, 'of': numbers}", list(entry), "use these keys")
        entry, of = entry["limit"], entry.get("of")
    limit = real_number(parameter, entry)
    if limit < 0 or limit > LARGEST:
        raise InvalidInput(parameter, f"from 0 to {LARGEST:g}", limit, "pass such a limit")
    return limit, of


def _checked(parameter: str, name: str, cost: Floats) -> Floats:
    """The numbers, none of which is negative: with one, an item could make room for others."""
    known = cost[~np.isnan(cost)]
    if len(known) and not (known.min() >= 0 and known.max() <= LARGEST):
        worst = float(known.min() if known.min() < 0 else known.max())
        must = f"about numbers from 0 to {LARGEST:g}"
        raise InvalidInput(parameter, must, f"{worst:g} in '{name}'", "exclude such items, or correct the numbers")
    return cost


def attribute_numbers(attributes: Attributes, parameter: str, name: str) -> Floats:
    """The numbers of an attribute (n,); a truth value counts 1 or 0."""
    able = sorted(column for column in attributes if not isinstance(attributes[column], Categorical))
    if name not in able:
        got = repr(name) + (", which holds texts" if name in attributes else "")
        todo = did_you_mean(name, able) or "use one of them"
        raise InvalidInput(parameter, f"about an attribute of numbers ({', '.join(able) or 'none'})", got, todo)
    return np.asarray(attributes[name], np.float64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Limits on sums over m candidates, in units in which their numbers are whole wherever that is possible.

    A set keeps them if it is within low and high by the margin, which is 0 in whole units.
    """

    cost: Floats  # (R, m), 0 for candidates that are not open
    low: Floats  # (R,)
    high: Floats  # (R,)
    margin: Floats  # (R,)
    unit: Floats  # (R,) how many units 1 is

    @classmethod
    def of(cls, limits: Sequence[SumLimit], m: int) -> Sums:
        """The limits as arrays."""
        whole = [in_whole_units(limit) for limit in limits]
        return cls(
            np.array([np.nan_to_num(limit.cost) for limit, *_ in whole], np.float64).reshape(len(whole), m),
            np.array([limit.low for limit, *_ in whole], np.float64),
            np.array([limit.high for limit, *_ in whole], np.float64),
            np.array([margin for _, margin, _ in whole], np.float64),
            np.array([unit for *_, unit in whole], np.float64),
        )

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def least(self) -> Floats:
        """The least sums of a set that is known to keep the limits: (R,)."""
        return np.where(self.low > 0, self.low + self.margin, -np.inf)

    @property
    def most(self) -> Floats:
        """The largest sums of a set that is known to keep the limits: (R,)."""
        return np.asarray(self.high - self.margin)

    def taken(self, order: Rows) -> Sums:
        """The same limits on the candidates in this order."""
        return replace(self, cost=self.cost[:, order])

    def spent(self, members: Rows) -> Floats:
        """The sums of a set: (R,)."""
        return np.asarray(self.cost[:, members].sum(axis=1))

    def fitting(self, members: Rows) -> Mask:
        """The candidates with which a set keeps all upper limits: (m,)."""
        return np.asarray((self.spent(members)[:, None] + self.cost <= self.most[:, None]).all(axis=0))

    def within(self, members: Rows) -> bool:
        """Whether a set keeps all upper limits."""
        return not len(self) or bool((self.spent(members) <= self.most).all())

    def reached(self, members: Rows) -> bool:
        """Whether a set keeps all lower limits."""
        return not len(self) or bool((self.spent(members) >= self.least).all())

    def most_items(self, available: Rows) -> int:
        """The most of these candidates that the upper limits, each for itself, allow."""
        count = len(available)
        for cost, most in zip(self.cost[:, available], self.most, strict=True):
            count = min(count, int(np.searchsorted(np.cumsum(np.sort(cost)), most, side="right")))
        return count


def open_size(sums: Sums, available: Rows) -> int:
    """The most items of a set whose size is limited by sums alone."""
    size = max(sums.most_items(available), 1)
    if not np.isfinite(sums.high).any() or size > LARGEST_SIZE:
        must = f"stated, unless sum_at_most allows at most {LARGEST_SIZE} items"
        raise InvalidInput("k", must, f"None, with which sets of {size} items are possible", "state k")
    return size


NO_SUMS = Sums(np.zeros((0, 0)), *[np.zeros(0)] * 4)


def in_whole_units(limit: SumLimit) -> tuple[SumLimit, float, float]:
    """The limit in units in which its numbers are whole, 0 and the unit; or itself, the margin of rounding, and 1.

    A number that is not known counts 0. The margin is an absolute one: a set is known to keep the limit if its sum is
    within it by that, and known to break it if it is beyond it by that.
    """
    cost, ends = np.nan_to_num(limit.cost), np.array([limit.low, limit.high])
    finite = ends[np.isfinite(ends)]
    for decimals in range(_DECIMALS + 1):
        unit = 10.0**decimals
        whole, whole_ends = np.rint(cost * unit), np.rint(finite * unit)
        total = float(whole.sum() + np.abs(whole_ends).max(initial=0.0))
        if total < _EXACT and (whole / unit == cost).all() and (whole_ends / unit == finite).all():
            scaled = np.where(np.isfinite(ends), np.rint(np.where(np.isfinite(ends), ends, 0.0) * unit), ends)
            return limit._replace(cost=whole, low=float(scaled[0]), high=float(scaled[1])), 0.0, unit
    return limit, MARGIN * float(np.abs(finite).max(initial=0.0)), 1.0
