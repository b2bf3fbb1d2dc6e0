"""``recommend_table``: the slates of all users of a table, computed by processes and written as one Parquet file.

The table is read twice. The first pass counts the rows and checks the ids: each user once. The second sends parts of
``part_rows`` rows to worker processes, a few ahead of their work, so memory does not grow with the table. Parts that a
former run has finished are skipped (parts.py). A table that changes meanwhile is refused (table_file.py).

Without ``certify`` and ``budget_ms`` no answer depends on time, so an interrupted run and an unbroken one give the same
file.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from setwise import __version__
from setwise._progress import Progress
from setwise._validation import available_cores, whole_number
from setwise.datasets.tables import table_columns, table_rows
from setwise.datasets.text_files import column_positions, existing_file
from setwise.errors import Infeasible, InvalidInput
from setwise.model.attributes import Strings
from setwise.recommend.arguments import SLATE_SIZE, Options, require_names, takes
from setwise.recommend.batch.parts import COLUMNS, INTEGER, TEXT, Parts
from setwise.recommend.batch.table_file import TableFile
from setwise.recommend.batch.users import Columns
from setwise.recommend.batch.workers import Job, LocalProcesses, ThisProcess, Workers, opened_model
from setwise.recommend.query import Query, where_to_json
from setwise.recommend.recommender import Recommender, zero_user
from setwise.storage import artifact

PART_ROWS = 1024  # users of a part: some seconds of work
_Part = tuple[int, list[tuple[Any, ...]]]  # its number and its rows


@dataclass(frozen=True)
class Report:
    """What a run did; ``errors`` counts users without a slate, whose row says why.

    ``ignoring`` counts users with ids, seen or excluded, that the model does not have, which their row lists.
    """

    users: int
    computed: int
    resumed: int  # users that a former run had finished
    errors: int
    first_error: str | None
    ignoring: int
    first_ignored: str | None
    processes: int
    seconds: float

    @property
    def users_per_second(self) -> float:
        """The rate of this run, its start included."""
        return self.computed / self.seconds if self.seconds else 0.0


@takes(Options)
def recommend_table(
    table: str | os.PathLike[str],
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    columns: Columns,
    *,
    k: int = SLATE_SIZE,
    processes: int | None = None,
    part_rows: int = PART_ROWS,
    delimiter: str | None = None,
    progress: bool | None = None,
    **shared: Unpack[Options],
) -> Report:
    """Recommend for every user of ``table`` with the recommender saved in ``model``; write the slates to ``out``.

    ``shared`` are the arguments of ``recommend`` that all users share; ``certify`` is False unless given. The same call
    after an interruption continues; after the end it does nothing.
    """
    began, file, target = time.perf_counter(), _existing(table), Path(out)
    require_names(shared)
    options: dict[str, Any] = {"k": k, "certify": False, **shared}
    cores = None if processes is None else whole_number("processes", processes)
    size = whole_number("part_rows", part_rows)
    digest = artifact.digest(model)
    recommender = opened_model(Path(model), digest, options)
    column_positions(file, table_columns(file, delimiter), columns.names)
    _check_options(recommender, columns, options)
    source = TableFile(file)
    users, kind = _checked_users(file, columns.user, delimiter)
    texts = isinstance(recommender.index.catalog.ids.values, Strings)
    described = {
        "setwise": __version__,
        "table": source.digest,
        "model": digest,
        "columns": asdict(columns),
        "options": options | {"where": where_to_json(options.get("where"))},
        "part_rows": size,
        "user_type": kind,
        "item_type": TEXT if texts else INTEGER,
        "output": COLUMNS,
    }
    job = Job(file, Path(model), digest, columns, options, Parts(target, described))
    resumed, used = users, cores or available_cores()
    if not job.parts.is_complete():
        with job.parts.opened():
            with LocalProcesses(job, used) if used > 1 else ThisProcess(job, recommender) as workers:
                parts = _chunks(job, source, size, delimiter)
                resumed = _compute(job, workers, users, parts, progress)
            source.check(closely=True)
            job.parts.join(-(-users // size))
    job.parts.remove()
    outcome = job.parts.outcome()
    return Report(users, users - resumed, resumed, *outcome, used, time.perf_counter() - began)


def _existing(table: str | os.PathLike[str]) -> Path:
    try:
        return existing_file(table)
    except InvalidInput as error:
        raise error.about("table") from None


def _check_options(recommender: Recommender, columns: Columns, options: Mapping[str, Any]) -> None:
    """Raise here, once, what would be wrong for every user."""
    catalog = recommender.index.catalog
    for attribute, column in columns.where.items():
        _ = catalog.attributes[attribute]
        if attribute in (options.get("where") or {}):
            must, todo = "about attributes without a column of conditions", "state the condition in one of the two"
            raise InvalidInput("where", must, f"{attribute!r}, which has the column {column!r}", todo)
    stated = {name: value for name, value in options.items() if value is not None}
    try:
        Query.parse(recommender.index, zero_user(catalog), **stated)
    except Infeasible:
        if not stated.get("exactly"):  # which asks less where a row leaves fewer values: each row is checked alone
            raise
    encoders = {"history": recommender.encoder, "features": recommender.features, "vector": recommender.index}
    name = next(name for name in encoders if getattr(columns, name))
    if encoders[name] is None:
        todo = "train a model of them, or pass vectors"
        raise InvalidInput(name, "left out, as this model has no encoder for them", getattr(columns, name), todo)


def _checked_users(file: Path, column: str, delimiter: str | None) -> tuple[int, str]:
    """The number of rows, and the type of their ids; refuse ids that are missing, of two types, or there twice."""
    digests, kinds = bytearray(), set[type]()
    for line, (user,) in table_rows(file, [column], 0, delimiter, False):
        kinds.add(type(user))
        if not _is_id(user) or len(kinds) > 1:
            must = "a whole number of 64 bits or a text of valid Unicode in every row, one kind in all"
            raise InvalidInput(f"column {column}", must, f"{user!r} in line {line}", "give every user an id")
        digests += hashlib.blake2b(str(user).encode(), digest_size=16).digest()
    parts = np.frombuffer(bytes(digests), np.uint64).reshape(-1, 2)
    if not len(parts):
        raise InvalidInput("table", "one with users", f"{file.name} without a row", "check how it was written")
    order = np.lexsort(parts.T)
    same = np.flatnonzero((parts[order][1:] == parts[order][:-1]).all(axis=1))
    if len(same):
        first, second = sorted(order[same[0] : same[0] + 2] + 1)
        got = f"one user in rows {first} and {second}"
        raise InvalidInput(f"column {column}", "of ids that differ", got, "keep one row a user")
    return len(parts), INTEGER if kinds == {int} else TEXT


def _is_id(cell: Any) -> bool:
    if type(cell) is str:
        return cell != "" and not any("\ud800" <= letter <= "\udfff" for letter in cell)  # halves of surrogate pairs
    return type(cell) is int and -(2**63) <= cell < 2**63


# --- the parts ---


def _compute(job: Job, workers: Workers, users: int, parts: Iterator[_Part], progress: bool | None) -> int:
    """Compute the parts that are not there; the number of users whose parts were."""
    resumed, began, done = 0, time.perf_counter(), 0
    with Progress("recommending", users, progress) as bar:
        for number, rows in parts:
            if job.parts.has(number, rows):
                resumed += len(rows)
                bar.advance(len(rows))
                continue
            for count in workers.submit(number, rows):
                done += count
                bar.advance(count, f"{done / (time.perf_counter() - began):,.1f} users per second")
        for count in workers.rest():
            done += count
            bar.advance(count, f"{done / (time.perf_counter() - began):,.1f} users per second")
    return resumed


def _chunks(job: Job, source: TableFile, size: int, delimiter: str | None) -> Iterator[_Part]:
    """The rows of the table by parts, numbered from 0; refuse a table that has changed."""
    rows = table_rows(job.table, job.columns.names, 0, delimiter, False)
    number = 0
    while part := [tuple(cells) for _, cells in islice(rows, size)]:
        source.check()
        yield number, part
        number += 1
