"""What the fields of requests mean, and an example of each request: for the OpenAPI document and the page /docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from setwise.recommend.arguments import ARGUMENTS
from setwise.recommend.rerank.requests import ARGUMENTS as LIST_ARGUMENTS

_ASK: Mapping[str, str] = {
    **{name: argument.meaning for name, argument in ARGUMENTS.items()},
    "vector": "The user as one vector, for a catalogue of one head without base term.",
    "key": "What the log calls the user; no other data of the user are logged.",
    "log": "false: do not log this slate, because no user sees it.",
}

_LIST: Mapping[str, str] = {
    **{name: ARGUMENTS[name].meaning for name in LIST_ARGUMENTS if name in ARGUMENTS},
    "diversity": "From 0 (the highest scores) to 1; 0.25 by default where there is something to compare.",
    "by": "Attributes by which candidates are alike, instead of vectors.",
    "strategy": "The best set of the objective, or one of two greedy rules.",
    "scale": "Whether scores are log-odds; by default they have any scale.",
    "strength": "Instead of diversity: the largest penalty, in units of the scores.",
    "sharpness": "How similar vectors must be to count as copies.",
    "certify": "Whether to compute an upper bound, in about 20 ms.",
    "effects": "false: without the effects that the service was started with.",
}

NOTES: Mapping[str, Mapping[str, str]] = {
    "RecommendRequest": _ASK,
    "ExplainRequest": {**_ASK, "items": "Explain the slate of these ids instead of searching for one."},
    "BatchRequest": {"requests": "Bodies of /v1/recommend."},
    "RerankRequest": {
        **_LIST,
        "candidates": "The list: records with id, score, vector and any attributes; or columns.",
    },
    "RerankBatchRequest": {**_LIST, "lists": "Lists of candidates by name."},
    "OutcomeEntry": {
        "slate": "The id of the slate, from the answer that had it.",
        "item": "The id of an item of that slate.",
        "outcome": "1 for a hit, 0 for none, or a number between.",
    },
    "OutcomesRequest": {"outcomes": "Outcomes of items; sending one twice counts once."},
}

_CANDIDATES = [{"id": "id-1", "score": 0.9, "brand": "a"}, {"id": "id-2", "score": 0.8, "brand": "a"}]
_LISTED = {"k": 2, "at_most": {"brand": 1}}
_SLATE = {"history": ["id-1", "id-2"], "k": 4}
EXAMPLES: Mapping[str, Any] = {
    "RecommendRequest": {**_SLATE, "budget_ms": 100},
    "ExplainRequest": _SLATE,
    "BatchRequest": {"requests": [_SLATE, {"history": [], "k": 4}]},
    "RerankRequest": {"candidates": _CANDIDATES, **_LISTED},
    "RerankBatchRequest": {"lists": {"anna": _CANDIDATES}, **_LISTED},
    "OutcomesRequest": {"outcomes": [{"slate": "the id of a slate", "item": "id-7", "outcome": 1}]},
}
