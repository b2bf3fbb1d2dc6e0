"""Sequences of users: RecBole's atomic files, and the text files of SASRec and related projects.

* RecBole ``.inter``: tab-separated, a header of ``name:type``, one interaction per row, in any order. A ``.item`` file
  of the same name holds the attributes of the items.
* Sequences: whole numbers separated by blanks, in time order; either "pairs" (a line is ``user item``) or "lists" (a
  line is ``user item item …``, and a user has one line).
"""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from setwise._validation import frozen
from setwise.datasets.grouping import group_by_owner
from setwise.datasets.id_encoder import IdEncoder
from setwise.datasets.sessions import Sessions
from setwise.datasets.text_files import Source, column_positions, existing_file, parse_number, plain_rows, text_lines
from setwise.datasets.timestamps import TimestampParser
from setwise.errors import InvalidInput, MalformedFile

FORMS = ("pairs", "lists")

_LINE = re.compile(r"[ \t]*(?:0|[1-9]\d{0,17})(?:[ \t]+(?:0|[1-9]\d{0,17}))*\s*", re.ASCII)


def read_sequences(path: Source, form: str | None = None, progress: bool = True) -> Sessions:
    """One session of whole-number ids per user; ``form`` is "pairs", "lists", or None to infer it from the file.

    A file is pairs if every line holds exactly two numbers. A file in which a user has several longer lines is neither
    (it may have columns of ratings or times) and is refused.
    """
    if form not in (None, *FORMS):
        raise InvalidInput("form", "'pairs', 'lists' or None", repr(form), "pass one of them")
    file = existing_file(path)
    user_of, items, owner, values = dict[int, int](), IdEncoder(file), array("q"), array("q")
    longer = repeated = line = 0  # the first line with more than two numbers; the first of a user seen before
    for line, text in enumerate(text_lines(file, progress), 1):
        if text.isspace():
            continue
        user, *sequence = _numbers(file, line, text)
        if user in user_of and not repeated:
            repeated = line
        if len(sequence) > 1 and not longer:
            longer = line
        row = user_of.setdefault(user, len(user_of))
        owner.extend([row] * len(sequence))
        values.extend([items.row(line, id_) for id_ in sequence])
    if not line:
        raise MalformedFile(file, 1, "there must be one line per user or per interaction, but the file is empty")
    if form == "pairs" and longer:
        raise MalformedFile(file, longer, "the line must be 'user item', got more numbers; or pass form='lists'")
    if repeated and (form == "lists" or longer):
        reason = "a user must have one line where lines are lists, but this user has another"
        raise MalformedFile(file, repeated, reason)
    return Sessions(group_by_owner(owner, values, len(user_of)), items.ids)


def _numbers(file: Path, line: int, text: str) -> list[int]:
    if not _LINE.fullmatch(text):
        got = f"{text.strip()[:40]!r}; if every line is a basket of items, read it with baskets=True (--baskets)"
        reason = f"the line must be whole numbers separated by blanks, got {got}"
        raise MalformedFile(file, line, reason)
    numbers = list(map(int, text.split()))
    if len(numbers) < 2:
        raise MalformedFile(file, line, "the line must hold a user and an item, got one number")
    return numbers


def read_recbole(
    path: Source, user: str = "user_id", item: str = "item_id", time: str = "timestamp", progress: bool = True
) -> Sessions:
    """One session per user of a ``.inter`` file, ordered by time; without a column ``time`` they are unordered.

    Attributes come from the ``.item`` file of the same name, if there is one: numbers for ``float``, else text.
    """
    file = existing_file(path)
    rows = plain_rows(file, "\t", progress)
    header = _header(file, next(rows)[1])
    at = column_positions(file, list(header), [user, item, *([time] if time in header else [])])
    user_of, items, timestamps = dict[str, int](), IdEncoder(file), TimestampParser(file)
    owner, values, times = array("q"), array("q"), array("d")
    for line, cells in rows:
        who, id_, *when = (cells[place] for place in at)
        if not who:
            raise MalformedFile(file, line, f"there must be a '{user}', got nothing")
        owner.append(user_of.setdefault(who, len(user_of)))
        values.append(items.row(line, id_))
        times.extend(timestamps(line, moment) for moment in when)
    timed = time in header
    sessions = group_by_owner(owner, values, len(user_of), timestamps.resolve(times) if timed else None)
    ordered = None if timed else frozen(np.zeros(len(user_of), bool))
    return Sessions(sessions, items.ids, _item_file(file, item, items, progress), ordered)


def _header(file: Path, cells: list[str]) -> dict[str, str]:
    """{name: type} of an atomic file."""
    header = dict(cell.strip().rpartition(":")[::2] for cell in cells)
    wrong = [name for name, kind in header.items() if not name or kind not in _KINDS]
    if wrong or len(header) < len(cells):
        reason = f"the header must be distinct 'name:type', types being {', '.join(_KINDS)}, got {cells!r:.100}"
        raise MalformedFile(file, 1, reason)
    return header


_KINDS = ("token", "token_seq", "float", "float_seq")


def _item_file(inter: Path, item: str, items: IdEncoder, progress: bool) -> dict[str, list[Any]]:
    """The columns of the ``.item`` file of the same name, for the items that occur in ``inter``."""
    name = inter.name.removesuffix(".gz").removesuffix(".inter") + ".item"
    files = [path for path in (inter.with_name(name), inter.with_name(name + ".gz")) if path.is_file()]
    if not files:
        return {}
    file = files[0]
    rows = plain_rows(file, "\t", progress)
    header = _header(file, next(rows)[1])
    (at,) = column_positions(file, list(header), [item])
    columns: dict[str, list[Any]] = {column: [None] * len(items) for column in header if column != item}
    for line, cells in rows:
        row = items.row_of.get(cells[at])
        for (column, kind), cell in zip(header.items(), cells, strict=True):
            if row is not None and column != item and cell:
                columns[column][row] = _number(file, line, column, cell) if kind == "float" else cell
    return columns


def _number(file: Path, line: int, column: str, cell: str) -> float:
    number = parse_number(cell)
    if np.isnan(number):
        raise MalformedFile(file, line, f"'{column}' must be a number, got {cell[:40]!r}")
    return number
