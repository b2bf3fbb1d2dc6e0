"""Feasible sets: at most k items, some pinned, some excluded, upper and lower limits per group.

exclude    candidates that must not be chosen
include    candidates that must be chosen (pinned)
limits     how many items may have the same value of an attribute (``limits.py``)
sums       how large or small a sum over the items may be (``sums.py``)

A limit becomes groups: labels of the candidates with one upper limit, and a minimum for each label. An upper limit on
single values becomes one group for each of them, with the label 0 for its items and −1 for the others.

Lower limits. Let the deficit of a set S in a group be Σ_values max(0, minimum − number in S). Adding an item lowers it
by at most 1, so S extends to a feasible set of at most k items only if its deficit is at most k − |S|, for each group.
For one group this is also sufficient when there are enough candidates; ``joinable`` keeps it true. With several groups
at once a search may end at sets that do not meet every minimum; ``admits`` then rejects them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Ints, Mask, Rows
from setwise._validation import index_array, require_shape, whole_number
from setwise.errors import Infeasible
from setwise.model.limits import LIMITS, Limit, checked
from setwise.model.sums import NO_SUMS, SUMS, SumLimit, Sums, open_size, sum_limits


class Groups(Protocol):
    """The labels of the candidates by attribute."""

    def matching(self, name: str, value: Any) -> Mask:
        """Which candidates have this value of the attribute: (m,)."""
        ...

    def numbers_for(self, parameter: str, name: str, of: Any = None) -> Floats:
        """The numbers of each candidate for a sum: ``of``, or those of the attribute; NaN where there is none."""
        ...

    def __getitem__(self, name: str) -> Ints: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object) -> bool: ...


class Labelled(Protocol):
    """What constraints are about: an ``Instance``, or a list of candidates with attributes."""

    @property
    def m(self) -> int:
        """The number of candidates."""
        ...

    @property
    def groups(self) -> Groups:
        """The labels of the candidates by attribute."""
        ...

    @property
    def exclusive(self) -> Sequence[Ints]:
        """Labels of which at most one candidate each may be chosen."""
        ...


@dataclass(frozen=True, eq=False)
class Constraints:
    """The feasible sets S of an instance: pinned ⊂ S ⊂ open ∪ pinned, |S| ≤ k, limits kept."""

    k: int
    open: NDArray[np.bool_]  # (m,) not excluded
    pinned: Rows
    labels: NDArray[np.int64]  # (G, m)
    limits: NDArray[np.int64]  # (G,)
    minimums: NDArray[np.int64]  # (G, labels) the fewest members of each label; (0, 0) without lower limits
    sums: Sums = NO_SUMS

    @classmethod
    def plain(cls, m: int, k: int) -> Constraints:
        """All sets of at most k of m candidates."""
        nothing = np.zeros(0, np.int64)
        pinned = np.zeros(0, np.intp)
        return cls(k, np.ones(m, bool), pinned, np.zeros((0, m), np.int64), nothing, np.zeros((0, 0), np.int64))

    @classmethod
    def of(
        cls,
        instance: Labelled,
        k: int | None,
        exclude: ArrayLike = (),
        include: ArrayLike = (),
        sums: Sequence[SumLimit] = (),
        uncounted: ArrayLike = (),
        **limits: Any,
    ) -> Constraints:
        """Check the constraints against the instance; raise Infeasible for some that no set can keep.

        ``sums`` are limits on the sums of numbers of the candidates, beside those that ``limits`` state by name. Limits
        of groups do not count the candidates ``uncounted``.
        """
        size = None if k is None else whole_number("k", k)
        stated = {name: limits.pop(name, None) for name in SUMS}
        if any(entries is not None for entries in stated.values()):
            sums = (*sums, *sum_limits(stated, instance.groups.numbers_for))
        pinned = index_array("include", include, instance.m, "the instance")
        excluded = index_array("exclude", exclude, instance.m, "the instance")
        for limit in sums:
            require_shape(f"the numbers of {limit.name!r}", limit.cost, (instance.m,))
        available = np.ones(instance.m, bool)
        available[excluded] = False
        for limit in sums:
            available &= ~np.isnan(limit.cost)
        if not available[pinned].all():
            both = int(pinned[~available[pinned]][0])
            raise Infeasible("include", "free of excluded candidates", f"{both} in both", "drop it from one of them")
        rows = Sums.of(sums, instance.m)
        k = open_size(rows, np.flatnonzero(available)) if size is None else size
        if len(pinned) > k:
            raise Infeasible("include", f"at most k = {k} candidates", f"{len(pinned)}", "raise k or pin fewer")
        if not available.any():
            raise Infeasible("candidates", "at least one that is not excluded", "none", "exclude fewer")
        exclusive = [_Group(_dense(labels), 1, np.zeros(0, np.int64)) for labels in instance.exclusive]
        labels, most, least = _joined([*exclusive, *_groups(instance, limits)], instance.m)
        labels[len(exclusive) :, np.asarray(uncounted, np.intp)] = -1
        result = cls(k, available, pinned, labels, most, least, rows)
        result._refuse_pinned_excess()
        result._refuse_unreachable_minimums()
        result._refuse_unreachable_sums()
        return result

    @cached_property
    def _most_labels(self) -> int:
        """The number of labels of the group that has most."""
        return int(self.labels.max(initial=-1)) + 1

    def _refuse_pinned_excess(self) -> None:
        for labels, limit in zip(self.labels, self.limits, strict=True):
            mine = labels[self.pinned]
            if np.bincount(mine[mine >= 0], minlength=1).max() > limit:
                raise Infeasible("include", f"at most {limit} of one group", "more", "pin fewer or raise at_most")

    def _refuse_unreachable_minimums(self) -> None:
        deficits = self._deficits(self.pinned)
        for labels, minimum, deficit in zip(self.labels, self.minimums, deficits, strict=False):
            present = np.bincount(labels[self.open & (labels >= 0)], minlength=len(minimum))
            if (minimum > present).any():
                got = f"{int(present[minimum > present][0])} that are not excluded"
                raise Infeasible("at_least, exactly", "about values that enough candidates have", got, "lower it")
            if deficit.sum() > self.k - len(self.pinned):
                room = f"at most the {self.k - len(self.pinned)} items beside the pinned ones"
                raise Infeasible("at_least, exactly", room, f"{int(deficit.sum())}", "raise k or lower it")
        if deficits.any() and not self.joinable(self.pinned).any():
            expected, got = "possible together with the other limits", "no candidate that serves all of them"
            raise Infeasible("at_least, exactly", expected, got, "raise k or lower one of them")

    def _refuse_unreachable_sums(self) -> None:
        sums, pinned = self.sums, self.pinned
        if not sums.within(pinned):
            raise Infeasible("include", "items within sum_at_most", "more", "pin fewer, or raise sum_at_most")
        free = self.open.copy()
        free[pinned] = False
        if not len(pinned) and len(sums) and not (sums.fitting(pinned) & free).any():
            got = "none that fits"
            raise Infeasible("sum_at_most", "the number of one candidate at least", got, "raise it, or loosen where")
        for cost, least, spent in zip(sums.cost, sums.least, sums.spent(pinned), strict=True):
            largest = np.sort(cost[free])[::-1][: self.k - len(pinned)]
            if spent + largest.sum() < least:
                must = f"at most the sum of the {self.k} largest numbers, {spent + largest.sum():g} in its units"
                raise Infeasible("sum_at_least", must, f"{least:g}", "lower it, or raise k")

    def _deficits(self, members: Rows) -> NDArray[np.int64]:
        """How many members of each label are missing: (G, labels), or (0, 0) without lower limits."""
        counts = np.zeros_like(self.minimums)
        for labels, count in zip(self.labels, counts, strict=False):
            mine = labels[members]
            np.add.at(count, mine[mine >= 0], 1)
        return np.asarray(np.maximum(self.minimums - counts, 0))

    def meets_minimums(self, chosen: ArrayLike) -> bool:
        """Whether ``chosen`` keeps every lower limit."""
        members = np.asarray(chosen, np.intp)
        return self.sums.reached(members) and (not self.minimums.size or not self._deficits(members).any())

    @property
    def is_joint(self) -> bool:
        """Whether it depends on the members of a set, beside their number, which candidates may join it."""
        return bool(len(self.labels) or len(self.sums))

    def joinable(self, chosen: ArrayLike) -> NDArray[np.bool_]:
        """The candidates that can be added to ``chosen`` without violating a constraint other than k: (m,)."""
        members = np.asarray(chosen, np.intp)
        result = self.open.copy()
        result[members] = False
        for labels, limit in zip(self.labels, self.limits, strict=True):
            taken = labels[members]
            count = np.bincount(taken[taken >= 0], minlength=self._most_labels + 1)
            count[-1] = -1  # of the label −1, no group
            result &= count[labels] < limit
        if len(self.sums):
            result &= self.sums.fitting(members)
        deficits = self._deficits(members) if self.minimums.size else ()
        for labels, deficit in zip(self.labels, deficits, strict=False):
            if deficit.sum() >= self.k - len(members) > 0:  # every further item must lower the deficit
                result &= (labels >= 0) & (deficit[np.maximum(labels, 0)] > 0)
        return result

    def still_joinable(self, joinable: NDArray[np.bool_], chosen: ArrayLike) -> NDArray[np.bool_]:
        """``joinable(chosen)``, from that of the set without its last member, which is changed in place."""
        members = np.asarray(chosen, np.intp)
        if self.minimums.size:
            return self.joinable(members)
        joinable[members[-1]] = False
        for labels, limit in zip(self.labels, self.limits, strict=True):
            label = labels[members[-1]]
            if label >= 0 and np.count_nonzero(labels[members] == label) >= limit:
                joinable &= labels != label
        if len(self.sums):
            joinable &= self.sums.fitting(members)
        return joinable

    def admits(self, chosen: ArrayLike) -> bool:
        """Whether ``chosen`` is feasible."""
        members = np.asarray(chosen, np.intp)
        distinct = len(np.unique(members)) == len(members)
        if not (distinct and 1 <= len(members) <= self.k and self.open[members].all()):
            return False
        if not np.isin(self.pinned, members).all():
            return False
        for labels, limit in zip(self.labels, self.limits, strict=True):
            mine = labels[members]
            if np.bincount(mine[mine >= 0], minlength=1).max() > limit:
                return False
        if not self.sums.within(members):
            return False
        return self.meets_minimums(members)


def _dense(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same groups numbered 0, 1, 2, …, so that counts fit small arrays; −1 stays −1."""
    numbered = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    none = labels < 0
    return np.where(none, -1, numbered - (1 if none.any() else 0))


