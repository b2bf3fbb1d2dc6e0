"""Vectors in the memory of a device, sorted by cell: int8 codes that a pass reads first, and exact rows.

Places are numbered cell after cell. Every cell starts a new *block* of 32 places; places at the end of a cell's last
block may hold no row. Within a cell, rows are sorted by their largest entry, so that the rows of a block are of one
size and share a step s. Each place has D int8 codes q (padded to W, a multiple of 32) and the exact float32 row v; a
place without a row repeats the codes of its block's first row, so that it never changes the largest score of a block.
For each block,

    ρ = max ‖v − s q‖        and        ν = max ‖v‖.

A user y is quantised to t p, p being whole numbers of 16 bits in two bytes, p = 256 high + low. The approximate score
s t (q · p) then differs from v · y, summed in float32, by at most

    margin = α ρ + β ν + γ,      α = ‖y‖ + ‖y − t p‖,   β = ‖y − t p‖ + r ‖y‖,   γ = what underflows,

where r bounds the relative rounding of both sums (int8_tiles.py has the same bound for the scan on the processor). A
pass for many users reads the high bytes alone, 256 high in place of p; the *coarse* margin is that of these.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """Users as the device reads them: y, p in two bytes, t, and (α, β, γ) for both bytes and for the high one."""

    vectors: torch.Tensor  # (B, D) float32
    high: torch.Tensor  # (B, W) int8
    low: torch.Tensor  # (B, W) int8
    step: torch.Tensor  # (B,) float32
    margin: torch.Tensor  # (B, 3) float32
    coarse: torch.Tensor  # (B, 3) float32

    def part(self, users: slice | torch.Tensor) -> Quantised:
        """Some of the users."""
        return Quantised(*(each[users] for each in self))


@dataclass(frozen=True, eq=False)
class DeviceLayout:
    """All arrays of an index on its device; P places in P / 32 blocks."""

    codes: torch.Tensor  # (P, W) int8
    scale: torch.Tensor  # (P / 32,) float32: the step s
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
    return places * (padded_width(width) + 4 * width + 4) + places // BLOCK * 12


def places_of_cells(sizes: torch.Tensor) -> torch.Tensor:
    """The first block of each cell, and the number of all blocks: (C + 1,) int64, from the sizes of the cells."""
    return torch.cumsum(torch.cat([sizes.new_zeros(1), (sizes + BLOCK - 1) // BLOCK]), 0)


def sorted_places(cell_of: torch.Tensor, n_cells: int, largest: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The place of each row, and the first block of each cell: (n,) and (C + 1,) int64; large rows come first."""
    by_size = torch.sort(largest, descending=True, stable=True).indices
    cells, order = torch.sort(cell_of[by_size], stable=True)
    order = by_size[order]
    sizes = torch.bincount(cell_of, minlength=n_cells)
    block_start = places_of_cells(sizes)
    shift = block_start[:-1] * BLOCK - (torch.cumsum(sizes, 0) - sizes)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) + shift[cells]
    return place, block_start


def largest_entries(vectors: Floats32, device: torch.device) -> torch.Tensor:
    """The size of the largest entry of each row: (n,)."""
    result = torch.zeros(len(vectors), device=device)
    for first, rows in pieces(vectors, device):
        result[first : first + len(rows)] = rows.abs().amax(dim=1) if rows.shape[1] else 0.0
    return result


