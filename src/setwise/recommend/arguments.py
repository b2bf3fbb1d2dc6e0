"""What a request can say: every argument by its name, with its default and its meaning, for all doors alike.

``Recommender.recommend`` and ``recommend_many``, a cluster's front, ``setwise recommend`` and ``setwise batch``, HTTP
and the JSON form of a query take these arguments. ``tests/recommend/test_arguments.py`` compares the doors with this
list, so that a new argument is an entry here, a parameter of ``recommend`` and its use in ``Query.parse``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from setwise._types import SLATE_SIZE as SLATE_SIZE
from setwise._validation import whole_number
from setwise.errors import InvalidInput

MOST_ITEMS = 2**31  # more than a catalogue can have; times and work are computed from k
IGNORE, ERROR = "ignore", "error"  # what becomes of ids that the catalogue does not have


@dataclass(frozen=True)
class Argument:
    """One thing that a request can say; without it, it means ``default``."""

    meaning: str
    default: Any = None


DESCRIPTIONS: Mapping[str, Argument] = {  # of the user: exactly one of them, or scores alone
    "history": Argument("Ids of the user's history; [] for a new user."),
    "user": Argument("The user as vectors, instead of a history."),
    "features": Argument("Features of the user, of a model that was trained with them."),
}
OPTIONS: Mapping[str, Argument] = {
    "k": Argument("The largest number of items of the slate.", SLATE_SIZE),
    "scores": Argument("Scores of your own recommender: {id: score}, or one number for each item."),
    "scores_floor": Argument("The score of items that scores does not name; by default they are not shown."),
    "unknown": Argument("ignore reports unknown ids of history, exclude and scores; error refuses them.", IGNORE),
    "filter_seen": Argument("Whether items of the history are not shown again, but for those of include.", True),
    "exclude": Argument("Further ids that must not be shown.", ()),
    "include": Argument("Ids that the slate must contain.", ()),
    "where": Argument("Conditions on attributes: a value, a list of values, or a range of numbers."),
    "at_most": Argument("The largest number of items of one value, by attribute: {artist: 1}."),
    "at_least": Argument("The smallest number of items of a value: {genre: {jazz: 2}}."),
    "exactly": Argument("The number of items of every value of an attribute: {site: 1}."),
    "budget_ms": Argument(
        "Milliseconds for search and proof together; without them the request alone says how much is searched, and the "
        "proof takes at most 100 ms."
    ),
    "ranker": Argument("The search; by default that of the recommender."),
    "certify": Argument("Whether to compute an upper bound; by default as the recommender does."),
}
ARGUMENTS: Mapping[str, Argument] = {**DESCRIPTIONS, **OPTIONS}


def description(stated: Mapping[str, Any], scored: bool | None, todo: str = "pass one of them") -> str | None:
    """The name of the one entry of ``stated`` that describes the user; None where scores do so alone.

    Every door calls this with its names of these entries; one that was left out is None. ``scored`` is whether there
    are scores, or None where a door has none.
    """
    names = [name for name, value in stated.items() if value is not None]
    if len(names) > 1 or not (names or scored):
        must = f"described by exactly one of {', '.join(stated)}" + ("" if scored is None else ", or by scores alone")
        raise InvalidInput("the user", must, " and ".join(names) or "none of them", todo)
    return names[0] if names else None


def slate_size(k: object) -> int:
    """``k``, checked."""
    return min(whole_number("k", k), MOST_ITEMS)
