"""Lower limits of a query, ``at_least`` and ``exactly``: what they ask of the eligible items and of the candidates.

``at_least={"genre": {"jazz": 2}}`` requires two items of jazz; ``exactly={"site": 1}`` one item of every site that an
eligible item has. Each is a list of *requirements*: a group of eligible rows, of which a set needs so many.

**Candidates.** Retrieval ranks items by score whatever their group, so it may return none of a required group. The best
items by score of every required group are added. Every value that eligible items have is then among the candidates, so
``exactly`` means the same to ``rank``, which sees the candidates alone.

**Bounds.** A lower limit only removes feasible sets: a bound that ignores it holds for the sets that remain.
``exactly`` is an upper limit too, and as such it tightens bounds (``Query.upper_limits``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model import objective
from setwise.model.attributes import Categorical
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User

SPARE = 4  # candidates of a required group for every item of it that a set needs
SHARE = 0.25  # of the candidates, as many as that are added at least, divided among the required groups
_CHUNK = 16_384  # rows


@dataclass(frozen=True, eq=False)
class Required:
    """A set has ``least`` of the eligible ``rows`` or more."""

    rows: Rows
    least: int


def parsed_at_least(catalog: Catalog, given: Mapping[str, Any] | None) -> dict[str, dict[Any, int]]:
    """``at_least`` with checked names and numbers; texts that name numbers, as in JSON, become numbers."""
    result: dict[str, dict[Any, int]] = {}
    for name, least in (given or {}).items():
        if not isinstance(least, Mapping):
            todo = "write at_least={'genre': {'jazz': 2}}"
            raise InvalidInput("at_least", "a mapping {attribute: {value: n}}", repr(given), todo)
        column = catalog.attributes[name]
        result[name] = {
            value if isinstance(column, Categorical) else _number(name, value): whole_number(
                f"at_least['{name}'][{value!r}]", n
            )
            for value, n in least.items()
        }
    return result


def parsed_exactly(catalog: Catalog, given: Mapping[str, Any] | None) -> dict[str, int]:
    """``exactly`` with checked names and numbers."""
    for name in given or {}:
        catalog.attributes[name]  # raises for an unknown name
    return {name: whole_number(f"exactly['{name}']", n) for name, n in (given or {}).items()}


def requirements(
    catalog: Catalog,
    eligible: Eligibility,
    k: int,
    at_least: Mapping[str, Mapping[Any, int]],
    exactly: Mapping[str, int],
) -> tuple[Required, ...]:
    """All requirements; raise Infeasible for one that the eligible items, or k, cannot meet."""
    if not at_least and not exactly:
        return ()
    found: list[Required] = []
    rows = eligible.rows
    for name, n in exactly.items():
        labels = catalog.attributes.labels(name, rows)
        values = np.unique(labels[labels >= 0])
        if len(values) * n > k:
            got = f"{n} of each of {len(values)} values"
            raise Infeasible(f"exactly['{name}']", f"of at most k = {k} items in all", got, "raise k, or use where")
        found += [_required(f"exactly['{name}']", rows[labels == value], n) for value in values]
    for name, least in at_least.items():
        if sum(least.values()) > k:
            raise Infeasible(f"at_least['{name}']", f"of at most k = {k} items in all", sum(least.values()), "raise k")
        found += [
            _required(f"at_least['{name}']", rows[catalog.attributes.matching({name: value})[rows]], n)
            for value, n in least.items()
        ]
    return tuple(found)


def with_required(candidates: Rows, required: tuple[Required, ...], catalog: Catalog, user: User, most: int) -> Rows:
    """The candidates and the best items by score of every required group, ascending."""
    if not required:
        return candidates
    share = int(SHARE * most) // len(required)
    best = [_best(catalog, user, one.rows, max(SPARE * one.least, share)) for one in required]
    return np.unique(np.concatenate([candidates, *best])).astype(np.intp)


def _required(parameter: str, rows: Rows, least: int) -> Required:
    if len(rows) < least:
        raise Infeasible(parameter, "about values that enough eligible items have", f"{len(rows)}", "lower it")
    return Required(rows, least)


def _best(catalog: Catalog, user: User, rows: Rows, count: int) -> Rows:
    """The ``count`` rows of the largest score."""
    if len(rows) <= count:
        return rows
    scores = np.concatenate([_scores(catalog, user, some) for some in np.array_split(rows, -(-len(rows) // _CHUNK))])
    return np.asarray(rows[np.argsort(-scores, kind="stable")[:count]])


def _scores(catalog: Catalog, user: User, rows: Rows) -> Floats:
    score, _ = objective.scores(catalog, user, rows, None)
    return np.asarray(score.sum(axis=0) + objective.base_scores(catalog, user, rows))


def _number(name: str, value: Any) -> Any:
    """The number that a text names: the keys of JSON are texts."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        must = "about numbers, which the attribute holds"
        raise InvalidInput(f"at_least['{name}']", must, repr(value), "pass a number") from None
    return int(number) if number.is_integer() else number
