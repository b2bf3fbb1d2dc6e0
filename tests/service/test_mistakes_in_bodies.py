"""Mistakes in HTTP requests: the answer names the field, what came and what to do, with a status of the client's."""

from __future__ import annotations

import pytest
from services import Here, error_message

from mistakes import check_sentence

# path, body, status, and what the message must name
MISTAKES = [
    ("recommend", {"histroy": ["song-1"]}, 400, "`histroy`", "did you mean 'history'?"),
    ("recommend", {"history": ["song-1"], "colour": 1}, 400, "`colour`", "drop it"),
    ("recommend", {"history": ["song-1"], "items": ["song-2"]}, 400, "`items` (drop it)"),
    ("recommend", {"history": [], "where": {"price": {"max": 3}}}, 400, "`max`", '{"from": 3, "to": 5}'),
    ("recommend", {"history": "song-1"}, 400, "expected `array", "got `str`", "`$.history`"),
    ("recommend", {"history": ["song-1"], "k": "ten"}, 400, "expected `int | null`, got `str`", "`$.k`"),
    ("recommend", {"history": ["song-1"], "k": 0}, 422, "k must be", "at least 1", "got 0", "pass"),
    ("recommend", {"history": ["song-1"], "k": 1000}, 422, "k must be", "at most 100", "got 1000", "choose"),
    ("recommend", {}, 422, "history, user, features", "got none of them", "pass one"),
    ("recommend", {"history": [], "vector": [1.0]}, 422, "history and vector", "pass one"),
    ("recommend", {"history": ["Song-1"], "unknown": "error"}, 422, "history", "'Song-1'", "did you mean 'song-1'?"),
    ("recommend", {"history": [1]}, 422, "an id of history", "got 1", "check its spelling and its type"),
    ("recommend", {"history": [], "unknown": "drop"}, 400, "`$.unknown`", "'drop'"),
    ("recommend", {"vector": [1.0]}, 422, "user", "(2, 9)", "(1, 1)", "from one model"),
    ("recommend", {"history": [], "budget_ms": 0}, 422, "budget_ms", "got 0.0", "leave it out"),
    ("recommend", {"history": [], "ranker": "swop"}, 422, "ranker", "'swop'", "choose one of those"),
    ("recommend", {"history": [], "where": {"gener": "jazz"}}, 422, "attribute", "'gener'"),
    ("recommend", {"history": [], "where": {"year": [None, 3]}}, 400, "got `null`", "`$.where", '{"from": 3, "to": 5}'),
    ("recommend", {"history": [], "at_most": {"gener": 1}}, 422, "at_most", "'gener'"),
    ("recommend", {"history": [], "include": ["nobody"]}, 422, "an id of include", "'nobody'", "check its spelling"),
    ("recommend", {"history": [], "scores": {"nobody": 1.0}}, 422, "an id of scores", "'nobody'"),
    ("recommend", {"history": [], "scores": [1.0]}, 422, "scores", "300 items", "got 1", "one score per item"),
    ("recommend/batch", {"requests": []}, 422, "requests", "1 to 256", "got 0"),
    ("explain", {"history": [], "items": ["song-1", "song-2", "song-1"]}, 422, "items", "ids that differ", "one twice"),
    ("outcomes", {"outcomes": [{"slate": "x", "item": "song-1"}]}, 404, "--log DIR"),
]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [(*row[:3], row[3:]) for row in MISTAKES],
)
def test_a_mistake_is_explained(service: Here, path: str, body: object, status: int, words: tuple[str, ...]) -> None:
    message = error_message(service.client.post(f"/v1/{path}", json=body), status)
    check_sentence(message, *words)
