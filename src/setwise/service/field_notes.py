"""What the fields of requests mean, and an example of each request: for the OpenAPI document and the page /docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from setwise.recommend.arguments import ARGUMENTS

_ASK: Mapping[str, str] = {
    **{name: argument.meaning for name, argument in ARGUMENTS.items()},
    "vector": "The user as one vector, for a catalogue of one head without base term.",
    "key": "What the log calls the user; no other data of the user are logged.",
    "log": "false: do not log this slate, because no user sees it.",
}

NOTES: Mapping[str, Mapping[str, str]] = {
    "RecommendRequest": _ASK,
    "ExplainRequest": {**_ASK, "items": "Explain the slate of these ids instead of searching for one."},
    "BatchRequest": {"requests": "Bodies of /v1/recommend."},
    "OutcomeEntry": {
        "slate": "The id of the slate, from the answer that had it.",
        "item": "The id of an item of that slate.",
        "outcome": "1 for a hit, 0 for none, or a number between.",
    },
    "OutcomesRequest": {"outcomes": "Outcomes of items; sending one twice counts once."},
}

_SLATE = {"history": ["id-1", "id-2"], "k": 4}
EXAMPLES: Mapping[str, Any] = {
    "RecommendRequest": {**_SLATE, "budget_ms": 100},
    "ExplainRequest": _SLATE,
    "BatchRequest": {"requests": [_SLATE, {"history": [], "k": 4}]},
    "OutcomesRequest": {"outcomes": [{"slate": "the id of a slate", "item": "id-7", "outcome": 1}]},
}
