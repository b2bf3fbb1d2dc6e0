"""Added scores: one number per item, for one request, that is added to the item's argument.

    a_i(S) = base_i · u⁰ + t_i + Σ_h …      (objective.py)

t comes from outside of the catalogue: from the caller's own recommender, or from what an encoder computes from a
history. It has two forms with one meaning:

    dense     t_i = values[i] for every item                 values (n,)
    sparse    t_i = values[p] if i = rows[p], else ``rest``  rows (m,) ascending and distinct, values (m,)

t_i belongs to the self term: like base_i · u⁰ it does not depend on the set, and other items do not attend to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setwise._display import short_repr
from setwise._types import Floats, Rows
from setwise._validation import frozen, index_array, real_array, real_number


@dataclass(frozen=True, eq=False)
class AddedScores:
    """The numbers t_i of n items; built by ``dense`` or ``sparse``."""

    n: int
    values: Floats
    rows: Rows | None = None  # None: dense
    rest: float = 0.0  # t_i of the items that are not in ``rows``

    __repr__ = short_repr

    @classmethod
    def dense(cls, values: ArrayLike) -> AddedScores:
        """One number for every item, in the order of the catalogue."""
        checked = real_array("scores", values, ("n",), np.float64)
        return cls(len(checked), checked)

    @classmethod
    def sparse(cls, n: int, rows: ArrayLike, values: ArrayLike, rest: float = 0.0) -> AddedScores:
        """The number of each of ``rows``, which are distinct and in any order; all others have ``rest``."""
        distinct = index_array("rows of scores", rows, n, "the catalogue")
        checked = real_array("scores", values, (len(distinct),), np.float64)
        order = np.argsort(distinct)
        return cls(n, frozen(checked[order]), frozen(distinct[order]), real_number("rest", rest))

    def of(self, rows: Rows) -> Floats:
        """t_i of these rows, in their order."""
        if self.rows is None:
            return self.values[rows]
        result = np.full(len(rows), self.rest)
        if len(self.rows):
            place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
            found = self.rows[place] == rows
            result[found] = self.values[place[found]]
        return result

    def whole(self) -> Floats:
        """t_i of all items: (n,)."""
        if self.rows is None:
            return self.values
        result = np.full(self.n, self.rest)
        result[self.rows] = self.values
        return result

    @property
    def is_zero(self) -> bool:
        """Whether it is sparse and has no number but 0."""
        return self.rows is not None and not len(self.rows) and self.rest == 0

    def plus(self, other: AddedScores | None) -> AddedScores:
        """The sum of both; sparse if both are. Where one is zero it is the other: many users share dense scores."""
        if other is None or other.is_zero:
            return self
        if self.is_zero:
            return other
        if self.rows is None or other.rows is None:
            return AddedScores(self.n, frozen(self.whole() + other.whole()))
        rows = np.union1d(self.rows, other.rows)
        return AddedScores(self.n, frozen(self.of(rows) + other.of(rows)), frozen(rows), self.rest + other.rest)

    def only(self, rows: Rows) -> AddedScores:
        """The same numbers for ``rows``, which are ascending, and 0 for the others."""
        return AddedScores(self.n, frozen(self.of(rows)), rows)
