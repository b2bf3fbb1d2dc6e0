"""What goes over the wire, as types: decoding is strict, and /docs is made from them."""

from __future__ import annotations

from typing import Any

import msgspec

from setwise.service.http_errors import Refusal, unreadable
from setwise.service.settings import Settings

Id = int | str
Scalar = bool | int | float | str


class Range(msgspec.Struct, forbid_unknown_fields=True, rename={"low": "from", "high": "to"}):
    """Numbers between two ends; null, or nothing, for an open one."""

    low: float | None = None
    high: float | None = None


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    """A user: one vector a head, and one for the base term where the catalogue has it."""

    heads: list[list[float]]
    base: list[float] | None = None


class Ask(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request for one slate: exactly one of history, user and vector, and wishes."""

    history: list[Id] | None = None
    user: Vectors | None = None
    vector: list[float] | None = None
    k: int = 10
    exclude: list[Id] | None = None
    include: list[Id] = []
    where: dict[str, Scalar | list[Scalar] | Range] = {}
    at_most: dict[str, int] = {}
    budget_ms: float | None = None
    ranker: str | None = None
    certify: bool | None = None


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Requests that are answered together."""

    requests: list[Ask]


class Item(msgspec.Struct):
    """An item and what is known of it."""

    id: Id
    attributes: dict[str, Any]


class Chosen(msgspec.Struct):
    """An item of a slate, with its reward in this company."""

    id: Id
    reward: float
    attributes: dict[str, Any]


class Answer(msgspec.Struct):
    """A slate, best first; upper_bound and gap are null without a certificate."""

    items: list[Chosen]
    value: float
    upper_bound: float | None
    gap: float | None
    proven: bool
    timings: dict[str, float]
    version: str


class Failure(msgspec.Struct):
    """What went wrong, for programs and for people."""

    code: str
    message: str


class Failed(msgspec.Struct):
    """The body of every refusal."""

    error: Failure


class Answers(msgspec.Struct):
    """One answer, or refusal, a request of the batch, in its order."""

    answers: list[Any]  # Answer or Failed
    version: str


class Rivaling(msgspec.Struct):
    """Another ranker's set for the same request."""

    ranker: str
    items: list[Item]
    value: float
    milliseconds: float


class Explained(msgspec.Struct):
    """A slate and who lends whom what in it."""

    slate: Answer
    attention: list[list[list[float]]]
    sink: list[list[float]] | None
    rewards: list[float]
    alone: list[float]
    lent: list[list[float]]
    rivals: list[Rivaling]
    gain_over_top_k: float
    gain_over_greedy: float


class Items(msgspec.Struct):
    """What a search found; total counts all of it."""

    items: list[Item]
    total: int


class Attribute(msgspec.Struct):
    """A column of the catalogue; values where they are few."""

    name: str
    kind: str
    values: list[str] | None


class Info(msgspec.Struct):
    """What is served."""

    service: str
    version: str
    items: int
    heads: int
    cells: int
    understands_history: bool
    attributes: list[Attribute]
    title: str | None
    group: str | None
    rankers: list[str]
    limits: dict[str, int]


class State(msgspec.Struct):
    """How the service is."""

    status: str


class Reloaded(msgspec.Struct):
    """The artifact that is served now, and the one before."""

    version: str
    before: str


RANKERS = ("swap", "greedy", "beam", "knn")  # of the library's, those that answer while somebody waits
_ASK, _BATCH = msgspec.json.Decoder(Ask), msgspec.json.Decoder(Batch)


def ask(body: bytes, settings: Settings, explained: bool = False) -> Ask:
    """The request that this body holds, within the limits."""
    decoded: Ask = _decoded(_ASK, body)
    check(decoded, settings, explained)
    return decoded


def batch(body: bytes, settings: Settings) -> list[Ask]:
    """The requests of a batch, within the limits."""
    decoded: Batch = _decoded(_BATCH, body)
    if not 1 <= len(decoded.requests) <= settings.batch:
        raise _invalid("requests", f"1 to {settings.batch} requests", len(decoded.requests), "split the batch")
    for one in decoded.requests:
        check(one, settings)
    return decoded.requests


def check(ask: Ask, settings: Settings, explained: bool = False) -> None:
    """Refuse what no catalogue could answer; what depends on the catalogue is the library's to refuse."""
    given = [name for name in ("history", "user", "vector") if getattr(ask, name) is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise _invalid("the request", "exactly one of history, user and vector", got, "send one")
    slow = explained or ask.ranker == "beam"
    longest, here = (settings.slow_k, " where beam search takes part") if slow else (settings.k, "")
    if not 1 <= ask.k <= longest:
        raise _invalid("k", f"a whole number from 1 to {longest}{here}", ask.k, "choose one of those")
    for name, most in (("history", settings.history), ("exclude", settings.exclude), ("include", ask.k)):
        if len(getattr(ask, name) or ()) > most:
            raise _invalid(name, f"a list of at most {most} ids", len(getattr(ask, name)), "shorten it")
    if ask.budget_ms is not None and not 0 < ask.budget_ms <= settings.deadline_ms:
        must = f"above 0 and at most the deadline of {settings.deadline_ms}"
        raise _invalid("budget_ms", must, ask.budget_ms, "pass milliseconds, or leave it out")
    if ask.ranker is not None and ask.ranker not in RANKERS:
        raise _invalid("ranker", f"one of {', '.join(RANKERS)}", repr(ask.ranker), "choose one of those")


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.DecodeError) else "a text or number in it cannot be read"
        raise unreadable(reason[:1].lower() + reason[1:]) from None


def _invalid(parameter: str, must: str, got: object, todo: str) -> Refusal:
    return Refusal(422, "invalid", f"{parameter} must be {must}, got {got}; {todo}.")
