"""A table of users as requests: one row a user, with columns for what differs between users.

    user      the id, a whole number or a text: each once
    history   ids: a list (Parquet, JSON Lines) or a text of ids with a separator between them
    vector    the user's numbers in place of a history: those of each head, then those of the base
    features  columns of numbers, in place of a history, for a model that was trained with user columns
    exclude   further ids not to show; written as a history is
    where     for an attribute the column of its condition: a value, a list of values, or a text such as 50..200

An empty cell is an empty history, no condition, or a missing feature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from setwise._validation import real_array
from setwise.datasets.missing import is_missing
from setwise.datasets.text_files import parse_number
from setwise.errors import InvalidInput, SetwiseError
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.recommend.arguments import description
from setwise.recommend.query import where_to_json
from setwise.recommend.query_texts import condition, ids, split
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate

KINDS = {"history": "histories", "user": "users", "features": "features"}  # arguments of recommend_many


@dataclass(frozen=True)
class Columns:
    """The names of the columns; exactly one of history, vector and features is given."""

    user: str = "user"
    history: str | None = None
    vector: str | None = None
    features: tuple[str, ...] = ()
    exclude: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)  # attribute: column
    separator: str = ","  # between the ids of a text

    def __post_init__(self) -> None:
        description({name: getattr(self, name) or None for name in ("history", "vector", "features")}, None)
        if not self.separator:
            raise InvalidInput("separator", "one character or more", "an empty text", "pass the one of the table")

    @property
    def names(self) -> list[str]:
        """Every column that is read, the user's first."""
        single = [name for name in (self.history, self.vector, self.exclude) if name is not None]
        return [self.user, *single, *self.features, *self.where.values()]


class Request(NamedTuple):
    """What one row asks: an argument of ``recommend`` by its name, and what is left out or required of items."""

    kind: str
    content: Any
    exclude: list[Any]
    where: Mapping[str, Any]

    @property
    def group(self) -> str:
        """Requests of one group are answered together."""
        return json.dumps([self.kind, self.exclude, where_to_json(self.where)], sort_keys=True, default=str)


def request(catalog: Catalog, columns: Columns, cells: Sequence[Any]) -> Request:
    """The request of one row; ``cells`` are in the order of ``columns.names``."""
    row = dict(zip(columns.names, cells, strict=True))
    exclude = [] if columns.exclude is None else _ids(catalog, row[columns.exclude], columns.separator, "exclude")
    where = {
        attribute: _condition(catalog, attribute, row[column], columns)
        for attribute, column in columns.where.items()
        if not is_missing(row[column])
    }
    return Request(*_described(catalog, columns, row), exclude, where)


def _described(catalog: Catalog, columns: Columns, row: Mapping[str, Any]) -> tuple[str, Any]:
    """What describes the user: the name of the argument, and its value."""
    if columns.history is not None:
        return "history", _ids(catalog, row[columns.history], columns.separator, "history")
    if columns.vector is not None:
        return "user", _user(catalog, row[columns.vector], columns)
    known = {name: row[name] for name in columns.features if not is_missing(row[name])}
    return "features", {name: _feature(name, cell) for name, cell in known.items()}


def _ids(catalog: Catalog, cell: Any, separator: str, parameter: str) -> list[Any]:
    if isinstance(cell, str) and not is_missing(cell):
        return ids(catalog, split([cell], separator), parameter)
    if isinstance(cell, (list, tuple)):
        return list(cell)
    return [] if is_missing(cell) else [cell]


def _user(catalog: Catalog, cell: Any, columns: Columns) -> User:
    """Numbers as a user: H · d_v of the heads, then d_0 of the base."""
    numbers = [parse_number(text) for text in split([cell], columns.separator)] if isinstance(cell, str) else cell
    (_, heads, width), base = catalog.value.shape, 0 if catalog.base is None else catalog.base.shape[1]
    entries = real_array("vector", [] if is_missing(numbers) else numbers, (heads * width + base,), np.float64)
    of_base = entries[heads * width :] if catalog.base is not None else None
    return User(entries[: heads * width].reshape(heads, width), of_base)


def _feature(name: str, cell: Any) -> float:
    number = parse_number(cell)
    if number != number:
        raise InvalidInput(f"features {name}", "a number, or empty", repr(cell), "check the column")
    return number


def _condition(catalog: Catalog, attribute: str, cell: Any, columns: Columns) -> Any:
    """A condition: texts as the command line has them, other values as they are."""
    if isinstance(cell, str):
        return condition(catalog, attribute, [cell], "where")
    return list(cell) if isinstance(cell, (list, tuple)) else [cell]


# --- answers ---


def answers(
    recommender: Recommender, columns: Columns, rows: Sequence[Sequence[Any]], options: Mapping[str, Any]
) -> list[Slate | SetwiseError]:
    """The slate of every row, or the error that is about this row alone.

    Rows with one filter share passes over the catalogue. If one of them is refused, each is answered alone.
    """
    result: list[Slate | SetwiseError] = [SetwiseError()] * len(rows)
    asking: list[tuple[str, int, Request]] = []
    for number, cells in enumerate(rows):
        try:
            asked = request(recommender.index.catalog, columns, cells)
        except SetwiseError as error:
            result[number] = error
        else:
            asking.append((asked.group, number, asked))
    for _, members in groupby(sorted(asking, key=lambda entry: entry[:2]), key=lambda entry: entry[0]):
        group = [(number, asked) for _, number, asked in members]
        for (number, _), answer in zip(group, _group(recommender, [asked for _, asked in group], options), strict=True):
            result[number] = answer
    return result


def _group(
    recommender: Recommender, requests: Sequence[Request], options: Mapping[str, Any]
) -> Sequence[Slate | SetwiseError]:
    kind, _, exclude, where = requests[0]
    same: dict[str, Any] = {**options, "where": {**(options.get("where") or {}), **where}}
    same["exclude"] = [*options.get("exclude", ()), *exclude]
    same[KINDS[kind]] = [asked.content for asked in requests]
    try:
        return recommender.recommend_many(threads=1, **same)
    except SetwiseError as error:
        if len(requests) == 1:
            return [error]
    return [answer for asked in requests for answer in _group(recommender, [asked], options)]
