"""Requests and responses of the HTTP API as types: decoding is strict (decoding.py), and OpenAPI is made from them.

The fields of ``RecommendRequest`` are the arguments of recommend/arguments.py, for ``Recommender.recommend``.
``WRITTEN`` has those whose type is another in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec

from setwise.ranking import RANKERS
from setwise.ranking.registry import DEFAULT
from setwise.recommend.arguments import ARGUMENTS
from setwise.recommend.query import arguments_from_json

Id = int | str
Scalar = bool | int | float | str
GroupKey = tuple[Any, ...]

# The rankers that are fast enough for a service, the default first.
INTERACTIVE = tuple(
    sorted((name for name in RANKERS if RANKERS[name].interactive), key=lambda name: name != DEFAULT.name)
)
QUERY_LENGTH, ITEMS_LIMIT, KEY_LENGTH = 200, 100, 200


# --- requests ---


class Range(msgspec.Struct, forbid_unknown_fields=True, rename={"low": "from", "high": "to"}):
    """Numbers between two ends; an end that is null or left out is open."""

    low: int | float | None = None
    high: int | float | None = None


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    """A user: one vector for each head, and one for the base term where the catalogue has it."""

    heads: list[list[float]]
    base: list[float] | None = None


class SumOf(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A limit on a sum of numbers that the request brings: one for each item, or by id."""

    limit: float
    of: str | list[float] | dict[str, float] | None = None


WRITTEN: dict[str, tuple[Any, Any]] = {  # the type in JSON, and the default
    "history": (list[Id] | None, None),
    "user": (Vectors | None, None),
    "features": (dict[str, float | None] | None, None),
    "scores": (list[float] | dict[str, float] | None, None),
    "sum_at_most": (dict[str, float | SumOf], {}),
    "sum_at_least": (dict[str, float | SumOf], {}),
    "weights": (str | list[float] | dict[str, float] | None, None),
    "unknown": (Literal["ignore", "error"] | None, None),
    "exclude": (list[Id] | None, None),
    "include": (list[Id], []),
    "after": (list[Id] | None, None),
    "where": (dict[str, Scalar | list[Scalar] | Range], {}),
}


def _in_json(hint: Any) -> Any:
    """The type in JSON: a mapping is an object, whose keys are texts, and is left out rather than null."""
    if get_origin(hint) is Mapping:
        values: Any = _in_json(get_args(hint)[1])
        return dict[str, values]
    kinds = get_args(hint)
    mappings = [kind for kind in kinds if get_origin(kind) is Mapping]
    return _in_json(mappings[0]) if mappings and set(kinds) == {mappings[0], NoneType} else hint


def field_of(name: str) -> tuple[str, Any, Any]:
    """The field of this argument; a type that JSON has not the same is refused when the document is made."""
    entry = ARGUMENTS[name]
    type_, default = WRITTEN.get(name, (_in_json(entry.type), entry.default))
    return name, type_, {} if default is None and get_origin(type_) is dict else default


if TYPE_CHECKING:

    class _Arguments(msgspec.Struct):
        """The fields that are made of the arguments, which mypy does not see."""

        def __getattr__(self, name: str) -> Any: ...
else:
    _Arguments = msgspec.defstruct("_Arguments", [field_of(name) for name in ARGUMENTS])


class RecommendRequest(_Arguments, forbid_unknown_fields=True, omit_defaults=True):
    """A request for one slate: one of history, user, vector and features, or scores alone; all else is optional."""

    vector: list[float] | None = None
    key: str | None = None  # what the log calls the user
    log: bool = True  # false for a slate that is only looked at: a service with a log does not log it

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``Recommender.recommend``; fields that were left out are left out."""
        stated = msgspec.to_builtins(self)
        for name in ("key", "log", "items"):
            stated.pop(name, None)
        return arguments_from_json(stated)

    def group_key(self) -> GroupKey:
        """Equal for requests that differ only in user and scores: they can share one pass over the catalogue."""
        shared = msgspec.structs.replace(
            self, history=None, user=None, vector=None, features=None, scores=None, key=None
        )
        vectors = self.user is not None or self.vector is not None
        return (
            self.history is not None,
            vectors,
            self.features is not None,
            self.scores is not None,
            msgspec.json.encode(shared),
        )


class ExplainRequest(RecommendRequest):
    """A request for the explanation of a slate: of the best one found, or of that of ``items``, which is not searched.

    With items, the response has no upper bound, and the time of the slate's own ranker is not that of a search.
    """

    items: list[Id] | None = None


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Requests that are answered together."""

    requests: list[RecommendRequest]


