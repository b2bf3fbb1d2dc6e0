"""The file of ``setwise rerank``: candidates as CSV, TSV, JSON Lines or Parquet, read as columns.

A column of CSV holds numbers if all its cells are numbers, truth values if they are true or false, and else texts; an
empty cell is missing. Ids stay texts. A vector is a cell such as [0.1, 0.2] or 0.1 0.2.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from setwise.cli.query_options import read_text
from setwise.datasets.delimiters import DELIMITERS
from setwise.datasets.tables import JSON_LINES
from setwise.errors import InvalidInput, MalformedFile, MissingDependency
from setwise.recommend.rerank.candidates import IDS, VECTORS, columns_of

TRUTH = {"true": True, "false": False}


def read_candidates(path: Path, kept_as_text: Sequence[str] = ()) -> dict[str, Any]:
    """The columns of this file; ids and the columns of ``kept_as_text`` are texts in a file of texts."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        return _parquet(path)
    if kind in JSON_LINES:
        return columns_of(_records(path))
    if kind not in DELIMITERS:
        kinds = ", ".join(sorted({*DELIMITERS, *JSON_LINES, ".parquet"}))
        raise InvalidInput("FILE", f"a table ({kinds})", path.name, "convert it, or rename it")
    rows = [row for row in csv.reader(io.StringIO(read_text(path, "FILE")), delimiter=DELIMITERS[kind]) if row]
    if not rows:
        raise InvalidInput("FILE", "a table with a heading", f"{path.name}, which is empty", "check the path")
    heading = [name.strip() for name in rows[0]]
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(heading):
            raise MalformedFile(path, line, f"expected {len(heading)} cells, found {len(row)}")
    columns = {name: [row[at].strip() or None for row in rows[1:]] for at, name in enumerate(heading)}
    texts = {*IDS, *kept_as_text}
    return {name: cells if name in texts else _typed(path, name, cells) for name, cells in columns.items()}


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingDependency("pyarrow", "reading Parquet", "parquet") from None
    try:
        return columns_of(pyarrow.parquet.read_table(path))
    except (OSError, pyarrow.ArrowException) as error:
        raise InvalidInput("FILE", "a Parquet file that can be read", f"{path} ({error})", "check the path") from None


def _records(path: Path) -> list[dict[str, Any]]:
    records = []
    for line, text in enumerate(read_text(path, "FILE").split("\n"), 1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise MalformedFile(path, line, "expected an object of JSON")
        records.append(record)
    return records


def _typed(path: Path, name: str, cells: list[str | None]) -> list[Any]:
    if name in VECTORS:
        return [None if cell is None else _vector(path, line, cell) for line, cell in enumerate(cells, 2)]
    present = {cell.lower() for cell in cells if cell is not None}
    if present and present <= TRUTH.keys():
        return [None if cell is None else TRUTH[cell.lower()] for cell in cells]
    kinds: tuple[Callable[[str], Any], ...] = (int, float)
    for kind in kinds:
        try:
            return [None if cell is None else kind(cell) for cell in cells]
        except ValueError:
            continue
    return cells


def _vector(path: Path, line: int, cell: str) -> list[float]:
    try:
        return [float(number) for number in cell.strip("[]").replace(",", " ").split()]
    except ValueError:
        raise MalformedFile(path, line, f"expected a vector such as [0.1, 0.2], found {cell[:40]!r}") from None
