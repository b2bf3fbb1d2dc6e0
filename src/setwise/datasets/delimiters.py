"""The delimiter of a table: the one that is given, or the most frequent of the usual ones in the header."""

from __future__ import annotations

import re
from pathlib import Path

from setwise.datasets.text_files import file_extension, text_lines
from setwise.errors import InvalidInput

DELIMITERS = {".csv": ",", ".tsv": "\t"}
USUAL = (",", ";", "\t", "|")
_QUOTED = re.compile(r'"[^"]*"')


def delimiter_of(file: Path, given: str | None) -> str:
    """``given``, checked; without one, the usual delimiter that the first line has most often outside of quotes."""
    if given is None:
        header = _QUOTED.sub("", next(text_lines(file, legacy=True), ""))
        usual = DELIMITERS[file_extension(file)]
        return max((usual, *USUAL), key=header.count)
    if not isinstance(given, str) or len(given) != 1 or given in '\0\r\n"':
        raise InvalidInput("delimiter", "one character", repr(given), "pass for instance ';'")
    return given
