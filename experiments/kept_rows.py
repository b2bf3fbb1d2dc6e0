"""Raw rows that survive an interruption: a CSV file that grows by whole units of work.

A unit, such as one user of one catalogue, is written at once when it is done, with its name in every row. A run with
the same settings resumes where the last one stopped. Other settings are an error, because the file would mix rows of
two experiments.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from setwise._progress import Progress
from setwise.errors import InvalidInput

Row = dict[str, Any]


class KeptRows:
    """Rows by unit; ``path`` None keeps them in memory alone."""

    def __init__(self, path: Path | None, fields: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.path, self.fields = path, ("unit", *fields, "last")
        self.rows: list[Row] = []
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        about = path.with_suffix(".settings.json")
        _refuse_other_settings(about, json.dumps(settings, indent=1, sort_keys=True, default=str))
        if path.exists():
            self.rows = _complete(read(path))
        _replace(path, _written(self.rows, self.fields, header=True))

    def missing(self, units: Iterable[str], title: str) -> Iterator[str]:
        """The units without rows, with a bar that counts all of them; a line each where they are logged."""
        wanted, done = list(units), {row["unit"] for row in self.rows}
        with Progress(title, len(wanted)) as bar:
            for number, unit in enumerate(wanted, 1):
                if unit not in done:
                    if self.path is not None and not sys.stderr.isatty():
                        print(f"{title}, {number} of {len(wanted)}: {unit}", flush=True)
                    yield unit
                bar.advance(1, unit)

    def add(self, unit: str, rows: Sequence[Row]) -> None:
        """All rows of a unit, written at once."""
        empty = dict.fromkeys(self.fields)
        marked = [empty | row | {"unit": unit, "last": row is rows[-1]} for row in rows]
        self.rows += marked
        if self.path is not None:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                file.write(_written(marked, self.fields, header=False))


def read(path: Path) -> list[Row]:
    """The rows of a file with their numbers as numbers; an empty cell is None."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _number(text) for name, text in row.items() if name is not None} for row in csv.DictReader(file)]


def _complete(rows: list[Row]) -> list[Row]:
    """The rows of units whose last row is there; a unit cut short is made again."""
    ended = {row["unit"] for row in rows if row["last"] is True}
    return [row for row in rows if row["unit"] in ended]


def _number(text: str | None) -> Any:
    if not text:
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _written(rows: Iterable[Row], fields: Sequence[str], header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, restval="")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _refuse_other_settings(path: Path, settings: str) -> None:
    if not path.exists():
        _replace(path, settings)
    elif path.read_text(encoding="utf-8") != settings:
        raise InvalidInput(
            "--out",
            "a file of this experiment with the same settings",
            f"{path} of other settings",
            "name another file",
        )


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text, encoding="utf-8", newline="")
    os.replace(draft, path)
