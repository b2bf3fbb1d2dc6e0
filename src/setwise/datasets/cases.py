"""Cases: which items succeeded on which problem, with the features of the problem; a table of one row per trial.

    instance,clauses,ratio,solver,solved        on problem p1, of 300 clauses, the solver a succeeded and b failed
    p1,300,4.2,a,1
    p1,300,4.2,b,0

The features of a case are the same in all its rows; an empty cell, or NaN, is a missing one. A trial that is not in the
table counts as a failure. Rows without a case, an item or an outcome are skipped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.datasets.missing import is_missing
from setwise.datasets.tables import table_columns, table_rows
from setwise.datasets.text_files import Skipped, Source, existing_file, parse_number, report_skipped
from setwise.datasets.usual_columns import missing_column, usual_column
from setwise.errors import InvalidInput, MalformedFile

LARGEST = float(np.finfo(np.float32).max)  # forests have features of this type


@dataclass(frozen=True, eq=False)
class Cases:
    """``outcomes`` (cases, n) of 0 and 1, ``features`` (cases, d) with their ``names``, and the ids of the items."""

    outcomes: Floats
    features: Floats
    names: tuple[str, ...]
    ids: list[str]

    def __len__(self) -> int:
        return len(self.outcomes)

    def taken(self, rows: Ints) -> Cases:
        """These cases, over the same items."""
        return Cases(self.outcomes[rows], self.features[rows], self.names, self.ids)


def case_columns(
    path: Source, case: str | None, item: str | None, outcome: str | None, delimiter: str | None = None
) -> dict[str, str]:
    """The columns of case, item and outcome of a table; those not given have usual names."""
    file = existing_file(path)
    header, columns = table_columns(file, delimiter), dict[str, str]()
    for role, column in (("case", case), ("item", item), ("outcome", outcome)):
        name = column or usual_column(role, header)
        if name is None:
            option = "--session" if role == "case" else f"--{role}"
            raise missing_column(option, file, header, f"name the column with {option}", role)
        columns[role] = name
    return columns


def read_cases(
    path: Source,
    case: str,
    item: str,
    outcome: str,
    features: Sequence[str] = (),
    *,
    delimiter: str | None = None,
    progress: bool = True,
    skipped: Skipped | None = None,
) -> Cases:
    """Read the trials; ``features`` are names of columns or patterns such as ``f_*``, among the other columns."""
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    named = [case, item, outcome]
    names = _matching(table_columns(file, delimiter), features, named)
    row_of: dict[Any, int] = {}
    item_of: dict[str, int] = {}
    known: list[list[float]] = []
    trials: dict[tuple[int, int], float] = {}
    for line, (key, tried, result, *cells) in table_rows(file, [*named, *names], 0, delimiter, progress):
        if any(_missing(cell) for cell in (key, tried, result)):
            counts["rows without a case, an item or an outcome"] += 1
            continue
        row = row_of.setdefault(key, len(row_of))
        numbers = [_feature(file, line, name, cell) for name, cell in zip(names, cells, strict=True)]
        if row == len(known):
            known.append(numbers)
        elif not np.array_equal(known[row], numbers, equal_nan=True):
            raise MalformedFile(file, line, f"all rows of a case must have the same features, case {key!r:.60}")
        place = (row, item_of.setdefault(str(tried), len(item_of)))
        if place in trials:
            raise MalformedFile(file, line, f"a case must not try an item twice, got {tried!r:.60}")
        number = {"true": 1.0, "false": 0.0}.get(str(result).strip().lower(), parse_number(result))
        if number not in (0.0, 1.0):
            raise MalformedFile(file, line, f"{outcome} must be 0 or 1, got {result!r:.60}")
        trials[place] = number
    report_skipped(counts, file, progress)
    if not trials:
        raise InvalidInput("cases", "at least one trial", "none", "check the file and its columns")
    outcomes = np.zeros((len(row_of), len(item_of)))
    for place, success in trials.items():
        outcomes[place] = success
    return Cases(outcomes, np.array(known).reshape(len(known), len(names)), tuple(names), list(item_of))


def _matching(columns: list[str], patterns: Sequence[str], named: list[str]) -> list[str]:
    """The columns that the patterns name, in the order of the file."""
    others = [name for name in columns if name not in named]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in others):
            got = f"{pattern!r} among {', '.join(others)}"[:300]
            raise InvalidInput("user columns", "names or patterns of columns of the file", got, "check their spelling")
    return [name for name in others if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _missing(cell: Any) -> bool:
    return is_missing(cell.strip() if isinstance(cell, str) else cell)


def _feature(file: Path, line: int, name: str, cell: Any) -> float:
    if _missing(cell):
        return np.nan
    number = parse_number(cell)
    if number != number:
        raise MalformedFile(file, line, f"the feature {name} must be a number or empty, got {cell!r:.60}")
    if abs(number) > LARGEST:
        raise MalformedFile(file, line, f"the feature {name} must be at most {LARGEST:.0e} in size, got {cell!r:.60}")
    return number
