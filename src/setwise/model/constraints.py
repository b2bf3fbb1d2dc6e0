"""Feasible sets: at most k items, some pinned, some excluded, upper and lower limits per group.

exclude    candidates that must not be chosen
include    candidates that must be chosen (pinned)
at_most    {attribute: n}: at most n items with the same value of the attribute; missing values are not limited
at_least   {attribute: {value: n}}: at least n items with this value of the attribute
exactly    {attribute: n}: n items of every value of the attribute that candidates have; missing values are not limited

Lower limits. Let the deficit of a set S in a group be Σ_values max(0, minimum − number in S). Adding an item lowers it
by at most 1, so S extends to a feasible set of at most k items only if its deficit is at most k − |S|, for each group.
For one group this is also sufficient when there are enough candidates; ``joinable`` keeps it true. With several groups
at once a search may end at sets that do not meet every minimum; ``admits`` then rejects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Rows
from setwise._validation import index_array, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model.instance import Instance


@dataclass(frozen=True, eq=False)
class Constraints:
    """The feasible sets S of an instance: pinned ⊂ S ⊂ open ∪ pinned, |S| ≤ k, limits kept."""

    k: int
    open: NDArray[np.bool_]  # (m,) not excluded
    pinned: Rows
    labels: NDArray[np.int64]  # (G, m)
    limits: NDArray[np.int64]  # (G,)
    minimums: NDArray[np.int64]  # (G, labels) the fewest members of each label; (0, 0) without lower limits

    @classmethod
    def of(
        cls,
        instance: Instance,
        k: int,
        exclude: ArrayLike = (),
        include: ArrayLike = (),
        at_most: Mapping[str, int] | None = None,
        at_least: Mapping[str, Mapping[Any, int]] | None = None,
        exactly: Mapping[str, int] | None = None,
    ) -> Constraints:
        """Check the constraints against the instance; raise Infeasible for some that no set can keep."""
        k = whole_number("k", k)
        pinned = index_array("include", include, instance.m, "the instance")
        excluded = index_array("exclude", exclude, instance.m, "the instance")
        available = np.ones(instance.m, bool)
        available[excluded] = False
        if not available[pinned].all():
            both = int(pinned[~available[pinned]][0])
            raise Infeasible("include", "free of excluded candidates", f"{both} in both", "drop it from one of them")
        if len(pinned) > k:
            raise Infeasible("include", f"at most k = {k} candidates", f"{len(pinned)}", "raise k or pin fewer")
        if not available.any():
            raise Infeasible("candidates", "at least one that is not excluded", "none", "exclude fewer")
        equal = _checked_limits("exactly", exactly or {}, instance)
        labels, limits = _limits(instance, at_most or {}, equal, at_least or {})
        minimums = _minimums(instance, labels, equal, at_least or {})
        result = cls(k, available, pinned, labels, limits, minimums)
        result._refuse_pinned_excess()
        result._refuse_unreachable_minimums()
        return result

    def _refuse_pinned_excess(self) -> None:
        for labels, limit in zip(self.labels, self.limits, strict=True):
            mine = labels[self.pinned]
            if mine.size and np.bincount(mine[mine >= 0], minlength=1).max() > limit:
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

    def _deficits(self, members: Rows) -> NDArray[np.int64]:
        """How many members of each label are missing: (G, labels), or (0, 0) without lower limits."""
        counts = np.zeros_like(self.minimums)
        for labels, count in zip(self.labels, counts, strict=False):
            mine = labels[members]
            np.add.at(count, mine[mine >= 0], 1)
        return np.asarray(np.maximum(self.minimums - counts, 0))

    def meets_minimums(self, chosen: ArrayLike) -> bool:
        """Whether ``chosen`` keeps every lower limit."""
        return not self.minimums.size or not self._deficits(np.asarray(chosen, np.intp)).any()

    def joinable(self, chosen: ArrayLike) -> NDArray[np.bool_]:
        """The candidates that can be added to ``chosen`` without violating a constraint other than k: (m,)."""
        members = np.asarray(chosen, np.intp)
        result = self.open.copy()
        result[members] = False
        for labels, limit in zip(self.labels, self.limits, strict=True):
            taken = labels[members]
            count = np.bincount(taken[taken >= 0], minlength=int(labels.max(initial=0)) + 1)
            result &= (labels < 0) | (count[np.maximum(labels, 0)] < limit)
        for labels, deficit in zip(self.labels, self._deficits(members), strict=False):
            if deficit.sum() >= self.k - len(members) > 0:  # every further item must lower the deficit
                result &= (labels >= 0) & (deficit[np.maximum(labels, 0)] > 0)
        return result

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
        return self.meets_minimums(members)


def _dense(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same groups numbered 0, 1, 2, …, so that counts fit small arrays; −1 stays −1."""
    numbered = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    none = labels < 0
    return np.where(none, -1, numbered - (1 if none.any() else 0))


