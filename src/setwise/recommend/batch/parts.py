"""The output of a batch: finished parts, each written atomically, and at the end one Parquet file of all of them.

    slates.parquet.parts/job.json               what is computed: table, model, options; written first
    slates.parquet.parts/part-00000017.parquet  rows 17 · size … of the table; it exists only when complete
    slates.parquet                              all parts in the order of the table, with the job in its metadata

A file gets its name by one rename after it was flushed to the disk. So a process that is killed leaves whole parts
only, and the next run of the same job computes the others. A run of another job is refused, and so is a second run
beside the first. Parts of one job do not depend on the run that computes them. A part names the digest of the rows it
was computed from, so a part of other rows is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise.errors import InvalidInput, MissingDependency, SetwiseError
from setwise.recommend.slate import Slate
from setwise.storage.artifact import flush_folder

_JOB, _LOCK = "job.json", ".lock"
# What a run writes into its folder: its job and parts, and drafts of these and of the output, .NAME.process.
_OWN = re.compile(r"\.lock|job\.json|part-\d{8,}\.parquet|\..*\.\d+")
_KEY = b"setwise.batch"  # of the metadata of the finished file
ROWS = b"setwise.rows"  # of the metadata of a part: the digest of its rows of the table
_ROW_GROUP = 1 << 16  # rows of a row group of the finished file
INTEGER, TEXT = "int64", "string"  # the types of ids
COLUMNS = ("user", "items", "rewards", "value", "upper_bound", "proven", "ignored", "error")


class Outcome(NamedTuple):
    """The finished file: how many rows have an error or ids that were ignored, and the first of each."""

    errors: int
    first_error: str | None
    ignoring: int
    first_ignored: str | None


class Parts:
    """The parts of one job. ``job`` is plain JSON data; it holds ``user_type``, ``item_type`` and ``part_rows``."""

    def __init__(self, out: Path, job: Mapping[str, Any]) -> None:
        if out.suffix != ".parquet":
            raise InvalidInput("out", "the name of a Parquet file", repr(out.name), "let it end in .parquet")
        self.out, self.job = out, json.dumps(job, sort_keys=True, default=str)
        self.folder = out.with_name(out.name + ".parts")
        self._job = dict(job)

    # --- the run ---

    def is_complete(self) -> bool:
        """Whether the finished file of this job is there; refuse a file of something else."""
        if not self.out.exists():
            return False
        arrow = _arrow()
        try:
            job = (arrow.parquet.read_metadata(self.out).metadata or {}).get(_KEY, b"").decode()
        except (arrow.ArrowException, OSError, ValueError):
            job = ""
        if job != self.job:
            todo = "delete it, or choose another name"
            raise InvalidInput("out", "a new file, or that of the same run", f"{self.out}, another file", todo)
        return True

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the folder, or continue with the one of an interrupted run of the same job; exclude other runs."""
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / _LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            todo = "wait until it has ended"
            raise InvalidInput("out", "one that no other run writes", f"{self.out}, in use", todo) from None
        try:
            self._check_job()
            yield
        finally:
            lock.release()

    def _check_job(self) -> None:
        path = self.folder / _JOB
        if not path.exists():
            with self._committed(path) as draft:
                draft.write_text(self.job, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != self.job:
            todo = f"run that again to finish it, or delete {self.folder}"
            raise InvalidInput("out", "that of the same run", f"{self.folder} of another table, model or options", todo)

    def remove(self) -> None:
        """Delete the files of the run, when the finished file is there; those of others stay, and the folder then."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if _OWN.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            self.folder.rmdir()

    # --- parts ---

    def has(self, number: int, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Whether the part of these rows of the table is there and complete."""
        arrow = _arrow()
        try:
            metadata = arrow.parquet.read_metadata(self._path(number))
        except (arrow.ArrowException, OSError, ValueError):
            return False
        return metadata.num_rows == len(rows) and (metadata.metadata or {}).get(ROWS) == rows_digest(rows)

    def table(self, rows: Sequence[tuple[Any, ...]], answers: Sequence[Slate | SetwiseError]) -> Any:
        """The answers to these rows of the table, whose first cells are the users, as the table of a part."""
        schema = self._schema().with_metadata({ROWS: rows_digest(rows)})
        return _arrow().table(_cells([cells[0] for cells in rows], answers), schema=schema)

    def write(self, number: int, table: Any) -> int:
        """Save the table of a part; the number of its rows."""
        with self._committed(self._path(number)) as draft:
            _arrow().parquet.write_table(table, draft)
        return len(table)

    def join(self, count: int) -> None:
        """Write the finished file from parts 0 … count − 1."""
        arrow, schema = _arrow(), self._schema().with_metadata({_KEY: self.job.encode()})
        with self._committed(self.out) as draft, arrow.parquet.ParquetWriter(draft, schema) as writer:
            waiting: list[Any] = []
            for number in range(count):
                waiting.append(arrow.parquet.read_table(self._path(number)))
                if sum(map(len, waiting)) >= _ROW_GROUP or number == count - 1:
                    writer.write_table(arrow.concat_tables(waiting).replace_schema_metadata(schema.metadata))
                    waiting = []

    def outcome(self) -> Outcome:
        """What the finished file holds."""
        errors, first, ignoring, first_ignored = 0, None, 0, None
        with _arrow().parquet.ParquetFile(self.out) as file:
            for batch in file.iter_batches(columns=["error", "ignored"]):
                column, ignored = batch.column("error"), batch.column("ignored")
                errors += len(column) - column.null_count
                if first is None and column.null_count < len(column):
                    first = column.drop_null()[0].as_py()
                counts = np.diff(ignored.offsets.to_numpy())
                ignoring += int(np.count_nonzero(counts))
                if first_ignored is None and counts.any():
                    first_ignored = ignored.flatten()[0].as_py()
        return Outcome(errors, first, ignoring, first_ignored)

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:08d}.parquet"

    @contextmanager
    def _committed(self, path: Path) -> Iterator[Path]:
        """A draft to write; then it is flushed to the disk and renamed to ``path``."""
        draft = self.folder / f".{path.name}.{os.getpid()}"
        try:
            yield draft
            with draft.open("r+b") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
            flush_folder(path.parent)
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()

    def _schema(self) -> Any:
        arrow = _arrow()
        kinds = {INTEGER: arrow.int64(), TEXT: arrow.string()}
        item = arrow.list_(kinds[self._job["item_type"]])
        real = arrow.float64()
        user, text, texts = kinds[self._job["user_type"]], arrow.string(), arrow.list_(arrow.string())
        types = [user, item, arrow.list_(real), real, real, arrow.bool_(), texts, text]
        return arrow.schema([arrow.field(name, kind) for name, kind in zip(COLUMNS, types, strict=True)])