class _Group(NamedTuple):
    """Labels of the candidates (m,), the most items of one label, and the fewest of each label."""

    labels: NDArray[np.int64]
    most: int
    least: NDArray[np.int64]


def _groups(instance: Labelled, given: Mapping[str, Any]) -> list[_Group]:
    """The groups of the limits."""
    limits = checked(given, instance.groups, ", ".join(sorted(instance.groups)))
    return [
        group
        for name, stated in limits.items()
        for attribute, numbers in stated.items()
        for group in (_by_value if LIMITS[name].by_value else _of_every_value)(
            instance, LIMITS[name], attribute, numbers
        )
    ]


def _of_every_value(instance: Labelled, limit: Limit, attribute: str, n: int) -> list[_Group]:
    labels = _dense(instance.groups[attribute])
    least = np.full(int(labels.max(initial=-1)) + 1, min(n, instance.m + 1) if limit.lower else 0, np.int64)
    return [_Group(labels, min(n, instance.m) if limit.upper else instance.m, least)]


def _by_value(instance: Labelled, limit: Limit, attribute: str, numbers: Mapping[Any, int]) -> list[_Group]:
    labels, groups = _dense(instance.groups[attribute]), list[_Group]()
    least = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    for value, n in numbers.items():
        matching = instance.groups.matching(attribute, value) & (labels >= 0)
        if limit.lower and not matching.any():
            parameter = f"{limit.name}['{attribute}']"
            raise Infeasible(parameter, "about values that candidates have", repr(value), "drop the value")
        if limit.lower:
            least[labels[matching][0]] = min(n, instance.m + 1)
        if limit.upper:
            groups.append(_Group(np.where(matching, 0, -1), min(n, instance.m), np.zeros(0, np.int64)))
    return [*groups, _Group(labels, instance.m, least)] if limit.lower else groups


def _joined(groups: list[_Group], m: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Labels (G, m), upper limits (G,) and minimums (G, labels), which are (0, 0) without lower limits."""
    labels = np.array([group.labels for group in groups], np.int64).reshape(len(groups), m)
    most = np.array([group.most for group in groups], np.int64)
    if not any(group.least.any() for group in groups):
        return labels, most, np.zeros((0, 0), np.int64)
    least = np.zeros((len(groups), int(labels.max(initial=0)) + 1), np.int64)
    for row, group in zip(least, groups, strict=True):
        row[: len(group.least)] = group.least
    return labels, most, least
