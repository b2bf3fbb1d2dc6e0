"""Sets with one outcome each, from a table: what was measured of whole sets, not of their items.

``read_outcome_sets`` reads two forms.

* **Long**: one row per item of a set, with the columns of the set, of the item and of the outcome, which is the same in
  all rows of a set; and perhaps one of the item's group (a site, a shelf).

      set,site,item,fitness            set 7 is V at site 1 and D at site 2, and has fitness 1.3
      7,1,V,1.3
      7,2,D,1.3

* **Wide**: one row per set, one column per group, each with the item of that group. Groups are two or more.

      site1,site2,fitness
      V,D,1.3

An item is identified by its text. If one text occurs in several groups (the residue V at two sites), these are
different items, and every id is "group:item". In the wide form every id is, and the groups are the names of the
columns. Rows without an item or outcome are skipped and counted; in the wide form an empty cell is an empty place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.datasets.tables import table_columns, table_rows
from setwise.datasets.text_files import Skipped, Source, existing_file, parse_number, report_skipped
from setwise.datasets.usual_columns import missing_column, usual_column
from setwise.errors import InvalidInput, MalformedFile

GROUP = "group"  # the attribute of the wide form
Item = tuple[Any, Any]  # group, or None, and text
Members = dict[Any, tuple[list[Item], float]]


@dataclass(frozen=True, eq=False)
class OutcomeSets:
    """``sets`` (N, size) of rows of ``ids``, −1 for an empty place; ``outcome`` (N,); ``group``: name and column."""

    sets: Ints
    outcome: Floats
    ids: list[str]
    group: tuple[str, list[Any]] | None = None

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.ids)

    @property
    def attributes(self) -> dict[str, list[Any]]:
        """The group as an attribute of the items."""
        return {} if self.group is None else {self.group[0]: self.group[1]}

    @property
    def one_of_each_group(self) -> bool:
        """Whether every set has exactly one item of every group."""
        if self.group is None or (self.sets < 0).any():
            return False
        number = np.unique(self.group[1], return_inverse=True)[1]
        of_sets = np.sort(number[self.sets], axis=1)
        return bool((of_sets == np.arange(number.max() + 1)).all()) if of_sets.shape[1] == number.max() + 1 else False

    def taken(self, rows: Ints) -> OutcomeSets:
        """These sets, over the same items."""
        return OutcomeSets(self.sets[rows], self.outcome[rows], self.ids, self.group)


def set_columns(
    path: Source,
    outcome: str | None = None,
    *,
    groups: Sequence[str] = (),
    set_column: str | None = None,
    item: str | None = None,
    delimiter: str | None = None,
) -> dict[str, str]:
    """The columns of outcome, set and item that ``read_outcome_sets`` reads; those not given have usual names."""
    file, wide = existing_file(path), len(groups) > 1
    if wide and (set_column is not None or item is not None):
        must = "left out where several groups name the columns of the items"
        raise InvalidInput("set and item", must, "given", "leave them out, or name one group")
    asked = {"outcome": outcome} if wide else {"outcome": outcome, "set": set_column, "item": item}
    header = table_columns(file, delimiter)
    names = {role: name or usual_column(role, header) for role, name in asked.items()}
    for role, name in names.items():
        if name is None:
            several = "" if role == "outcome" else ", or name the columns of the items by several --group"
            raise missing_column(role, file, header, f"name the column with --{role}{several}")
    columns = {role: str(name) for role, name in names.items()}
    if columns["outcome"] in [*groups, *(columns[role] for role in columns if role != "outcome")]:
        must, todo = "a column of its own", "name another column, or leave it out of the others"
        got = f"'{columns['outcome']}', which is that of the set or of its items too"
        raise InvalidInput("outcome", must, got, todo)
    return columns


def read_outcome_sets(
    path: Source,
    outcome: str | None = None,
    *,
    groups: Sequence[str] = (),
    set_column: str | None = None,
    item: str | None = None,
    delimiter: str | None = None,
    progress: bool = True,
    skipped: Skipped | None = None,
) -> OutcomeSets:
    """Read the long form (at most one of ``groups``) or the wide form (two or more: the columns of the items)."""
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    columns = set_columns(file, outcome, groups=groups, set_column=set_column, item=item, delimiter=delimiter)
    if len(groups) > 1:
        members = _wide(file, columns["outcome"], list(groups), delimiter, progress, counts)
        name: str | None = GROUP
    else:
        name = groups[0] if groups else None
        members = _long(file, columns, name, delimiter, progress, counts)
    report_skipped(counts, file, progress)
    if not members:
        raise InvalidInput("sets", "at least one with an outcome", "none", "check the file and its columns")
    return _collected(members, name, qualified=len(groups) > 1)


def _long(
    file: Path, columns: dict[str, str], group: str | None, delimiter: str | None, progress: bool, skipped: Skipped
) -> Members:
    members: Members = {}
    outcome = columns["outcome"]
    names = [columns["set"], columns["item"], outcome, *([group] if group else [])]
    for line, (key, item, number, *of_group) in table_rows(file, names, 0, delimiter, progress):
        if _missing(key) or _missing(item) or any(map(_missing, of_group)):
            skipped["rows without a set, an item or a group"] += 1
            continue
        if _missing(number):
            skipped["rows without an outcome"] += 1
            continue
        items, known = members.setdefault(key, ([], value := _real(file, line, outcome, number)))
        if known != value and known != _real(file, line, outcome, number):
            raise MalformedFile(file, line, f"all rows of a set must have the same {outcome}, got {number!r:.30}")
        label = (of_group[0] if of_group else None, item)
        if label in items:
            raise MalformedFile(file, line, f"a set must not have an item twice, got {item!r:.60}")
        items.append(label)
    return members


def _wide(
    file: Path, outcome: str, groups: list[str], delimiter: str | None, progress: bool, skipped: Skipped
) -> Members:
    members: Members = {}
    for line, (number, *cells) in table_rows(file, [outcome, *groups], 0, delimiter, progress):
        items = [(group, cell) for group, cell in zip(groups, cells, strict=True) if not _missing(cell)]
        if _missing(number):
            skipped["rows without an outcome"] += 1
        elif not items:
            skipped["rows without an item"] += 1
        else:
            members[line] = (items, _real(file, line, outcome, number))
    return members


def _collected(members: Members, name: str | None, qualified: bool) -> OutcomeSets:
    """Number the items, in the order of groups and texts, and pad the sets."""
    labels = sorted(
        {label for items, _ in members.values() for label in items}, key=lambda label: (str(label[0]), str(label[1]))
    )
    qualified = qualified or len({str(item) for _, item in labels}) < len(labels)
    ids = [f"{group}:{item}" if qualified and name is not None else str(item) for group, item in labels]
    row_of = {label: row for row, label in enumerate(labels)}
    sets = np.full((len(members), max(len(items) for items, _ in members.values())), -1, np.int64)
    for place, (items, _) in enumerate(members.values()):
        sets[place, : len(items)] = sorted(row_of[label] for label in items)
    outcome = np.array([number for _, number in members.values()])
    return OutcomeSets(sets, outcome, ids, None if name is None else (name, [str(group) for group, _ in labels]))


def _missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _real(file: Path, line: int, column: str, cell: Any) -> float:
    truth = {"true": 1.0, "false": 0.0}.get(str(cell).strip().lower())
    number = parse_number(cell) if truth is None else truth
    if number != number:
        raise MalformedFile(file, line, f"{column} must be a number, got {cell!r:.60}")
    return number
