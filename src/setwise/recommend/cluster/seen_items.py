"""The user of a history whose items are in several shards: their vectors come from the shards, the rest is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from setwise.errors import InvalidInput, UnknownId
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from setwise.model.users import User
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.history_columns import history_columns, with_columns
from setwise.recommend.cluster.shard_reader import SeenItems
from setwise.recommend.histories import ERROR, IGNORE


def encoded(
    encoder: Encoder | None, shards: Shards, alive: Sequence[int], history: Sequence[Any], unknown: str
) -> tuple[User, list[Any], tuple[Any, ...]]:
    """The user, the ids of the history that are known, and those that are not."""
    if encoder is None:
        todo = "pass a user, or split a recommender whose encoder has no neighbours and no scores of new users"
        raise InvalidInput("history", "left out, as this cluster has no encoder for it", "one", todo)
    if unknown not in (IGNORE, ERROR):
        raise InvalidInput("unknown", f"'{IGNORE}' or '{ERROR}'", repr(unknown), "choose one of the two")
    answers: dict[int, SeenItems] = shards.ask("seen", dict.fromkeys(alive, (list(history),)))
    vectors = np.full((len(history), history_columns(encoder).shape[1]), np.nan, np.float32)
    known = np.zeros(len(history), bool)
    for current in (False, True):  # an item that was removed here may have been added elsewhere: that one counts
        for one in answers.values():
            mine = one.current == current
            known[one.places[mine]] = True
            vectors[one.places[mine]] = one.vectors[mine]
    ignored = tuple(one for one, has in zip(history, known, strict=True) if not has)
    if ignored and unknown == ERROR:
        raise UnknownId("an id of history", "one of the catalogue", repr(ignored[0]), "check it")
    usable = vectors[known & ~np.isnan(vectors).any(axis=1)]
    items = usable if len(usable) else np.zeros((1, vectors.shape[1]), np.float32)
    (user,) = with_columns(encoder, items).users(Ragged.of([np.arange(len(usable))]))
    return user, [one for one, has in zip(history, known, strict=True) if has], ignored
