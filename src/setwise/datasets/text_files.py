"""Text files read line by line, plain or gzipped. Errors name the line.

Text is UTF-8, with or without a byte order mark; lines end in LF or CRLF. Tables may also be UTF-16 with a byte order
mark, or Windows-1252, as spreadsheets write them: a file whose first bytes beyond ASCII are no UTF-8 is read so, and a
line on standard error says so. Anything else (NUL bytes, a truncated compressed file, rows of the wrong width, invalid
quotes or JSON) raises ``MalformedFile``.

Rows are split by the ``csv`` module of the standard library. pyarrow and polars are faster but do not meet these rules:
pyarrow accepts NUL bytes, an unclosed quote and text after a closing quote; polars fills short rows with nulls; neither
reports the line of an error. They are also optional here, and CSV files must be readable without them.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NoReturn

from setwise._progress import Progress
from setwise._standard_error import is_terminal, say
from setwise._validation import did_you_mean
from setwise.errors import InvalidInput, MalformedFile

Source = str | os.PathLike[str]
Skipped = Counter[str]  # reason -> number of records that were skipped
OnMalformed = Callable[["MalformedFile"], None]  # raises, or returns to skip the row

DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EXPONENT = r"([eE][+-]?\d+)?"
_NEGATIVE = re.compile(  # with separators of thousands and decimals of any country
    rf"[-\u2212](?P<before>[\d.,'\s]+){_EXPONENT}|(?P<after>[\d.,'\s]+)[-\u2212]|\((?P<in>[\d.,'\s]+)\)", re.ASCII
)
_STATED = re.compile(r'sep=([^\0\r\n"])\s*')
_EMPTY = "the file must begin with a header, and is empty; check that it was written to the end"
_NO_TEXT = "save a spreadsheet as CSV, and compressed text as .gz"
_OTHER_ENDS = "save the file again as CSV for Windows or Unix, not as CSV for Macintosh"
_NO_GZIP = "copy it again, or rename it without .gz if it is not compressed"
LONGEST_LINE = 64 << 20  # bytes: a small compressed file may hold a line without end
_BLOCK = 1 << 23  # bytes of UTF-16 that are decoded at a time
_BAR_LINES = 1 << 12  # lines between updates of the progress bar


def existing_file(path: Source) -> Path:
    """``path`` as a Path, checked to be an existing file."""
    file = Path(path)
    if not file.is_file():
        got = f"the folder {str(file)!r}" if file.is_dir() else f"{str(file)!r}, where there is none"
        raise InvalidInput("path", "a file", got, _similar_file(file) or "check the path")
    return file


def _similar_file(file: Path) -> str:
    """The question for a file beside this one whose name is similar, if there is one."""
    try:
        beside = [path.name for path in file.parent.iterdir() if path.is_file()]
    except OSError:
        return ""
    return did_you_mean(file.name, beside)


def file_extension(file: Path) -> str:
    """The extension in lower case, without ``.gz``: ".csv" for "a.b.csv.gz"."""
    plain = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    return plain.suffix.lower()


def decompressed(file: Path, raw: IO[bytes]) -> IO[bytes]:
    """The bytes of the open file ``raw``, decompressed if the name ends in ``.gz``."""
    if file.suffix.lower() != ".gz":
        return raw
    return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 16)


def progress_bar(title: str, total: int, progress: bool) -> Progress:
    """A progress bar, shown if ``progress`` is set and standard error is a terminal."""
    return Progress(title, total, None if progress else False)


def text_lines(file: Path, progress: bool = False, legacy: bool = False) -> Iterator[str]:
    """The lines of a text file, including line ends; ``legacy`` accepts UTF-16 and Windows-1252 as well."""
    number = done = 0
    with file.open("rb") as raw, progress_bar(f"reading {file.name}", file.stat().st_size, progress) as shown:
        decode = _Decoder(file, legacy, progress)
        try:
            for number, line in enumerate(_byte_lines(decompressed(file, raw), legacy), 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if len(line) >= LONGEST_LINE:
                    raise MalformedFile(file, number, f"a line must have less than {LONGEST_LINE:,} bytes; {_NO_TEXT}")
                if b"\0" in line:
                    raise MalformedFile(file, number, f"a text must not hold NUL bytes; {_NO_TEXT}")
                if not number % _BAR_LINES:
                    shown.advance(raw.tell() - done)
                    done = raw.tell()
                yield decode(number, line)
        except DAMAGE:
            raise MalformedFile(
                file, number + 1, f"the compressed file must be intact, but is damaged from here on; {_NO_GZIP}"
            ) from None
        except UnicodeDecodeError as error:
            reason = f"the text must be UTF-8, got byte {error.object[error.start]:#04x}; convert the file to UTF-8"
            raise MalformedFile(file, number, reason) from None


def _byte_lines(stream: IO[bytes], legacy: bool) -> Iterator[bytes]:
    """The lines as bytes of UTF-8; UTF-16 with a byte order mark is converted if ``legacy`` is set."""
    first = stream.readline(LONGEST_LINE)
    if legacy and first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from _lines_of_utf16(chain([first], iter(partial(stream.read, _BLOCK), b"")))
        return
    if first:
        yield first
        yield from iter(partial(stream.readline, LONGEST_LINE), b"")


def _lines_of_utf16(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a text in UTF-16 as UTF-8, in pieces where a line is too long: it is refused by its first one."""
    decoder, unfinished = codecs.getincrementaldecoder("utf-16")(), ""
    for block in blocks:
        *lines, unfinished = (unfinished + decoder.decode(block)).split("\n")
        yield from (f"{line}\n".encode() for line in lines)
        if len(unfinished) >= LONGEST_LINE:
            yield unfinished.encode()
            unfinished = ""
    unfinished += decoder.decode(b"", final=True)
    if unfinished:
        yield unfinished.encode()


