"""Vectors in the memory of a device, sorted by cell: int8 codes that a pass reads first, and exact rows.

Places are numbered cell after cell. Every cell starts a new *block* of 32 places; places at the end of a cell's last
block may hold no row. For each place there are D int8 codes (padded to W, a multiple of 32), a step s and the exact
float32 row; for each block, with the row v = s q + (v − s q) at each of its places,

    ρ = max ‖v − s q‖        and        ν = max ‖v‖.

A user y is quantised to t p, p being whole numbers of 16 bits in two bytes, p = 256 high + low. The approximate score
s t (q · p) then differs from v · y, summed in float32, by at most

    margin = α ρ + β ν + γ,      α = ‖y‖ + ‖y − t p‖,   β = ‖y − t p‖ + r ‖y‖,   γ = what underflows,

where r bounds the relative rounding of both sums (int8_tiles.py has the same bound for the scan on the processor).
Steps are bfloat16, rounded up before codes are computed from them, so their rounding costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from setwise._types import Floats32
from setwise.errors import TooLarge

BLOCK = 32  # places of a block
_PIECE = 1 << 24  # numbers that are copied to the device at a time
_SMALLEST, _LARGEST = 2.0**-100, 2.0**100  # the largest entries of rows that are not stored as zeros
_SLACK = 1.000001  # covers the rounding of ρ, ν, α and β themselves


class Quantised(NamedTuple):
    """Users as the device reads them: y, p in two bytes, t, and (α, β, γ) of each."""

    vectors: torch.Tensor  # (B, D) float32
    high: torch.Tensor  # (B, W) int8
    low: torch.Tensor  # (B, W) int8
    step: torch.Tensor  # (B,) float32
    margin: torch.Tensor  # (B, 3) float32

    def part(self, users: slice | torch.Tensor) -> Quantised:
        """Some of the users."""
        return Quantised(*(each[users] for each in self))


@dataclass(frozen=True, eq=False)
class DeviceLayout:
    """All arrays of an index on its device; P places in P / 32 blocks."""

    codes: torch.Tensor  # (P, W) int8
    scale: torch.Tensor  # (P,) bfloat16: the step s; −1 where a place holds no row
    error: torch.Tensor  # (P / 32,) float32: ρ
    norm: torch.Tensor  # (P / 32,) float32: ν
    rows: torch.Tensor  # (P, D) float32
    order: torch.Tensor  # (P,) int32: the row at each place; −1 where there is none
    block_start: torch.Tensor  # (C + 1,) int32: the first block of each cell
    count: int  # rows

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.error)

    @property
    def cells(self) -> int:
        """The number of cells, C."""
        return len(self.block_start) - 1

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self.codes.device


def padded_width(width: int) -> int:
    """D rounded up to a multiple of 32, what a matrix unit multiplies at a time."""
    return -(-width // 32) * 32


def needed_bytes(places: int, width: int) -> int:
    """The device memory of a layout."""
    return places * (padded_width(width) + 2 + 4 * width + 4) + places // BLOCK * 8


def places_of_cells(sizes: torch.Tensor) -> torch.Tensor:
    """The first block of each cell, and the number of all blocks: (C + 1,) int64, from the sizes of the cells."""
    return torch.cumsum(torch.cat([sizes.new_zeros(1), (sizes + BLOCK - 1) // BLOCK]), 0)


def sorted_places(cell_of: torch.Tensor, n_cells: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The place of each row, and the first block of each cell: (n,) and (C + 1,) int64; rows of a cell keep order."""
    cells, order = torch.sort(cell_of, stable=True)
    sizes = torch.bincount(cell_of, minlength=n_cells)
    block_start = places_of_cells(sizes)
    start = torch.cumsum(sizes, 0) - sizes
    shift = block_start[:-1] * BLOCK - start
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) + shift[cells.long()]
    return place, block_start


