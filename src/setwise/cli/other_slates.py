"""Slates of other systems for ``setwise evaluate``: what they are given, and what they return.

Both files have one JSON object per line. ``--histories`` writes {"session": number, "history": [id, …]}; another system
answers each line with {"session": number, "items": [id, …]}, best item first, in a file for ``--slates``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from setwise.cli.query_options import read_text
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.storage.output_file import write_file

START = b'{"session": 0, "history": '  # of a file of histories
FORM = '{"session": number, "items": [id, …]}, one line for each session'


def write_histories(path: Path, split: HistorySplit, catalog: Catalog) -> None:
    """The known items of every session, for another system to recommend from."""
    lines = [
        json.dumps({"session": number, "history": catalog.ids[rows].tolist()}) + "\n"
        for number, rows in enumerate(split.history)
    ]
    write_file("--histories", path, START, (line.encode() for line in lines))


def named_files(paths: Sequence[Path]) -> dict[str, Path]:
    """The files by the names of their systems: file names without ending, or whole paths where two names are equal."""
    stems = Counter(path.stem for path in set(paths))
    return {path.stem if stems[path.stem] == 1 else str(path): path for path in paths}


def read_slates(path: Path, split: HistorySplit, catalog: Catalog, k: int) -> Ragged:
    """The first k items of each slate in this file, without items of the history and items not in the catalogue."""
    slates: dict[int, list[int]] = {}
    for session, items in _lines(path):
        if not (0 <= session < len(split)):
            raise InvalidInput("--slates", f"sessions 0 to {len(split) - 1}", session, "use the file of --histories")
        if session in slates:
            raise InvalidInput("--slates", "one line for each session", f"session {session} twice", "keep one of them")
        seen = set(split.history[session].tolist())
        rows = dict.fromkeys(row_of(catalog, id_) for id_ in items)
        slates[session] = [row for row in rows if row >= 0 and row not in seen][:k]
    missing = next((number for number in range(len(split)) if number not in slates), None)
    if missing is not None:
        todo = "recommend for every line of --histories, with the same sessions, --most and --seed"
        raise InvalidInput("--slates", f"a slate for each of the {len(split)} sessions", f"none of {missing}", todo)
    return Ragged.of([slates[number] for number in range(len(split))])


def _lines(path: Path) -> Iterator[tuple[int, list[Any]]]:
    for number, line in enumerate(read_text(path, "--slates").split("\n"), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            session, items = content["session"], content["items"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise InvalidInput(
                "--slates", FORM, f"line {number} of {path.name}: {line[:40]!r}", "write JSON lines"
            ) from None
        if type(session) is not int or not isinstance(items, list):
            raise InvalidInput("--slates", FORM, f"line {number} of {path.name}: {line[:40]!r}", "write JSON lines")
        yield session, items


def row_of(catalog: Catalog, id_: Any) -> int:
    """The row of an id, or −1 if the catalogue does not hold it."""
    try:
        rows, _ = catalog.ids.known_rows([id_])
    except UnknownId:  # an id of another type
        return -1
    return int(rows[0]) if len(rows) else -1