class _Decoder:
    """Lines of UTF-8, or of Windows-1252 from the first line that is no UTF-8, if all before are ASCII."""

    def __init__(self, file: Path, legacy: bool, progress: bool) -> None:
        self._file, self._legacy, self._progress = file, legacy, progress
        self._encoding, self._decided = "utf-8", not legacy

    def __call__(self, number: int, line: bytes) -> str:
        try:
            text = line.decode(self._encoding)
        except UnicodeDecodeError:
            if self._decided:
                raise
            text = line.decode("cp1252")
            self._encoding = "cp1252"
            if self._progress:
                say(f"{self._file.name}: not UTF-8, read as Windows-1252 from line {number}")
        self._decided = self._decided or not line.isascii()
        return text


def stop(error: MalformedFile) -> None:
    """The default for malformed rows: raise the error of the first one."""
    try:
        raise error
    finally:
        del error  # its traceback has this frame: the two would hold each other, and so an open file


def stated_delimiter(first: str) -> str | None:
    """The delimiter that some spreadsheets state (``sep=;``) in a line before the header."""
    stated = _STATED.fullmatch(first)
    return None if stated is None else stated[1]


def cell_rows(
    file: Path, delimiter: str, progress: bool = False, malformed: OnMalformed = stop
) -> Iterator[tuple[int, list[str]]]:
    """The first line and the cells of every row of a CSV file; all rows have as many cells as the header."""
    lines = text_lines(file, progress, legacy=True)
    first = next(lines, "")
    rows = csv.reader(chain(["\n" if stated_delimiter(first) else first], lines), delimiter=delimiter, strict=True)
    line, width = 1, 0
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"the row must be cells separated by {delimiter!r}, but: {error}"
            if str(error).startswith("new-line"):  # the module's advice is for programmers
                reason = f"lines must end in LF or CRLF, and here is a CR alone; {_OTHER_ENDS}"
            (malformed if width else stop)(MalformedFile(file, line, reason))
            cells = []
        if cells and len(cells) == (width := width or len(cells)):
            yield line, cells
        elif cells:
            reason = f"there must be {width} cells, as in the header, got {len(cells)}"
            malformed(MalformedFile(file, line, reason))
        line = rows.line_num + 1
    if not width:
        raise MalformedFile(file, 1, _EMPTY)


def plain_rows(file: Path, delimiter: str, progress: bool = False) -> Iterator[tuple[int, list[str]]]:
    """As ``cell_rows``, for files in which quotes have no special meaning."""
    width = 0
    for line, text in enumerate(text_lines(file, progress), 1):
        if not text.strip():
            continue
        cells = text.rstrip("\r\n").split(delimiter)
        if len(cells) != (width := width or len(cells)):
            raise MalformedFile(file, line, f"there must be {width} cells, as in the header, got {len(cells)}")
        yield line, cells
    if not width:
        raise MalformedFile(file, 1, _EMPTY)


def json_rows(
    file: Path, progress: bool = False, malformed: OnMalformed = stop
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The line and the JSON object of every line that is not blank."""
    for line, text in enumerate(text_lines(file, progress), 1):
        if not text or text.isspace():
            continue
        try:
            row = _json_object(file, line, text)
        except MalformedFile as error:
            malformed(error)
        else:
            yield line, row


def _json_object(file: Path, line: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise_json_error(file, line, error)
    if type(row) is not dict:
        reason = f"the line must be a JSON object, got {text.strip()[:40]!r}; write {{column: value}} on every line"
        raise MalformedFile(file, line, reason)
    return row


def raise_json_error(file: Path, line: int, error: ValueError | RecursionError) -> NoReturn:
    """Raise the error of the JSON parser as MalformedFile."""
    why = "it is nested too deeply" if isinstance(error, RecursionError) else str(getattr(error, "msg", error))
    begins = str(getattr(error, "doc", "")).strip()[:40]
    got = f", got {begins!r}" if begins else ""
    raise MalformedFile(file, line, f"it must be JSON, but: {why}{got}; check how the file was written") from None


def parse_number(cell: object) -> float:
    """A cell as a finite number, or NaN. Text must match a pattern, because ``float`` also accepts "1_000"."""
    if isinstance(cell, str) and not _REAL.fullmatch(cell.strip()):
        return math.nan
    try:
        number = float(cell)  # type: ignore[arg-type]  # the except clause is the check
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_negative(cell: object) -> bool:
    """Whether a cell is a negative number: -1, -1,00, −1, 1- or (1), as spreadsheets write it."""
    if not isinstance(cell, str):
        return parse_number(cell) < 0
    parts = _NEGATIVE.fullmatch(cell.strip())
    return parts is not None and any("1" <= digit <= "9" for digit in parts["before"] or parts["after"] or parts["in"])


def column_positions(file: Path, header: Sequence[str], names: Sequence[str], parameter: str = "column") -> list[int]:
    """The positions of the columns of these names in a header; an error is about ``parameter``."""
    for name in names:
        if header.count(name) != 1:
            twice = name in header
            got = f"{name!r} twice" if twice else f"no {name!r}"
            got += f" among {', '.join(map(repr, header))}"
            todo = "rename one of the two" if twice else did_you_mean(name, header) or "pass the name of a column"
            raise InvalidInput(parameter, f"a column that {file.name} has once", got[:500], todo)
    return [header.index(name) for name in names]


def report_skipped(skipped: Skipped, file: Path, progress: bool) -> None:
    """Print the counts of skipped records to standard error, if it is a terminal."""
    if progress and is_terminal():
        for reason, count in skipped.items():
            say(f"{file.name}: skipped {count:,} {reason}")
