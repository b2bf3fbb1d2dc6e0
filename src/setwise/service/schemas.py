"""Requests and responses of the HTTP API as types: decoding is strict, and the OpenAPI document is made from them.

A field of ``RecommendRequest``, other than ``key`` and ``log``, is passed to ``Recommender.recommend`` as the keyword
argument of the same name: a new field is a line here and its meaning in the library.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from setwise._validation import did_you_mean
from setwise.ranking import RANKERS
from setwise.ranking.registry import DEFAULT
from setwise.recommend.query import arguments_from_json
from setwise.service.http_errors import HttpError, malformed
from setwise.service.settings import Settings

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


class RecommendRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request for one slate: one of history, user, vector and features, or scores alone; all else is optional."""

    history: list[Id] | None = None
    unknown: Literal["ignore", "error"] | None = None
    user: Vectors | None = None
    vector: list[float] | None = None
    features: dict[str, float | None] | None = None
    scores: list[float] | dict[str, float] | None = None
    scores_floor: float | None = None
    k: int = 10
    exclude: list[Id] | None = None
    include: list[Id] = []
    where: dict[str, Scalar | list[Scalar] | Range] = {}
    at_most: dict[str, int] = {}
    at_least: dict[str, dict[str, int]] = {}
    exactly: dict[str, int] = {}
    budget_ms: float | None = None
    ranker: str | None = None
    certify: bool | None = None
    key: str | None = None  # what the log calls the user
    log: bool = True  # false for a slate that is only looked at: a service with a log does not log it

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``Recommender.recommend``; fields that were left out are left out."""
        given = msgspec.to_builtins(self)
        for name in ("key", "log", "items"):
            given.pop(name, None)
        return arguments_from_json(given)

    def group_key(self) -> GroupKey:
        """Equal for requests that differ only in user and scores: they can share one pass over the catalogue."""
        rest = msgspec.structs.replace(self, history=None, user=None, vector=None, features=None, scores=None, key=None)
        vectors = self.user is not None or self.vector is not None
        return (
            self.history is not None,
            vectors,
            self.features is not None,
            self.scores is not None,
            msgspec.json.encode(rest),
        )


class ExplainRequest(RecommendRequest):
    """A request for the explanation of a slate: of the best one found, or of that of ``items``, which is not searched.

    With items, the response has no upper bound, and the time of the slate's own ranker is not that of a search.
    """

    items: list[Id] | None = None


_USER_FIELDS = ("history", "user", "vector", "features")


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Requests that are answered together."""

    requests: list[RecommendRequest]


