"""Phase One of a request: the candidates to rank.

Phase One ranks items by score, which is what they contribute to other items. It does not see their own
reward in a slate: the best items of every cell by score may lack the best partners of the top-scoring item, the
*anchor*. So the pass over the catalogue also returns a reserve, and the items of it that form the best pairs with the
anchor become candidates as well (``retrieval/partners.py``; docs/evidence/results.md, Reach, has measurements).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise.kernels import preparation
from setwise.kernels.parts import Part
from setwise.model import objective
from setwise.model.alone import best_alone
from setwise.recommend.effort import PARTNERS, PER_HEAD, Effort, reserve_per_cell
from setwise.recommend.lower_limits import Variety, with_required, with_varied
from setwise.recommend.query import Query
from setwise.recommend.sum_candidates import feasible_of_all, within_sums
from setwise.retrieval import Index
from setwise.retrieval.index_state import Retrieved
from setwise.retrieval.partners import best_partners

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.reader import CatalogReader
    from setwise.recommend.device_pipeline import DeviceRequests


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What requests read: an index at one moment, cell bounds if bounds are requested, and the most candidates.

    The cells of ``cell_bounds`` are finer than those of the index. A front of a cluster has a reader in their place.
    ``code`` is what bounds need of the compiled code: until it is there, requests are answered without a bound.
    """

    index: Index
    cell_bounds: CellBounds | CatalogReader | None
    most_candidates: int
    device: DeviceRequests | None = None  # answers the queries that need no processor, for an index on a GPU
    code: tuple[Part, ...] = ()

    @property
    def bounds(self) -> bool:
        """Whether there is a bound over all items, over cells or on the device."""
        return self.cell_bounds is not None or (self.device is not None and self.device.bounds)

    @property
    def can_bound(self) -> bool:
        """Whether the code of bounds is compiled and loaded."""
        return preparation.is_ready(self.code)

    def effort(self, query: Query) -> Effort:
        """What the query's budget affords."""
        return Effort.of(query, self.most_candidates, self.index.partition.n_cells)


def device_requests(index: Index, most: int) -> DeviceRequests | None:
    """What answers queries of this index on its device; None where it has none."""
    if not hasattr(index.state.neighbors, "on_device"):
        return None
    from setwise.recommend.device_pipeline import DeviceRequests  # loads torch, as the backend did

    return DeviceRequests.of(index, most)


class Candidates(NamedTuple):
    """The rows to rank; ``complete`` when they are all eligible items."""

    rows: Rows
    complete: bool


@dataclass(frozen=True, eq=False)
class Choice:
    """What is ranked for one request: the candidates, the query about their catalogue, and what bounds read."""

    query: Query
    snapshot: Snapshot
    candidates: Candidates

    def varied(self) -> Choice | None:
        """With items of other values of the limited attributes, where the candidates hold no feasible set."""
        query, rows = self.query, self.candidates.rows
        variety = Variety.of(query.limits, query.required, len(query.include), self.snapshot.most_candidates)
        more = with_varied(rows, query.required, query.catalog, query.user, variety)
        if query.sums and not self.candidates.complete:
            more = np.union1d(more, feasible_of_all(query)).astype(np.intp)
        if self.candidates.complete or len(more) == len(rows):
            return None
        return replace(self, candidates=Candidates(more, False))

    def settled(self, rows: Rows) -> tuple[Query, Rows]:
        """The query of the answer, and the rows of its set."""
        return self.query, rows


def retrieve(query: Query, snapshot: Snapshot) -> Candidates:
    """The best items of every cell, by total score and by each head, and the best partners of the anchor."""
    effort = snapshot.effort(query)
    if query.eligible.count <= effort.candidates:
        return Candidates(query.eligible.rows, True)
    retrieved = _found(query, snapshot.index, effort)
    if len(retrieved.best) < query.k and effort.per_cell < query.k:  # the eligible items are in few cells
        retrieved = _found(query, snapshot.index, replace(effort, per_cell=query.k))
    return chosen(query, retrieved, snapshot)


def _found(query: Query, index: Index, effort: Effort) -> Retrieved:
    return index.retrieve(
        query.user,
        effort.per_cell,
        query.eligible,
        per_head(query, effort),
        reserve(query, index.partition.n_cells, effort),
    )


def retrieve_many(queries: Sequence[Query], snapshot: Snapshot) -> Sequence[Candidates | Retrieved]:
    """``retrieve`` for queries with one k, one ranker and one filter, in one pass.

    For most queries it returns only what the pass found: ``chosen`` takes the candidates from it.
    """
    full = Effort(snapshot.most_candidates, queries[0].k, True, True)
    small = any(replace(snapshot.effort(query), in_turns=True) != full for query in queries)
    if small or len(queries) == 1:
        return [retrieve(query, snapshot) for query in queries]
    complete = [query.eligible.count <= snapshot.most_candidates for query in queries]
    searched = [query for query, is_complete in zip(queries, complete, strict=True) if not is_complete]
    retrieved: Iterator[Retrieved] = iter(())
    if searched:
        first, index, effort = searched[0], snapshot.index, snapshot.effort(searched[0])
        users, eligible = [query.user for query in searched], [query.eligible for query in searched]
        more = reserve(first, index.partition.n_cells, effort)
        retrieved = iter(index.retrieve_many(users, first.k, eligible, per_head(first, effort), more))
    return [
        Candidates(query.eligible.rows, True) if is_complete else next(retrieved)
        for query, is_complete in zip(queries, complete, strict=True)
    ]