def filled(
    vectors: Floats32,
    numbers: torch.Tensor | None,
    largest: torch.Tensor,
    place: torch.Tensor,
    block_start: torch.Tensor,
) -> DeviceLayout:
    """The layout of ``vectors`` (n, D), row i at ``place[i]`` with the number ``numbers[i]``, or i if that is None.

    Vectors are read from front to back in pieces, so they may be mapped from a file larger than the host's memory.
    """
    n, width = vectors.shape
    device, blocks = place.device, int(block_start[-1])

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    layout = DeviceLayout(
        zeros(blocks * BLOCK, padded_width(width), dtype=torch.int8),
        steps(zeros(blocks).scatter_reduce_(0, place // BLOCK, largest, "amax")),
        zeros(blocks),
        zeros(blocks),
        zeros(blocks * BLOCK, width),
        torch.full((blocks * BLOCK,), -1, dtype=torch.int32, device=device),
        block_start.to(torch.int32),
        n,
    )
    for first, rows in pieces(vectors, device):
        at = place[first : first + len(rows)]
        own = torch.arange(first, first + len(rows), device=device) if numbers is None else numbers[first:][: len(rows)]
        codes, error, norm = quantised_rows(rows, layout.scale[at // BLOCK])
        layout.codes[at, :width], layout.rows[at], layout.order[at] = codes, rows, own.to(torch.int32)
        for target, of_rows in ((layout.error, error), (layout.norm, norm)):
            target.scatter_reduce_(0, at // BLOCK, of_rows, "amax")
    without = torch.nonzero(layout.order < 0)[:, 0]
    layout.codes[without] = layout.codes[without // BLOCK * BLOCK]
    return layout


def pieces(vectors: Floats32, device: torch.device) -> Iterator[tuple[int, torch.Tensor]]:
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


def steps(largest: torch.Tensor) -> torch.Tensor:
    """The step s of blocks with these largest entries; 0 where products of codes would not be normal numbers."""
    usable = (largest >= _SMALLEST) & (largest <= _LARGEST)
    return torch.where(usable, largest / 127 * _SLACK, 0.0)


def quantised_rows(rows: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes q (m, D), ‖v − s q‖ and ‖v‖ of rows v with steps s (m,); the norms are rounded up."""
    wide, exact = step.double()[:, None], rows.double()
    codes = torch.where(wide > 0, torch.round(exact / wide.clamp_min(1e-300)), 0.0)
    error, norm = ((_SLACK * torch.linalg.norm(each, dim=1)).float() for each in (exact - wide * codes, exact))
    return codes.to(torch.int8), error, norm


def quantised_users(users: Floats32, device: torch.device) -> Quantised:
    """Users with entries of at most 1 in size, quantised as the module describes."""
    width = users.shape[1]
    wide = users.astype(np.float64)
    step = (np.abs(wide).max(axis=1, initial=0.0) / 32512).astype(np.float32)
    step[step < 2.0**-100] = 2.0**-100  # codes of smaller users are zeros; ‖y − t p‖ covers that
    whole = np.clip(np.rint(wide / step[:, None]), -32512, 32512)
    high = np.floor((whole + 128) / 256)
    length, rounding = np.linalg.norm(wide, axis=1), (2 * width + 64) * 2.0**-24
    margin = np.empty((2, len(users), 3), np.float32)
    for own, codes in zip(margin, (whole, 256 * high), strict=True):
        missed = np.linalg.norm(wide - step[:, None].astype(np.float64) * codes, axis=1)
        own[:, 0], own[:, 1] = _SLACK * (length + missed), _SLACK * (missed + rounding * length)
        own[:, 2] = (width + 8) * 2.0**-124
    both = np.zeros((2, len(users), padded_width(width)), np.int8)
    both[0, :, :width], both[1, :, :width] = high, whole - 256 * high
    parts = (np.array(users, np.float32), both, step, margin)
    vectors, halves, steps_, margins = (torch.from_numpy(part).to(device) for part in parts)
    return Quantised(vectors, halves[0], halves[1], steps_, margins[0], margins[1])


def require_room(places: int, width: int, free: int) -> None:
    """Raise ``TooLarge`` unless a layout of so many places fits ``free`` bytes."""
    needed = needed_bytes(places, width)
    if needed > free:
        fits = free * places // needed
        raise TooLarge(
            f"An index of {places:,} rows of {width} numbers needs {needed / 1e9:.1f} GB of device memory, and "
            f"{free / 1e9:.1f} GB are free; about {fits:,} rows fit, or use the backend 'scan' or 'tree'."
        )
