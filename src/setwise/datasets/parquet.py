"""Parquet files in batches of rows, through pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setwise.datasets.text_files import column_positions, progress_bar
from setwise.errors import MalformedFile, MissingDependency, SetwiseError

_BATCH = 1 << 15  # rows in memory at a time
_BATCH_BYTES = 1 << 26  # and about so many bytes, by the file's own account


@contextmanager
def _open(file: Path, texts: Sequence[str] = ()) -> Iterator[Any]:
    """The open file; errors of pyarrow become MalformedFile at line 1, since pyarrow gives no row.

    ``texts`` are paths of columns that are read as dictionaries.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency("pyarrow", "reading Parquet", "data") from None
    try:
        with pyarrow.parquet.ParquetFile(file, read_dictionary=texts or None) as table:
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
    """The row number, from 1, and the cells of these columns, for every row.

    A text that many rows share is in memory once: a file of some kilobytes can hold a text of a megabyte and thousands
    of rows that refer to it.
    """
    begin = 1
    with _open(file) as table:
        column_positions(file, table.schema_arrow.names, columns)
        leaves = [table.schema.column(leaf) for leaf in range(table.metadata.num_columns)]
        flat = [leaf for leaf in leaves if leaf.max_repetition_level == 0]  # pyarrow reads no lists of dictionaries
        texts = [leaf.path for leaf in flat if leaf.physical_type == "BYTE_ARRAY"]
    with _open(file, texts) as table:
        rows = _batch_rows(table.metadata, columns)
        with progress_bar(f"reading {file.name}", table.metadata.num_rows, progress) as shown:
            for batch in table.iter_batches(rows, columns=list(dict.fromkeys(columns))):
                cells = [_cells(batch.column(name)) for name in columns]
                yield from enumerate(zip(*cells, strict=True), begin)
                begin += batch.num_rows
                shown.advance(batch.num_rows)


def _batch_rows(metadata: Any, columns: Sequence[str]) -> int:
    """How many rows to read at a time: fewer where rows are long texts or long lists."""
    largest = 1.0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        leaves = [group.column(leaf) for leaf in range(group.num_columns)]
        wanted = [leaf for leaf in leaves if leaf.path_in_schema.startswith(tuple(columns))]
        size = sum(max(leaf.total_uncompressed_size, 8 * leaf.num_values) for leaf in wanted)
        largest = max(largest, size / max(group.num_rows, 1))
    return max(1, min(_BATCH, int(_BATCH_BYTES / largest)))


def _cells(array: Any) -> list[Any]:
    """The cells of a column as Python objects; equal texts of a dictionary are one object."""
    import pyarrow.types as kind

    if kind.is_dictionary(array.type):
        array.validate(full=True)  # a damaged file can name places that the dictionary lacks
        texts = _numbers(array.dictionary.to_pylist(), array.type.value_type)
        return [None if place is None else texts[place] for place in array.indices.to_pylist()]
    return _numbers(array.to_pylist(), array.type)


def _numbers(cells: list[Any], type_: Any) -> list[Any]:
    """Cells with decimals, as databases export them, as ordinary numbers: whole ones where no digit has a fraction."""
    import pyarrow.types as kind

    if kind.is_decimal(type_):
        number = int if type_.scale <= 0 else float
        return [None if cell is None else number(cell) for cell in cells]
    of_lists = kind.is_list(type_) or kind.is_large_list(type_) or kind.is_fixed_size_list(type_)
    if of_lists and kind.is_decimal(type_.value_type):
        return [None if cell is None else _numbers(cell, type_.value_type) for cell in cells]
    return cells
