"""Tables of pandas and polars: candidates with scores and histories in, slates out.

A table is anything with ``columns`` and ``table[name]``, or a mapping of names to columns. Columns go by
RecTools' names or by plain ones:

    user      user_id or user            item    item_id or item
    score     score                      time    datetime or timestamp (of histories, optional)

A table of slates has a row for each item: user, item, rank (1 is the best), reward, value of the slate, upper_bound
(missing without one). With ``names="rectools"`` it is user_id, item_id, score (the reward) and rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from setwise._validation import listed, real_number
from setwise.errors import InvalidInput, MissingDependency
from setwise.recommend.arguments import SLATE_SIZE
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate

LIBRARIES = ("pandas", "polars")
NAMES = {
    "setwise": ("user", "item", "rank", "reward", "value", "upper_bound"),
    "rectools": ("user_id", "item_id", "score", "rank"),
}
_COLUMNS = {
    "user": ("user_id", "user"),
    "item": ("item_id", "item"),
    "score": ("score",),
    "time": ("datetime", "timestamp"),
}


def scores_by_user(table: Any) -> dict[Any, dict[Any, float]]:
    """{user: {item: score}} from a table of candidates, users in the order of their first row."""
    users, items, scores = (_cells(table, part) for part in ("user", "item", "score"))
    result: dict[Any, dict[Any, float]] = {}
    for user, item, score in zip(users, items, scores, strict=True):
        of_user = result.setdefault(user, {})
        if item in of_user:
            got, todo = f"{item!r} twice for user {user!r}", "keep one row for it"
            raise InvalidInput("table", "one row for each user and item", got, todo)
        of_user[item] = real_number("score", score)
    return result


def histories_by_user(table: Any) -> dict[Any, list[Any]]:
    """{user: [items]} from a table of interactions, by time where it has a column of that, else in its order."""
    users, items = _cells(table, "user"), _cells(table, "item")
    order: Iterable[int] = range(len(users))
    if _name(table, "time", required=False) is not None:
        times = _cells(table, "time")
        order = sorted(order, key=times.__getitem__)
    result: dict[Any, list[Any]] = {user: [] for user in users}
    for at in order:
        result[users[at]].append(items[at])
    return result


def recommend_frame(
    recommender: Recommender, table: Any, k: int = SLATE_SIZE, names: str = "setwise", **options: Any
) -> Any:
    """Slates from a table of candidates with scores, as a table of the same library.

    A user's candidates are the items of their rows; the options are those of ``recommend_many``, for instance
    ``histories`` or ``users``, one for each user of the table in the order of their first rows, or ``at_most``.
    """
    scores = scores_by_user(table)
    slates = recommender.recommend_many(k=k, scores=list(scores.values()), **options)
    module = type(table).__module__.partition(".")[0]
    return slates_to_frame(slates, list(scores), library=module if module in LIBRARIES else "pandas", names=names)


def slates_to_frame(
    slates: Sequence[Slate], users: Sequence[Any] | None = None, library: str = "pandas", names: str = "setwise"
) -> Any:
    """The slates of ``users`` (numbered from 0 unless given) as one table, a row for each item."""
    if library not in LIBRARIES:
        raise InvalidInput("library", f"one of {', '.join(LIBRARIES)}", repr(library), "choose one of those")
    if names not in NAMES:
        raise InvalidInput("names", f"one of {', '.join(NAMES)}", repr(names), "choose one of those")
    known = list(range(len(slates))) if users is None else listed("users", users, "users")
    if len(known) != len(slates):
        raise InvalidInput("users", f"one for each of {len(slates)} slates", len(known), "pass as many as slates")
    if find_spec(library) is None:
        raise MissingDependency(library, "a table of slates", "interop")
    columns = _slate_columns(slates, known)
    if names == "rectools":
        renamed = {"user_id": "user", "item_id": "item", "score": "reward", "rank": "rank"}
        columns = {name: columns[part] for name, part in renamed.items()}
    return import_module(library).DataFrame(columns)


def _slate_columns(slates: Sequence[Slate], users: Sequence[Any]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in NAMES["setwise"]}
    for user, slate in zip(users, slates, strict=True):
        size, bound = len(slate), slate.upper_bound if math.isfinite(slate.upper_bound) else math.nan
        columns["user"] += [user] * size
        columns["item"] += slate.items.tolist()
        columns["rank"] += range(1, size + 1)
        columns["reward"] += slate.rewards.tolist()
        columns["value"] += [slate.value] * size
        columns["upper_bound"] += [bound] * size
    return columns


# --- columns ---


def _name(table: Any, part: str, required: bool = True) -> str | None:
    have = list(table) if isinstance(table, Mapping) else list(getattr(table, "columns", ()))
    names = [name for name in _COLUMNS[part] if name in have]
    if not names and required:
        must = f"one with a column {' or '.join(_COLUMNS[part])}"
        raise InvalidInput("table", must, have or type(table).__name__, "rename its columns")
    return names[0] if names else None


def _cells(table: Any, part: str) -> list[Any]:
    """The cells of a column as plain Python objects."""
    column = table[_name(table, part)]
    cells = column.to_list() if hasattr(column, "to_list") else list(column)
    return [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
