"""Items of a shard by words, and what its columns hold: answers of a host, and how the front merges those of all.

The search of a shard keeps its texts in memory, from the first time that it is asked on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from setwise._types import Ints, Mask
from setwise.recommend.item_search import FEW, Described, ItemSearch
from setwise.recommend.slate import items_to_dicts
from setwise.retrieval import Index


class State(Protocol):
    """A shard as of one version (shard_reader.py): its index, and the numbers of its items."""

    @property
    def index(self) -> Index:
        """The items of the shard."""
        ...

    @property
    def rows(self) -> Ints:
        """(n,) their numbers in the whole cluster, ascending."""
        ...


_SEARCHES: WeakKeyDictionary[State, ItemSearch] = WeakKeyDictionary()  # of the states that are open


class Matches(NamedTuple):
    """The first items that contain all words: their rows, whether their titles begin with them; and the number."""

    rows: Ints
    begins: Mask
    total: int


# --- at a host ---


def find_items(state: State, query: str, limit: int) -> Matches:
    """The first items of this shard with every word of ``query``, titles that begin with it first."""
    search = _search(state)
    matching = search.find(query, len(state.index.catalog))[0]
    matching = matching[~np.isin(matching, state.index.removed)] if len(state.index.removed) else matching
    rows = matching[:limit]
    return Matches(state.rows[rows], search.begins(query, rows), len(matching))


def describe_columns(state: State) -> list[Described]:
    """The columns of this shard."""
    return _search(state).columns()


def describe_items(state: State, rows: Ints) -> list[tuple[Any, dict[str, Any]]]:
    """Id and attributes of the items of these rows."""
    catalog, at = state.index.catalog, np.searchsorted(state.rows, rows)
    return [(item["id"], item["attributes"]) for item in items_to_dicts(catalog, at)]


def count_items(state: State) -> int:
    """The items of this shard that were not removed."""
    return len(state.index.catalog) - len(state.index.removed)


def _search(state: State) -> ItemSearch:
    if state not in _SEARCHES:
        _SEARCHES[state] = ItemSearch(state.index.catalog)
    return _SEARCHES[state]


ITEM_ANSWERS: dict[str, Callable[..., Any]] = {
    method.__name__: method for method in (find_items, describe_columns, describe_items, count_items)
}


# --- at the front ---


def merged_matches(answers: Sequence[Matches], limit: int) -> tuple[Ints, int]:
    """The first rows of all shards, in the order of one catalogue, and the number of all."""
    rows, begins = (np.concatenate([matches[at] for matches in answers]) for at in (0, 1))
    return rows[np.lexsort((rows, ~begins))][:limit], sum(matches.total for matches in answers)


def merged_columns(answers: Sequence[Sequence[Described]]) -> list[Described]:
    """The columns of all shards; the values of texts only where they are few in all."""
    return [_merged(list(same)) for same in zip(*answers, strict=True)]


def _merged(same: Sequence[Described]) -> Described:
    name, kind = same[0].name, same[0].kind
    values = [column.values for column in same]
    all_texts = sorted(set[str]().union(*(texts for texts in values if texts is not None)))
    listed = None not in values and len(all_texts) <= FEW
    lows = [column.low for column in same if column.low is not None]
    highs = [column.high for column in same if column.high is not None]
    return Described(name, kind, all_texts if listed else None, min(lows, default=None), max(highs, default=None))
