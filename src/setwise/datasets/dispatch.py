"""``read(path)``: select the reader by the extension of the path and the names of the columns.

==========================================  ===============================================================
folder, ``.zip``, ``.json``                 playlists of the MPD
``.inter``                                  RecBole
``.txt``                                    sequences of users
``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``  trivago's, recognised by their columns; any other table
==========================================  ===============================================================

``read(path, baskets=True)`` reads a text file of any name as one basket a line. Text may be gzipped. Columns of a table
that are not given are looked up among the names below, the first that is present, ignoring case and underscores; no
other names are guessed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from setwise._validation import did_you_mean
from setwise.datasets.baskets import read_baskets
from setwise.datasets.delimiters import DELIMITERS
from setwise.datasets.outcome_sets import WHOLE_SETS
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.spotify_mpd import read_mpd
from setwise.datasets.tables import JSON_LINES, read_table, table_columns
from setwise.datasets.text_files import Source, existing_file, file_extension
from setwise.datasets.trivago import COLUMNS, read_trivago, read_trivago_impressions
from setwise.errors import InvalidInput

USUAL: Mapping[str, Sequence[str]] = {
    "session": ("session", "session_id", "playlist", "playlist_id", "pid", "basket_id", "order_id", "invoice_no",
                "user", "user_id", "customer_id"),
    "item": ("item", "item_id", "items", "track", "track_id", "track_uri", "tracks", "product", "product_id",
             "stock_code", "movie_id", "article_id"),
    "time": ("time", "timestamp", "datetime", "date", "invoice_date", "event_time"),
    "slate": ("slate", "slate_id", "impression_id"),
    "outcome": ("outcome", "clicked", "click"),
    "ordered": ("ordered",),
    "quantity": ("quantity", "qty"),
}  # fmt: skip

_READERS: Mapping[str, Callable[..., Sessions | Slates]] = {
    ".zip": read_mpd,
    ".json": read_mpd,
    ".inter": read_recbole,
    ".txt": read_sequences,
}
_TABLES = {*DELIMITERS, *JSON_LINES, ".parquet"}


def read(path: Source, baskets: bool = False, **options: Any) -> Sessions | Slates:
    """Sessions or slates, by the reader of this format; ``options`` are those of that reader.

    With ``baskets`` every line of the file is a basket of items.
    """
    if baskets:
        return _call(read_baskets, path, options)
    if Path(path).is_dir():
        return _call(read_mpd, path, options)
    kind = file_extension(existing_file(path))
    if kind in _READERS:
        return _call(_READERS[kind], path, options)
    if kind not in _TABLES and "delimiter" not in options:
        known = ", ".join(sorted({*_READERS, *_TABLES}))
        todo = "save it as .csv, or rename it if it is one of these"
        raise InvalidInput("path", f"a folder or a file of {known}", repr(Path(path).name), todo)
    columns = table_columns(path, options.get("delimiter"))
    if set(columns) >= set(COLUMNS):
        return _call(read_trivago, path, options)
    if set(columns) == {"session_id", "impressions", "prices"}:
        return _call(read_trivago_impressions, path, options)
    return _call(read_table, path, {**_guessed(path, columns, options), **options})


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


def columns_read(path: Source, **options: Any) -> dict[str, str]:
    """The columns that ``read`` takes from a table with these options, by role; empty for files of another format."""
    kind = "" if Path(path).is_dir() else file_extension(existing_file(path))
    if options.get("baskets") or kind in _READERS or not (kind in _TABLES or "delimiter" in options):
        return {}
    columns = table_columns(path, options.get("delimiter"))
    if set(columns) >= set(COLUMNS) or set(columns) == {"session_id", "impressions", "prices"}:
        return {}
    chosen = {**_guessed(path, columns, options), **options}
    texts = {role: [one] if isinstance(one := chosen.get(role), str) else list(one or ()) for role in USUAL}
    return {role: " and ".join(names) for role, names in texts.items() if names}


def usual_column(role: str, columns: Sequence[str]) -> str | None:
    """The first of the usual names of this role that is a column, ignoring case and underscores."""
    plain = {name.lower().replace("_", ""): name for name in reversed(columns)}
    return next((plain[name] for one in USUAL[role] if (name := one.replace("_", "")) in plain), None)


def _guessed(path: Source, columns: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a table, guessed from their names."""
    found = {role: usual_column(role, columns) for role in USUAL}
    if "item" not in given and found["item"] is None:
        _refuse_missing("item", path, columns)
    if "session" not in given and found["session"] is None and file_extension(Path(path)) in DELIMITERS:
        _refuse_missing("session", path, columns)
    slates = bool(found["slate"] or given.get("slate")) and bool(found["outcome"] or given.get("outcome"))
    unused = ("ordered", "quantity") if slates else ("slate", "outcome")
    return {role: name for role, name in found.items() if role not in unused}


def _refuse_missing(role: str, path: Source, columns: Sequence[str]) -> None:
    got = f"{Path(path).name} with {', '.join(columns)}"[:300]
    todo = (
        f"name the column: {role}=... in Python, --{role} on the command line; or baskets=True, --baskets, if there is "
        "no header and every line is a basket"
    )
    whole = next((name for name in columns if name.lower() in WHOLE_SETS), None)
    if role == "session" and whole is not None:
        todo = (
            f"name the column with --session; or, where each '{whole}' has one outcome as a whole, with --set {whole}"
        )
    if len(columns) == 1:
        todo = "the header is one column: pass delimiter (--delimiter); or baskets=True (--baskets) if it is a basket"
    raise InvalidInput(role, f"given where no column has a usual name ({', '.join(USUAL[role])})", got, todo)
