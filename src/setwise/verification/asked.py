"""What the query of a slate file asks: items, numbers and limits, read apart from the code of the recommender."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, Limit
from setwise.model.users import User
from setwise.verification.conditions import as_number, eligible_items, labels_of, meets
from setwise.verification.sum_checks import SumCheck, broken_sums, sum_checks


class Asked:
    """A query and its catalogue."""

    def __init__(self, query: dict[str, Any], catalog: Catalog) -> None:
        self.query, self.catalog = query, catalog

    @cached_property
    def slate_user(self) -> User:
        """The user of the file, with the scores that the request added to items."""
        weights = self._numbers("weights", self.query.get("weights"))
        if weights is not None or self.before:
            weights = np.ones(len(self.catalog)) if weights is None else np.where(np.isnan(weights), 0.0, weights)
            weights[self.before] = 0.0
        return self.catalog.user(User(**self.query["user"], scores=self._added_scores(), weights=weights))

    @cached_property
    def before(self) -> list[int]:
        """The rows that were shown before: members of the set whose rewards do not count."""
        return [int(row) for row in self.catalog.rows_of(self.query.get("after", []))]

    @property
    def _uncounted(self) -> list[int]:
        """The rows that limits do not count."""
        return [] if self.query.get("after_counts", False) else self.before

    def _numbers(self, name: str, stated: Any) -> Floats | None:
        """The number of every item (n,), NaN where there is none: of an attribute, a list, or by id."""
        if stated is None:
            return None
        if isinstance(stated, str):
            column = self.catalog.attributes[stated]
            if hasattr(column, "codes"):
                raise InvalidInput(name, "about an attribute of numbers", repr(stated), "correct the query")
            return np.array(column, np.float64)
        if not isinstance(stated, dict):
            return np.array(stated, np.float64)
        numbers = np.full(len(self.catalog), np.nan)
        numbers[self._scored_rows(stated, name)] = list(stated.values())
        return numbers

    def _added_scores(self) -> Floats | None:
        """The added score of every item: (n,); without a floor an unnamed item has 0, and is not eligible."""
        scores, floor = self.query["scores"], self.query["scores_floor"]
        if not isinstance(scores, dict):
            return None if scores is None else np.array(scores)
        added = np.full(len(self.catalog), 0.0 if floor is None else floor)
        added[self._scored_rows(scores)] = list(scores.values())
        return added

    def _scored_rows(self, scores: dict[str, float], name: str = "scores") -> NDArray[np.intp]:
        """The rows of the ids that are the keys of ``scores``; whole numbers are written as texts."""
        text = hasattr(self.catalog.ids.values, "offsets")
        try:
            return self.catalog.rows_of(list(scores) if text else [int(one) for one in scores])
        except ValueError:
            raise InvalidInput(name, "about ids of the catalogue", "another text", "correct its keys") from None

    def _unweighed(self) -> NDArray[np.bool_]:
        """Which items are not eligible for want of a weight."""
        weights = self._numbers("weights", self.query.get("weights"))
        return np.zeros(len(self.catalog), bool) if weights is None else np.isnan(weights)

    @cached_property
    def _sums(self) -> list[SumCheck]:
        """The limits on sums."""

        def numbers(parameter: str, stated: Any) -> Floats:
            cost = self._numbers(parameter, stated)
            if cost is not None:
                cost[self.before] = np.nan_to_num(cost[self.before])
                cost[self._uncounted] = 0.0
            if cost is None or (cost < 0).any():
                raise InvalidInput(parameter, "about numbers of at least 0", "others", "correct the query")
            return cost

        return sum_checks(self.query, numbers)

    def _unsummed(self) -> NDArray[np.bool_]:
        """Which items are not eligible for want of a number of a sum."""
        unknown = np.isnan([np.zeros(len(self.catalog)), *(check.cost for check in self._sums)])
        return np.asarray(unknown.any(axis=0))

    def _unscored(self) -> NDArray[np.bool_]:
        """Which items are not eligible for want of a score."""
        scores = self.query["scores"]
        unscored = np.full(len(self.catalog), isinstance(scores, dict) and self.query["scores_floor"] is None)
        if unscored.any():
            unscored[self._scored_rows(scores)] = False
        return unscored

    def _broken_limits(self, rows: list[int]) -> Iterator[str]:
        """The limits that a set does not keep."""
        yield from broken_sums(self._sums, rows)
        for limit, name, numbers in self._limits():
            for value, n, labels in self._counted(limit, name, numbers):
                count = np.bincount(labels[rows][labels[rows] >= 0], minlength=int(labels.max(initial=0)) + 1)
                if limit.upper and count.max() > n:
                    yield f"more than {n} items have {'the same' if value is None else repr(value) + ' as'} '{name}'"
                if limit.lower:
                    needed = np.unique(labels[self._shown() & (labels >= 0)]) if value is None else [0]
                    if (count[needed] < n).any():
                        yield f"fewer than {n} items have {'some' if value is None else repr(value) + ' as'} '{name}'"

    def _limits(self) -> Iterator[tuple[Limit, str, Any]]:
        """Every limit of the query, with its attribute and numbers."""
        for limit in LIMITS.values():
            for name, numbers in self.query[limit.name].items():
                yield limit, name, numbers

    def _counted(self, limit: Limit, name: str, numbers: Any) -> Iterator[tuple[str | None, int, NDArray[np.int64]]]:
        """The value, or None for every value; the number; and labels of equal cells, 0 for those of the one value."""
        column = self.catalog.attributes[name]
        if not limit.by_value:
            labels = labels_of(column).copy()
            labels[self._uncounted] = -1
            yield None, numbers, labels
            return
        for value, n in numbers.items():
            wanted = value if hasattr(column, "codes") else as_number(limit.name, name, value)
            labels = np.where(meets(name, column, wanted), 0, -1)
            labels[self._uncounted] = -1
            yield value, n, labels

    def _outside(self, shown: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], int]]:
        """For each value of which a set has n items or more: the items without it, of which it has at most k − n."""
        for limit, name, numbers in self._limits():
            for value, n, labels in self._counted(limit, name, numbers) if limit.lower else ():
                for label in np.unique(labels[shown & (labels >= 0)]) if value is None else [0]:
                    outside = labels != label
                    outside[self._uncounted] = False
                    yield outside, self._size - len(self._uncounted) - n

    def _shown(self) -> NDArray[np.bool_]:
        """Which items may be in the set: those that may be shown, and those that were."""
        shown = eligible_items(self.catalog, self._rows_of("exclude"), self.query["where"])
        shown &= ~(self._unscored() | self._unweighed() | self._unsummed())
        shown[self.before] = True
        return shown

    @property
    def _size(self) -> int:
        """The most items of the set."""
        return int(self.query["k"]) + len(self.before)

    def _rows_of(self, key: str) -> list[int]:
        """The rows of the items that the query names."""
        return [int(row) for row in self.catalog.rows_of(self.query[key])]
