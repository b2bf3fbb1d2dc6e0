"""What a request can say: every argument by its name, with its type, default and meaning, for all doors alike.

A new argument is an entry of ``Options`` here, and acts where ``Query.parse`` takes it (query.py).
From the entry follow

* the parameters of ``Recommender.recommend``, ``recommend_many`` and those of a cluster's front, for ``help`` and mypy;
* the fields of HTTP requests, their check and the OpenAPI document (service/schemas.py);
* the options of ``setwise recommend`` and of ``setwise batch`` (cli/query_options.py);
* the keys of the JSON form of a query.

A type that JSON or a command line writes otherwise, such as a user or scores, also has a line there.
``tests/recommend/test_new_argument.py`` adds an argument to a copy of setwise and asks for it at every door.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict, TypeVar, get_type_hints

from numpy.typing import ArrayLike

from setwise._types import SLATE_SIZE as SLATE_SIZE
from setwise._validation import did_you_mean, whole_number
from setwise.errors import InvalidInput
from setwise.model.ids import IdChoice
from setwise.model.users import User

MOST_ITEMS = 2**31  # more than a catalogue can have; times and work are computed from k
IGNORE, ERROR = "ignore", "error"  # what becomes of ids that the catalogue does not have

SumBound = float | Mapping[str, Any]  # a limit, or {"limit": a limit, "of": the numbers of the items}
Given = ArrayLike | Mapping[Any, float]  # scores
Door = TypeVar("Door", bound=Callable[..., Any])


@dataclass(frozen=True)
class Argument:
    """One thing that a request can say; without it, it means ``default``. Its type is also there as it is written."""

    meaning: str
    default: Any = None
    type: Any = None
    written: str = ""


class Positional(TypedDict, total=False):
    """What may be passed by position."""

    user: Annotated[ArrayLike | User | None, Argument("The user as vectors, instead of a history.")]
    k: Annotated[
        int | None, Argument("The largest number of items of the slate; None where sum_at_most limits it.", SLATE_SIZE)
    ]


class OfUser(TypedDict, total=False):
    """What describes one user: ``recommend_many`` takes a list of each."""

    history: Annotated[IdChoice | None, Argument("Ids of the user's history; [] for a new user.")]
    features: Annotated[
        Mapping[str, Any] | Sequence[Any] | None,
        Argument("Features of the user, of a model that was trained with them."),
    ]
    scores: Annotated[
        Given | None, Argument("Scores of your own recommender: {id: score}, or one number for each item.")
    ]


class Options(TypedDict, total=False):
    """What all users of a call share."""

    scores_floor: Annotated[
        float | None, Argument("The score of items that scores does not name; by default they are not shown.")
    ]
    unknown: Annotated[
        str, Argument("ignore reports unknown ids of history, exclude and scores; error refuses them.", IGNORE)
    ]
    filter_seen: Annotated[
        bool, Argument("Whether items of the history are not shown again, but for those of include.", True)
    ]
    exclude: Annotated[IdChoice, Argument("Further ids that must not be shown.", ())]
    include: Annotated[IdChoice, Argument("Ids that the slate must contain.", ())]
    where: Annotated[
        Mapping[str, Any] | None,
        Argument("Conditions on attributes: a value, a list of values, or a range of numbers."),
    ]
    at_most: Annotated[
        Mapping[str, int] | None, Argument("The largest number of items of one value, by attribute: {artist: 1}.")
    ]
    at_least: Annotated[
        Mapping[str, Mapping[Any, int]] | None,
        Argument("The smallest number of items of a value: {genre: {jazz: 2}}."),
    ]
    exactly: Annotated[
        Mapping[str, int] | None, Argument("The number of items of every value of an attribute: {site: 1}.")
    ]
    after: Annotated[
        IdChoice,
        Argument(
            "Ids that were shown before: none is shown again, their effects on the new items count, but not their own "
            "rewards.",
            (),
        ),
    ]
    after_counts: Annotated[
        bool, Argument("Whether limits also count the items of after; else those of the new page alone.", False)
    ]
    sum_at_most: Annotated[
        Mapping[str, SumBound] | None,
        Argument(
            "The largest sum of a number over the slate, by attribute: {price: 100}; or, for numbers of your own, "
            "{tokens: {limit: 4000, of: {id: number}}}. An item without the number is not shown."
        ),
    ]
    sum_at_least: Annotated[Mapping[str, SumBound] | None, Argument("The smallest sum, likewise.")]
    weights: Annotated[
        str | ArrayLike | Mapping[Any, float] | None,
        Argument(
            "What a unit of each item's reward is worth, at least 0: an attribute's name such as margin, one number an "
            "item, or {id: number}; an item without one is not shown."
        ),
    ]
    value_unit: Annotated[str | None, Argument("The unit of the value, such as EUR, which is shown with it.")]
    budget_ms: Annotated[
        float | None,
        Argument(
            "Milliseconds for search and proof together; without them the request alone says how much is searched, and "
            "the proof takes at most 100 ms."
        ),
    ]
    ranker: Annotated[str | None, Argument("The search; by default that of the recommender.")]
    certify: Annotated[bool | None, Argument("Whether to compute an upper bound; by default as the recommender does.")]


class RequestArguments(OfUser, Options):
    """What ``recommend`` takes by name."""


def _entries(*groups: type) -> dict[str, Argument]:
    entries: dict[str, Argument] = {}
    for group in groups:
        for name, hint in get_type_hints(group, include_extras=True).items():
            source: Any = ast.parse(group.__annotations__[name].__forward_arg__, mode="eval").body
            written = ast.unparse(source.slice.elts[0])  # of Annotated[type, Argument(…)]
            entries[name] = replace(hint.__metadata__[0], type=hint.__origin__, written=written)
    return entries


ARGUMENTS: Mapping[str, Argument] = _entries(Positional, RequestArguments)
DESCRIPTIONS = ("history", "user", "features")  # of the user: exactly one of them, or scores alone
OPTIONS = tuple(name for name in ARGUMENTS if name not in DESCRIPTIONS)


def takes(group: type) -> Callable[[Door], Door]:
    """Name the arguments of this group, with types and defaults, in the signature of a function of ``**arguments``."""

    def named(door: Door) -> Door:
        signature = inspect.signature(door)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=entry.default, annotation=entry.written)
            for name, entry in _entries(group).items()
            if name not in signature.parameters
        ]
        door.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return door

    return named


def require_names(names: Iterable[str]) -> None:
    """Refuse names that are no arguments of a request."""
    for name in names:
        if name not in ARGUMENTS:
            todo = did_you_mean(name, ARGUMENTS) or "drop it"
            raise InvalidInput("an argument of a request", f"one of {', '.join(ARGUMENTS)}", repr(name), todo)


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
    """``k``, checked; where it may be None, the caller knows."""
    return min(whole_number("k", k), MOST_ITEMS)
