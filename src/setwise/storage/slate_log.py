"""The log of slates that were shown and of their outcomes: a folder with one SQLite database for every week.

    folder/week-2026-W47.sqlite      slates shown in that ISO week (UTC), and their outcomes, whenever they came

The id of a slate begins with the time at which it was made, so it names its week: an outcome that comes months later
goes to the database of its slate. Nothing is read to find it, and weeks can be deleted as files: what is written later
goes to a new one.

**Nothing accepted is lost.** ``write`` returns after its transactions are committed; those with outcomes are flushed to
the disk (WAL, synchronous=FULL). A process that is killed, or a full disk, leaves whole transactions only. Slates
without outcomes survive the end of the process at once, and a power failure from the next flushed outcome on: that
flush covers them too.

**Nothing counts twice.** The outcome of an item of a slate is the largest that was received: repeating an outcome, or
the order of several, changes nothing.

Several processes of one machine may write to one folder. SQLite excludes them by locks of the file system, which
network file systems often lack.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from setwise.errors import InvalidInput
from setwise.storage.artifact import flush_folder
from setwise.storage.log_database import connect, create, file_number, is_slate, is_total, parsed

OPEN_WEEKS = 4  # databases that stay open
_ID = re.compile(r"[0-9a-f]{32}")
_FILE = re.compile(r"week-\d{4}-W\d{2}\.sqlite")
_ADD_SLATE = "INSERT OR IGNORE INTO slates VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_OUTCOME = """
INSERT INTO outcomes VALUES (?, ?, ?, ?) ON CONFLICT (slate, position)
DO UPDATE SET outcome = excluded.outcome, received = excluded.received WHERE excluded.outcome > outcome
"""
_READ = """
SELECT s.id, s.key, s.version, s.items, s.rewards, s.propensity, s.explored, o.position, o.outcome, o.received
FROM slates s LEFT JOIN outcomes o ON o.slate = s.id WHERE s.id >= ? AND s.id < ? ORDER BY s.id, o.position
"""
_TOTALS = """
SELECT version, explored, count(*), sum(answered), sum(value), sum(had), sum((had - value) * (had - value)) FROM (
    SELECT s.version, s.explored, s.value, coalesce(sum(o.outcome), 0.0) AS had, count(o.outcome) > 0 AS answered
    FROM slates s LEFT JOIN outcomes o ON o.slate = s.id WHERE s.id >= ? AND s.id < ? GROUP BY s.id
) GROUP BY version, explored ORDER BY version, explored
"""


# --- ids ---


def new_id(now: float | None = None) -> str:
    """The id of a slate: 12 hexadecimal digits of milliseconds since 1970, and 20 random ones."""
    return _time_prefix(time.time() if now is None else now) + secrets.token_hex(10)


def time_of(slate: str) -> float | None:
    """When the slate of this id was made, in seconds since 1970; None if no slate has such an id."""
    return int(slate[:12], 16) / 1000 if _ID.fullmatch(slate) else None


def _time_prefix(seconds: float) -> str:
    return f"{round(min(max(1000 * seconds, 0), (1 << 48) - 1)):012x}"


def week_of(seconds: float) -> str | None:
    """The ISO week of a time, such as 2026-W47; None beyond the calendar."""
    try:
        year, week, _ = datetime.fromtimestamp(seconds, UTC).isocalendar()
    except (ValueError, OverflowError, OSError):
        return None
    return f"{year:04d}-W{week:02d}"


# --- what is logged ---


@dataclass(frozen=True)
class ShownSlate:
    """A slate as it was shown.

    key         what the caller calls the user or session, if anything; the only thing that is known of the user
    version     of the artifact that chose it
    items       the ids as a JSON list
    rewards     the predicted reward of each
    propensity  the probability with which the slate was shown, given the request
    explored    whether an item was exchanged at random
    """

    id: str
    key: str | None
    version: str
    items: str
    rewards: list[float]
    propensity: float = 1.0
    explored: bool = False


@dataclass(frozen=True)
class ItemOutcome:
    """The outcome of an item of a slate, from 0 to 1."""

    slate: str
    item: int | str
    outcome: float = 1.0


Entry = Sequence[ShownSlate] | Sequence[ItemOutcome]


@dataclass
class Recorded:
    """What became of some outcomes: new or larger than before, known before, or of no slate or item in the log."""

    new: int = 0
    repeated: int = 0
    unknown_slates: list[str] = field(default_factory=list)
    not_shown: list[ItemOutcome] = field(default_factory=list)
    _unknown: set[str] = field(default_factory=set, repr=False, compare=False)  # those of unknown_slates

    def add_unknown(self, slate: str) -> None:
        """List a slate that the log does not have, once."""
        if slate not in self._unknown:
            self._unknown.add(slate)
            self.unknown_slates.append(slate)


class LoggedSlate(NamedTuple):
    """A slate of the log; ``outcomes`` has (position, outcome, time of receipt) of the items that have one."""

    id: str
    key: str | None
    version: str
    items: list[Any]
    rewards: list[float]
    propensity: float
    explored: bool
    outcomes: list[tuple[int, float, float]]


class Totals(NamedTuple):
    """Sums over slates: how many, how many with an outcome, predicted and observed hits, squares of the difference."""

    slates: int = 0
    answered: int = 0
    promised: float = 0.0
    had: float = 0.0
    squares: float = 0.0

    def plus(self, other: Totals) -> Totals:
        """The sums over both."""
        return Totals(
            self.slates + other.slates,
            self.answered + other.answered,
            self.promised + other.promised,
            self.had + other.had,
            self.squares + other.squares,
        )

    @property
    def difference(self) -> float:
        """Observed minus predicted hits of a slate, on average."""
        return (self.had - self.promised) / max(self.slates, 1)

    @property
    def error(self) -> float:
        """The standard error of the difference; infinite with fewer than two slates."""
        if self.slates < 2:
            return math.inf
        return math.sqrt(max(self.squares / self.slates - self.difference**2, 0.0) / self.slates)


# --- writing ---


class SlateLog:
    """The log in a folder, for writing. One thread uses it at a time."""

    def __init__(self, folder: Path, weeks: int = 0) -> None:
        """Create the folder and this week's database; ``weeks``: delete older ones, 0 to keep all."""
        self._folder, self._weeks = folder, weeks
        self._open: dict[str, sqlite3.Connection] = {}
        self._numbers: dict[str, tuple[int, int] | None] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database(str(week_of(time.time())), create=True)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            todo = "choose a folder that this user can write, on a disk with room"
            raise InvalidInput("--log", "a folder for the log", f"{folder} ({reason})", todo) from None

    def write(self, entries: Sequence[Entry]) -> list[Recorded]:
        """Commit all entries, in their order, and flush them if outcomes are among them; what became of each.

        Raises sqlite3.Error or OSError if they cannot be written. Then a part of them may have been, and all may be
        written again.
        """
        result = [Recorded() for _ in entries]
        parts: dict[str, list[tuple[int, Any]]] = {}
        for number, entry in enumerate(entries):
            for one in entry:
                made = time_of(one.id if isinstance(one, ShownSlate) else one.slate)
                week = None if made is None else week_of(made)
                parts.setdefault(week or "", []).append((number, one))
        for week, part in sorted(parts.items()):
            try:
                self._write_week(week, part, result)
            except BaseException:
                self._close(week)  # whatever state the connection is in, the next one starts anew
                raise
        return result

    def _write_week(self, week: str, part: list[tuple[int, Any]], result: list[Recorded]) -> None:
        database = self._database(week, create=any(isinstance(one, ShownSlate) for _, one in part)) if week else None
        if database is None:
            for number, one in part:
                result[number].add_unknown(one.slate)
            return
        flushed = any(isinstance(one, ItemOutcome) for _, one in part)
        database.execute(f"PRAGMA synchronous = {'FULL' if flushed else 'NORMAL'}")
        database.execute("BEGIN IMMEDIATE")
        items: dict[str, dict[int | str, int] | None] = {}
        now = time.time()
        for number, one in part:
            if isinstance(one, ShownSlate):
                database.execute(_ADD_SLATE, _row(one))
            else:
                _record(database, one, now, items, result[number])
        database.execute("COMMIT")

    def _database(self, week: str, create: bool) -> sqlite3.Connection | None:
        path = self._folder / f"week-{week}.sqlite"
        if week in self._open:
            if file_number(path) == self._numbers[week]:
                return self._open[week]
            self._close(week)  # the file was deleted or replaced: what is written to it would be lost
        if not path.exists():
            if not create:
                return None
            self._create(path)
        while len(self._open) >= OPEN_WEEKS:
            self._close(next(iter(self._open)))
        self._numbers[week] = file_number(path)
        self._open[week] = connect(path)
        return self._open[week]

    def _create(self, path: Path) -> None:
        """Create a database, complete or not at all, also while another process does the same."""
        from filelock import FileLock

        self._folder.mkdir(parents=True, exist_ok=True)  # it may have been deleted since
        with FileLock(self._folder / ".setwise-lock"):
            if path.exists():
                return
            draft = path.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            create(draft)
            for end in ("-wal", "-shm"):  # of a database that was deleted without them
                path.with_name(path.name + end).unlink(missing_ok=True)
            draft.rename(path)
            flush_folder(self._folder)
            self._delete_old(path)

    def _delete_old(self, new: Path) -> None:
        """Keep ``new``, the last ``weeks`` databases up to this week's, and those of future weeks.

        A clock that was wrong may have made future ones: they must not take the place of this week's.
        """
        if self._weeks:
            latest = f"week-{week_of(time.time())}.sqlite"
            for path in [one for one in week_files(self._folder) if one.name <= latest][: -self._weeks]:
                if path == new:
                    continue
                self._close(path.stem.removeprefix("week-"))
                for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                    (self._folder / name).unlink(missing_ok=True)

    def _close(self, week: str) -> None:
        database = self._open.pop(week, None)
        if database is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()

    def close(self) -> None:
        """Close all databases."""
        for week in [*self._open]:
            self._close(week)


