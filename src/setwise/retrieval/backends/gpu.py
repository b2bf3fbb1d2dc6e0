"""``gpu``: one pass over int8 codes in the memory of a GPU, then exact float32 scores of the few rows that matter.

The result is exact for any data, as that of ``scan``; the method is the same (retrieval/device_layout.py), the layout
one that a GPU reads at its full bandwidth. Users of one search share the pass. With Triton, which torch brings along on
Linux, the steps are kernels (retrieval/device_kernels.py); without a GPU, or without Triton, they are plain torch
(retrieval/device_search.py).

An index that does not fit the free memory is refused before anything is built, so what was there before stays.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Floats32, Mask
from setwise._validation import is_frozen, real_array, require_shape, whole_number
from setwise.errors import InvalidInput, TooLarge
from setwise.model.catalog import Catalog
from setwise.retrieval import device_catalog, device_search
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import checked_rows
from setwise.retrieval.device_catalog import DeviceCatalog
from setwise.retrieval.device_layout import (
    BLOCK,
    DeviceLayout,
    Quantised,
    filled,
    largest_entries,
    places_of_cells,
    quantised_users,
    require_room,
    sorted_places,
)
from setwise.retrieval.device_rewards import KNOWN

_MASKS = 4  # copies of masks that are kept on the device
_PEAKS = 1 << 30  # peaks of blocks that are held at a time: users beyond them wait for the next pass
_RESERVE = 1 << 30  # bytes of the device that searches need besides the index
_REQUESTS = 1 << 32  # and those that ranking on the device needs
_BUILDING = 1 << 31  # bytes of the device that building needs for one piece of rows,
_BUILDING_PER_ROW = 40  # and for each row, while rows are sorted by cell

Search = Callable[[DeviceLayout, Quantised, int, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]]


class GPU:
    """Vectors by cell in device memory; searches of several threads take turns."""

    # Excluding a few rows by fetching a few more of each cell costs less than a mask of all rows.
    fetches_more_than_masks = True

    def __init__(self, layout: DeviceLayout) -> None:
        self._layout, self._turn = layout, threading.Lock()
        self._search = _search_of(layout.device)
        self._masks: list[tuple[weakref.ref[Mask], torch.Tensor]] = []
        self._catalog: DeviceCatalog | None = None

    @classmethod
    def build(
        cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int, device: str | torch.device | None = None
    ) -> Self:
        """Copy ``vectors`` to the ``device``: by default the current GPU, or the processor where there is none."""
        where = _device(device)
        sizes = np.bincount(cell_of, minlength=n_cells)
        _require_room(int((-(-sizes // BLOCK)).sum()) * BLOCK, vectors.shape, where)
        with memory_errors(where):
            cells = torch.from_numpy(np.array(cell_of, np.int32)).to(where)
            largest = largest_entries(vectors, where)
            place, block_start = sorted_places(cells, n_cells, largest)
            return cls(filled(vectors, None, largest, place, block_start))

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        layout = self._layout
        rows, per_cell = self._checked(users, per_cell, eligible)
        small, power = _small(rows)
        hits = Hits.none(len(rows), layout.cells, per_cell)
        with self._turn, memory_errors(layout.device):
            for group, best, scores in self._passes(small, per_cell, eligible):
                hits.rows[group], hits.scores[group] = _on_host(best), _on_host(scores)
        np.ldexp(hits.scores, power[:, None, None], out=hits.scores)
        return hits

    def rows_on_device(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> torch.Tensor:
        """The rows of ``search``, (B, C, k) int64, left on the device."""
        rows, per_cell = self._checked(users, per_cell, eligible)
        small, _ = _small(rows)
        with self._turn, memory_errors(self._layout.device):
            return torch.cat([best.long() for _, best, _ in self._passes(small, per_cell, eligible)])

    def _passes(
        self, users: Floats32, per_cell: int, eligible: Mask | None
    ) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Rows and scores of some users after the other, as many as one pass can hold."""
        layout = self._layout
        together = max(1, _PEAKS // max(layout.blocks, 1))
        mask = None if eligible is None else self._mask(eligible)
        for first in range(0, len(users), together):
            group = slice(first, min(len(users), first + together))
            yield group, *self._search(layout, quantised_users(users[group], layout.device), per_cell, mask)

    def on_device(self, catalog: Catalog) -> DeviceCatalog | None:
        """Queries and keys of the catalogue beside its vectors, copied when first needed; None if they do not fit.

        Nor are there any for a catalogue in float64, which the device would round, or with a reward that it lacks.
        """
        known = all(reward.code in KNOWN for reward in catalog.rewards)
        if not known or catalog.value.dtype != np.float32 or len(catalog) != self._layout.count:
            return None
        with self._turn:
            if self._catalog is None or self._catalog.catalog is not catalog:
                self._catalog = None
                if not _has_room(device_catalog.needed_bytes(catalog), self._layout.device):
                    return None
                try:
                    self._catalog = DeviceCatalog.of(catalog, self._layout)
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
            return self._catalog

    def _checked(self, users: ArrayLike, per_cell: int, eligible: Mask | None) -> tuple[Floats32, int]:
        if eligible is not None:
            require_shape("eligible", eligible, (self._layout.count,))
        rows = real_array("users", users, ("count", self._layout.rows.shape[1]), np.float32)
        return rows, whole_number("per_cell", per_cell)

    def _mask(self, eligible: Mask) -> torch.Tensor:
        """Whether the row at each place is eligible: (P,). The copies of the last masks that cannot change are kept."""
        root = _root(eligible)
        self._masks = [(of, copy) for of, copy in self._masks if of() is not None]
        for of, copy in self._masks:
            if of() is root and root is not None:
                return copy
        of_rows = torch.from_numpy(np.array(eligible, bool)).to(self._layout.device)
        by_place = torch.index_select(of_rows, 0, self._layout.order.clamp_min(0)) & (self._layout.order >= 0)
        if root is not None:
            self._masks = [(weakref.ref(root), by_place), *self._masks[: _MASKS - 1]]
        return by_place

    def arrays(self) -> dict[str, Array]:
        """The rows sorted by cell, as ``scan`` has them; codes are computed again on loading."""
        layout = self._layout
        held = layout.order >= 0
        first = (layout.block_start.long() * BLOCK).cpu()
        before = torch.cat([held.new_zeros(1, dtype=torch.int64), torch.cumsum(held, 0)]).cpu()
        return {
            "vectors": layout.rows[held].cpu().numpy(),
            "order": layout.order[held].long().cpu().numpy(),
            "start": before[first].numpy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], device: str | torch.device | None = None) -> Self:
        checked_rows(arrays)
        where, vectors = _device(device), arrays["vectors"]
        sizes = torch.from_numpy(np.diff(arrays["start"]))
        block_start = places_of_cells(sizes)
        _require_room(int(block_start[-1]) * BLOCK, vectors.shape, where)
        with memory_errors(where):
            shift = block_start[:-1] * BLOCK - torch.from_numpy(np.array(arrays["start"][:-1]))
            place = torch.arange(len(vectors)) + torch.repeat_interleave(shift, sizes)
            order = torch.from_numpy(np.array(arrays["order"]))
            largest = largest_entries(vectors, where)
            return cls(filled(vectors, order.to(where), largest, place.to(where), block_start.to(where)))


