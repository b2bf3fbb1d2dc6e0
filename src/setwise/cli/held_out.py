"""Sessions of a file as histories of a saved recommender's users, for ``evaluate`` and ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from setwise.cli.columns import read_named
from setwise.cli.other_slates import row_of
from setwise.cli.train_data import RANDOM, TIME
from setwise.datasets import Sessions, Slates
from setwise.datasets.splits import HistorySplit, time_split
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged


def drawn_histories(sessions: Sessions, most: int, seed: int, split: str = RANDOM) -> HistorySplit:
    """At most so many of the sessions, each split into its first items and the others.

    They are drawn at random, in the order of the file; by time they are the latest, in the order of time.
    """
    if split == TIME:
        chosen = time_split(sessions, most)[1]
    else:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(sessions))[:most])
    return HistorySplit.first(sessions.taken(chosen).shuffled_where_unordered(seed))


def read_sessions(path: Path, named: dict[str, Any], catalog: Catalog) -> tuple[Sessions, int]:
    """The sessions as rows of the catalogue, with two known items or more each, and the number of unknown entries."""
    data = read_named("sessions", path, named)
    if isinstance(data, Slates):
        todo = "setwise train evaluates on logged slates"
        raise InvalidInput("sessions", "sessions of items", f"{path.name} with slates and outcomes", todo)
    place = np.array([row_of(catalog, one) for one in data.ids], np.int64)
    rows = place[data.items.values]
    known = data.items.kept(rows >= 0)
    items = Ragged.cut(place[known.values], known.lengths)
    whole = Sessions(items, catalog.ids[np.arange(len(catalog))].tolist(), ordered=data.ordered, starts=data.starts)
    long = np.flatnonzero(whole.distinct().items.lengths >= 2)
    if not len(long):
        ours, theirs = catalog.ids[np.arange(min(2, len(catalog)))].tolist(), list(data.ids[:2])
        must = "some with two items of the catalogue or more"
        got = f"none: the file has ids such as {theirs}, the catalogue such as {ours}"
        raise InvalidInput("sessions", must, got, "name their column with --item")
    return whole.taken(long), int(np.count_nonzero(rows < 0))
