"""Phase One of many requests on a device: the candidates of retrieve.py, chosen where the pass leaves its rows.

A pass returns k + r rows of each of C cells: at 1,024 cells some 16,000 rows a user. Only the rows that are ranked,
400, leave this file. They are those of ``retrieve.py``, step by step: best rows and reserve, most promising rows,
anchor, best partners. Scores are in float64, so only items that tie up to rounding may be exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from setwise._types import Mask, Rows
from setwise.model.users import User
from setwise.recommend.effort import PARTNERS, PER_HEAD, reserve_per_cell
from setwise.retrieval.backends.gpu import GPU
from setwise.retrieval.device_catalog import DeviceCatalog, DeviceUsers
from setwise.retrieval.index_state import search_vectors_of

NO_ROW = 1 << 40  # more than any row: empty places are sorted to the end
_ROWS_TOGETHER = 1 << 20  # rows whose vectors are read at a time


class Depths(NamedTuple):
    """How many rows are taken: of each cell by total score, in reserve, by each head alone; and candidates in all."""

    best: int
    reserve: int
    per_head: int
    most: int

    @classmethod
    def of(cls, k: int, most: int, heads: int, cells: int) -> Depths:
        """As retrieve.py has them for a query without a budget."""
        return cls(k, reserve_per_cell(k, heads, cells), PER_HEAD if heads > 1 else 0, most)


def candidates(
    backend: GPU,
    catalog: DeviceCatalog,
    users: Sequence[User],
    excluded: Sequence[Rows],
    extra: int,
    allowed: Mask | None,
    depths: Depths,
) -> torch.Tensor:
    """The rows to rank, (B, most) ascending, ``NO_ROW`` in empty places.

    ``extra`` is the most rows of one cell that a user excludes; ``allowed`` the mask that all users share.
    """
    largest = int(catalog.layout.block_start.diff().max()) * 32  # no cell has more rows
    vectors = [search_vectors_of(user, depths.per_head > 0) for user in users]
    count = min(depths.best + depths.reserve + extra, largest)
    total = backend.rows_on_device(np.concatenate([vector[:1] for vector in vectors]), count, allowed)
    left_out = _padded(excluded, catalog.device)
    best, reserve = _best_and_reserve(total, left_out, depths.best, depths.reserve)
    parts = [(best, 0), (reserve, 1)]
    if depths.per_head:
        by_head = backend.rows_on_device(
            np.concatenate([vector[1:] for vector in vectors]), min(depths.per_head + extra, largest), allowed
        )
        own = by_head.reshape(len(users), -1, by_head.shape[2])
        parts.append((_best_and_reserve(own, left_out, depths.per_head, 0)[0], 0))
    rows, in_reserve = _distinct(parts)
    asked = catalog.users(list(users))
    step = max(1, _ROWS_TOGETHER // rows.shape[1])
    pieces = (slice(first, first + step) for first in range(0, len(rows), step))
    return torch.cat([chosen(catalog, rows[piece], in_reserve[piece], asked.part(piece), depths) for piece in pieces])


def _padded(excluded: Sequence[Rows], device: torch.device) -> torch.Tensor:
    """The rows that each user excludes, ascending: (B, most of them), ``NO_ROW`` at the end."""
    width = max((len(rows) for rows in excluded), default=0)
    result = np.full((len(excluded), width), NO_ROW)
    for mask, rows in zip(result, excluded, strict=True):
        mask[: len(rows)] = rows
    return torch.from_numpy(result).to(device)


def _best_and_reserve(
    rows: torch.Tensor, excluded: torch.Tensor, best: int, reserve: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first ``best`` rows of each cell (B, C, ·) that are not excluded, and the next ``reserve``; −1 elsewhere."""
    kept = rows >= 0
    if excluded.shape[1]:
        flat = rows.reshape(len(rows), -1)
        at = torch.searchsorted(excluded, flat).clamp_max(excluded.shape[1] - 1)
        kept &= (torch.take_along_dim(excluded, at, 1) != flat).reshape(rows.shape)
        place = torch.cumsum(kept, 2)
        first = kept & (place <= best)
        later = kept & (place > best) & (place <= best + reserve)
        return torch.where(first, rows, -1), torch.where(later, rows, -1)
    return rows[:, :, :best], rows[:, :, best : best + reserve]