class ItemsRequest(msgspec.Struct, omit_defaults=True):
    """A search among the items: by words, or by ids."""

    q: Annotated[str, msgspec.Meta(max_length=QUERY_LENGTH, description="Words, in any order and case.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=ITEMS_LIMIT, description="The most items to return.")] = 20
    ids: Annotated[
        str | None, msgspec.Meta(description="Ids separated by commas, instead of words; unknown ids are left out.")
    ] = None


class OutcomeEntry(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of an item of a slate: 1 for a hit, 0 for none, or a number between."""

    slate: str
    item: Id
    outcome: float = 1.0


class OutcomesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes of slates that this service, or another with the same log, has shown."""

    outcomes: list[OutcomeEntry]


HttpRequest = RecommendRequest | BatchRequest | ItemsRequest


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

    slate is the id under which outcomes are sent. left_out lists what the answer lacks because the service is busy:
    "certificate" (no upper bound was computed) and "search" (the set was grown greedily in a tenth of the budget).
    partial says that a shard of the cluster did not answer, so its items were not searched.
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
    shards: int = 0  # of the cluster that is served; 0 for an index in the service itself


class Status(msgspec.Struct):
    """The state of the service."""

    status: str


class Reloaded(msgspec.Struct):
    """The version that is served now, and the one before."""

    version: str
    before: str


# --- decoding ---

Decoded = TypeVar("Decoded")
_UNKNOWN = re.compile("unknown field `(.*?)`")
_HALF_PAIR = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?:[^\\]|\\[^u])")  # a lone surrogate
_RECOMMEND, _BATCH = msgspec.json.Decoder(RecommendRequest), msgspec.json.Decoder(BatchRequest)
_EXPLAIN = msgspec.json.Decoder(ExplainRequest)
_OUTCOMES = msgspec.json.Decoder(OutcomesRequest)
_FIELDS: dict[Any, tuple[str, ...]] = {  # names to suggest for an unknown one
    RecommendRequest: RecommendRequest.__struct_fields__,
    BatchRequest: RecommendRequest.__struct_fields__,
    ExplainRequest: ExplainRequest.__struct_fields__,
    OutcomesRequest: (*OutcomesRequest.__struct_fields__, *OutcomeEntry.__struct_fields__),
}


def decode_recommend(body: bytes, settings: Settings) -> RecommendRequest:
    """The request in this body, checked against the limits."""
    request = _decode(_RECOMMEND, body)
    check(request, settings)
    return request


def decode_explain(body: bytes, settings: Settings) -> ExplainRequest:
    """The request in this body, checked against the limits of explanations."""
    request = _decode(_EXPLAIN, body)
    check(request, settings, explain=True)
    if request.items is not None and not 1 <= len(request.items) <= request.k:
        raise _invalid("items", f"a list of 1 to k = {request.k} ids", len(request.items), "send the ids of the slate")
    return request


def decode_batch(body: bytes, settings: Settings) -> BatchRequest:
    """The batch in this body, checked against the limits."""
    batch = _decode(_BATCH, body)
    if not 1 <= len(batch.requests) <= settings.batch:
        raise _invalid("requests", f"1 to {settings.batch} requests", len(batch.requests), "split the batch")
    for request in batch.requests:
        check(request, settings)
    return batch


def decode_outcomes(body: bytes, settings: Settings) -> list[OutcomeEntry]:
    """The outcomes in this body, checked against the limits."""
    outcomes = _decode(_OUTCOMES, body).outcomes
    if not 1 <= len(outcomes) <= settings.outcomes:
        must = f"1 to {settings.outcomes} outcomes"
        raise _invalid("outcomes", must, len(outcomes), "send them in several requests")
    for one in outcomes:
        if not 0 <= one.outcome <= 1:
            raise _invalid("outcome", "a number from 0 to 1", one.outcome, "scale it, or leave it out for a hit")
    return outcomes


def decode_items(parameters: dict[str, str]) -> ItemsRequest:
    """The search that these query parameters describe; parameters of other names are ignored."""
    limit = parameters.get("limit", "20")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 3 and limit[0] != "0" and int(limit) <= ITEMS_LIMIT):
        raise _invalid("limit", f"a whole number from 1 to {ITEMS_LIMIT}", repr(limit), "choose one of those")
    query = parameters.get("q", "")
    if len(query) > QUERY_LENGTH:
        raise _invalid("q", f"a text of at most {QUERY_LENGTH} characters", len(query), "use fewer words")
    return ItemsRequest(query, int(limit), parameters.get("ids"))


def check(request: RecommendRequest, settings: Settings, explain: bool = False) -> None:
    """Raise an error for what no catalogue could answer; the library checks what depends on the catalogue."""
    given = [name for name in _USER_FIELDS if getattr(request, name) is not None]
    if len(given) > 1 or not (given or request.scores is not None):
        got = " and ".join(given) or "none of them"
        raise _invalid(
            "the request", "exactly one of history, user, vector and features, or scores alone", got, "send one"
        )
    if request.ranker is not None and request.ranker not in INTERACTIVE:
        raise _invalid("ranker", f"one of {', '.join(INTERACTIVE)}", repr(request.ranker), "choose one of those")
    longest, reason = settings.k, ""
    if explain:
        longest, reason = settings.slow_k, " in an explanation"
    elif request.ranker is not None and RANKERS[request.ranker].slow_growth:
        longest, reason = settings.slow_k, f" with the ranker {request.ranker}"
    if not 1 <= request.k <= longest:
        raise _invalid("k", f"a whole number from 1 to {longest}{reason}", request.k, "choose one of those")
    for name, most in (("history", settings.history), ("exclude", settings.exclude), ("include", request.k)):
        if len(getattr(request, name) or ()) > most:
            raise _invalid(name, f"a list of at most {most} ids", len(getattr(request, name)), "shorten it")
    if len(request.key or "") > KEY_LENGTH:
        raise _invalid("key", f"a text of at most {KEY_LENGTH} characters", len(request.key or ""), "shorten it")
    if request.budget_ms is not None and not 0 < request.budget_ms <= settings.deadline_ms:
        must = f"above 0 and at most the deadline of {settings.deadline_ms}"
        raise _invalid("budget_ms", must, request.budget_ms, "pass milliseconds, or leave it out")


def _decode(decoder: msgspec.json.Decoder[Decoded], body: bytes) -> Decoded:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.DecodeError) else "a text or number in it cannot be read"
        if "truncated" in reason and _HALF_PAIR.search(body[-64:]):  # what msgspec says of one near the end
            reason = "JSON is malformed: unexpected end of escaped utf-16 surrogate pair"
        elif ".where" in reason:
            reason += ' (write a range as {"from": 3, "to": 5}; either end may be left out)'
        elif unknown := _UNKNOWN.search(reason):
            reason += f" ({did_you_mean(unknown[1], _FIELDS[decoder.type]) or 'drop it'})"
        reason = reason.replace("JSON is malformed", "it is not JSON")
        raise malformed(reason[:1].lower() + reason[1:]) from None


def _invalid(parameter: str, must: str, got: object, todo: str) -> HttpError:
    return HttpError(422, "invalid", f"{parameter} must be {must}, got {got}; {todo}.")
