"""Items that are candidates whatever their score in their cell: those of required groups, and the best ones alone.

A lower limit (``at_least``, ``exactly``) requires items of a group, and some rankers start from what items are worth
alone (``recommend/retrieve.py``). Every shard returns its best items of each kind, and the front keeps the best of all.

Where no set of the candidates keeps all limits, items of other values join them (``recommend/lower_limits.py``). Every
shard returns the best of its first values, among which are the first values of all. Where more than one item of each is
wanted, a second call names these values: their next items may be late at another shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints, Rows
from setwise.model.alone import best_alone, rewards_alone
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, Limits
from setwise.model.users import User
from setwise.recommend.lower_limits import SHARE, SPARE, Required, Variety, check_sizes, check_total, item_scores

NONE: Ints = np.empty(0, np.int64)
Key = tuple[str, str, Any]  # a limit, an attribute and a value


class Needs(NamedTuple):
    """What a request needs beside the best items of every cell.

    limits  the lower limits
    most    the candidates of the request
    alone   how many items of largest reward alone
    """

    user: User
    k: int
    limits: Limits
    most: int
    alone: int


class Best(NamedTuple):
    """The best of ``total`` items: their rows, and the measure by which they are the best."""

    total: int
    rows: Ints
    measure: Floats


class Group(NamedTuple):
    """The best eligible items of a required group."""

    key: Key
    best: Best


class Needed(NamedTuple):
    """What a shard has of what is needed."""

    groups: list[Group]
    alone: Best | None

    @property
    def rows(self) -> Ints:
        """The rows of all of them."""
        parts = [group.best.rows for group in self.groups] + ([] if self.alone is None else [self.alone.rows])
        return np.concatenate([NONE, *parts])


def needed_here(catalog: Catalog, numbers: Ints, eligible: Rows, needs: Needs) -> Needed:
    """The answer of a shard; ``numbers`` (n,) are the rows of its items in the cluster."""
    groups = []
    for name, attribute, value, rows in _groups(catalog, eligible, needs):
        if rows is None:
            groups.append(Group((name, attribute, value), Best(needs.k, NONE, np.empty(0))))
            continue
        scores = item_scores(catalog, needs.user, rows)
        least = needs.limits[name][attribute]
        room = max(SPARE * (least[value] if LIMITS[name].by_value else least), int(SHARE * needs.most))
        order = np.argsort(-scores, kind="stable")[:room]
        groups.append(Group((name, attribute, value), Best(len(rows), numbers[rows[order]], scores[order])))
    alone = None
    if needs.alone and len(eligible):
        rows = best_alone(catalog, needs.user, eligible, needs.alone)
        alone = Best(len(eligible), numbers[rows], rewards_alone(catalog, needs.user, rows))
    return Needed(groups, alone)


def _groups(catalog: Catalog, eligible: Rows, needs: Needs) -> Iterable[tuple[str, str, Any, Rows | None]]:
    """The eligible rows of every required group: limit, attribute, value, rows; None beyond k values: see the error."""
    for name, stated in needs.limits.items():
        for attribute, numbers in stated.items() if LIMITS[name].lower else ():
            if LIMITS[name].by_value:
                for value in numbers if len(numbers) <= needs.k else ():
                    yield name, attribute, value, eligible[catalog.attributes.matching({attribute: value})[eligible]]
                continue
            labels, column = catalog.attributes.labels(attribute, eligible), catalog.attributes[attribute]
            distinct, first = np.unique(labels, return_index=True)
            first = first[distinct >= 0]
            few = len(first) <= needs.k
            for at, value in zip(first.tolist(), column[eligible[first]], strict=True):
                rows = eligible[labels == labels[at]] if few else None
                yield name, attribute, _plain(value), rows


def needed_rows(answers: Mapping[int, Needed], needs: Needs) -> Ints:
    """The rows that become candidates, ascending; a requirement that no set can meet is refused."""
    merged: dict[Key, list[Best]] = {}
    for answer in answers.values():
        for group in answer.groups:
            merged.setdefault(group.key, []).append(group.best)
    for name, stated in needs.limits.items():
        for attribute, numbers in stated.items() if LIMITS[name].lower else ():
            sizes = [sum(best.total for best in parts) for key, parts in merged.items() if key[:2] == (name, attribute)]
            check_total(LIMITS[name], attribute, numbers, len(sizes), needs.k)
            check_sizes(LIMITS[name], attribute, numbers, sizes)
    share, rows = int(SHARE * needs.most) // max(len(merged), 1), [NONE]
    for (name, attribute, value), parts in merged.items():
        least = needs.limits[name][attribute]
        rows.append(_best(parts, max(SPARE * (least[value] if LIMITS[name].by_value else least), share)))
    if needs.alone:
        rows.append(_best([answer.alone for answer in answers.values() if answer.alone is not None], needs.alone))
    return np.unique(np.concatenate(rows))


def _best(parts: list[Best], count: int) -> Ints:
    """The best of several answers, by (measure descending, row ascending)."""
    rows, measure = np.concatenate([best.rows for best in parts]), np.concatenate([best.measure for best in parts])
    return rows[np.lexsort((rows, -measure))[:count]]


class RequiredGroup(NamedTuple):
    """A required group: attribute, value, and how many items; ``named`` are values of the limited attributes."""

    attribute: str
    value: Any
    least: int
    named: list[list[Any]] | None = None


def varied_here(
    catalog: Catalog, numbers: Ints, eligible: Rows, user: User, groups: list[RequiredGroup], variety: Variety
) -> Ints:
    """The rows that a shard adds for ``groups``, ascending."""
    parts = [NONE]
    for group in groups:
        rows = eligible[catalog.attributes.matching({group.attribute: group.value})[eligible]]
        if group.named is None:
            parts += variety.rows(catalog, user, rows, group.least)
            continue
        for (attribute, n), values in zip(variety.upper, group.named, strict=True):
            for value in values:
                members = rows[catalog.attributes.matching({attribute: value})[rows]]
                order = np.argsort(-item_scores(catalog, user, members), kind="stable")
                parts.append(members[order[: min(n, group.least)]])
    return np.unique(numbers[np.concatenate(parts).astype(np.int64)])


def wanted_groups(required: tuple[Required, ...]) -> list[RequiredGroup]:
    """The groups as shards read them."""
    return [RequiredGroup(group.attribute, _plain(group.value), group.least) for group in required]


def named_values(catalog: Catalog, user: User, required: tuple[Required, ...], variety: Variety) -> list[RequiredGroup]:
    """The groups with the values of the items that would be added."""
    groups = []
    for group in required:
        parts = variety.rows(catalog, user, group.rows, group.least)
        named = [
            [_plain(value) for value in np.unique(catalog.attributes[attribute][rows[labels >= 0]])]
            for (attribute, _), rows in zip(variety.upper, parts, strict=True)
            for labels in [catalog.attributes.labels(attribute, rows)]
        ]
        groups.append(RequiredGroup(group.attribute, _plain(group.value), group.least, named))
    return groups


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
