"""What the fields of requests mean, and an example of each request: for the OpenAPI document and the page /docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ASK: Mapping[str, str] = {
    "history": "Ids of the user's history; [] for a new user.",
    "unknown": "ignore (the default) reports unknown ids of history, exclude and scores; error refuses them.",
    "user": "The user as vectors, instead of a history.",
    "vector": "The user as one vector, for a catalogue of one head without base term.",
    "features": "Features of the user, of a model that was trained with them.",
    "scores": "Scores of your own recommender: {id: score}, or one number for each item.",
    "scores_floor": "The score of items that scores does not name; by default they are not shown.",
    "k": "The number of items of the slate.",
    "filter_seen": "false: items of the history may be shown again; by default only those that include names.",
    "exclude": "Further ids that must not be shown.",
    "include": "Ids that the slate must contain.",
    "where": "Conditions: a value, a list of values, or a range {from, to} of numbers.",
    "at_most": "The largest number of items of one value, by attribute: {artist: 1}.",
    "at_least": "The smallest number of items of a value: {genre: {jazz: 2}}.",
    "exactly": "The number of items of every value of an attribute: {site: 1}.",
    "budget_ms": "Milliseconds for search and proof; by default those of the service.",
    "ranker": "The search; by default the one that the service was started with.",
    "certify": "Whether to compute an upper bound; by default as the service was started.",
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
