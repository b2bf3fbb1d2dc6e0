"""Lower limits of a query, ``at_least`` and ``exactly``: what they ask of the eligible items and of the candidates.

``at_least={"genre": {"jazz": 2}}`` requires two items of jazz; ``exactly={"site": 1}`` one item of every site that an
eligible item has. Each is a list of *requirements*: a group of eligible rows, of which a set needs so many.

**Candidates.** Retrieval ranks items by score whatever their group, so it may return none of a required group. The best
items by score of every required group are added. Every value that eligible items have is then among the candidates, so
``exactly`` means the same to ``rank``, which sees the candidates alone. The best of a group may all have one value of
an attribute with an upper limit, and no set of them be feasible. Then items of other values are added
(``with_varied``).

**Bounds.** A lower limit only removes feasible sets: a bound that ignores it holds for the sets that remain. As an
upper limit on the items outside of its group it tightens them (``bounded_limits.py``); ``exactly`` is one itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints, Rows
from setwise.errors import Infeasible
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, Limit, Limits
from setwise.model.users import User

SPARE = 4  # candidates of a required group for every item of it that a set needs
SHARE = 0.25  # of the candidates, as many as that are added at least, divided among the required groups
_CHUNK = 16_384  # rows


@dataclass(frozen=True, eq=False)
class Required:
    """A set has ``least`` of the eligible ``rows`` or more: of those whose ``attribute`` has the ``value``."""

    rows: Rows
    least: int
    attribute: str
    value: Any


def requirements(catalog: Catalog, rows: Rows, k: int, limits: Limits) -> tuple[Required, ...]:
    """All requirements of these eligible rows; raise Infeasible for one that they, or k, cannot meet."""
    lower = [(LIMITS[name], stated) for name, stated in limits.items() if LIMITS[name].lower]
    result: list[Required] = []
    for limit, stated in lower:
        for attribute, numbers in stated.items():
            labels = None if limit.by_value else catalog.attributes.labels(attribute, rows)
            distinct = np.unique(labels[labels >= 0]) if labels is not None else ()
            check_total(limit, attribute, numbers, len(distinct), k)  # before a pass over the items for each value
            groups = (
                _named(catalog, rows, attribute, numbers)
                if labels is None
                else _of_every_value(catalog, rows, attribute, labels, numbers)
            )
            check_sizes(limit, attribute, numbers, [len(group.rows) for group in groups])
            result += groups
    return tuple(result)


def check_total(limit: Limit, attribute: str, numbers: Any, values: int, k: int) -> None:
    """Refuse a lower limit that requires more than k items in all; ``values`` counts those that eligible items have."""
    total, groups = (sum(numbers.values()), len(numbers)) if limit.by_value else (numbers * values, values)
    if total > k:
        parameter, got = f"{limit.name}['{attribute}']", f"{total} of {groups} values"
        raise Infeasible(parameter, f"of at most k = {k} items in all", got, "raise k, or lower it")


def check_sizes(limit: Limit, attribute: str, numbers: Any, sizes: Sequence[int]) -> None:
    """Refuse a lower limit whose groups have so many eligible items, if one of them is too small."""
    least = list(numbers.values()) if limit.by_value else [numbers] * len(sizes)
    parameter = f"{limit.name}['{attribute}']"
    for at, (size, wanted) in enumerate(zip(sizes, least, strict=True)):
        if size < wanted:
            value = f" with {list(numbers)[at]!r}" if limit.by_value else " with one of the values"
            must = f"at most the number of eligible items{value}, {size}"
            raise Infeasible(parameter, must, wanted, "check the value, lower the number, or loosen where")


def _of_every_value(catalog: Catalog, rows: Rows, attribute: str, labels: Ints, n: int) -> list[Required]:
    """So many items of each value that the rows have, of which these are the labels."""
    column = catalog.attributes[attribute]
    groups = [rows[labels == value] for value in np.unique(labels[labels >= 0])]
    return [Required(group, n, attribute, column[group[:1]][0]) for group in groups]


def _named(catalog: Catalog, rows: Rows, attribute: str, numbers: Mapping[Any, int]) -> list[Required]:
    """So many items of each value that is named."""
    matching = catalog.attributes.matching
    return [Required(rows[matching({attribute: value})[rows]], n, attribute, value) for value, n in numbers.items()]


def with_required(candidates: Rows, required: tuple[Required, ...], catalog: Catalog, user: User, most: int) -> Rows:
    """The candidates and the best items by score of every required group, ascending."""
    if not required:
        return candidates
    share = int(SHARE * most) // len(required)
    best = [_best(catalog, user, group.rows, max(SPARE * group.least, share)) for group in required]
    return np.unique(np.concatenate([candidates, *best])).astype(np.intp)


class Variety(NamedTuple):
    """What ``with_varied`` adds: of every required group, the best items of many values of attributes that are limited.

    upper   attributes with an upper limit, and the limits
    needed  items that all groups require together
    pinned  items that are pinned
    most    the most candidates of a request
    """

    upper: list[tuple[str, int]]
    needed: int
    pinned: int
    most: int

    @classmethod
    def of(cls, limits: Limits, required: tuple[Required, ...], pinned: int, most: int) -> Variety:
        """The variety of a request with these limits and requirements."""
        upper = [
            (name, int(n)) for limit, stated in limits.items() if LIMITS[limit].upper for name, n in stated.items()
        ]
        return cls(upper, sum(group.least for group in required), pinned, most)

    def rows(self, catalog: Catalog, user: User, group: Rows, least: int) -> list[Rows]:
        """The items of a group that are added, for each attribute."""
        order = group[np.argsort(-item_scores(catalog, user, group), kind="stable")]
        parts = []
        for attribute, n in self.upper:
            of_value = min(n, least)
            values = min(self.needed + self.pinned, max(SPARE, self.most // (self.needed * of_value)))
            parts.append(_of_many_values(order, catalog.attributes.labels(attribute, order), values, of_value))
        return parts


def with_varied(
    candidates: Rows, required: tuple[Required, ...], catalog: Catalog, user: User, variety: Variety
) -> Rows:
    """The candidates and, of every required group, the best items of many values of each attribute with an upper limit.

    Let required groups and pinned items need R items in all. A feasible set can be reduced to these. If a group has
    candidates of R values, or of all its values, and of each value as many as the limit allows, every item of the set
    can be exchanged for a candidate of its group: one of the same value, or else of a value that the set does not have.
    So with one limit from above and disjoint groups there is a feasible set of candidates if there is one at all,
    unless the most candidates do not suffice for this.
    """
    parts = [part for group in required for part in variety.rows(catalog, user, group.rows, group.least)]
    return np.unique(np.concatenate([candidates, *parts])).astype(np.intp)


def _of_many_values(order: Rows, labels: Ints, values: int, of_value: int) -> Rows:
    """Of so many values, those that come first in ``order``, the first ``each`` rows; a missing value is no limit."""
    unlimited = np.flatnonzero(labels < 0)[: values * of_value]
    counted = np.flatnonzero(labels >= 0)
    _, first, number = np.unique(labels[counted], return_index=True, return_inverse=True)
    among_first = np.argsort(np.argsort(first))[number] < values
    kept = counted[among_first]
    sorted_by = np.argsort(labels[kept], kind="stable")
    ordered = labels[kept][sorted_by]
    begin = np.searchsorted(ordered, ordered)
    return np.asarray(order[np.concatenate([unlimited, kept[sorted_by[np.arange(len(ordered)) - begin < of_value]]])])


def _best(catalog: Catalog, user: User, rows: Rows, count: int) -> Rows:
    """The ``count`` rows of the largest score."""
    if len(rows) <= count:
        return rows
    return np.asarray(rows[np.argsort(-item_scores(catalog, user, rows), kind="stable")[:count]])


def item_scores(catalog: Catalog, user: User, rows: Rows) -> Floats:
    """The total scores of these rows."""
    parts = np.array_split(rows, max(1, -(-len(rows) // _CHUNK)))
    return np.concatenate([_scores(catalog, user, part) for part in parts])


def _scores(catalog: Catalog, user: User, rows: Rows) -> Floats:
    score, _ = objective.scores(catalog, user, rows, None)
    return np.asarray(score.sum(axis=0) + objective.base_scores(catalog, user, rows))