def _row(slate: ShownSlate) -> tuple[Any, ...]:
    rewards = json.dumps(slate.rewards)
    value, explored = float(sum(slate.rewards)), int(slate.explored)
    return slate.id, slate.key, slate.version, slate.items, rewards, value, slate.propensity, explored


def _record(
    database: sqlite3.Connection,
    one: ItemOutcome,
    now: float,
    items: dict[str, dict[int | str, int] | None],
    result: Recorded,
) -> None:
    if one.slate not in items:
        found = database.execute("SELECT items FROM slates WHERE id = ?", (one.slate,)).fetchone()
        ids = None if found is None else parsed(found[0])  # None of a damaged row too: the others are written
        if isinstance(ids, list) and all(type(id_) in (int, str) for id_ in ids):
            items[one.slate] = {id_: at for at, id_ in enumerate(ids)}
        else:
            items[one.slate] = None
    positions = items[one.slate]
    if positions is None:
        result.add_unknown(one.slate)
    elif one.item not in positions:
        result.not_shown.append(one)
    elif database.execute(_ADD_OUTCOME, (one.slate, positions[one.item], one.outcome, now)).rowcount:
        result.new += 1
    else:
        result.repeated += 1


# --- reading ---


def week_files(folder: Path) -> list[Path]:
    """The databases of the folder, oldest first."""
    return sorted(path for path in folder.glob("week-*.sqlite") if _FILE.fullmatch(path.name))


