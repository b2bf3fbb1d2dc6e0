"""Bodies become requests here, where that delays no other client.

Decoding takes the event loop up to 4 s for a megabyte (numbers such as 1e308, or hundreds of thousands of empty
requests). So it decodes small bodies only, each in a turn (turns.py); outcomes, which it writes itself, in parts. A
body of more than ``LARGE`` bytes goes to a worker as it came, and what the queue holds is no larger than what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from setwise._validation import did_you_mean
from setwise.ranking import RANKERS
from setwise.service.http_errors import HttpError, malformed
from setwise.service.list_schemas import Candidates, RerankBatchRequest, RerankRequest
from setwise.service.schemas import (
    INTERACTIVE,
    ITEMS_LIMIT,
    KEY_LENGTH,
    QUERY_LENGTH,
    BatchRequest,
    ExplainRequest,
    HttpRequest,
    ItemsRequest,
    OutcomeEntry,
    OutcomesRequest,
    RecommendRequest,
)
from setwise.service.settings import Settings

LARGE = 1 << 13  # bytes of a body that a worker decodes: 8 KiB take 30 ms at most
PART = 500  # outcomes that are decoded in one turn


class _Entries(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes that are not decoded yet."""

    outcomes: list[msgspec.Raw]


Decoded = TypeVar("Decoded")
_UNKNOWN = re.compile("unknown field `(.*?)`")
_HALF_PAIR = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?:[^\\]|\\[^u])")  # a lone surrogate
_RECOMMEND, _BATCH = msgspec.json.Decoder(RecommendRequest), msgspec.json.Decoder(BatchRequest)
_EXPLAIN = msgspec.json.Decoder(ExplainRequest)
_RERANK, _RERANK_BATCH = msgspec.json.Decoder(RerankRequest), msgspec.json.Decoder(RerankBatchRequest)
_ENTRIES, _OUTCOMES = msgspec.json.Decoder(_Entries), msgspec.json.Decoder(OutcomesRequest)
_FIELDS: dict[Any, tuple[str, ...]] = {  # names to suggest for an unknown one
    RecommendRequest: RecommendRequest.__struct_fields__,
    BatchRequest: RecommendRequest.__struct_fields__,
    ExplainRequest: ExplainRequest.__struct_fields__,
    RerankRequest: RerankRequest.__struct_fields__,
    RerankBatchRequest: RerankBatchRequest.__struct_fields__,
    _Entries: OutcomesRequest.__struct_fields__,
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
    if request.items is not None and request.k is not None and not 1 <= len(request.items) <= request.k:
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


def decode_rerank(body: bytes, settings: Settings) -> RerankRequest:
    """The list in this body, checked against the limits."""
    request = _decode(_RERANK, body)
    _check_list("candidates", request.candidates, request.k, settings)
    return request


def decode_rerank_batch(body: bytes, settings: Settings) -> RerankBatchRequest:
    """The lists in this body, checked against the limits."""
    batch = _decode(_RERANK_BATCH, body)
    if not 1 <= len(batch.lists) <= settings.batch:
        raise _invalid("lists", f"1 to {settings.batch} lists", len(batch.lists), "split the batch")
    for name, candidates in batch.lists.items():
        _check_list(f"lists[{name!r}]", candidates, batch.k, settings)
    return batch


def _check_list(parameter: str, candidates: Candidates, k: int, settings: Settings) -> None:
    """Refuse what is beyond the limits of the service."""
    sizes = [len(candidates)]
    if isinstance(candidates, dict):
        sizes = [len(column) for column in candidates.values() if isinstance(column, list)]
    if max(sizes, default=0) > settings.candidates:
        must = f"a list of at most {settings.candidates} candidates"
        raise _invalid(parameter, must, max(sizes), "send those of highest score")
    if k is not None and k > settings.k:
        raise _invalid("k", f"at most {settings.k}", k, "choose a smaller one")


DECODERS: dict[str, Callable[[bytes, Settings], HttpRequest]] = {
    "recommend": decode_recommend,
    "batch": decode_batch,
    "explain": decode_explain,
    "rerank": decode_rerank,
    "rerank_batch": decode_rerank_batch,
}


def split_outcomes(body: bytes, settings: Settings) -> list[bytes]:
    """The body as several of ``PART`` outcomes; their number is checked against the limit."""
    entries = _decode(_ENTRIES, body).outcomes
    if not 1 <= len(entries) <= settings.outcomes:
        must = f"1 to {settings.outcomes} outcomes"
        raise _invalid("outcomes", must, len(entries), "send them in several requests")
    parts = [entries[start : start + PART] for start in range(0, len(entries), PART)]
    return [b'{"outcomes":[%b]}' % b",".join(map(bytes, part)) for part in parts]


def decode_outcomes(part: bytes) -> list[OutcomeEntry]:
    """The outcomes of a part of a body."""
    outcomes = _decode(_OUTCOMES, part).outcomes
    for entry in outcomes:
        if not 0 <= entry.outcome <= 1:
            raise _invalid("outcome", "a number from 0 to 1", entry.outcome, "scale it, or leave it out for a hit")
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
    """Raise an error for what is beyond the limits of the service; the library checks all else, once."""
    if request.ranker is not None and request.ranker not in INTERACTIVE:
        raise _invalid("ranker", f"one of {', '.join(INTERACTIVE)}", repr(request.ranker), "choose one of those")
    longest, reason = settings.k, ""
    if explain:
        longest, reason = settings.slow_k, " in an explanation"
    elif request.ranker is not None and RANKERS[request.ranker].slow_growth:
        longest, reason = settings.slow_k, f" with the ranker {request.ranker}"
    if request.k is not None and request.k > longest:
        raise _invalid("k", f"at most {longest}{reason}", request.k, "choose a smaller one")
    for name, most in (
        ("history", settings.history),
        ("exclude", settings.exclude),
        ("include", longest),
        ("after", settings.exclude),
    ):
        if len(getattr(request, name) or ()) > most:
            raise _invalid(name, f"a list of at most {most} ids", len(getattr(request, name)), "shorten it")
    if len(request.key or "") > KEY_LENGTH:
        raise _invalid("key", f"a text of at most {KEY_LENGTH} characters", len(request.key or ""), "shorten it")
    if request.budget_ms is not None and request.budget_ms > settings.deadline_ms:
        must = f"at most the deadline of {settings.deadline_ms}"
        raise _invalid("budget_ms", must, request.budget_ms, "pass a smaller one, or leave it out")


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
    raise malformed(reason[:1].lower() + reason[1:])  # here it does not refer to the other error, which holds the body


def _invalid(parameter: str, must: str, got: object, todo: str) -> HttpError:
    return HttpError(422, "invalid", f"{parameter} must be {must}, got {got}; {todo}.")
