"""The file of ``--scores``: the caller's own scores, as JSON or as CSV.

JSON is {"id": score, …}, or [score, …] with one number per item in the order of the catalogue. CSV has lines of
id,score; a first line with neither an id of the catalogue nor a number is a heading.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from setwise.cli.query_options import read_text
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.recommend.query_texts import ids


def read_scores(catalog: Catalog, path: Path) -> Any:
    """The scores in this file, as ``recommend`` takes them."""
    text = read_text(path, "--scores")
    return _from_json(path, text) if text.lstrip()[:1] in ("{", "[") else _from_csv(catalog, path, text)


def _from_json(path: Path, text: str) -> Any:
    try:
        content = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise InvalidInput(
            "--scores", "a file of JSON or CSV", path.name, "write {id: score}, or lines of id,score"
        ) from None
    if not text.lstrip().startswith("{"):
        return content
    scores: dict[str, Any] = {}
    for id_, score in content:  # pairs: a plain object would keep the last of two scores of one id
        if id_ in scores:
            raise _repeated(id_)
        scores[id_] = score
    return scores


def _from_csv(catalog: Catalog, path: Path, text: str) -> dict[Any, float]:
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if lines and _is_heading(catalog, lines[0]):
        lines = lines[1:]
    scores: dict[Any, float] = {}
    for line in lines:
        score = _number(line[1]) if len(line) == 2 else None
        if score is None:
            got = repr(",".join(line)[:60])
            raise InvalidInput(f"a line of {path.name}", "id,score", got, "write one id and one number per line")
        id_ = ids(catalog, [line[0]], "--scores")[0]
        if id_ in scores:
            raise _repeated(id_)
        scores[id_] = score
    return scores


def _is_heading(catalog: Catalog, line: list[str]) -> bool:
    if len(line) != 2 or _number(line[1]) is not None:
        return False
    try:
        return not len(catalog.ids.known_rows(ids(catalog, line[:1], "--scores"))[0])
    except InvalidInput:  # no number, where ids are numbers
        return True


def _repeated(id_: Any) -> InvalidInput:
    return InvalidInput("--scores", "about each id once", f"{id_!r} twice", "keep one line for it")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