def read_slates(folder: Path, since: float = 0.0, before: float = math.inf) -> Iterator[LoggedSlate]:
    """The slates made in [since, before), oldest first, with their outcomes."""
    for week, rows in _each_week(folder, _READ, since, before):
        for _, some in groupby(rows, key=lambda row: row[0]):
            group = list(some)
            slate, key, version, *lists, propensity, explored = group[0][:7]
            items, rewards = (parsed(text) for text in lists)
            outcomes = [tuple(row[7:]) for row in group if row[7] is not None]
            if not is_slate(version, items, rewards, outcomes):
                raise _damaged(week)
            yield LoggedSlate(slate, key, version, items, rewards, propensity, bool(explored), outcomes)


def read_totals(folder: Path, since: float = 0.0, before: float = math.inf) -> Iterator[tuple[str, str, bool, Totals]]:
    """Week, version, whether explored, and the sums over the slates made in [since, before)."""
    for week, rows in _each_week(folder, _TOTALS, since, before):
        for version, explored, *sums in rows:
            if not is_total(version, sums):
                raise _damaged(week)
            yield week, version, bool(explored), Totals(*sums)


def _damaged(week: str) -> InvalidInput:
    must = "databases as setwise serve --log writes them"
    return InvalidInput("the log", must, f"week {week} with a damaged slate or outcome", "restore or remove the file")


def _each_week(folder: Path, query: str, since: float, before: float) -> Iterator[tuple[str, Iterator[Any]]]:
    files = week_files(folder)
    if not files:
        todo = "pass the folder of setwise serve --log"
        raise InvalidInput("the log", "a folder with databases of weeks", f"{folder} without any", todo)
    limits = _time_prefix(since), "g" if before == math.inf else _time_prefix(before)  # "g" is after every digit
    for path in files:
        with _reading(path):
            database = connect(path, read_only=True)
        rows = _rows(path, database, query, limits)
        with contextlib.closing(database), contextlib.closing(rows):  # a reader may stop early: the rows end first
            yield path.stem.removeprefix("week-"), rows


def _rows(path: Path, database: sqlite3.Connection, query: str, limits: tuple[str, str]) -> Generator[Any, None, None]:
    with _reading(path):
        yield from database.execute(query, limits)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the database into one about the log."""
    try:
        yield
    except sqlite3.Error as error:
        must = "databases that can be read and, after a crash, written"
        got = "damaged: a query has no end" if str(error) == "interrupted" else error
        raise InvalidInput("the log", must, f"{path.name}: {got}", "restore or remove the file") from None
