"""``read(path)``: select the reader by the extension of the path and the names of the columns.

==========================================  ===============================================================
``.inter``                                  RecBole
``.txt``                                    sequences of users
``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``  a table
==========================================  ===============================================================

``read(path, baskets=True)`` reads a text file of any name as one basket a line. Text may be gzipped. Columns of a table
that are not given are those of usual names (usual_columns.py). A table is read as slates if it has a slate and an
outcome, given or of a usual name; ``slate=None`` or ``outcome=None`` reads it as sessions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from setwise._validation import did_you_mean
from setwise.datasets.baskets import read_baskets
from setwise.datasets.delimiters import DELIMITERS
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.tables import JSON_LINES, read_table, table_columns
from setwise.datasets.text_files import Source, existing_file, file_extension
from setwise.datasets.usual_columns import missing_column, usual_column
from setwise.errors import InvalidInput

OF_SLATES = ("position", "explored", "propensity")  # columns that only slates have
TABLE_ROLES = ("session", "item", "time", "slate", "outcome", *OF_SLATES, "ordered", "quantity")  # of ``read_table``

_READERS: Mapping[str, Callable[..., Sessions | Slates]] = {
    ".inter": read_recbole,
    ".txt": read_sequences,
}
_TABLES = {*DELIMITERS, *JSON_LINES, ".parquet"}


def read(path: Source, baskets: bool = False, **options: Any) -> Sessions | Slates:
    """Sessions or slates, by the reader of this format, which refuses options of the others.

    With ``baskets`` every line of the file is a basket of items. ``read_table`` says what the options of tables mean;
    columns that are not named are those of usual names. ``user`` is a column of RecBole's, ``form`` is of ``.txt``.
    """
    reader = _reader(path, baskets, options)
    if reader is read_table:
        options = {**_guessed(path, table_columns(path, options.get("delimiter")), options), **options}
    return _call(reader, path, options)


def _name_options() -> None:
    """Show the options of all readers as parameters of ``read``, in ``help`` and to editors."""
    signature, named = inspect.signature(read), dict[str, inspect.Parameter]()
    readers: tuple[Callable[..., Any], ...] = (read_table, *_READERS.values(), read_baskets)
    for reader in readers:
        named = {**inspect.signature(reader).parameters, **named}
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    options = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, default=None if name in TABLE_ROLES else parameter.default
        )
        for name, parameter in named.items()
        if name not in signature.parameters
    ]
    read.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]


_name_options()


def _reader(path: Source, baskets: bool, options: Mapping[str, Any]) -> Callable[..., Sessions | Slates]:
    """The reader of this format."""
    if baskets:
        return read_baskets
    kind = file_extension(existing_file(path))
    if kind in _READERS:
        return _READERS[kind]
    if kind not in _TABLES and "delimiter" not in options:
        known = ", ".join(sorted({*_READERS, *_TABLES}))
        todo = "write one object a line, and name it .jsonl" if kind == ".json" else "save it as .csv, or rename it"
        raise InvalidInput("path", f"a file of {known}", repr(Path(path).name), todo)
    return read_table


def _call(reader: Callable[..., Sessions | Slates], path: Source, options: Mapping[str, Any]) -> Sessions | Slates:
    """The result of the reader; options that it does not have are refused."""
    known = [name for name in inspect.signature(reader).parameters if name != "path"]
    for name in options:
        if name not in known:
            raise InvalidInput(
                f"option '{name}'",
                f"one of {reader.__name__}: {', '.join(known)}",
                "an option of another reader",
                did_you_mean(name, known) or "leave it out",
            )
    return reader(path, **options)


def columns_read(path: Source, baskets: bool = False, **options: Any) -> dict[str, str]:
    """The columns that ``read`` takes from a table with these options, by role; empty for files of another format."""
    if _reader(path, baskets, options) is not read_table:
        return {}
    chosen = {**_guessed(path, table_columns(path, options.get("delimiter")), options), **options}
    texts = {role: [name] if isinstance(name := chosen.get(role), str) else list(name or ()) for role in TABLE_ROLES}
    return {role: " and ".join(names) for role, names in texts.items() if names}


def has_slates(path: Source, baskets: bool = False, **options: Any) -> bool:
    """Whether ``read`` returns slates with these options."""
    return {"slate", "outcome"} <= columns_read(path, baskets, **options).keys()


def _guessed(path: Source, columns: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a table, guessed from their names; without one of sessions, each slate is a session of its own."""
    usual = {role: usual_column(role, columns) for role in TABLE_ROLES}
    chosen = {**usual, **given}
    if chosen["item"] is None:
        raise missing_column("item", Path(path), columns)
    if chosen["slate"] and chosen["outcome"]:
        others = [name for name in columns if name != chosen["slate"]]
        own = {"session": usual_column("session", others) or chosen["slate"]}
        return {**usual, **own, "ordered": None, "quantity": None}
    if "session" not in given and usual["session"] is None and file_extension(Path(path)) in DELIMITERS:
        raise missing_column("session", Path(path), columns)
    return {**usual, "slate": None, "outcome": None, **dict.fromkeys(OF_SLATES)}