def _small(users: Floats32) -> tuple[Floats32, NDArray[np.int32]]:
    """Users divided by a power of two, so that no entry is larger than 1, and the exponents: (B, D) and (B,)."""
    power = np.frexp(np.abs(users).max(axis=1, initial=0.0))[1]
    return np.ldexp(users, -power[:, None]).astype(np.float32), power


def _root(mask: Mask) -> Mask | None:
    """The array that no code can change and the whole of which ``mask`` shows; None if there is none."""
    array = mask
    while isinstance(array.base, np.ndarray):
        array = array.base
    whole = array.size == mask.size and array.dtype == mask.dtype and mask.flags.c_contiguous
    return array if whole and is_frozen(mask) else None


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidInput("device", "'cuda', 'cuda:0', ... or 'cpu'", repr(device), "pass one of those") from None
    if chosen.type not in ("cuda", "cpu") or (chosen.type == "cuda" and not torch.cuda.is_available()):
        todo = "pass device='cpu' or leave it out"
        raise InvalidInput("device", "one that torch can use here", repr(str(chosen)), todo)
    return chosen


def _search_of(device: torch.device) -> Search:
    """The kernels on a GPU, plain torch elsewhere."""
    if device.type == "cuda" and find_spec("triton") is not None:
        from setwise.retrieval.device_kernels import search

        return search
    return device_search.search


def _require_room(places: int, shape: tuple[int, ...], device: torch.device) -> None:
    """Refuse an index that does not fit beside what the device holds already."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(device)[0] - _RESERVE - _BUILDING - _BUILDING_PER_ROW * shape[0]
        require_room(places, shape[1], max(free, 0))


def _has_room(needed: int, device: torch.device) -> bool:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return needed + _RESERVE + _REQUESTS <= torch.cuda.mem_get_info(device)[0]
    return True


@contextmanager
def memory_errors(device: torch.device) -> Iterator[None]:
    """Out of memory on the device is ``TooLarge``; the arrays made so far are given back."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        todo = "use fewer items or users at a time, free the device, or use the backend 'scan'"
        raise TooLarge(f"The memory of the device {device} does not suffice for this index; {todo}.") from None


def _on_host(tensor: torch.Tensor) -> NDArray[np.generic]:
    """The tensor as an array, copied through page-locked memory."""
    if tensor.device.type == "cpu":
        return np.asarray(tensor.numpy())
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return np.asarray(host.copy_(tensor).numpy())
