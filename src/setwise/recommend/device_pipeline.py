"""Requests on a device: candidates, their sub-problems and swap search for many queries at once.

A gpu index answers a query here if nothing of it needs the processor: the default ranker, no pinned items, limits,
added scores or budget, no bound over cells, and more eligible items than are ranked. pipeline.py answers all others. A
catalogue too large for cells is bounded on the device (bounds/catalog/device_bound.py). Candidates
are the same (device_candidates.py); the search makes the same moves from the same start items, all climbs at once
(ranking/device_swap.py). Values and rewards are recomputed from the catalogue, in float64, on the processor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from setwise._types import Mask, Rows
from setwise.bounds.catalog.device_bound import DeviceBound
from setwise.model.batch_objective import many_arguments
from setwise.model.rewards import evaluate
from setwise.ranking import DEFAULT
from setwise.ranking.device_instances import instances
from setwise.ranking.device_swap import swap
from setwise.recommend.device_candidates import NO_ROW, Depths, candidates
from setwise.recommend.query import Query
from setwise.recommend.slate import Slate, proves
from setwise.retrieval.backends.gpu import GPU, memory_errors
from setwise.retrieval.device_catalog import DeviceCatalog
from setwise.retrieval.index_state import IndexState

if TYPE_CHECKING:
    from setwise.retrieval import Index

MOST_EXCLUDED = 32  # of one cell: as many more rows of every cell are fetched
LEAST_BOUNDED = 20_000_000  # items from which bounds are those of the device: cells would take hours to build
MOST_K = 64  # the search holds k² m values for each climb
_WEIGHTS = 1 << 26  # weights among candidates that are held at a time
_NO_ROWS: Rows = np.empty(0, np.intp)


@dataclass(frozen=True, eq=False)
class DeviceRequests:
    """What requests on the device read: an index there, and the most candidates."""

    state: IndexState
    backend: GPU
    catalog: DeviceCatalog
    most: int

    @classmethod
    def of(cls, index: Index, most: int) -> DeviceRequests | None:
        """For an index of the backend gpu with room for queries and keys, and without added items; else None."""
        state = index.state
        if not isinstance(state.neighbors, GPU) or state.overflow is not None:
            return None
        catalog = state.neighbors.on_device(state.catalog)
        return None if catalog is None else cls(state, state.neighbors, catalog, most)

    def answers(self, query: Query) -> bool:
        """Whether the query can be answered on the device."""
        free = not ((query.certify and not self.bounds) or query.limits or len(query.include) or query.required)
        plain = query.ranker is DEFAULT and query.budget_ms is None and query.user.scores is None
        return free and plain and query.k <= min(MOST_K, self.most // 2) and query.eligible.count > self.most

    @property
    def bounds(self) -> bool:
        """Whether upper bounds are computed on the device, and not over cells."""
        return len(self.state.catalog) >= LEAST_BOUNDED

    @cached_property
    def bound(self) -> DeviceBound:
        """What the upper bounds need of every item."""
        return DeviceBound.of(self.catalog)

    def run(self, queries: Sequence[Query]) -> list[Slate]:
        """The slates of queries with one k, each of which ``answers`` admits; each is charged its share of the time."""
        k = queries[0].k
        rows, filled = np.empty((len(queries), k), np.intp), np.empty((len(queries), k), bool)
        seconds = np.zeros(2)
        with memory_errors(self.catalog.device):
            for some, excluded, extra, mask in self._sharing(queries):
                users = [queries[at].user for at in some]
                began = time.perf_counter()
                depths = Depths.of(k, self.most, self.catalog.heads, self.state.partition.n_cells)
                found = candidates(self.backend, self.catalog, users, excluded, extra, mask, depths)
                self._wait()
                between = time.perf_counter()
                rows[some], filled[some] = self._ranked(queries, some, found, k)
                seconds += between - began, time.perf_counter() - between
            began = time.perf_counter()
            upper = [self.bound.upper(one.user, k) if one.certify else math.inf for one in queries]
            certify = 1000 * (time.perf_counter() - began) / len(queries)
        retrieve, rank = (1000 * seconds / len(queries)).tolist()
        return valued_many(queries, rows, filled, upper, {"retrieve": retrieve, "rank": rank, "certify": certify})

    def _sharing(self, queries: Sequence[Query]) -> Iterator[tuple[list[int], list[Rows], int, Mask | None]]:
        """Queries that share a pass: their numbers, the rows that each excludes, the most of these in a cell, a mask.

        A query that excludes many rows of one cell has a pass and a mask of its own.
        """
        groups: dict[int, list[int]] = {}
        most = [self._most_in_a_cell(query.eligible.excluded) for query in queries]
        for at, query in enumerate(queries):
            if most[at] > MOST_EXCLUDED:
                yield [at], [_NO_ROWS], 0, query.eligible.mask
            else:
                groups.setdefault(id(query.eligible.allowed), []).append(at)
        for some in groups.values():
            excluded = [queries[at].eligible.excluded for at in some]
            yield some, excluded, max(most[at] for at in some), queries[some[0]].eligible.allowed

    def _most_in_a_cell(self, rows: Rows) -> int:
        return int(np.bincount(self.state.partition.cell_of[rows]).max()) if len(rows) else 0

    def _wait(self) -> None:
        """Wait for the device, so that the time is that of the phase."""
        if self.catalog.device.type == "cuda":
            torch.cuda.synchronize(self.catalog.device)

    def _ranked(self, queries: Sequence[Query], some: list[int], found: torch.Tensor, k: int) -> tuple[Rows, Mask]:
        """The rows (B, k) of the best sets among the candidates found (B, m), and which of the k are used."""
        held, result = found < NO_ROW, []
        users = self.catalog.users([queries[at].user for at in some])
        step = max(1, _WEIGHTS // (self.catalog.heads * found.shape[1] ** 2))
        for first in range(0, len(some), step):
            part = slice(first, first + step)
            rows = torch.where(held[part], found[part], 0)
            best = swap(instances(self.catalog, rows, held[part], users.part(part)), k)
            result.append(torch.where(best.filled, torch.take_along_dim(rows, best.members, 1), -1))
        both = torch.cat(result).cpu().numpy()
        return np.maximum(both, 0), both >= 0


def valued_many(
    queries: Sequence[Query], rows: Rows, filled: Mask, upper: Sequence[float], timings: Mapping[str, float]
) -> list[Slate]:
    """The slates of sets ``rows`` (B, k), of which the ``filled`` are used, valued in float64 all at once."""
    catalog = queries[0].catalog
    heads = np.stack([query.user.heads for query in queries])
    base = None
    if catalog.base is not None:
        none = np.zeros(catalog.base.shape[1])
        base = np.stack([none if query.user.base is None else query.user.base for query in queries])
    argument = many_arguments(catalog, heads, base, rows, filled)
    reward = evaluate(catalog.rewards, catalog.reward_class[rows].reshape(-1), argument.reshape(-1)).reshape(rows.shape)
    order = np.lexsort((rows, -reward, ~filled), axis=1)  # best first, unused places last
    rows, reward = np.take_along_axis(rows, order, 1), np.take_along_axis(reward, order, 1)
    result = []
    sizes = filled.sum(axis=1).tolist()
    for query, own, gained, size, above in zip(queries, rows, reward, sizes, upper, strict=True):
        value, bound = float(gained[:size].sum()), max(above, float(gained[:size].sum()))
        proven = proves(query, own[:size], gained[:size], bound)
        result.append(Slate(query, own[:size], value, gained[:size], bound, proven, dict(timings)))
    return result
