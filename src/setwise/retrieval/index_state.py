"""IndexState: an index at one moment, and the searches that read it.

A state is immutable and replaced as a whole: a search keeps the one it began with while the index changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats32, Ints, Mask, Rows
from setwise._validation import frozen, whole_number
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.protocol import Hits, Neighbors, by_cell, scaled, user_vector
from setwise.retrieval.partition import Partition
from setwise.retrieval.scored_search import (
    CellOrder,
    Depth,
    all_scored,
    is_sparse,
    lower_rows,
    search_dense,
    with_scored_rows,
)

_MOST_EXCLUDED = 32  # a user who excludes more rows of one cell does not share a pass with others


class Retrieved(NamedTuple):
    """The result of one user's search: both parts in ascending order, no row in both."""

    best: Rows  # the best rows of every cell
    reserve: Rows  # the next best rows of every cell, as many as were requested


class UserSearch(NamedTuple):
    """A user and their search vectors, (1, D) or (1 + H, D): by total score first, then by each head alone."""

    user: User
    vectors: Floats32


class Pass(NamedTuple):
    """One search of the backend: some of a user's search vectors, and how many rows of each cell they fetch."""

    vectors: slice
    best: int
    reserve: int
    by_total: bool  # by total score, which added scores change; else by one head

    def added_scores(self, user: User) -> AddedScores | None:
        """The added scores of this user that change the order of this pass."""
        return user.scores if self.by_total else None


@dataclass(frozen=True, eq=False)
class IndexState:
    """Everything that a search reads."""

    catalog: Catalog
    partition: Partition
    neighbors: Neighbors  # searches the first ``n_compacted`` rows
    n_compacted: int  # rows at the last build or compaction; rows that were added later follow them
    overflow: BruteForce | None  # searches the added rows; None: there are none
    removed: Mask | None  # (n,) whether each row was removed; None: no row was

    @cached_property
    def largest_cell(self) -> int:
        """The size of the largest cell. Cached: counting at every request takes longer than some searches."""
        return int(self.partition.sizes.max())

    @cached_property
    def cells(self) -> CellOrder:
        """All rows, added ones included, sorted by cell."""
        return CellOrder(*by_cell(self.partition.cell_of, self.partition.n_cells))

    @cached_property
    def removed_rows(self) -> Rows:
        """The rows that were removed, in ascending order."""
        return frozen(np.empty(0, np.intp) if self.removed is None else np.flatnonzero(self.removed))

    @cached_property
    def eligible(self) -> Eligibility:
        """The rows that were not removed."""
        return Eligibility.of(self.catalog, self.removed)


def search_vectors(
    state: IndexState, users: Sequence[ArrayLike | User], per_cell: int, per_head: int, reserve: int
) -> tuple[list[UserSearch], list[Pass]]:
    """Each user with their search vectors, and the passes to make with them; arguments are checked.

    The first pass ranks by total score and also fetches the ``reserve``. The second ranks by each head alone.
    """
    with_heads = whole_number("per_head", per_head, least=0) > 0 and state.catalog.heads > 1
    best, more = whole_number("per_cell", per_cell), whole_number("reserve", reserve, least=0)
    passes = [Pass(slice(0, 1), best, more, True)]
    if with_heads:
        passes.append(Pass(slice(1, None), per_head, 0, False))
    checked = [state.catalog.user(user) for user in users]
    return [UserSearch(user, search_vectors_of(user, with_heads)) for user in checked], passes


def search_vectors_of(user: User, with_heads: bool) -> Floats32:
    """Y = (u^1, …, u^H, u⁰), followed by each head alone if ``with_heads``: (1, D) or (1 + H, D)."""
    vectors = [user_vector(user)]
    heads, d = user.heads.shape
    for h in range(heads if with_heads else 0):
        vector = np.zeros(len(vectors[0]))
        vector[h * d : (h + 1) * d] = user.heads[h]
        vectors.append(scaled(vector))
    return np.stack(vectors)


def retrieve_one(state: IndexState, search: UserSearch, passes: list[Pass], eligible: Eligibility) -> Retrieved:
    """The candidates of one user."""
    parts = [_one_pass(state, search, wanted, eligible) for wanted in passes]
    return merged_passes([best for best, _ in parts], [reserve for _, reserve in parts])


def _one_pass(state: IndexState, search: UserSearch, wanted: Pass, eligible: Eligibility) -> tuple[Ints, Ints]:
    """The best rows of every cell in one pass, and the reserve; −1 in empty places."""
    vectors, count, scores = (
        search.vectors[wanted.vectors],
        wanted.best + wanted.reserve,
        wanted.added_scores(search.user),
    )
    if scores is None:
        rows = search_cells(state, vectors, count, eligible.mask).rows
        return rows[:, :, : wanted.best], rows[:, :, wanted.best :]
    best = min(wanted.best, state.largest_cell)
    depth = Depth(best, min(wanted.reserve, state.largest_cell - best))
    if not is_sparse(scores):
        return search_dense(state.catalog, state.cells, search.user, scores, depth, eligible.mask)
    rows_found, products = np.empty(0, np.intp), np.empty(0, np.float32)
    if not all_scored(scores, eligible):
        hits = search_cells(state, vectors, count, _mask_without(eligible, lower_rows(scores)))
        rows_found, products = hits.rows[hits.rows >= 0], hits.scores[hits.rows >= 0]
    return with_scored_rows(
        state.catalog, state.partition.cell_of, search.user, scores, rows_found, products, eligible, depth
    )


