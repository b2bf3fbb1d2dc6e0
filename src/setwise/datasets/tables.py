"""Tables with named columns (CSV, TSV, JSON Lines, Parquet) as sessions or as slates.

``read_table`` reads the long form, one item per row; a cell that is a list (JSON Lines, Parquet) holds several items.

* Sessions: the items of all rows with the same session, in the order of ``time``, else of the file.
* Slates (with ``slate`` and ``outcome``): the rows of the same session and slate are the items shown, in the order of
  the file. The history of a slate is the items with a positive outcome in earlier slates of its session, the latest
  500. Slates are ordered by their earliest ``time``, else by their first row.

Ids are never converted: text stays text ("007" is not "7"), numbers of JSON and Parquet stay numbers. Rows without a
session, an item or a time, and rows of a negative ``quantity`` (returns and cancellations), are skipped and counted in
``skipped``; repeated rows are kept (a quantity), except within a slate.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, overload

from setwise.datasets.attribute_values import AttributeValues
from setwise.datasets.delimiters import DELIMITERS, delimiter_of
from setwise.datasets.malformed_rows import STOP, MalformedRows
from setwise.datasets.parquet import parquet_columns, parquet_rows
from setwise.datasets.row_collector import Columns, RowCollector
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.text_files import (
    OnMalformed,
    Skipped,
    Source,
    cell_rows,
    column_positions,
    existing_file,
    file_extension,
    json_rows,
    report_skipped,
    stop,
)
from setwise.datasets.timestamps import TimestampParser
from setwise.errors import InvalidInput

Either = TypeVar("Either", bound=Sessions | Slates)
TableRows = Generator[tuple[int, Sequence[Any]], None, None]  # lines and cells; to be closed, which closes the file

JSON_LINES = {".jsonl", ".ndjson"}


@overload
def read_table(
    path: Source, session: str | Sequence[str] | None = ..., item: str = ..., *, slate: None = ..., outcome: None = ...,
    time: str | None = ..., time_format: str | None = ..., attributes: Sequence[str] | Mapping[str, str] = ...,
    ordered: str | None = ..., quantity: str | None = ..., delimiter: str | None = ..., progress: bool = ...,
    skipped: Skipped | None = ..., on_error: str = ...,
) -> Sessions: ...  # fmt: skip
@overload
def read_table(
    path: Source, session: str | Sequence[str] | None = ..., item: str = ..., *, slate: str, outcome: str,
    time: str | None = ..., time_format: str | None = ..., attributes: Sequence[str] | Mapping[str, str] = ...,
    ordered: None = ..., quantity: str | None = ..., position: str | None = ..., explored: str | None = ...,
    propensity: str | None = ..., delimiter: str | None = ..., progress: bool = ...,
    skipped: Skipped | None = ..., on_error: str = ...,
) -> Slates: ...  # fmt: skip
def read_table(
    path: Source,
    session: str | Sequence[str] | None = "session",
    item: str = "item",
    *,
    slate: str | None = None,
    outcome: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    attributes: Sequence[str] | Mapping[str, str] = (),
    ordered: str | None = None,
    quantity: str | None = None,
    position: str | None = None,
    explored: str | None = None,
    propensity: str | None = None,
    delimiter: str | None = None,
    progress: bool = True,
    skipped: Skipped | None = None,
    on_error: str = STOP,
) -> Sessions | Slates:
    """Sessions, or slates if ``slate`` and ``outcome`` name columns.

    ``session`` names the column of the session, or several columns that identify it together; None if every row is one
    session, with a list of items, or every slate a session of its own, without a history. ``attributes`` names columns
    of item attributes, or is {name: column}; the most frequent value of an item counts. ``ordered`` names a column that
    is true if the order of a session is meaningful, ``quantity`` one that is negative in rows that take an item back,
    which are skipped. For slates, ``position`` names the place of an item, ``explored`` whether the slate was drawn at
    random, and ``propensity`` with which probability it was shown (of rows that differ, their product).
    A malformed row raises ``MalformedFile``; with ``on_error="skip"`` it is skipped, and ``skipped`` has the number of
    such rows and the first of them.
    """
    if (slate is None) != (outcome is None):
        got = f"{'outcome' if slate is None else 'slate'} {outcome if slate is None else slate!r} alone"
        raise InvalidInput("slate and outcome", "given together", got, "name both columns or neither")
    if slate is None and (position or explored or propensity):
        got = next(name for name in (position, explored, propensity) if name)
        raise InvalidInput("position, explored and propensity", "given for slates", repr(got), "name the slate too")
    if slate is not None and ordered is not None:
        todo = "leave it out: the items of a slate have no order"
        raise InvalidInput("ordered", "None beside slate and outcome", repr(ordered), todo)
    session = slate if session is None else session
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    named = _named(attributes)
    sessions = [session] if isinstance(session, str) else list(session or ())
    columns = Columns(item, sessions, time, slate, outcome, ordered, quantity, position, explored, propensity, named)
    malformed = MalformedRows(on_error)
    _require_columns(file, columns, delimiter)
    rows = RowCollector(file, columns, TimestampParser(file, time_format), counts, malformed)
    with closing(table_rows(file, columns.names, len(named), delimiter, progress, malformed)) as table:
        rows.add_rows(table)
    malformed.report(counts)
    result = rows.sessions() if slate is None else rows.slates()
    report_skipped(counts, file, progress)
    return result


def _require_columns(file: Path, columns: Columns, delimiter: str | None) -> None:
    """Refuse columns that the table does not have, each by its role; objects of JSON may lack attributes."""
    header, json_lines = table_columns(file, delimiter), file_extension(file) in JSON_LINES
    if json_lines and not header:
        return  # no object at all: no sessions
    for role, names in columns.required.items():
        column_positions(file, header, names, role)
    if not json_lines:
        column_positions(file, header, list(columns.attributes.values()), "attribute")


def with_attributes(
    data: Either,
    path: Source,
    item: str,
    attributes: Sequence[str] | Mapping[str, str],
    delimiter: str | None = None,
    progress: bool = True,
) -> Either:
    """``data`` with attributes from a table of one row per item; None for items that are not in the table.

    Ids are compared as text, because a CSV file does not distinguish numbers from text. A table with none of the items
    is refused.
    """
    file, row_of = existing_file(path), {str(id_): row for row, id_ in enumerate(data.ids)}
    named, is_empty = _named(attributes), True
    values = AttributeValues(file, named)
    with closing(table_rows(file, [item, *named.values()], len(named), delimiter, progress)) as table:
        for line, (id_, *cells) in table:
            if (row := row_of.get(str(id_))) is not None:
                values.require(line, cells)
                values.add(row, cells)
                is_empty = False
    if is_empty:
        must = f"a table of the items of the data, such as {next(iter(row_of), '')!r}"
        raise InvalidInput(file.name, must, f"none of them in column {item}", "check that both have the same ids")
    return replace(data, attributes={**data.attributes, **values.columns(len(data.ids), Skipped())})


def _named(attributes: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """{name: column}."""
    return dict(attributes) if isinstance(attributes, Mapping) else {name: name for name in attributes}


def table_columns(path: Source, delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table; in JSON Lines those of the first object."""
    file = existing_file(path)
    if file_extension(file) == ".parquet":
        return parquet_columns(file)
    if file_extension(file) in JSON_LINES:
        return list(next(json_rows(file), (1, {}))[1])
    return next(cell_rows(file, _delimiter(file, delimiter)))[1]