class Measures(Protocol):
    """What candidates are chosen by."""

    def scores(self, rows: Rows) -> tuple[Floats, Floats]:
        """Total scores (m,) and scores by head (H, m) of these rows."""
        ...

    def cells(self, rows: Rows) -> NDArray[np.int32]:
        """The cells of these rows."""
        ...

    def partners(self, anchor: int, rows: Rows, most: int) -> Rows:
        """At most ``most`` of ``rows``: those that make the best pairs with the ``anchor``, best first."""
        ...


@dataclass(frozen=True, eq=False)
class _LocalMeasures:
    """Measures of rows of an index."""

    query: Query
    index: Index

    def scores(self, rows: Rows) -> tuple[Floats, Floats]:
        score, _ = objective.scores(self.query.catalog, self.query.user, rows, None)
        return score.sum(axis=0) + objective.base_scores(self.query.catalog, self.query.user, rows), score

    def cells(self, rows: Rows) -> NDArray[np.int32]:
        return self.index.cell_of[rows]

    def partners(self, anchor: int, rows: Rows, most: int) -> Rows:
        return best_partners(self.query.catalog, self.query.user, anchor, rows, most)


def chosen(
    query: Query, retrieved: Candidates | Retrieved, snapshot: Snapshot, measures: Measures | None = None
) -> Candidates:
    """The candidates among what a search found; ``measures`` are those of the snapshot's index unless given."""
    if isinstance(retrieved, Candidates):
        return retrieved
    effort = snapshot.effort(query)
    measures = _LocalMeasures(query, snapshot.index) if measures is None else measures
    if effort.candidates == 0:
        total, _ = measures.scores(retrieved.best)
        return Candidates(np.sort(retrieved.best[np.lexsort((retrieved.best, -total))[: query.k]]), False)
    return Candidates(_chosen(retrieved, query, measures, effort), False)


def per_head(query: Query, effort: Effort) -> int:
    """How many items of each cell are retrieved by every head alone."""
    return PER_HEAD if query.catalog.heads > 1 and effort.with_partners else 0


def reserve(query: Query, cells: int, effort: Effort) -> int:
    """How many more items of each cell are valued beside the anchor."""
    if not query.ranker.uses_attention or not effort.with_partners:
        return 0
    return reserve_per_cell(query.k, query.catalog.heads, cells)


def _chosen(retrieved: Retrieved, query: Query, measures: Measures, effort: Effort) -> Rows:
    """The most promising of the rows found, best partners from the reserve, and the pinned items."""
    most = effort.candidates
    partners = int(PARTNERS * most) if len(retrieved.reserve) else 0
    rows, base = retrieved.best, most // 2 if query.sums or query.user.weights is not None else most
    if len(rows) > base - partners:
        rows = _promising(rows, max(base - partners, query.k), measures)
    if partners:
        remaining = np.concatenate([np.setdiff1d(retrieved.best, rows, assume_unique=True), retrieved.reserve])
        total, _ = measures.scores(rows)
        anchor = int(rows[np.argmax(total)])
        rows = np.concatenate([rows, measures.partners(anchor, remaining, partners)])
    if query.ranker.by_reward_alone or query.user.weights is not None:
        rows = np.union1d(rows, best_alone(query.catalog, query.user, query.eligible.rows, max(most // 2, query.k)))
    rows = np.union1d(rows, query.include).astype(np.intp)
    if query.sums:
        rows = np.union1d(rows, within_sums(query, most // 2)).astype(np.intp)
    return with_required(rows, query.required, query.catalog, query.user, most)


def _promising(rows: Rows, most: int, measures: Measures) -> Rows:
    """The best item of each cell, then the items of best rank by total score or in some head."""
    total, by_head = measures.scores(rows)
    orders = [total, *(score for score in by_head if not np.array_equal(score, total))]  # one head alone is the total
    ranks = np.empty((len(orders), len(rows)), np.intp)
    for order_ranks, score in zip(ranks, orders, strict=True):
        order_ranks[np.argsort(-score, kind="stable")] = np.arange(len(rows))
    best_rank = ranks.min(axis=0)
    cells = measures.cells(rows)
    by_cell = np.lexsort((-total, cells))
    cell = cells[by_cell]
    best_rank[by_cell[np.r_[True, cell[1:] != cell[:-1]]]] = -1
    return np.sort(rows[np.lexsort((-total, best_rank))[:most]])
