"""Eligible items: which rows of a catalogue a slate may hold. Computed once per query, read by every later phase.

An item is eligible unless it was removed from the index, fails the filter ``where``, is one of the query's own
``exclude`` rows, or has no score where the query's own scores name some items only. The parts that queries share
(removals and filter) and the rows that are one query's own are kept apart, for two reasons: queries with one filter
share one mask of n bytes, and retrieval can serve them in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Mask, Rows
from setwise._validation import did_you_mean, frozen, index_array
from setwise.errors import Infeasible, InvalidInput
from setwise.model.attributes import Attributes
from setwise.model.catalog import Catalog
from setwise.model.condition_values import SHOWN


@dataclass(frozen=True, eq=False)
class Eligibility:
    """The eligible rows among n: those in ``allowed`` that are not in ``excluded``. There is at least one."""

    n: int
    allowed: Mask | None  # (n,) what removals and the filter leave; None: every row
    excluded: Rows  # sorted, distinct; the rows that this query excludes
    count: int  # eligible rows

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        removed: Mask | None = None,
        where: Mapping[str, Any] | None = None,
        exclude: ArrayLike = (),
    ) -> Eligibility:
        """The eligible rows of ``catalog``: not ``removed`` (n,), matching ``where``, not among the rows ``exclude``.

        Without removals and filter the cost does not depend on n.
        """
        allowed = catalog.attributes.matching(where) if where else None
        if where and not np.any(allowed):
            _refuse_unmet(catalog.attributes, where)
        if removed is not None:
            allowed = ~removed if allowed is None else allowed & ~removed
        if allowed is not None:
            allowed = frozen(allowed)  # shared by queries: a device may keep its copy of it
        n = len(catalog)
        left = n if allowed is None else int(np.count_nonzero(allowed))
        return _nonempty(cls(n, allowed, np.empty(0, np.intp), left)).without(exclude)

    def without(self, exclude: ArrayLike) -> Eligibility:
        """These rows less ``exclude``, which may name a row twice. ``allowed`` is shared; the cost is O(|exclude|)."""
        if isinstance(exclude, (tuple, list, np.ndarray)) and not len(exclude):
            return self
        rows = index_array("exclude", exclude, self.n, "the catalogue", repeats=True)
        if not rows.size:
            return self
        excluded = np.union1d(self.excluded, rows) if self.excluded.size else rows
        allowed = self.n if self.allowed is None else self.count + self._allowed_among(self.excluded)
        return _nonempty(Eligibility(self.n, self.allowed, excluded, allowed - self._allowed_among(excluded)))

    def within(self, rows: Rows, parameter: str = "scores") -> Eligibility:
        """Those of these rows that are among ``rows``. The cost is O(n): the result has a mask of its own."""
        allowed = np.zeros(self.n, bool)
        allowed[rows if self.allowed is None else rows[self.allowed[rows]]] = True
        left = int(np.count_nonzero(allowed))
        inside = Eligibility(self.n, allowed, self.excluded, left)
        left -= inside._allowed_among(self.excluded)
        if left == 0:
            todo = "name items that may be shown" + (", or state a scores_floor" if parameter == "scores" else "")
            raise Infeasible(parameter, "about an item that is neither excluded nor filtered out", "none", todo)
        return replace(inside, count=left)

    def joined(self, rows: Rows) -> Eligibility:
        """These rows and ``rows``, whatever the filter says of them; a mask of its own."""
        allowed = np.ones(self.n, bool) if self.allowed is None else self.allowed.copy()
        allowed[rows] = True
        excluded = np.setdiff1d(self.excluded, rows)
        count = int(np.count_nonzero(allowed)) - int(np.count_nonzero(allowed[excluded]))
        return Eligibility(self.n, frozen(allowed), excluded, count)

    def _allowed_among(self, rows: Rows) -> int:
        return len(rows) if self.allowed is None else int(np.count_nonzero(self.allowed[rows]))

    @cached_property
    def mask(self) -> Mask | None:
        """(n,) whether each row is eligible; None when every row is. Not to be written to."""
        if not self.excluded.size:
            return self.allowed
        mask = np.ones(self.n, bool) if self.allowed is None else self.allowed.copy()
        mask[self.excluded] = False
        return mask

    @property
    def rows(self) -> Rows:
        """The eligible rows in ascending order: (count,)."""
        return np.arange(self.n) if self.mask is None else np.flatnonzero(self.mask)

    def admits(self, rows: ArrayLike) -> Mask:
        """Whether each of ``rows`` is eligible."""
        chosen = np.asarray(rows, np.intp)
        inside = np.ones(len(chosen), bool) if self.allowed is None else self.allowed[chosen]
        return inside & ~np.isin(chosen, self.excluded)


def require_rows(eligible: Eligibility, n: int) -> None:
    """Refuse the eligible rows of another catalogue than one of n items: their mask would be read past its end."""
    if eligible.n != n:
        must, got = f"one for the {n} items of this catalogue", f"one for {eligible.n} items"
        raise InvalidInput("eligible", must, got, "call eligible() on this index")


def _refuse_unmet(attributes: Attributes, where: Mapping[str, Any]) -> None:
    """Refuse the first condition that no item meets, if there is one: they may also exclude each other."""
    for name, condition in where.items():
        if not attributes.matching({name: condition}).any():
            todo, texts = "loosen it", attributes.some_values(name)
            if texts and isinstance(condition, str):
                todo = did_you_mean(condition, texts) or f"name one of its texts: {_some(texts)}"
            raise Infeasible(f"where['{name}']", "met by an item", repr(condition), todo)


def _some(texts: list[str]) -> str:
    """The first few of them."""
    return ", ".join(map(repr, texts[:SHOWN])) + (", …" if len(texts) > SHOWN else "")


def _nonempty(eligible: Eligibility) -> Eligibility:
    if eligible.count == 0:
        raise Infeasible("where and exclude", "conditions that leave an item", "ones that leave none", "loosen them")
    return eligible
