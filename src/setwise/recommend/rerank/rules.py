"""The rules of a list as constraints on its candidates: the same names, forms and checks as in ``recommend``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setwise._types import Floats, Ints, Mask
from setwise._validation import whole_number
from setwise.errors import Infeasible, UnknownId
from setwise.model.attributes import Attributes
from setwise.model.constraints import Constraints
from setwise.model.limits import catalog_limits
from setwise.model.sums import SUMS, attribute_numbers, sum_limits
from setwise.recommend.histories import refuses_unknown
from setwise.recommend.query import require_conditions
from setwise.recommend.rerank.candidates import UNKNOWN, UNSCORED, Candidates
from setwise.recommend.rerank.numbers import numbers_of


@dataclass(frozen=True)
class Rules:
    """What a set must keep; the names are those of a request."""

    k: int
    include: Any = ()
    exclude: Any = ()
    where: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    unknown: str = "ignore"

    def constraints(self, candidates: Candidates) -> Constraints:
        """These rules for these candidates; unknown ids are noted, or refused."""
        most, m = whole_number("k", self.k), len(candidates)
        limits = {name: stated for name, stated in self.limits.items() if stated is not None}
        refuse = refuses_unknown(self.unknown)
        if not limits and self.where is None and not (_any(self.include) or _any(self.exclude)):
            return Constraints.plain(m, most)
        require_conditions(self.where)
        pinned, missing = candidates.places_of("include", self.include)
        if missing:
            _refuse_missing(candidates, missing[0])
        excluded, missing = candidates.places_of("exclude", self.exclude)
        if missing and refuse:
            raise UnknownId("exclude", "ids of candidates", repr(missing[0]), "drop it, or pass unknown='ignore'")
        if missing:
            candidates.notes[UNKNOWN] = missing
        if self.where:
            filtered = np.flatnonzero(~candidates.attributes.matching(self.where))
            excluded = np.union1d(excluded, filtered).astype(np.intp)
        if len(excluded) == m:
            raise Infeasible("where and exclude", "such that a candidate is left", "none", "loosen one of them")
        both = np.intersect1d(pinned, excluded)
        if len(both):
            todo = "drop it from include, or loosen exclude and where"
            got = f"{candidates.named(both)[0]!r}, excluded or filtered out"
            raise Infeasible("include", "candidates that may be chosen", got, todo)
        sums = sum_limits(
            {name: limits.pop(name, None) for name in SUMS},
            lambda parameter, name, of: numbers_of(candidates, parameter, name if of is None else of),
        )
        limited: dict[str, Any] = catalog_limits(limits, candidates.attributes)
        return Constraints.of(_Listed(candidates.attributes), most, excluded, pinned, sums, **limited)


@dataclass(frozen=True)
class _Listed:
    """Candidates as ``Constraints.of`` reads them: their number and the labels of their attributes."""

    attributes: Attributes
    exclusive: Sequence[Any] = ()

    @property
    def m(self) -> int:
        return self.attributes.size

    @property
    def groups(self) -> _Groups:
        return _Groups(self.attributes)


class _Groups(Mapping[str, Ints]):
    """Labels by attribute, as those of ``Instance.groups``."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes

    def matching(self, name: str, value: Any) -> Mask:
        """Which candidates have this value of the attribute: (m,)."""
        return self._attributes.matching({name: value})

    def numbers_for(self, parameter: str, name: str, of: Any = None) -> Floats:
        """The numbers of each candidate for a sum: those of the attribute; NaN where there is none."""
        return attribute_numbers(self._attributes, parameter, name)

    def __getitem__(self, name: str) -> Ints:
        return self._attributes.labels(name, np.arange(self._attributes.size))

    def __iter__(self) -> Any:
        return iter(self._attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __len__(self) -> int:
        return len(self._attributes)


def _any(ids: Any) -> bool:
    return not (ids is None or (isinstance(ids, Collection) and not isinstance(ids, str) and not len(ids)))


def _refuse_missing(candidates: Candidates, id_: Any) -> None:
    """Refuse to include what is no candidate, or was left out."""
    if id_ in candidates.notes.get(UNSCORED, ()):
        raise Infeasible("include", "candidates with a finite score", f"{id_!r} without one", "give it a score")
    raise UnknownId("include", "ids of candidates", repr(id_), "pass the id of a candidate, or drop it")
