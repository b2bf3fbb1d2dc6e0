"""The state of an index at one moment, and how it is asked: everything a search reads, replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats32, Rows
from setwise._validation import index_array, whole_number
from setwise.errors import Infeasible
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.retrieval.backends.brute_force import Oracle
from setwise.retrieval.backends.protocol import Hits, Neighbors, tamed, user_vector
from setwise.retrieval.partition import Partition

Barred = NDArray[np.bool_] | None  # (n,) the rows that must not be returned, or None when all may be
Passes = list[tuple[slice, int, int]]  # which of a user's questions, how many of every cell answer, how many wait

_MOST_HIDDEN = 32  # exclusions in one cell up to which users share a pass


class Found(NamedTuple):
    """What one user's search led to: both in ascending order, and no row in both."""

    best: Rows  # the best of every cell
    reserve: Rows  # those next in order, as many as were asked for


@dataclass(frozen=True, eq=False)
class State:
    """Everything a search reads, replaced as a whole."""

    catalog: Catalog
    partition: Partition
    neighbors: Neighbors  # the rows before ``settled``
    settled: int
    overflow: Oracle | None  # the rows from ``settled`` on
    removed: NDArray[np.bool_] | None  # (n,)

    @cached_property
    def largest_cell(self) -> int:
        """The number of its items; counting them at every request would take longer than some searches."""
        return int(self.partition.sizes.max())


def questions(
    state: State, users: Sequence[ArrayLike | User], per_cell: int, per_head: int, reserve: int
) -> tuple[list[Floats32], Passes]:
    """What the users ask, checked, and how many of each cell are wanted by total score and by each head alone.

    The ``reserve`` is by total score.
    """
    heads_too = whole_number("per_head", per_head, least=0) > 0 and state.catalog.heads > 1
    few, more = whole_number("per_cell", per_cell), whole_number("reserve", reserve, least=0)
    passes = [(slice(0, 1), few, more), (slice(1, None), per_head, 0)]
    return [_asked(state.catalog.user(user), heads_too) for user in users], passes[: 1 + heads_too]


def _asked(user: User, heads_too: bool) -> Floats32:
    """Y = (u^1, …, u^H, u⁰), and after it, if wanted, each head alone: (1, D) or (1 + H, D)."""
    rows = [user_vector(user)]
    heads, d = user.heads.shape
    for h in range(heads if heads_too else 0):
        row = np.zeros(len(rows[0]))
        row[h * d : (h + 1) * d] = user.heads[h]
        rows.append(tamed(row))
    return np.stack(rows)


def hidden(state: State, exclude: ArrayLike, where: Mapping[str, Any] | None) -> Barred:
    """The rows that must not be returned, by these wishes or because they were removed."""
    rows = excluded(exclude, state.catalog)
    if not len(rows) and not where:
        return state.removed
    barred = ~state.catalog.attributes.matching(where) if where else np.zeros(len(state.catalog), bool)
    barred[rows] = True
    if state.removed is not None:
        barred |= state.removed
    if barred.all():
        raise Infeasible("where and exclude", "conditions that leave an item", "ones that leave none", "loosen them")
    return barred


def _search(state: State, users: Floats32, per_cell: int, barred: Barred) -> Hits:
    """The best of every cell among settled and late rows; no more of them than the largest cell has."""
    per_cell = min(per_cell, state.largest_cell)
    hits = state.neighbors.search(users, per_cell, None if barred is None else barred[: state.settled])
    if state.overflow is None:
        return hits
    late = state.overflow.search(users, per_cell, None if barred is None else barred[state.settled :])
    late_rows = np.where(late.rows >= 0, late.rows + state.settled, -1)
    rows, scores = np.concatenate([hits.rows, late_rows], axis=2), np.concatenate([hits.scores, late.scores], axis=2)
    best = np.argsort(-scores, axis=2, kind="stable")[:, :, :per_cell]
    return Hits(np.take_along_axis(rows, best, axis=2), np.take_along_axis(scores, best, axis=2))


def alone(state: State, asked: Floats32, passes: Passes, barred: Barred) -> Found:
    """The candidates of one user."""
    hits = [(_search(state, asked[who], few + more, barred).rows, few) for who, few, more in passes]
    return _found([rows[:, :, :few] for rows, few in hits], [rows[:, :, few:] for rows, few in hits])


def together(
    state: State, asked: list[Floats32], passes: Passes, unwanted: list[Rows], where: Mapping[str, Any] | None
) -> list[Found]:
    """The candidates of many users.

    A user's exclusions cannot hide more rows of a cell than they have in it: so many more are asked for. Those with
    very many in one cell are served alone, so that they do not make the pass wide for all.
    """
    most = np.array([int(np.bincount(state.partition.cell_of[rows]).max(initial=0)) for rows in unwanted])
    sharing = most <= _MOST_HIDDEN
    result: list[Found] = [_found([], [])] * len(asked)
    if sharing.any():
        numbers, lost, barred = np.flatnonzero(sharing), int(most[sharing].max()), hidden(state, (), where)
        gone = [unwanted[number] for number in numbers]
        found = [
            _shared(state, [asked[n][who] for n in numbers], few, more, lost, gone, barred) for who, few, more in passes
        ]
        for number, *parts in zip(numbers, *found, strict=True):
            result[number] = _found([best for best, _ in parts], [reserve for _, reserve in parts])
    for number in np.flatnonzero(~sharing):
        result[number] = alone(state, asked[number], passes, hidden(state, unwanted[number], where))
    return result


def _shared(
    state: State, asked: list[Floats32], few: int, more: int, lost: int, gone: list[Rows], barred: Barred
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """In one pass, the ``few`` best of every cell and ``more`` for each user, without what is gone for that user."""
    hits = _search(state, np.concatenate(asked), few + more + lost, barred).rows
    result = []
    for rows, mine in zip(np.split(hits, len(asked)), gone, strict=True):
        kept = (rows >= 0) & ~np.isin(rows, mine)
        number = np.cumsum(kept, axis=2)
        result.append((rows[kept & (number <= few)], rows[kept & (number > few) & (number <= few + more)]))
    return result


def _found(best: Sequence[NDArray[np.int64]], reserve: Sequence[NDArray[np.int64]]) -> Found:
    """What several searches led to, each row once and −1, an empty place, nowhere."""
    nearest, waiting = _distinct(best), _distinct(reserve)
    if len(best) > 1 and len(nearest):  # what waits in one search may be among the best of another
        places = np.searchsorted(nearest, waiting)
        waiting = waiting[nearest[np.minimum(places, len(nearest) - 1)] != waiting]
    return Found(nearest, waiting)


def _distinct(parts: Sequence[NDArray[np.int64]]) -> Rows:
    found = np.sort(np.concatenate([np.array([-1]), *(rows.reshape(-1) for rows in parts)]))
    return found[1:][found[1:] > found[:-1]].astype(np.intp)


def excluded(rows: ArrayLike, catalog: Catalog) -> Rows:
    """Rows checked; a history may repeat itself."""
    return index_array("exclude", np.unique(np.asarray(rows)), len(catalog), "the catalogue")