def _cells(users: Sequence[Any], answers: Sequence[Slate | SetwiseError]) -> dict[str, list[Any]]:
    """The columns of a part. A row with an error has no items and no numbers."""
    slates = [answer if isinstance(answer, Slate) else None for answer in answers]
    return {
        "user": list(users),
        "items": [[] if slate is None else slate.items.tolist() for slate in slates],
        "rewards": [[] if slate is None else slate.rewards.tolist() for slate in slates],
        "value": [None if slate is None else slate.value for slate in slates],
        "upper_bound": [None if slate is None else _bound(slate) for slate in slates],
        "proven": [None if slate is None else bool(slate.proven) for slate in slates],
        "ignored": [[] if slate is None else list(map(_text, slate.ignored)) for slate in slates],
        "error": [str(answer) if isinstance(answer, SetwiseError) else None for answer in answers],
    }


def rows_digest(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """The digest of these rows: cells are texts, numbers, None, or lists of them."""
    return hashlib.sha256(repr(list(map(tuple, rows))).encode("utf-8", "surrogatepass")).hexdigest().encode()


def _text(unknown: Any) -> str:
    return str(unknown).encode("utf-8", "replace").decode()  # JSON may hold halves of surrogate pairs


def _bound(slate: Slate) -> float | None:
    return slate.upper_bound if math.isfinite(slate.upper_bound) else None


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency("pyarrow", "a table of slates", "data") from None
    return pyarrow
