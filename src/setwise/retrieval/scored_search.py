"""Phase One for a user with added scores: the best of every cell by x_i · y + t_i, whatever the backend.

A backend knows the vectors x_i, not the numbers t_i of one request (model/added_scores.py). There are two ways.

*Dense* t: one matrix–vector product has all totals, and one pass selects the best of every cell.

*Sparse* t, equal to ``rest`` but for the rows R: the best p of a cell by total score are among (a) the backend's best p
of the cell and (b) R. *Proof.* Let i ∉ R be among the best p by total score. An item j with x_j · y > x_i · y that is
not in R, or has t_j ≥ rest, has a larger total score; there are fewer than p of these. So if rows with t_j < rest are
left out of the backend's search, i is among its best p.  ∎   These rows are in R, so nothing is lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Floats32, Mask, Rows
from setwise.model import objective
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User
from setwise.retrieval.backends.protocol import Hits, by_cell, exponent

_MOST_SPARSE = 1 / 8  # of all items; with more rows the dense way is faster
_ALL_ELIGIBLE = np.zeros(0, np.bool_)  # compiled code reads an empty mask as no restriction


class CellOrder(NamedTuple):
    """The rows sorted by cell: those of cell c are order[start[c] : start[c + 1]]."""

    order: Any
    start: Any


def is_sparse(scores: AddedScores) -> bool:
    """Whether few items have a score of their own."""
    return scores.rows is not None and len(scores.rows) <= _MOST_SPARSE * scores.n


def search_dense(catalog: Catalog, cells: CellOrder, user: User, per_cell: int, eligible: Mask | None) -> Hits:
    """The best of every cell by total score: rows (1, C, per_cell)."""
    from setwise.retrieval.score_kernels import best_of_cells  # compiled: imported when first needed

    hits = Hits.none(1, len(cells.start) - 1, per_cell)
    scores = np.full(hits.rows.shape[1:], -np.inf)
    mask = _ALL_ELIGIBLE if eligible is None else np.ascontiguousarray(eligible)
    best_of_cells(cells.order, cells.start, total_scores(catalog, user), mask, scores, hits.rows[0])
    return Hits(hits.rows, scores[None].astype(np.float32))


def warm_up_added_scores() -> None:
    """Compile what a search with dense scores calls."""
    from setwise.retrieval.score_kernels import best_of_cells

    order, start = by_cell(np.zeros(1, np.int32), 1)
    best_of_cells(order, start, np.zeros(1), _ALL_ELIGIBLE, np.zeros((1, 1)), np.zeros((1, 1), np.int64))


def total_scores(catalog: Catalog, user: User) -> Floats:
    """x_i · y + t_i of all items: (n,). The products are of the catalogue's precision."""
    y, heads = _exact_vector(user), catalog.value.reshape(len(catalog), -1)
    scale = exponent(y)
    small = np.ldexp(y, -scale).astype(heads.dtype)
    product = heads @ small[: heads.shape[1]]
    if catalog.base is not None:
        product = product + catalog.base @ small[heads.shape[1] :]
    total: Floats = np.ldexp(product.astype(np.float64), scale)
    if user.scores is not None:
        total += user.scores.whole()
    return total


def _exact_vector(user: User) -> Floats:
    """The user's vector (u^1, …, u^H, u⁰), not scaled: (D,)."""
    heads = user.heads.reshape(-1)
    return heads if user.base is None else np.append(heads, user.base)


def lower_rows(scores: AddedScores | None) -> Rows:
    """The rows that a backend's search must leave out: those whose score is below that of the rest."""
    if scores is None or scores.rows is None:
        return np.empty(0, np.intp)
    return scores.rows[scores.values < scores.rest]


def all_scored(scores: AddedScores, eligible: Eligibility) -> bool:
    """Whether every eligible row has a score of its own: a backend's search would find no other."""
    return scores.rows is not None and eligible.count == int(np.count_nonzero(eligible.admits(scores.rows)))


def with_scored_rows(
    catalog: Catalog, cell_of: Any, user: User, scores: AddedScores, found: Rows, products: Floats32,
    eligible: Eligibility, best: int, reserve: int,
) -> tuple[Rows, Rows]:  # fmt: skip
    """The best rows of every cell by total score, and the next ``reserve``, among those found and those with a score.

    ``found`` are rows of a backend's search, each once, and ``products`` their x_i · y for the scaled user vector.
    """
    scored = np.arange(scores.n) if scores.rows is None else scores.rows
    named = np.setdiff1d(scored[eligible.admits(scored)], found, assume_unique=True)
    own, _ = objective.scores(catalog, user, named, None)
    of_named = own.sum(axis=0) + objective.base_scores(catalog, user, named)
    of_found = np.ldexp(products.astype(np.float64), exponent(_exact_vector(user))) + scores.of(found)
    rows = np.concatenate([found, named])
    return _split(rows, np.concatenate([of_found, of_named]), cell_of[rows], best, reserve)


def _split(rows: Rows, total: Floats, cell: Any, best: int, reserve: int) -> tuple[Rows, Rows]:
    """Of each cell's rows the ``best`` and the next ``reserve`` by total score."""
    order = np.lexsort((rows, -total, cell))
    sorted_cell = cell[order]
    place = np.arange(len(order)) - np.searchsorted(sorted_cell, sorted_cell)
    return rows[order[place < best]], rows[order[(place >= best) & (place < best + reserve)]]