def _distinct(parts: Sequence[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """All rows ascending, (B, N), each once, and whether each is of the reserve alone; ``NO_ROW`` in empty places."""
    marked = [2 * rows.reshape(len(rows), -1) + reserve for rows, reserve in parts]
    both = torch.cat(marked, 1)
    both = torch.sort(torch.where(both < 0, 2 * NO_ROW, both), 1).values
    rows = both >> 1
    if len(parts) > 2:
        again = torch.zeros_like(rows, dtype=torch.bool)
        again[:, 1:] = rows[:, 1:] == rows[:, :-1]
        rows = torch.where(again, NO_ROW, rows)
    return rows, (both & 1).bool() & (rows < NO_ROW)


def chosen(
    catalog: DeviceCatalog, rows: torch.Tensor, in_reserve: torch.Tensor, users: DeviceUsers, depths: Depths
) -> torch.Tensor:
    """The most promising of the rows, and the best partners of the anchor among the others: (B, most), ascending."""
    held = rows < NO_ROW
    best, at = held & ~in_reserve, torch.where(held, rows, 0)
    score, base = catalog.scores(at, users)
    total = torch.where(best, score.sum(1) + base, -torch.inf)
    partners = int(PARTNERS * depths.most)
    room = torch.where(in_reserve.any(1), max(depths.most - partners, depths.best), depths.most)
    measures = score if catalog.heads > 1 or users.base is not None else score[:, :0]  # one head alone is the total
    order = _by_promise(total, measures, best, catalog.cell_of(at), catalog.layout.cells)
    first = torch.topk(order, min(depths.most, order.shape[1]), dim=1, largest=False)
    taken = (torch.arange(first.indices.shape[1], device=rows.device) < room[:, None]) & (first.values < NO_ROW)
    among = torch.zeros_like(best).scatter_(1, first.indices, taken)
    result = torch.where(taken, torch.take_along_dim(rows, first.indices, 1), NO_ROW)
    if depths.reserve and partners:
        anchor = torch.where(among, total, -torch.inf).argmax(1)
        pair = catalog.pair_values(anchor, at, users, score, base)
        others = ((best & ~among) | in_reserve) & in_reserve.any(1)[:, None]
        beside = torch.topk(torch.where(others, pair, -torch.inf), min(partners, rows.shape[1]), dim=1)
        added = torch.where(beside.values > -torch.inf, torch.take_along_dim(rows, beside.indices, 1), NO_ROW)
        result = torch.cat([result, added], 1)
    return torch.sort(result, 1).values[:, : depths.most]


def _by_promise(
    total: torch.Tensor, score: torch.Tensor, best: torch.Tensor, cell: torch.Tensor, cells: int
) -> torch.Tensor:
    """The order of ``retrieve._promising`` as whole numbers, smallest first: (B, N); ``NO_ROW`` where not ``best``.

    The best row of each cell comes first, then rows by their rank by total score or in some head; ties by total score.
    """
    count = total.shape[1]
    by_total = _ranks(total)
    rank = by_total
    for head in range(score.shape[1]):
        rank = torch.minimum(rank, _ranks(torch.where(best, score[:, head], -torch.inf)))
    of_cell = torch.full((len(total), cells), count, device=total.device)
    of_cell.scatter_reduce_(1, cell, torch.where(best, by_total, count), "amin")
    top_of_cell = by_total == torch.take_along_dim(of_cell, cell, 1)
    key = torch.where(top_of_cell, by_total, (rank + 1) * count + by_total)
    return torch.where(best, key, NO_ROW)


def _ranks(measure: torch.Tensor) -> torch.Tensor:
    """The rank of each entry of its row, 0 for the largest; equal ones in their order."""
    order = torch.sort(measure, dim=1, descending=True, stable=True).indices
    numbers = torch.arange(measure.shape[1], device=measure.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, numbers)
