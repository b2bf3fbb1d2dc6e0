"""One basket a line: ``milk,bread,butter``, without a header, each line of its own length.

Items are text, quoted if they contain the delimiter. Empty cells are left out; an empty line is no basket.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator

from setwise.datasets.delimiters import USUAL, delimiter_of
from setwise.datasets.grouping import group_by_owner
from setwise.datasets.id_encoder import IdEncoder
from setwise.datasets.missing import is_missing
from setwise.datasets.sessions import Sessions
from setwise.datasets.text_files import Skipped, Source, existing_file, report_skipped, text_lines
from setwise.errors import MalformedFile


def read_baskets(
    path: Source, delimiter: str | None = None, progress: bool = True, skipped: Skipped | None = None
) -> Sessions:
    """One session of each line; the delimiter is the usual one that the file's first lines have most often."""
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    mark = _most_frequent(text_lines(file, legacy=True)) if delimiter is None else delimiter_of(file, delimiter)
    items, owner, values = IdEncoder(file), array("q"), array("q")
    rows, count = csv.reader(text_lines(file, progress, legacy=True), delimiter=mark, skipinitialspace=True), 0
    try:
        for cells in rows:
            basket = [cell.strip() for cell in cells if not is_missing(cell.strip())]
            values.extend(items.row(rows.line_num, one) for one in basket)
            owner.extend([count] * len(basket))
            count += bool(basket)
            counts["empty lines"] += not basket
    except csv.Error as error:
        raise MalformedFile(
            file, rows.line_num, f"the line must be items separated by {mark!r}, but: {error}"
        ) from None
    if not count:
        raise MalformedFile(file, 1, "there must be a basket a line, but the file is empty")
    report_skipped(+counts, file, progress)
    return Sessions(group_by_owner(owner, values, count), items.ids)


def _most_frequent(lines: Iterator[str]) -> str:
    head = "".join(line for line, _ in zip(lines, range(100), strict=False))
    best = max(USUAL, key=head.count)
    return best if best in head else " "