def _checked_limits(parameter: str, given: Mapping[str, int], instance: Instance) -> dict[str, int]:
    """{attribute: n} of ``at_most`` or ``exactly``, with n checked."""
    if not isinstance(given, Mapping):
        raise InvalidInput(parameter, "a mapping {attribute: n}", repr(given), f"write {parameter}={{'artist': 2}}")
    for name in given:
        _require_attribute(parameter, name, instance)
    return {name: min(whole_number(f"{parameter}['{name}']", n), instance.m) for name, n in given.items()}


def _limits(
    instance: Instance,
    at_most: Mapping[str, int],
    exactly: Mapping[str, int],
    at_least: Mapping[str, Mapping[Any, int]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels and upper limits: exclusive groups, then those of ``at_most``, of ``exactly`` and of ``at_least``."""
    rows, limits = [_dense(labels) for labels in instance.exclusive], [1] * len(instance.exclusive)
    for limited in (_checked_limits("at_most", at_most, instance), exactly):
        for name, limit in limited.items():
            rows.append(_dense(instance.groups[name]))
            limits.append(limit)
    if not isinstance(at_least, Mapping) or not all(isinstance(least, Mapping) for least in at_least.values()):
        todo = "write at_least={'genre': {'jazz': 2}}"
        raise InvalidInput("at_least", "a mapping {attribute: {value: n}}", repr(at_least), todo)
    for name in at_least:
        _require_attribute("at_least", name, instance)
        rows.append(_dense(instance.groups[name]))
        limits.append(instance.m)
    return np.array(rows, np.int64).reshape(len(rows), instance.m), np.array(limits, np.int64)


def _require_attribute(parameter: str, name: str, instance: Instance) -> None:
    if name not in instance.groups:
        known = ", ".join(sorted(instance.groups)) or "none"
        raise InvalidInput(parameter, f"about attributes the items have ({known})", repr(name), "use one of those")


def _minimums(
    instance: Instance,
    labels: NDArray[np.int64],
    exactly: Mapping[str, int],
    at_least: Mapping[str, Mapping[Any, int]],
) -> NDArray[np.int64]:
    """The lower limit of each label: (G, labels), zero in the groups without one; (0, 0) without lower limits."""
    if not at_least and not exactly:
        return np.zeros((0, 0), np.int64)
    result = np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.int64)
    first = len(labels) - len(at_least)  # the groups of at_least are the last ones, those of exactly before them
    for number, n in enumerate(exactly.values(), start=first - len(exactly)):
        result[number, : int(labels[number].max(initial=-1)) + 1] = n
    for row, own, (name, least) in zip(result[first:], labels[first:], at_least.items(), strict=True):
        for value, minimum in least.items():
            matching = instance.groups.matching(name, value) & (own >= 0)
            if not matching.any():
                raise Infeasible(
                    f"at_least['{name}']", "about values that candidates have", repr(value), "drop the value"
                )
            row[own[matching][0]] = min(whole_number(f"at_least['{name}'][{value!r}]", minimum), instance.m + 1)
    return result