def table_rows(
    file: Path,
    columns: Sequence[str],
    optional: int,
    delimiter: str | None,
    progress: bool,
    malformed: OnMalformed = stop,
) -> TableRows:
    """The line and the cells of these columns for every row; JSON objects may lack the last ``optional`` ones."""
    if file_extension(file) == ".parquet":
        return parquet_rows(file, columns, progress)
    if file_extension(file) in JSON_LINES:
        return _json_cells(file, columns, optional, progress, malformed)
    return _cells(file, columns, _delimiter(file, delimiter), progress, malformed)


def _delimiter(file: Path, delimiter: str | None) -> str:
    if delimiter is None and file_extension(file) not in DELIMITERS:
        kinds = ", ".join(sorted({*DELIMITERS, *JSON_LINES, ".parquet"}))
        raise InvalidInput(
            "path", f"that of a table ({kinds}; text also with .gz)", file.name, "rename it, or pass delimiter"
        )
    return delimiter_of(file, delimiter)


def _cells(file: Path, columns: Sequence[str], delimiter: str, progress: bool, malformed: OnMalformed) -> TableRows:
    rows = cell_rows(file, delimiter, progress, malformed)
    at = column_positions(file, next(rows)[1], columns)
    pick = itemgetter(*at) if len(at) > 1 else lambda cells: (cells[at[0]],)
    return ((line, pick(cells)) for line, cells in rows)


def _json_cells(file: Path, columns: Sequence[str], optional: int, progress: bool, malformed: OnMalformed) -> TableRows:
    for number, (line, row) in enumerate(json_rows(file, progress, malformed)):
        if number == 0:
            column_positions(file, list(row), columns[: len(columns) - optional])
        yield line, [row.get(name) for name in columns]