def filled(
    vectors: Floats32, numbers: torch.Tensor | None, place: torch.Tensor, block_start: torch.Tensor
) -> DeviceLayout:
    """The layout of ``vectors`` (n, D), row i at ``place[i]`` with the number ``numbers[i]``, or i if that is None.

    Vectors are read from front to back in pieces, so they may be mapped from a file larger than the host's memory.
    """
    n, width = vectors.shape
    device, places = place.device, int(block_start[-1]) * BLOCK
    empty: Callable[..., torch.Tensor] = lambda *shape, dtype: torch.zeros(shape, dtype=dtype, device=device)  # noqa: E731
    layout = DeviceLayout(
        empty(places, padded_width(width), dtype=torch.int8),
        torch.full((places,), -1.0, dtype=torch.bfloat16, device=device),
        empty(places // BLOCK, dtype=torch.float32),
        empty(places // BLOCK, dtype=torch.float32),
        empty(places, width, dtype=torch.float32),
        torch.full((places,), -1, dtype=torch.int32, device=device),
        block_start.to(torch.int32),
        n,
    )
    for first, rows in _pieces(vectors, device):
        at = place[first : first + len(rows)]
        codes, scale, error, norm = quantised_rows(rows)
        layout.codes[at, :width], layout.scale[at], layout.rows[at] = codes, scale, rows
        own = torch.arange(first, first + len(rows), device=device) if numbers is None else numbers[first:][: len(rows)]
        layout.order[at] = own.to(torch.int32)
        for target, of_rows in ((layout.error, error), (layout.norm, norm)):
            target.scatter_reduce_(0, at // BLOCK, of_rows, "amax")
    return layout


def _pieces(vectors: Floats32, device: torch.device) -> Iterator[tuple[int, torch.Tensor]]:
    """The rows of ``vectors`` on the device, some at a time, with the number of the first.

    They pass through one buffer of page-locked memory, from which a device copies fastest.
    """
    n, width = vectors.shape
    most = max(1, min(n, _PIECE // max(width, 1)))
    buffer = torch.empty((most, width), dtype=torch.float32, pin_memory=device.type == "cuda")
    for first in range(0, n, most):
        count = min(most, n - first)
        buffer.numpy()[:count] = vectors[first : first + count]
        yield first, buffer[:count].to(device, copy=True)


def quantised_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes q (m, D), steps s, ‖v − s q‖ and ‖v‖ of rows v; the norms are rounded up."""
    largest = rows.abs().amax(dim=1)
    usable = (largest >= _SMALLEST) & (largest <= _LARGEST)
    step = torch.where(usable, largest / 127 * (1 + 2.0**-7), 0.0).to(torch.bfloat16)  # at least largest / 127
    wide, exact = step.double()[:, None], rows.double()
    codes = torch.where(usable[:, None], torch.round(exact / wide.clamp_min(1e-300)), 0.0)
    error, norm = ((_SLACK * torch.linalg.norm(each, dim=1)).float() for each in (exact - wide * codes, exact))
    return codes.to(torch.int8), step, error, norm


def quantised_users(users: Floats32, device: torch.device) -> Quantised:
    """Users with entries of at most 1 in size, quantised as the module describes."""
    width = users.shape[1]
    wide = users.astype(np.float64)
    step = (np.abs(wide).max(axis=1, initial=0.0) / 32512).astype(np.float32)
    step[step < 2.0**-100] = 2.0**-100  # codes of smaller users are zeros; ‖y − t p‖ covers that
    whole = np.clip(np.rint(wide / step[:, None]), -32512, 32512)
    high = np.floor((whole + 128) / 256)
    missed = np.linalg.norm(wide - step[:, None].astype(np.float64) * whole, axis=1)
    length, rounding = np.linalg.norm(wide, axis=1), (2 * width + 64) * 2.0**-24
    margin = np.stack(
        [length + missed, missed + rounding * length, np.full(len(users), (width + 8) * 2.0**-124)], axis=1
    )
    codes = np.zeros((2, len(users), padded_width(width)), np.int8)
    codes[0, :, :width], codes[1, :, :width] = high, whole - 256 * high
    both = torch.from_numpy(codes).to(device)
    return Quantised(
        torch.from_numpy(np.array(users, np.float32)).to(device),
        both[0],
        both[1],
        torch.from_numpy(step).to(device),
        torch.from_numpy((_SLACK * margin).astype(np.float32)).to(device),
    )


def require_room(places: int, width: int, free: int) -> None:
    """Raise ``TooLarge`` unless a layout of so many places fits ``free`` bytes."""
    needed = needed_bytes(places, width)
    if needed > free:
        fits = free * places // needed
        raise TooLarge(
            f"An index of {places:,} rows of {width} numbers needs {needed / 1e9:.1f} GB of device memory, and "
            f"{free / 1e9:.1f} GB are free; about {fits:,} rows fit, or use the backend 'scan' or 'tree'."
        )
