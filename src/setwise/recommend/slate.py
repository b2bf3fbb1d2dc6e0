"""Slate: what a person is shown, what it is worth, and how much better any other could be."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User


@dataclass(frozen=True, eq=False)
class Wishes:
    """What was asked for: at most k items, without the rows ``exclude``, with ``include``, filtered and limited."""

    k: int
    exclude: Rows
    include: Rows
    where: Mapping[str, Any] | None
    at_most: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Slate:
    """A recommended set, best first by reward.

    indices      rows of the catalogue
    value        F(S), by the judge
    rewards      f_i(a_i(S)), by the judge: they add up to the value
    upper_bound  no feasible set of the whole catalogue is worth more; infinite when no certificate was asked for
    proven       whether none is worth more than the value, but for rounding
    timings      milliseconds by phase
    ranker       who chose among the candidates
    """

    catalog: Catalog = field(repr=False)
    user: User = field(repr=False)
    wishes: Wishes = field(repr=False)
    ranker: str = field(repr=False)
    indices: Rows
    value: float
    rewards: Floats
    upper_bound: float
    proven: bool
    timings: Mapping[str, float]

    @property
    def items(self) -> NDArray[Any]:
        """The ids of the items."""
        return np.asarray(self.catalog.ids[self.indices])

    @cached_property
    def attention(self) -> Floats:
        """Who attends to whom within the slate: (H, len, len)."""
        return objective.attention(self.catalog, self.indices)

    @property
    def gap(self) -> float:
        """(upper_bound − value) / upper_bound: the share of the best there may be that is not proven to be here.

        0 when proven: a gap of 0.1 says that this slate has at least nine tenths of what any other could have.

        Relative to the value's size where the bound is not positive, and 1 where there is no bound.
        """
        if self.proven:
            return 0.0
        if not math.isfinite(self.upper_bound):
            return 1.0
        size = self.upper_bound if self.upper_bound > 0 else abs(self.value)
        return (self.upper_bound - self.value) / size if size > 0 else 0.0

    def __len__(self) -> int:
        return len(self.indices)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the slate with its certificate; ``setwise verify`` checks such a file against the catalogue."""
        from setwise.verification.slate_file import write_slate

        write_slate(path, self._content())

    def _content(self) -> dict[str, Any]:
        wishes, user = self.wishes, self.user
        return {
            "catalog": self.catalog.digest,
            "user": {"heads": user.heads.tolist(), "base": None if user.base is None else user.base.tolist()},
            "k": wishes.k,
            "exclude": wishes.exclude.tolist(),
            "include": wishes.include.tolist(),
            "where": None if wishes.where is None else dict(wishes.where),
            "at_most": dict(wishes.at_most),
            "indices": self.indices.tolist(),
            "positions": None,
            "items": self.items.tolist(),
            "value": self.value,
            "rewards": self.rewards.tolist(),
            "upper_bound": self.upper_bound,
            "proven": self.proven,
        }