def _mask_without(eligible: Eligibility, rows: Rows) -> Mask | None:
    """The mask of eligible rows less ``rows``; unlike an ``Eligibility`` it may leave none."""
    if not len(rows):
        return eligible.mask
    mask = np.ones(eligible.n, bool) if eligible.mask is None else eligible.mask.copy()
    mask[rows] = False
    return mask


def retrieve_batch(
    state: IndexState, searches: Sequence[UserSearch], passes: list[Pass], eligible: Sequence[Eligibility]
) -> list[Retrieved]:
    """The candidates of many users; those with the same filter share passes over the catalogue.

    A pass serves users with different exclusions: it fetches as many more rows of each cell as any of them excludes
    there. A user who excludes more than ``_MOST_EXCLUDED`` rows of one cell has passes of their own: the others would
    fetch as many more rows. So has a user with added scores, unless these are sparse.
    """
    lower = [lower_rows(search.user.scores) for search in searches]
    excluded = [np.union1d(items.excluded, rows) for items, rows in zip(eligible, lower, strict=True)]
    most = np.array([int(np.bincount(state.partition.cell_of[rows]).max(initial=0)) for rows in excluded])
    alike = [_can_share(search.user.scores, items) for search, items in zip(searches, eligible, strict=True)]
    sharing = (most <= _MOST_EXCLUDED) & np.array(alike, bool)
    result: list[Retrieved] = [merged_passes([], [])] * len(searches)
    for group in _grouped_by_mask(eligible, sharing):
        extra, members = int(most[group].max()), [searches[user] for user in group]
        left_out = {True: [excluded[user] for user in group], False: [eligible[user].excluded for user in group]}
        allowed = [eligible[user] for user in group]
        by_pass = [_shared(state, wanted, members, left_out[wanted.by_total], extra, allowed) for wanted in passes]
        for user, *parts in zip(group, *by_pass, strict=True):
            result[user] = merged_passes([best for best, _ in parts], [reserve for _, reserve in parts])
    for user in np.flatnonzero(~sharing).tolist():
        result[user] = retrieve_one(state, searches[user], passes, eligible[user])
    return result


def _can_share(scores: AddedScores | None, eligible: Eligibility) -> bool:
    return scores is None or (is_sparse(scores) and not all_scored(scores, eligible))


def _grouped_by_mask(eligible: Sequence[Eligibility], sharing: Mask) -> list[list[int]]:
    """The positions of the ``sharing`` users, grouped by their mask of allowed rows (the same object)."""
    groups: dict[int, list[int]] = {}
    for user in np.flatnonzero(sharing).tolist():
        groups.setdefault(id(eligible[user].allowed), []).append(user)
    return list(groups.values())


def search_cells(state: IndexState, users: Floats32, per_cell: int, eligible: Mask | None) -> Hits:
    """The best of every cell among compacted and added rows; never more per cell than the largest cell holds."""
    per_cell = min(per_cell, state.largest_cell)
    hits = state.neighbors.search(users, per_cell, None if eligible is None else eligible[: state.n_compacted])
    if state.overflow is None:
        return hits
    added = state.overflow.search(users, per_cell, None if eligible is None else eligible[state.n_compacted :])
    added_rows = np.where(added.rows >= 0, added.rows + state.n_compacted, -1)
    rows, scores = np.concatenate([hits.rows, added_rows], axis=2), np.concatenate([hits.scores, added.scores], axis=2)
    best = np.argsort(-scores, axis=2, kind="stable")[:, :, :per_cell]
    return Hits(np.take_along_axis(rows, best, axis=2), np.take_along_axis(scores, best, axis=2))


def _shared(
    state: IndexState,
    wanted: Pass,
    searches: Sequence[UserSearch],
    excluded: Sequence[Rows],
    extra: int,
    eligible: Sequence[Eligibility],
) -> list[tuple[Ints, Ints]]:
    """One pass for many users: for each the best rows and the reserve, without the rows which that user excludes."""
    vectors = np.concatenate([search.vectors[wanted.vectors] for search in searches])
    hits = search_cells(state, vectors, wanted.best + wanted.reserve + extra, eligible[0].allowed)
    result = []
    parts = np.split(hits.rows, len(searches)), np.split(hits.scores, len(searches))
    for search, rows_excluded, items, rows, products in zip(searches, excluded, eligible, *parts, strict=True):
        kept = (rows >= 0) & ~np.isin(rows, rows_excluded)
        place = np.cumsum(kept, axis=2)
        scores = wanted.added_scores(search.user)
        if scores is None:
            reserve = kept & (place > wanted.best) & (place <= wanted.best + wanted.reserve)
            result.append((rows[kept & (place <= wanted.best)], rows[reserve]))
            continue
        kept &= place <= wanted.best + wanted.reserve
        cell_of, depth, hits_kept = (
            state.partition.cell_of,
            Depth(wanted.best, wanted.reserve),
            (rows[kept], products[kept]),
        )
        result.append(with_scored_rows(state.catalog, cell_of, search.user, scores, *hits_kept, items, depth))
    return result


def merged_passes(best: Sequence[Ints], reserve: Sequence[Ints]) -> Retrieved:
    """The results of several passes as one: each row once, empty places (−1) dropped."""
    nearest, next_best = _distinct(best), _distinct(reserve)
    if len(best) > 1 and len(nearest):  # a row in one pass's reserve may be among the best of another
        places = np.searchsorted(nearest, next_best)
        next_best = next_best[nearest[np.minimum(places, len(nearest) - 1)] != next_best]
    return Retrieved(nearest, next_best)


def _distinct(parts: Sequence[Ints]) -> Rows:
    rows = np.sort(np.concatenate([np.array([-1]), *(rows.reshape(-1) for rows in parts)]))
    return rows[1:][rows[1:] > rows[:-1]].astype(np.intp)