class ItemsRequest(msgspec.Struct, omit_defaults=True):
    """A search among the items: by words, or by ids."""

    q: Annotated[str, msgspec.Meta(max_length=QUERY_LENGTH, description="Words, in any order and case.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=ITEMS_LIMIT, description="The most items to return.")] = 20
    ids: Annotated[
        str | None,
        msgspec.Meta(
            description="Ids separated by commas, or as a JSON list, instead of words; unknown ids are left out."
        ),
    ] = None

    def wanted(self) -> list[str]:
        """The ids that are asked for, as texts; only a list of JSON can hold ids with commas."""
        text, listed = self.ids or "", None
        if text.startswith("["):
            with suppress(ValueError, RecursionError):
                listed = json.loads(text)
        ids = listed if isinstance(listed, list) else text.split(",")
        return [str(id_) for id_ in ids if isinstance(id_, (str, int))][:ITEMS_LIMIT]


class OutcomeEntry(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of an item of a slate: 1 for a hit, 0 for none, or a number between."""

    slate: str
    item: Id
    outcome: float = 1.0


class OutcomesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes of slates that this service, or another with the same log, has shown."""

    outcomes: list[OutcomeEntry]


HttpRequest = msgspec.Struct  # any of a route


# --- responses ---


class Item(msgspec.Struct):
    """An item and its attributes."""

    id: Id
    attributes: dict[str, Any]


class SlateItem(msgspec.Struct):
    """An item of a slate, with its reward in this slate."""

    id: Id
    reward: float
    attributes: dict[str, Any]


class SlateResponse(msgspec.Struct):
    """A slate, best item first; upper_bound and gap are null without a certificate, slate without a log.

    slate is the id under which outcomes are sent. left_out lists what the answer lacks because the service is busy
    or has just been installed: "certificate" (no upper bound was computed), "search" (the set was grown greedily in
    a twentieth of the budget) and "time" (search and proof were cut short by the deadline). partial says that
    a shard of the cluster did not answer, so its items were not searched.
    """

    items: list[SlateItem]
    value: float
    upper_bound: float | None
    gap: float | None
    proven: bool
    ignored: list[Id]
    timings: dict[str, float]
    version: str
    slate: str | None = None
    left_out: list[str] = []
    partial: bool = False


class ErrorDetail(msgspec.Struct):
    """A code for programs and a sentence for people."""

    code: str
    message: str


class ErrorResponse(msgspec.Struct):
    """The body of every response that is not a success."""

    error: ErrorDetail


class BatchResponse(msgspec.Struct):
    """A slate, or an error, for each request of the batch, in its order."""

    answers: list[Any]  # SlateResponse or ErrorResponse
    version: str


class RivalResponse(msgspec.Struct):
    """The set of another ranker for the same request."""

    ranker: str
    items: list[Item]
    value: float
    milliseconds: float


class ExplainResponse(msgspec.Struct):
    """A slate with its attention, what each item is worth alone, and the sets of other rankers."""

    slate: SlateResponse
    attention: list[list[list[float]]]
    sink: list[list[float]] | None
    rewards: list[float]
    alone: list[float]
    lent: list[list[float]]
    rivals: list[RivalResponse]
    gain_over_top_k: float
    gain_over_greedy: float


class ItemsResponse(msgspec.Struct):
    """The items that a search found; total counts those beyond the limit too."""

    items: list[Item]
    total: int


class NotShown(msgspec.Struct):
    """An item that its slate did not have."""

    slate: str
    item: Id


class OutcomesResponse(msgspec.Struct):
    """What became of the outcomes. Those that are new or repeated are stored, once."""

    new: int
    repeated: int
    unknown_slates: list[str]
    not_shown: list[NotShown]


class Attribute(msgspec.Struct):
    """A column of the catalogue: the values of texts where they are few, the least and the largest of numbers.

    A column of the kind "url" holds texts that are web addresses.
    """

    name: str
    kind: Literal["text", "number", "boolean", "url"]
    values: list[str] | None = None
    low: float | None = None
    high: float | None = None


class Info(msgspec.Struct):
    """The artifact that is served, and the limits."""

    service: str
    version: str
    items: int
    heads: int
    cells: int
    understands_history: bool
    attributes: list[Attribute]
    title: str | None
    group: str | None
    hits: bool  # whether every reward is a probability, so that a value is an expected number of hits
    rankers: list[str]
    limits: dict[str, int]
    image_hosts: list[str] = []  # where the page may load pictures from
    attends: bool = True  # whether items can contribute to each other; otherwise rewards are those of items alone
    features: list[str] = []  # names of what a user may be described by in place of a history
    shards: int = 0  # of the cluster that is served; 0 for an index in the service itself
    effects: list[str] = []  # what items of a slate do to each other, in words, where the model says it
    drawing: str = ""  # the same in SVG


class Status(msgspec.Struct):
    """The state of the service."""

    status: str


class Reloaded(msgspec.Struct):
    """The version that is served now, and the one before."""

    version: str
    before: str
