"""Feasible sets: at most k items, some pinned, some excluded, a limited number per group.

exclude    candidates that must not be chosen
include    candidates that must be (pinned)
at_most    {attribute: n}: at most n items with the same value of the attribute; missing values are not limited
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

    @classmethod
    def of(
        cls,
        instance: Instance,
        k: int,
        exclude: ArrayLike = (),
        include: ArrayLike = (),
        at_most: Mapping[str, int] | None = None,
    ) -> Constraints:
        """Check the constraints against the instance; refuse those that no set satisfies."""
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
        labels, limits = _limits(instance, at_most or {})
        result = cls(k, available, pinned, labels, limits)
        result._refuse_pinned_excess()
        return result

    def _refuse_pinned_excess(self) -> None:
        for labels, limit in zip(self.labels, self.limits, strict=True):
            mine = labels[self.pinned]
            if mine.size and np.bincount(mine[mine >= 0], minlength=1).max() > limit:
                raise Infeasible("include", f"at most {limit} of one group", "more", "pin fewer or raise at_most")

    def joinable(self, chosen: ArrayLike) -> NDArray[np.bool_]:
        """The candidates that can be added to ``chosen`` without violating a constraint other than k: (m,)."""
        members = np.asarray(chosen, np.intp)
        result = self.open.copy()
        result[members] = False
        for labels, limit in zip(self.labels, self.limits, strict=True):
            taken = labels[members]
            count = np.bincount(taken[taken >= 0], minlength=int(labels.max(initial=0)) + 1)
            result &= (labels < 0) | (count[np.maximum(labels, 0)] < limit)
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
        return True


def _dense(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same groups numbered 0, 1, 2, …, so that counts fit small arrays; −1 stays −1."""
    numbered = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    none = labels < 0
    return np.where(none, -1, numbered - (1 if none.any() else 0))


def _limits(instance: Instance, at_most: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, limits = [_dense(labels) for labels in instance.exclusive], [1] * len(instance.exclusive)
    if not isinstance(at_most, Mapping):
        raise InvalidInput("at_most", "a mapping {attribute: n}", repr(at_most), "write at_most={'artist': 2}")
    for name, limit in at_most.items():
        if name not in instance.groups:
            known = ", ".join(sorted(instance.groups)) or "none"
            raise InvalidInput("at_most", f"about attributes the items have ({known})", repr(name), "use one of those")
        rows.append(_dense(instance.groups[name]))
        limits.append(min(whole_number(f"at_most['{name}']", limit), instance.m))
    return np.array(rows, np.int64).reshape(len(rows), instance.m), np.array(limits, np.int64)
