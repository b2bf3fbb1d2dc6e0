"""Read text files of numbers, plain or gzipped; every word keeps the number of its line for errors.

The suites contain numbers of at least 0 only, so a sign is an error. Words are matched before they are converted:
``float`` would accept "nan", "infinity" and "1_000" as well.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness.whole_numbers import LARGEST

_WHOLE = re.compile(r"\d+", re.ASCII)
_REAL = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a plain or gzipped text; latin-1 decodes any byte of a comment."""
    lines: list[str] = []
    opener = gzip.open if Path(path).suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="latin-1") as file:
            lines.extend(line.rstrip("\n") for line in file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise MalformedFile(Path(path), len(lines) + 1, "the compressed file is damaged from here on") from None
    return lines


@contextmanager
def refused_at(path: Path, line: int) -> Iterator[None]:
    """Turn an InvalidInput raised inside into a MalformedFile at this line."""
    try:
        yield
    except InvalidInput as error:
        raise MalformedFile(path, line, str(error).removesuffix(".")) from None


def whole(path: Path, line: int, word: str, what: str) -> int:
    """``word`` as a whole number of at least 0."""
    if not _WHOLE.fullmatch(word):
        raise MalformedFile(path, line, f"{what} must be a whole number of at least 0, got {word[:40]!r}")
    if len(word) > 16 or int(word) > LARGEST:
        raise MalformedFile(path, line, f"{what} must be at most 2^53, got {word[:40]!r}")
    return int(word)


def wholes(path: Path, lines: Sequence[int], words: Sequence[str], what: str) -> NDArray[np.int64]:
    """``words``, each from its line, as whole numbers of at least 0: (count,)."""
    plain = _WHOLE.fullmatch("".join(words)) and max(map(len, words)) < 16  # digits only: one check for all words
    numbers = map(int, words) if plain else (whole(path, *place, what) for place in zip(lines, words, strict=True))
    return np.fromiter(numbers, np.int64, len(words))


def real(path: Path, line: int, word: str, what: str) -> float:
    """``word`` as a finite number of at least 0."""
    if not _REAL.fullmatch(word) or not np.isfinite(float(word)):
        raise MalformedFile(path, line, f"{what} must be a number of at least 0, got {word[:40]!r}")
    return float(word)


class Words:
    """The words of a file in order; line breaks are white space."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        lines = read_lines(path)
        self._words = [word for text in lines for word in text.split()]
        self._lines = [number for number, text in enumerate(lines, 1) for _ in text.split()]
        self._last_line = max(len(lines), 1)
        self._at = 0

    def _take(self, count: int, what: str) -> tuple[list[int], list[str]]:
        """The next ``count`` words and their lines, lines first."""
        start, self._at = self._at, self._at + count
        left = len(self._words) - start
        if left < count:
            reason = f"the file ends where {what} should stand ({count} expected, {left} left)"
            raise MalformedFile(self.path, self._last_line, reason)
        return self._lines[start : self._at], self._words[start : self._at]

    @property
    def line(self) -> int:
        """The line of the last word read."""
        return self._lines[self._at - 1]

    def count(self, what: str) -> int:
        """The next word, as a whole number of at least 1."""
        (line,), (word,) = self._take(1, what)
        number = whole(self.path, line, word, what)
        if number == 0:
            raise MalformedFile(self.path, line, f"{what} must be at least 1, got 0")
        return number

    def wholes(self, count: int, what: str) -> NDArray[np.int64]:
        """The next ``count`` words, as whole numbers: (count,)."""
        return wholes(self.path, *self._take(count, what), what)

    def reals(self, count: int, what: str) -> NDArray[np.float64]:
        """The next ``count`` words, as numbers: (count,)."""
        lines, words = self._take(count, what)
        return np.array([real(self.path, line, word, what) for line, word in zip(lines, words, strict=True)])

    def end(self) -> None:
        """Raise MalformedFile if words are left."""
        if self._at < len(self._words):
            reason = f"the file must end here, got {self._words[self._at][:40]!r}"
            raise MalformedFile(self.path, self._lines[self._at], reason)
