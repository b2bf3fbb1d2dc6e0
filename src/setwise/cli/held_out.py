"""Held-out sessions: written by ``train``, and read as histories of users by ``evaluate`` and ``diagnose``."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from setwise.cli.columns import read_named
from setwise.cli.other_slates import row_of
from setwise.cli.train.data import RANDOM, TIME
from setwise.datasets import Sessions, Slates
from setwise.datasets.splits import HistorySplit, time_split
from setwise.errors import InvalidInput
from setwise.model.attributes import Strings
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.storage.output_file import write_file

_COLUMNS = ("session", "item")  # of the file of held-out sessions
_TIME = "time"  # of the first item of a session, where the data have times
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python writes a whole number of 64 bits: "007" is not 7


def write_sessions(path: Path, sessions: Sessions | Slates | None) -> None:
    """The held-out sessions of ``setwise train`` as a table of session, item and time, each in its order."""
    if not isinstance(sessions, Sessions):
        got = "too few sessions to hold some out" if sessions is None else "slates with outcomes"
        todo = "leave it out" if sessions is None else "leave it out: setwise train evaluates on slates"
        raise InvalidInput("--held-out", "given with sessions of items, 50 or more", got, todo)
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    owners = sessions.items.owner
    entries = [owners.tolist(), [sessions.ids[row] for row in sessions.items.values.tolist()]]
    header = [*_COLUMNS]
    if sessions.starts is not None:
        header.append(_TIME)
        entries.append(sessions.starts[owners].tolist())
    table.writerow(header)
    table.writerows(zip(*entries, strict=True))
    with contextlib.suppress(OSError):  # write_file says why, if there is no folder then
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file("--held-out", path, f"{','.join(header)}\n".encode(), [text.getvalue().encode()])


def require_other_file(option: str, path: Path | None, *inputs: Path | None) -> None:
    """Refuse to write what ``option`` names over a file that is read."""
    if path is None or not path.exists():
        return
    for file in inputs:
        if file is not None and file.exists() and path.samefile(file):
            must, got = "another file than those that are read", f"{path}, which is one"
            raise InvalidInput(option, must, got, "choose a new name, so that it is not lost")


def drawn_histories(sessions: Sessions, most: int, seed: int, split: str = RANDOM) -> HistorySplit:
    """At most so many of the sessions, each split into its first items and the others.

    They are drawn at random, in the order of the file; by time they are the latest, in the order of time.
    """
    if split == TIME:
        chosen = time_split(sessions, most)[1]
    else:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(sessions))[:most])
    return HistorySplit.first(sessions.taken(chosen).shuffled_where_unordered(seed))


def read_sessions(path: Path, named: dict[str, Any], catalog: Catalog) -> tuple[Sessions, int]:
    """The sessions as rows of the catalogue, with two known items or more each, and the number of unknown entries."""
    data = read_named("sessions", path, named)
    if isinstance(data, Slates):
        todo = "setwise train evaluates on logged slates"
        raise InvalidInput("sessions", "sessions of items", f"{path.name} with slates and outcomes", todo)
    place = np.array([row_of(catalog, id_) for id_ in _as_in_catalog(data.ids, catalog)], np.int64)
    rows = place[data.items.values]
    known = data.items.kept(rows >= 0)
    items = Ragged.cut(place[known.values], known.lengths)
    whole = Sessions(items, catalog.ids[np.arange(len(catalog))].tolist(), ordered=data.ordered, starts=data.starts)
    long = np.flatnonzero(whole.distinct().items.lengths >= 2)
    if not len(long):
        ours, theirs = catalog.ids[np.arange(min(2, len(catalog)))].tolist(), list(data.ids[:2])
        must = "some with two items of the catalogue or more"
        got = f"none: the file has ids such as {theirs}, the catalogue such as {ours}"
        raise InvalidInput("sessions", must, got, "name their column with --item")
    return whole.taken(long), int(np.count_nonzero(rows < 0))


def _as_in_catalog(ids: Sequence[Any], catalog: Catalog) -> list[Any]:
    """The ids of a file; digits become whole numbers where the catalogue's ids are, as text files have no numbers."""
    if isinstance(catalog.ids.values, Strings):
        return list(ids)
    return [int(id_) if isinstance(id_, str) and _WHOLE.fullmatch(id_) else id_ for id_ in ids]
