"""Requests on a device: candidates, their sub-problems and swap search for many queries at once.

A gpu index answers a query here if nothing of it needs the processor: the default ranker, no pinned items, limits or
added scores, no budget below the time of a pass, and more eligible items than are ranked. pipeline.py answers all
others, and bounds and values what is found here. A catalogue too large for cells is bounded on the device
(bounds/catalog/device_bound.py). Candidates are the same (device_candidates.py); the search makes the same moves from
the same start items, all climbs at once (ranking/device_swap.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from setwise._types import Mask, Rows
from setwise.bounds.catalog.device_bound import DeviceBound
from setwise.model.users import User
from setwise.ranking import DEFAULT
from setwise.ranking.device_instances import instances
from setwise.ranking.device_swap import swap
from setwise.recommend.device_candidates import NO_ROW, Depths, candidates
from setwise.recommend.query import Query
from setwise.retrieval.backends.gpu import GPU, memory_errors
from setwise.retrieval.device_catalog import DeviceCatalog
from setwise.retrieval.index_state import IndexState

if TYPE_CHECKING:
    from setwise.retrieval import Index

MOST_EXCLUDED = 32  # of one cell: as many more rows of every cell are fetched
LEAST_BOUNDED = 20_000_000  # items from which bounds are those of the device: cells would take hours to build
MARGIN = 1.5  # a budget is enough if it is this many times the time of a pass: the answer is valued, too
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
    _pass_ms: dict[int, float] = field(default_factory=dict)  # by k

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
        free = not (query.limits or len(query.include) or query.required)
        plain = query.ranker is DEFAULT and query.user.scores is None and query.user.weights is None
        if not (free and plain and query.k <= min(MOST_K, self.most // 2) and query.eligible.count > self.most):
            return False
        return query.budget_ms is None or MARGIN * self.pass_ms(query) <= query.budget_ms

    @property
    def bounds(self) -> bool:
        """Whether upper bounds are computed on the device, and not over cells."""
        return len(self.state.catalog) >= LEAST_BOUNDED

    @cached_property
    def bound(self) -> DeviceBound:
        """What the upper bounds need of every item."""
        return DeviceBound.of(self.catalog)

    def pass_ms(self, query: Query) -> float:
        """About how many milliseconds a query of this k takes here, measured when that is first asked for."""
        if query.k not in self._pass_ms:
            for _ in range(2):  # the first pass may compile, and does not count
                began = time.perf_counter()
                self.ranked([query])
                self._pass_ms[query.k] = 1000 * (time.perf_counter() - began)
        return self._pass_ms[query.k]

    def upper(self, query: Query) -> float:
        """F(S) is at most this for every set S that the query allows."""
        with memory_errors(self.catalog.device):
            return self.bound.upper(query.user, query.k)

    def ranked(self, queries: Sequence[Query]) -> tuple[Rows, Mask, dict[str, float]]:
        """The sets of queries with one k, each of which ``answers`` admits: rows (B, k), and which of them are used.

        With them comes the share of each query in the milliseconds of every phase.
        """
        k = queries[0].k
        rows, filled = np.empty((len(queries), k), np.intp), np.empty((len(queries), k), bool)
        seconds = np.zeros(2)
        with memory_errors(self.catalog.device):
            for numbers, excluded, extra, mask in self._sharing(queries):
                users = [queries[at].user for at in numbers]
                began = time.perf_counter()
                depths = Depths.of(k, self.most, self.catalog.heads, self.state.partition.n_cells)
                places = candidates(self.backend, self.catalog, users, excluded, extra, mask, depths)
                self._wait()
                between = time.perf_counter()
                rows[numbers], filled[numbers] = self._swapped(users, places, k)
                seconds += between - began, time.perf_counter() - between
        retrieve, rank = (1000 * seconds / len(queries)).tolist()
        return rows, filled, {"retrieve": retrieve, "rank": rank}

    def _sharing(self, queries: Sequence[Query]) -> Iterator[tuple[list[int], list[Rows], int, Mask | None]]:
        """Queries that share a pass: their numbers, the rows that each excludes, the most of these in a cell, a mask.

        A query that excludes many rows of one cell has a pass and a mask of its own.
        """
        groups: dict[int, list[int]] = {}
        cells = [self.state.partition.cell_of[query.eligible.excluded] for query in queries]
        most = [int(np.bincount(cells_of_excluded, minlength=1).max()) for cells_of_excluded in cells]
        for at, query in enumerate(queries):
            if most[at] > MOST_EXCLUDED:
                yield [at], [_NO_ROWS], 0, query.eligible.mask
            else:
                groups.setdefault(id(query.eligible.allowed), []).append(at)
        for members in groups.values():
            excluded = [queries[at].eligible.excluded for at in members]
            yield members, excluded, max(most[at] for at in members), queries[members[0]].eligible.allowed

    def _wait(self) -> None:
        """Wait for the device, so that the time is that of the phase."""
        if self.catalog.device.type == "cuda":
            torch.cuda.synchronize(self.catalog.device)

    def _swapped(self, users: list[User], places: torch.Tensor, k: int) -> tuple[Rows, Mask]:
        """The rows (B, k) of the best sets among the candidates (B, m) of each user, and which of the k are used."""
        held, parts = places < NO_ROW, []
        on_device = self.catalog.users(users)
        step = max(1, _WEIGHTS // (self.catalog.heads * places.shape[1] ** 2))
        for first in range(0, len(users), step):
            part = slice(first, first + step)
            rows = torch.where(held[part], places[part], 0)
            best = swap(instances(self.catalog, rows, held[part], on_device.part(part)), k)
            parts.append(torch.where(best.filled, torch.take_along_dim(rows, best.members, 1), -1))
        members = torch.cat(parts).cpu().numpy()
        return np.maximum(members, 0), members >= 0
