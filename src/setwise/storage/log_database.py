"""One database of the log of slates: how it is made, and what is checked before anything of it is used.

A database may come from elsewhere, so its content is not trusted. A view or a trigger in the place of a table could
compute without end, and a damaged file can lead a search in circles. ``connect`` refuses a database with anything but
the two tables of ``SCHEMA``, ``limited`` ends a query that takes more steps than a file of that size can need, and
``is_slate`` and ``is_total`` say whether fields that were read are those of a log.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

APPLICATION = 0x73657477  # "setw", in the header of every database
FORMAT_VERSION = 1
BUSY_S = 10.0  # that a process waits for the transaction of another
SCHEMA = (
    """CREATE TABLE slates (
    id TEXT PRIMARY KEY, key TEXT, version TEXT NOT NULL, items TEXT NOT NULL, rewards TEXT NOT NULL,
    value REAL NOT NULL, propensity REAL NOT NULL, explored INTEGER NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE outcomes (
    slate TEXT NOT NULL, position INTEGER NOT NULL, outcome REAL NOT NULL, received REAL NOT NULL,
    PRIMARY KEY (slate, position)
) WITHOUT ROWID""",
)
STATISTICS = ("sqlite_stat1", "sqlite_stat4")  # what ANALYZE adds
STEPS = 10_000_000  # of SQLite's machine that every query may take: about a second
STEPS_PER_BYTE = 10  # and of the file; a query of the log takes less than one
_STEPS_AT_ONCE = 10_000


def create(path: Path) -> None:
    """Create an empty database."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        for table in SCHEMA:
            database.execute(table)
        database.execute("PRAGMA journal_mode = WAL")


def file_number(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file of this name, which another file in its place does not have; None without one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """An open database of this format. Readers open the file for writing too: WAL needs that after a crash."""
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        if read_only:
            limited(database, path)
            database.execute("PRAGMA query_only = ON")
        found = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if found != [APPLICATION, FORMAT_VERSION]:
            raise sqlite3.DatabaseError(f"{path.name} is not a log of slates of this version of setwise")
        _check_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def _check_tables(database: sqlite3.Connection) -> None:
    """Raise an error if the database has other tables, or anything that is not a table."""
    tables = set()
    for kind, name, text in database.execute("SELECT type, name, sql FROM sqlite_master"):
        if kind == "table" and text in SCHEMA:
            tables.add(text)
        elif kind != "table" or name not in STATISTICS:
            raise sqlite3.DatabaseError(f"it has the {kind} {str(name)[:40]!r}, which no log of slates has")
    if len(tables) < len(SCHEMA):
        raise sqlite3.DatabaseError("it lacks a table of a log of slates")


def limited(database: sqlite3.Connection, path: Path) -> None:
    """End queries of this connection, all together, after more steps than the file can need."""
    files = (path, path.with_name(f"{path.name}-wal"))
    most = STEPS + STEPS_PER_BYTE * sum(map(_size, files))
    taken = 0

    def is_over() -> bool:
        nonlocal taken
        taken += _STEPS_AT_ONCE
        return taken > most

    database.set_progress_handler(is_over, _STEPS_AT_ONCE)


def _size(path: Path) -> int:
    """The bytes of a file; 0 where there is none: SQLite deletes its second file when the last process closes it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def parsed(text: object) -> Any:
    """The JSON of a field, or None where it has none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def is_slate(version: object, items: object, rewards: object, outcomes: Sequence[tuple[Any, ...]]) -> bool:
    """Whether these can be the fields of a slate: an id and a finite reward for each item, outcomes of its items."""
    if not isinstance(version, str) or not isinstance(items, list) or not isinstance(rewards, list):
        return False
    shown = len(items) == len(rewards) and all(type(one) in (int, str) for one in items)
    positions = all(type(at) is int and 0 <= at < len(items) for at, _, _ in outcomes)
    numbers = all(_is_finite(one) for one in rewards) and all(_is_finite(one) for _, *two in outcomes for one in two)
    return shown and positions and numbers


def is_total(version: object, sums: Sequence[object]) -> bool:
    """Whether these can be the sums over the slates of a version."""
    return isinstance(version, str) and all(_is_finite(one) for one in sums)


def _is_finite(number: object) -> bool:
    return type(number) in (int, float) and math.isfinite(number)  # type: ignore[arg-type]
