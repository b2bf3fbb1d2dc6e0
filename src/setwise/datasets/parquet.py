"""Parquet files in batches of rows, through pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setwise.datasets.text_files import column_positions, progress_bar
from setwise.errors import MalformedFile, MissingDependency, SetwiseError

_BATCH = 1 << 15  # rows in memory at a time


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """The open file; errors of pyarrow become MalformedFile at line 1, since pyarrow gives no row."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency("pyarrow", "reading Parquet", "data") from None
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            yield table
    except SetwiseError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise MalformedFile(
            file, 1, f"it must be a Parquet file that pyarrow reads, but: {reason}; write it again"
        ) from None


def parquet_columns(file: Path) -> list[str]:
    """The names of the columns."""
    with _open(file) as table:
        return [str(name) for name in table.schema_arrow.names]


def parquet_rows(
    file: Path, columns: Sequence[str], progress: bool
) -> Generator[tuple[int, Sequence[Any]], None, None]:
    """The row number, from 1, and the cells of these columns, for every row."""
    begin = 1
    with _open(file) as table:
        column_positions(file, table.schema_arrow.names, columns)
        with progress_bar(f"reading {file.name}", table.metadata.num_rows, progress) as shown:
            for batch in table.iter_batches(_BATCH, columns=list(dict.fromkeys(columns))):
                cells = [batch.column(name).to_pylist() for name in columns]
                yield from enumerate(zip(*cells, strict=True), begin)
                begin += batch.num_rows
                shown.advance(batch.num_rows)
