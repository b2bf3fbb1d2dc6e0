"""The delimiter of a table: given, stated in the file, or the most frequent of the usual ones in the header."""

from __future__ import annotations

import re
from pathlib import Path

from setwise.datasets.text_files import file_extension, stated_delimiter, text_lines
from setwise.errors import InvalidInput

DELIMITERS = {".csv": ",", ".tsv": "\t"}
USUAL = (",", ";", "\t", "|")
_QUOTED = re.compile(r'"[^"]*"')


def delimiter_of(file: Path, given: str | None) -> str:
    """``given``, checked; or what the first line states (sep=;); or the usual one that it has most often unquoted."""
    if given is None:
        first = next(text_lines(file, legacy=True), "")
        usual, header = DELIMITERS[file_extension(file)], _QUOTED.sub("", first)
        return stated_delimiter(first) or max((usual, *USUAL), key=header.count)
    if not isinstance(given, str) or len(given) != 1 or given in '\0\r\n"':
        raise InvalidInput("delimiter", "one character", repr(given), "pass for instance ';'")
    return given
