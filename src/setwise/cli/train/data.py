"""The data of ``setwise train``: read, without rare items, and what there is to say about it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from setwise._standard_error import say
from setwise._validation import did_you_mean
from setwise.cli.columns import path_of, read_named
from setwise.datasets import Sessions, Slates, random_split, table_columns, with_attributes
from setwise.datasets.dispatch import columns_read
from setwise.datasets.splits import time_split
from setwise.datasets.usual_columns import missing_column, usual_column
from setwise.errors import InvalidInput

SESSIONS, SLATES = "sessions", "slates"  # the kinds of data, and their commands
RANDOM, TIME = "random", "time"  # which data are held out
HELD_OUT, MOST_HELD = 0.1, 500  # the share of the data that is held out for evaluation, and its maximum
LEAST_HELD = 5  # with fewer there is no evaluation
LEAST_SESSIONS = 3  # by default items of fewer sessions are left out,
MIN_SESSIONS_LEFT = 40  # if so many sessions of two items remain
SHORT = "sessions of fewer than two such items: after one item there is nothing left to recommend"


def prepared(
    file: Path,
    named: dict[str, Any],
    least: int | None,
    seed: int,
    split: str | None = None,
    kind: str | None = None,
) -> tuple[Sessions | Slates, dict[str, Any]]:
    """The data of the file without rare items, and its counts for the report; refuse data that are not of ``kind``."""
    skipped: Counter[str] = Counter()
    require_split_name(split)  # before a long file is read
    if kind == SESSIONS and "slate" in _columns(file, named):
        named = {**named, "slate": None, "outcome": None}
    columns = _columns(file, named)
    if kind == SLATES:
        _require_slates(file, named, columns)
    say_columns(file, columns, **named)
    data = _read(file, named, skipped)
    if not len(data):
        rows = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items()) or "no row below the header"
        must, todo = "a file with a session and an item in some rows", "check the file, or name other columns"
        raise InvalidInput("FILE", must, f"{file.name}: {rows}", f"{todo} with --session and --item")
    _require_kind(file, data, kind)
    chosen = require_split(split, data)
    if isinstance(data, Slates):
        counts: dict[str, Any] = {"slates": len(data), "items": data.n_items, "entries": len(data.shown.values)}
        read = {"kind": SLATES, **counts, "columns": columns, "rare_items": 0}
        return data, {**read, "skipped": dict(skipped), "split": chosen}
    _refuse_single_items(data)
    kept = _trimmed(data, least).shuffled_where_unordered(seed)  # histories must not be the smallest ids
    notes = _mostly_short(len(kept), len(data)) + _unread_outcome(file, named, columns)
    counts = {"sessions": len(kept), "items": kept.n_items, "entries": len(kept.items.values)}
    read = {"kind": SESSIONS, **counts, "columns": columns, "notes": notes, "rare_items": data.n_items - kept.n_items}
    if len(kept) < len(data):
        skipped[SHORT] += len(data) - len(kept)
    return kept, {**read, "skipped": dict(skipped), "split": chosen}


def say_columns(file: Path, columns: dict[str, str], **options: object) -> None:
    """Say on standard error which columns will be read: those of ``options``, and those guessed from their names."""
    texts = {role: f"{role} {name!r}" for role, name in columns.items()}
    named = [text for role, text in texts.items() if options.get(role) is not None]
    guessed = [text for role, text in texts.items() if options.get(role) is None]
    parts = [", ".join(named), "found by their names: " + ", ".join(guessed) if guessed else ""]
    if columns:
        say(f"Columns of {file.name}: {'; '.join(filter(None, parts))}.")


def _require_slates(file: Path, named: dict[str, Any], columns: dict[str, str]) -> None:
    """Refuse a table without a slate or an outcome."""
    if not columns:
        return  # of another format
    header = table_columns(file, named.get("delimiter"))
    for role in ("slate", "outcome"):
        if role not in named and usual_column(role, header) is None:
            raise missing_column(role, file, header, f"name the column with --{role}")


def _require_kind(file: Path, data: Sessions | Slates, kind: str | None) -> None:
    """Refuse a file of the other kind."""
    read = SLATES if isinstance(data, Slates) else SESSIONS
    if kind not in (None, read):
        raise InvalidInput("FILE", f"a file of {kind}", f"{file.name} of {read}", f"use setwise train {read}")


def require_split_name(split: str | None) -> None:
    """Refuse a split of another name."""
    if split not in (None, RANDOM, TIME):
        todo = did_you_mean(split, (RANDOM, TIME)) or "choose one of the two"
        raise InvalidInput("--split", f"{RANDOM} or {TIME}", repr(split), todo)


def require_split(split: str | None, data: Sessions | Slates) -> str:
    """The name of the split, by default random; one by time needs times."""
    require_split_name(split)
    if split == TIME and data.starts is None:
        must, todo = "random for data without times", "name the column of times with --time, or leave --split out"
        raise InvalidInput("--split", must, split, todo)
    return split or RANDOM


def hold_out(data: Sessions | Slates, seed: int, split: str) -> tuple[Sessions | Slates, Sessions | Slates | None]:
    """The training data and the held-out data, the latest with TIME; None where there is too little to hold out."""
    share = min(HELD_OUT, MOST_HELD / max(1, len(data)))
    if share * len(data) < LEAST_HELD:
        return data, None
    if split == TIME:
        training, held_out = time_split(data, round(share * len(data)))
    else:
        training, held_out = random_split(len(data), (1 - share, share), seed)
    return data.taken(np.sort(training)), _with_targets(data.taken(held_out))


def _with_targets(held_out: Sessions | Slates) -> Sessions | Slates | None:
    """The data without sessions that repeat one item: these have no other to predict; ``evaluate`` skips them too."""
    if isinstance(held_out, Slates):
        return held_out
    several = np.flatnonzero(held_out.distinct().items.lengths >= 2)
    return held_out.taken(several) if len(several) else None


def _read(file: Path, named: dict[str, Any], skipped: Counter[str]) -> Sessions | Slates:
    """The data of the file; with ``items`` the attributes are those of that table."""
    named = dict(named)
    items = named.pop("items", None)
    if items is None:
        return _read_file(file, named, skipped)
    attributes = named.pop("attributes", None)
    if not attributes:
        raise InvalidInput("--items", "given with --attribute", f"{items} alone", "name its columns with --attribute")
    item = named.get("item")
    with path_of("--items"):
        columns = table_columns(items)
    column = item if item in columns else usual_column("item", columns)
    if column is None:
        must, got = f"a table with a column of items ({item or 'item, track_id, …'})", f"{items} with {columns}"
        raise InvalidInput("--items", must, got, "give its column of ids the name that --item has")
    data = _read_file(file, named, skipped)
    try:
        return with_attributes(data, items, column, attributes)
    except InvalidInput as error:
        raise (error.about("--attribute") if error.parameter == "column" else error) from None


def _columns(file: Path, named: dict[str, Any]) -> dict[str, str]:
    """The columns that are read, by role: those that options name and those recognised by their names."""
    with path_of("FILE"):
        return columns_read(file, **{role: name for role, name in named.items() if role not in ("items", "attributes")})


def _read_file(file: Path, named: dict[str, Any], skipped: Counter[str]) -> Sessions | Slates:
    try:
        return read_named("FILE", file, {"skipped": skipped, **named})
    except InvalidInput as error:  # readers that skip nothing have no such option
        if error.parameter != "option 'skipped'":
            raise
        return read_named("FILE", file, named)


def _trimmed(sessions: Sessions, least: int | None) -> Sessions:
    """Items of ``least`` sessions or more, and sessions of two such items; by default all items if data is scarce."""
    kept = sessions.trimmed(LEAST_SESSIONS if least is None else least, least_items=2)
    if least is None and len(kept) < MIN_SESSIONS_LEFT:
        return sessions.trimmed(1, least_items=2)
    if not len(kept):
        must = "a number of sessions that some items reach, so that sessions of two such items remain"
        raise InvalidInput("--least-sessions", must, least, "lower it")
    return kept


def _refuse_single_items(sessions: Sessions) -> None:
    """Refuse data in which no session has two different items: the session column is probably another one."""
    lengths = sessions.distinct().items.lengths
    if len(sessions) and (lengths < 2).all():
        must = "sessions with two different items or more (one is the history, another is predicted)"
        got = f"{len(sessions):,} sessions of one item each"
        todo = "check --session: name a column that several rows share, such as an order, a playlist or a user"
        raise InvalidInput("data", must, got, todo)


def long_slates(k: int, n_items: int) -> list[str]:
    """What to say of slates that the data cannot fill."""
    if k <= n_items:
        return []
    return [f"--k {k} is more than the {n_items} items that remain: slates have all of them, and every item is shown."]


def _mostly_short(kept: int, read: int) -> list[str]:
    """What to say if most sessions were too short."""
    share = 1 - kept / max(read, 1)
    if share <= 0.5:
        return []
    todo = "If they are visits of the same people, name the column of the person with --session."
    return [f"{share:.0%} of the sessions have one item and were left out. {todo}"]


def _unread_outcome(file: Path, named: dict[str, Any], columns: dict[str, str]) -> list[str]:
    """What to say if a table has outcomes, but nothing that says which rows were shown together."""
    if not columns:
        return []
    column = usual_column("outcome", table_columns(file, named.get("delimiter")))
    if column is None or column in {*columns.values(), *(named.get("attributes") or {}).values()}:
        return []
    todo = "To learn from outcomes, name the column of the slate with --slate, which may be that of --session."
    return [f"Column '{column}' is not read: every row counts as an item that was chosen. {todo}"]
