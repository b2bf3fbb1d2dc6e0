"""The user of a history whose items are in several shards: their vectors come from the shards, the rest is here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from setwise.errors import InvalidInput
from setwise.model.encoder import HISTORY, Encoder
from setwise.model.neighbours import Neighbours
from setwise.model.ragged import Ragged
from setwise.model.users import User
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.files import FrontFiles
from setwise.recommend.cluster.history_columns import history_columns, with_columns
from setwise.recommend.cluster.shard_history import HistoryScores, SeenItems, joined_neighbours
from setwise.recommend.histories import reported


class Encoded(NamedTuple):
    """The user of a history, the scores that it adds, its ids that are known, and those that are not."""

    user: Any
    scores: HistoryScores | None = None
    seen: Sequence[Any] = ()
    ignored: tuple[Any, ...] = ()


def encoded(files: FrontFiles, shards: Shards, alive: Sequence[int], history: Sequence[Any], unknown: str) -> Encoded:
    """The history as a user; items of shards that are not ``alive`` are unknown."""
    if files.encoder is None:
        todo = "pass a user, or split a recommender that has an encoder"
        raise InvalidInput("history", "left out, as this cluster has no encoder for it", "one", todo)
    answers: dict[int, SeenItems] = shards.ask("seen", dict.fromkeys(alive, (list(history),)))
    places = _places(answers.values())
    ignored = reported("history", (id_ for place, id_ in enumerate(history) if place not in places), unknown)
    usable = [places[place] for place in sorted(places) if places[place].known]
    user, scores = _user(files.encoder, usable[-HISTORY:])
    if not usable and files.new_user is not None:
        scores = HistoryScores(np.empty(0, np.int64), np.empty(0), files.new_user)
    return Encoded(user, scores, [id_ for place, id_ in enumerate(history) if place in places], ignored)


class _Seen(NamedTuple):
    """An item of a history: the answer that has it, whether the encoder knows it, and its row among those."""

    answer: SeenItems
    known: bool
    row: int


def _places(answers: Iterable[SeenItems]) -> dict[int, _Seen]:
    """The items of the history that some shard has, by place."""
    items: dict[int, _Seen] = {}
    for answer in answers:
        rows = np.cumsum(answer.known) - 1
        for at, place in enumerate(answer.places.tolist()):
            items[place] = _Seen(answer, bool(answer.known[at]), int(rows[at]))
    return items


def _user(encoder: Encoder, usable: Sequence[_Seen]) -> tuple[User, HistoryScores | None]:
    """The user of these items of answers, oldest first, and the scores that their neighbours have."""
    vectors = [item.answer.vectors[item.row] for item in usable]
    items = np.stack(vectors) if vectors else np.zeros_like(history_columns(encoder, np.zeros(1, np.intp)))
    neighbours = [_neighbours(encoder, number, usable) for number in range(len(encoder.base_terms.neighbours))]
    (user,) = with_columns(encoder, items, neighbours).users(Ragged.of([np.arange(len(usable))]))
    if user.scores is None:
        return user, None
    assert user.scores.rows is not None  # numbers of the cluster, as the neighbours are
    return user.with_scores(None), HistoryScores(user.scores.rows, user.scores.values)


def _neighbours(encoder: Encoder, number: int, usable: Sequence[_Seen]) -> Neighbours:
    """The neighbours of these items in one of the matrices."""
    settings = encoder.base_terms.neighbours[number]
    none = replace(settings, offsets=np.zeros(1, np.int64), items=settings.items[:0], weights=settings.weights[:0])
    parts = [item.answer.neighbours[number].of_rows(np.array([item.row])) for item in usable]
    return joined_neighbours([none, *parts])
