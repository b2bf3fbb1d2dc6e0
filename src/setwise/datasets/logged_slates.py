"""The log of a service (``setwise serve --log``) as slates for training.

An item without an outcome is a miss. The log knows of a user only a key, so a history is made in one of two ways:

* from a file of the caller, one JSON object a line: {"key": "visit 5", "history": [id, …]};
* else from the log itself: the items with an outcome above 0 in slates of the same key, if the outcome came before the
  slate was shown, in the order in which they came. A slate without a key has an empty history.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise.datasets.sessions import Slates
from setwise.datasets.text_files import existing_file, text_lines
from setwise.errors import InvalidInput, MalformedFile
from setwise.model.ragged import Ragged
from setwise.storage.slate_log import LoggedSlate, read_slates, time_of

LONGEST = 1000  # items of a history: the latest


class _Hit(NamedTuple):
    received: float
    slate: str
    item: Any


def read_log(
    folder: Path,
    before: float = float("inf"),
    histories: Mapping[str, Sequence[Any]] | None = None,
    ids: Sequence[Any] | None = None,
    attributes: Mapping[str, Sequence[Any]] | None = None,
) -> Slates:
    """The logged slates made before this time, oldest first.

    ``ids`` are those of the catalogue, with their ``attributes``: slates with other items are left out, as are other
    items of histories. Without ``ids`` they are those of the log, in the order they appear.
    """
    logged = [slate for slate in read_slates(folder, before=before) if slate.items]
    seen = _histories(logged, histories)
    row_of: dict[Any, int] = {id_: row for row, id_ in enumerate(ids or ())}
    if ids is None:
        for slate, history in zip(logged, seen, strict=True):
            for id_ in (*history, *slate.items):
                row_of.setdefault(id_, len(row_of))
    kept = [at for at, slate in enumerate(logged) if all(id_ in row_of for id_ in slate.items)]
    if not kept:
        got = f"{len(logged)} slates, none of them with known items" if logged else "none"
        raise InvalidInput("the log", "with slates that are old enough", got, "wait, or lower --wait")
    return Slates(
        Ragged.of([[row_of[id_] for id_ in seen[at] if id_ in row_of] for at in kept]),
        Ragged.of([[row_of[id_] for id_ in logged[at].items] for at in kept]),
        np.concatenate([_outcomes(logged[at]) for at in kept]),
        list(row_of),
        {} if attributes is None else attributes,
    )


def _outcomes(slate: LoggedSlate) -> np.ndarray[Any, np.dtype[np.float32]]:
    outcome = np.zeros(len(slate.items), np.float32)
    for position, value, _ in slate.outcomes:
        outcome[position] = value
    return outcome


def _histories(logged: Sequence[LoggedSlate], given: Mapping[str, Sequence[Any]] | None) -> list[list[Any]]:
    """The history of every slate."""
    if given is not None:
        return [[] if slate.key is None else list(given.get(slate.key, ()))[-LONGEST:] for slate in logged]
    hits: dict[str, list[_Hit]] = {}
    for slate in logged:
        if slate.key is not None:
            some = [
                _Hit(received, slate.id, slate.items[at]) for at, outcome, received in slate.outcomes if outcome > 0
            ]
            hits.setdefault(slate.key, []).extend(some)
    for events in hits.values():
        events.sort(key=lambda event: event.received)
    return [[] if slate.key is None else _before(hits[slate.key], slate.id) for slate in logged]


def _before(events: Sequence[_Hit], slate: str) -> list[Any]:
    """The different items of hits before this slate was made, the latest of each, oldest first.

    Hits of the slate itself, and of later ones, are none, even if the clocks of two machines differ.
    """
    end = bisect_left(events, time_of(slate) or 0.0, key=lambda event: event.received)
    some = [event.item for event in events[:end] if event.slate < slate]
    return list(dict.fromkeys(reversed(some)))[:LONGEST][::-1]


def read_histories(path: Path) -> dict[str, list[Any]]:
    """The histories of a file, by key: lines of UTF-8, with or without a byte order mark, plain or gzipped."""
    found: dict[str, list[Any]] = {}
    for number, line in enumerate(text_lines(existing_file(path)), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            key, history = content["key"], content["history"]
        except (ValueError, RecursionError, TypeError, KeyError):
            key = history = None
        of_ids = isinstance(history, list) and all(type(id_) in (str, int) for id_ in history)
        if not isinstance(key, str) or not of_ids:
            raise MalformedFile(path, number, 'it must be {"key": "text", "history": [id, …]}')
        found[key] = history
    return found
