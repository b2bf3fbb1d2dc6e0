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

from setwise._types import Floats, Floats32, Ints, Mask, Rows
from setwise._validation import read_only
from setwise.model import objective
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User
from setwise.retrieval.backends.protocol import by_cell, exponent

_MOST_SPARSE = 1 / 8  # of all items; with more rows the dense way is faster
_ALL_ELIGIBLE = np.zeros(0, np.bool_)  # compiled code reads an empty mask as no restriction


class CellOrder(NamedTuple):
    """The rows sorted by cell: those of cell c are order[start[c] : start[c + 1]]."""

    order: Ints
    start: Ints


class Depth(NamedTuple):
    """How many rows of each cell are wanted: the best, and the next ones."""

    best: int
    reserve: int


def is_sparse(scores: AddedScores) -> bool:
    """Whether few items have a score of their own."""
    return scores.rows is not None and len(scores.rows) <= _MOST_SPARSE * scores.n


def lower_rows(scores: AddedScores | None) -> Rows:
    """The rows that a backend's search must leave out: those whose score is below that of the rest."""
    if scores is None or scores.rows is None:
        return np.empty(0, np.intp)
    return scores.rows[scores.values < scores.rest]


def all_scored(scores: AddedScores, eligible: Eligibility) -> bool:
    """Whether every eligible row has a score of its own: a backend's search would find no other."""
    return scores.rows is not None and eligible.count == int(np.count_nonzero(eligible.admits(scores.rows)))


def search_dense(
    catalog: Catalog, cells: CellOrder, user: User, scores: AddedScores, depth: Depth, eligible: Mask | None
) -> tuple[Ints, Ints]:
    """The best rows of every cell by total score, and the reserve; −1 in empty places."""
    rows, _ = best_by_total(catalog, cells, user, scores, sum(depth), eligible)
    return rows[:, : depth.best], rows[:, depth.best :]


def best_by_total(
    catalog: Catalog, cells: CellOrder, user: User, scores: AddedScores, count: int, eligible: Mask | None
) -> tuple[Ints, Floats]:
    """The best rows of every cell by total score, −1 in empty places, and these scores: (C, count)."""
    y = _exact_vector(user)
    heads, scale = catalog.value.reshape(len(catalog), -1), exponent(y)
    small = np.ldexp(y, -scale).astype(heads.dtype)
    product = heads @ small[: heads.shape[1]]
    if catalog.base is not None:
        product += catalog.base @ small[heads.shape[1] :]
    mask = _ALL_ELIGIBLE if eligible is None else np.ascontiguousarray(eligible)
    return _selected(cells, product.astype(np.float32, copy=False), 2.0**scale, scores.whole(), mask, count)


def with_scored_rows(
    catalog: Catalog, cell_of: Any, user: User, scores: AddedScores, found: Rows, products: Floats32,
    eligible: Eligibility, depth: Depth,
) -> tuple[Ints, Ints]:  # fmt: skip
    """The best rows of every cell by total score, and the reserve, among those found and those with a score.

    ``found`` are rows of a backend's search, each once, and ``products`` their x_i · y for the scaled user vector.
    """
    scored = np.arange(scores.n) if scores.rows is None else scores.rows
    known = np.zeros(scores.n, bool)
    known[found] = True
    named = scored[eligible.admits(scored) & ~known[scored]]
    rows, scale = np.concatenate([found, named]), 2.0 ** exponent(_exact_vector(user))
    own, _ = objective.scores(catalog, user, named, None)
    of_named = own.sum(axis=0) + objective.base_scores(catalog, user.with_scores(None), named)
    product = np.concatenate([products, (of_named / scale).astype(np.float32)])
    cells = cell_of[rows]
    order, start = by_cell(cells, int(cells.max(initial=-1)) + 1)
    places, _ = _selected(CellOrder(order, start), product, scale, scores.of(rows), _ALL_ELIGIBLE, sum(depth))
    best, reserve = (part[part >= 0] for part in (places[:, : depth.best], places[:, depth.best :]))
    return rows[best], rows[reserve]


def warm_up_scored_search() -> None:
    """Compile what a search with added scores calls."""
    order = CellOrder(*by_cell(np.zeros(1, np.int32), 1))
    _selected(order, np.zeros(1, np.float32), 1.0, np.zeros(1), _ALL_ELIGIBLE, 2)


def _selected(
    cells: CellOrder, product: Floats32, scale: float, added: Floats, eligible: Mask, count: int
) -> tuple[Ints, Floats]:
    from setwise.retrieval.score_kernels import best_of_cells  # compiled: imported when first needed

    rows = np.full((len(cells.start) - 1, count), -1, np.int64)
    totals = np.full(rows.shape, -np.inf)
    if rows.size:
        parts = (read_only(part) for part in (*cells, product, added, eligible))
        best_of_cells(*parts, scale, totals, rows)
    return rows, totals


def _exact_vector(user: User) -> Floats:
    """The user's vector (u^1, …, u^H, u⁰), not scaled: (D,)."""
    heads = user.heads.reshape(-1)
    return heads if user.base is None else np.append(heads, user.base)
