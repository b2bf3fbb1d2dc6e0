"""The steps of device_search.py as Triton kernels: no array of all scores is ever written, and the host waits once.

A *group* is a user and a cell. Each step is one launch:

``_peaks``   the pass over all codes: peaks of blocks for a batch of users, by the matrix units (int8 by int8, exact in
             int32), or for one user by the vector units;
``_blocks``  per group: L, and the blocks that may matter, into a list of fixed length;
``_items``   per group: approximate scores of their rows;
``_chosen``  per group: L again, and the rows that may matter, into a list of fixed length;
``_exact``   per group: exact scores of these;
``_sorted``  per group: the k best.

L is found by bisection on the 1024 largest values of strided parts of the group: each part holds a block (row) that
surely reaches its maximum, so a value that k parts reach is reached by k rows. Bisection ends below the k-th largest;
a lower L keeps more, never fewer.

Lists have room for several times k. Users with a group that needs more, for instance in a cell of equal rows, are
searched again with longer lists, and in the end by plain torch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from setwise.retrieval import device_search
from setwise.retrieval.device_layout import BLOCK, DeviceLayout, Quantised

_PARTS = 1024  # strided parts of a group in which maxima are taken
_BISECTIONS = 16
_MOST = 2048  # rows of a group that one launch sorts
_PIPELINED = 128  # codes of a row; the next tile of wider rows does not fit the shared memory


class Launch(NamedTuple):
    """The shape of a program of the pass; these were the fastest of those measured on an H200."""

    rows: int  # at a time
    warps: int
    tiles: int = 1  # times ``rows``, one after another, the next being loaded meanwhile
    stages: int = 1
    users: int = 64
    low: bool = True  # whether the low bytes are read too: a tenth more time, and far fewer blocks that may matter


OF_ONE = Launch(128, 2)
OF_MANY = Launch(256, 4, 8, 3)
_GROUP_WARPS = 2


@triton.jit
def _kth_floor(values, k, BISECTIONS: tl.constexpr):
    """A number that at least k of the values reach, just below the k-th largest; −∞ if there are fewer values."""
    top = tl.max(values, axis=0)
    bottom = tl.min(tl.where(values > float("-inf"), values, top), axis=0)
    known = tl.sum((values > float("-inf")).to(tl.int32), axis=0)
    low, high = bottom, top
    for _ in range(BISECTIONS):
        middle = 0.5 * low + 0.5 * high
        reached = tl.sum((values >= middle).to(tl.int32), axis=0) >= k
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle)
    return tl.where(known >= k, low, float("-inf"))


@triton.jit
def _peaks(
    codes, scale, mask, high, low, step, peaks, places, blocks, groups,
    W: tl.constexpr, K: tl.constexpr, U: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
    MASKED: tl.constexpr, LOW: tl.constexpr,
):  # fmt: skip
    """Peaks of TILES times M / 32 blocks for U users, by the high bytes of these, or with LOW by both bytes.

    Users are rows and places columns of the product, so that a block's scores lie in one warp. The largest of them is
    found among whole numbers: the rows of a block share a step. Programs of the same places follow each other and share
    the cache.
    """
    program = tl.program_id(0)
    user = (program % groups) * U + tl.arange(0, U)
    t = tl.load(step + user)
    for turn in range(TILES):
        tile = program // groups * TILES + turn
        place = tile.to(tl.int64) * M + tl.arange(0, M)
        inside = place < places
        total, rest = tl.zeros((U, M), tl.int32), tl.zeros((U, M), tl.int32)
        for first in tl.static_range(0, W, K):
            part = first + tl.arange(0, K)
            at = user[:, None] * W + part[None, :]
            code = tl.trans(tl.load(codes + place[:, None] * W + part[None, :], mask=inside[:, None], other=0))
            total = tl.dot(tl.load(high + at), code, acc=total, out_dtype=tl.int32)
            if LOW:
                rest = tl.dot(tl.load(low + at), code, acc=rest, out_dtype=tl.int32)
        if LOW:
            total = 256 * total + rest
        if MASKED:
            held = tl.load(mask + place, mask=inside, other=0) != 0
            total = tl.where(held[None, :], total, -2147483648)
        best = tl.max(tl.reshape(total, (U, M // BLOCK, BLOCK)), axis=2)
        block = tile * (M // BLOCK) + tl.arange(0, M // BLOCK)
        s = tl.load(scale + block, mask=block < blocks, other=0.0)
        score = best.to(tl.float32) * (t if LOW else 256.0 * t)[:, None] * s[None, :]
        if MASKED:
            score = tl.where(best == -2147483648, float("-inf"), score)
        at = user[:, None].to(tl.int64) * blocks + block[None, :]
        tl.store(peaks + at, score, mask=(block < blocks)[None, :])


@triton.jit
def _peaks_of_one(
    codes, scale, mask, high, low, step, peaks, places, blocks,
    W: tl.constexpr, K: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Peaks of M / 32 blocks for one user."""
    tile = tl.program_id(0)
    place = tile.to(tl.int64) * M + tl.arange(0, M)
    inside = place < places
    total = tl.zeros((M,), tl.float32)
    for first in tl.static_range(0, W, K):
        part = first + tl.arange(0, K)
        code = tl.load(codes + place[:, None] * W + part[None, :], mask=inside[:, None], other=0)
        whole = 256.0 * tl.load(high + part).to(tl.float32) + tl.load(low + part).to(tl.float32)
        total += tl.sum(code.to(tl.float32) * whole[None, :], axis=1)
    if MASKED:
        total = tl.where(tl.load(mask + place, mask=inside, other=0) != 0, total, float("-inf"))
    best = tl.max(tl.reshape(total, (M // BLOCK, BLOCK)), axis=1)
    block = tile * (M // BLOCK) + tl.arange(0, M // BLOCK)
    s = tl.load(scale + block, mask=block < blocks, other=0.0) * tl.load(step)
    tl.store(peaks + block, tl.where(best == float("-inf"), best, best * s), mask=block < blocks)


@triton.jit
def _blocks(
    peaks, error, norm, margin, block_start, listed, count, long, blocks, cells, k,
    ROOM: tl.constexpr, PARTS: tl.constexpr, BISECTIONS: tl.constexpr,
):  # fmt: skip
    """The blocks of a group that may hold one of its k best rows: the first ROOM into ``listed``, how many to count."""
    group = tl.program_id(0)
    user, cell = group // cells, group % cells
    first, last = tl.load(block_start + cell), tl.load(block_start + cell + 1)
    alpha, beta, gamma = tl.load(margin + 3 * user), tl.load(margin + 3 * user + 1), tl.load(margin + 3 * user + 2)
    of_user = peaks + user.to(tl.int64) * blocks
    lane = tl.arange(0, PARTS)
    sure = tl.full((PARTS,), float("-inf"), tl.float32)
    for start in range(first, last, PARTS):
        at = start + lane
        inside = at < last
        peak = tl.load(of_user + at, mask=inside, other=float("-inf"))
        off = alpha * tl.load(error + at, mask=inside, other=0.0) + beta * tl.load(norm + at, mask=inside, other=0.0)
        sure = tl.maximum(sure, peak - (off + gamma))
    floor = _kth_floor(sure, k, BISECTIONS)
    found = first * 0
    for start in range(first, last, PARTS):
        at = start + lane
        inside = at < last
        peak = tl.load(of_user + at, mask=inside, other=float("-inf"))
        off = alpha * tl.load(error + at, mask=inside, other=0.0) + beta * tl.load(norm + at, mask=inside, other=0.0)
        may = ((peak + (off + gamma) < floor) == 0) & (peak != float("-inf")) & inside
        place = found + tl.cumsum(may.to(tl.int32), axis=0) - 1
        tl.store(listed + group.to(tl.int64) * ROOM + place, at, mask=may & (place < ROOM))
        found += tl.sum(may.to(tl.int32), axis=0)
    tl.store(count + group, tl.minimum(found, ROOM))
    if found > ROOM:
        tl.store(long + user, 1)


@triton.jit
def _items(
    codes, scale, order, mask, high, low, step, listed, count, scores, cells,
    W: tl.constexpr, K: tl.constexpr, ROOM: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Approximate scores of all places of a group's listed blocks; −∞ where a place holds no eligible row."""
    group = tl.program_id(0)
    user = group // cells
    size, t = tl.load(count + group), tl.load(step + user)
    lane = tl.arange(0, M)
    for start in range(0, size, M // BLOCK):
        entry = start + lane // BLOCK
        inside = entry < size
        block = tl.load(listed + group.to(tl.int64) * ROOM + entry, mask=inside, other=0)
        place = block.to(tl.int64) * BLOCK + lane % BLOCK
        total = tl.zeros((M,), tl.float32)
        for first in tl.static_range(0, W, K):
            part = first + tl.arange(0, K)
            code = tl.load(codes + place[:, None] * W + part[None, :], mask=inside[:, None], other=0)
            at = user * W + part
            whole = 256.0 * tl.load(high + at).to(tl.float32) + tl.load(low + at).to(tl.float32)
            total += tl.sum(code.to(tl.float32) * whole[None, :], axis=1)
        held = tl.load(order + place, mask=inside, other=-1) >= 0
        if MASKED:
            held = held & (tl.load(mask + place, mask=inside, other=0) != 0)
        score = tl.where(held, total * t * tl.load(scale + block), float("-inf"))
        tl.store(scores + (group.to(tl.int64) * ROOM + start) * BLOCK + lane, score, mask=inside)


@triton.jit
def _chosen(
    scores, error, norm, margin, listed, count, chosen, number, long, cells, k,
    ROOM: tl.constexpr, ITEMS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, BISECTIONS: tl.constexpr,
):  # fmt: skip
    """The places of a group that may hold one of its k best rows: the first ITEMS into ``chosen``, and their number."""
    group = tl.program_id(0)
    user = group // cells
    alpha, beta, gamma = tl.load(margin + 3 * user), tl.load(margin + 3 * user + 1), tl.load(margin + 3 * user + 2)
    total, lane = tl.load(count + group) * BLOCK, tl.arange(0, PARTS)
    own, of_group = listed + group.to(tl.int64) * ROOM, scores + group.to(tl.int64) * ROOM * BLOCK
    sure = tl.full((PARTS,), float("-inf"), tl.float32)
    for start in range(0, total, PARTS):
        at = start + lane
        inside = at < total
        block = tl.load(own + at // BLOCK, mask=inside, other=0)
        off = alpha * tl.load(error + block) + beta * tl.load(norm + block) + gamma
        sure = tl.maximum(sure, tl.load(of_group + at, mask=inside, other=float("-inf")) - off)
    floor = _kth_floor(sure, k, BISECTIONS)
    found = total * 0
    for start in range(0, total, PARTS):
        at = start + lane
        inside = at < total
        block = tl.load(own + at // BLOCK, mask=inside, other=0)
        off = alpha * tl.load(error + block) + beta * tl.load(norm + block) + gamma
        score = tl.load(of_group + at, mask=inside, other=float("-inf"))
        may = ((score + off < floor) == 0) & (score != float("-inf")) & inside
        place = found + tl.cumsum(may.to(tl.int32), axis=0) - 1
        tl.store(chosen + group.to(tl.int64) * ITEMS + place, block * BLOCK + at % BLOCK, mask=may & (place < ITEMS))
        found += tl.sum(may.to(tl.int32), axis=0)
    tl.store(number + group, tl.minimum(found, ITEMS))
    if found > ITEMS:
        tl.store(long + user, 1)


@triton.jit
def _exact(
    rows, users, chosen, number, scores, cells, width,
    ITEMS: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The exact scores of a group's chosen places."""
    group = tl.program_id(0)
    user, size = group // cells, tl.load(number + group)
    of_group = group.to(tl.int64) * ITEMS
    for start in range(0, size, M):
        lane = start + tl.arange(0, M)
        held = lane < size
        place = tl.load(chosen + of_group + lane, mask=held, other=0).to(tl.int64)
        score = tl.zeros((M,), tl.float32)
        for first in range(0, width, D):
            part = first + tl.arange(0, D)
            inside = held[:, None] & (part < width)[None, :]
            row = tl.load(rows + place[:, None] * width + part[None, :], mask=inside, other=0.0)
            score += tl.sum(row * tl.load(users + user * width + part, mask=part < width, other=0.0)[None, :], axis=1)
        tl.store(scores + of_group + lane, score, mask=held)


@triton.jit
def _sorted(of_chosen, order, chosen, number, best, scores, k, ITEMS: tl.constexpr):
    """The k best of a group's chosen places, best first, as rows.

    Scores are sorted as whole numbers: the bits of a float32, those of negative ones inverted, order alike. The
    position in the list fills the low bits, so that equal scores keep their order. Scores are loaded, not computed
    here: the sort needs the same bits in every thread that holds a number, which a sum does not guarantee.
    """
    group = tl.program_id(0)
    lane, size = tl.arange(0, ITEMS), tl.load(number + group)
    of_group = group.to(tl.int64) * ITEMS
    score = tl.load(of_chosen + of_group + lane, mask=lane < size, other=0.0)
    score = tl.where(score == score, score + 0.0, float("-inf"))
    bits = score.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    key = tl.where(lane < size, bits * 4294967296 + (ITEMS - 1 - lane), -9223372036854775807)
    key = tl.sort(key, descending=True)
    bits, at = (key >> 32).to(tl.int32), ITEMS - 1 - (key & 0xFFFFFFFF).to(tl.int32)
    score = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)
    known = lane < tl.minimum(size, k)
    place = tl.load(chosen + of_group + at, mask=known, other=0)
    row = tl.load(order + place, mask=known, other=-1)
    out = group.to(tl.int64) * k + lane
    tl.store(best + out, tl.where(known, row, -1), mask=lane < k)
    tl.store(scores + out, tl.where(known, score, float("-inf")), mask=lane < k)


def search(
    layout: DeviceLayout, users: Quantised, per_cell: int, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``device_search.search``: rows (B, C, k) and their scores, best first; −1 and −∞ in empty places."""
    room, items = _power(2 * per_cell + 32), _power(2 * per_cell + 32)
    if items > _MOST or not layout.blocks:
        return device_search.search(layout, users, per_cell, mask)
    peak, margin = peaks(layout, users, mask)
    rows, scores, long = of_groups(layout, users, peak, margin, per_cell, mask, room, items)
    again = torch.nonzero(long)[:, 0]  # the only wait for the device, besides the copy of the result
    for _ in range(2):
        room, items = 8 * room, min(8 * items, _MOST)
        if not len(again) or room * BLOCK * len(again) * layout.cells > 1 << 31:
            break
        part = of_groups(layout, users.part(again), peak[again], margin[again], per_cell, mask, room, items)
        rows[again], scores[again] = part[0], part[1]
        again = again[torch.nonzero(part[2])[:, 0]]
    for user in again.tolist():
        one = device_search.search(layout, users.part(slice(user, user + 1)), per_cell, mask)
        rows[user], scores[user] = one[0][0], one[1][0]
    return rows, scores


def _power(least: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(least - 1, 1).bit_length()


def peaks(
    layout: DeviceLayout,
    users: Quantised,
    mask: torch.Tensor | None,
    of_one: Launch = OF_ONE,
    of_many: Launch = OF_MANY,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest approximate score of every block, (B, blocks), and the (α, β, γ) of their margins, (B, 3)."""
    count, (places, width) = len(users.step), layout.codes.shape
    bytes_ = layout.codes if mask is None else mask.view(torch.uint8)
    fixed: dict[str, Any] = {"W": width, "K": _step(width), "BLOCK": BLOCK, "MASKED": mask is not None}
    if count == 1:
        result = torch.empty((1, layout.blocks), device=layout.device)
        one = (layout.codes, layout.scale, bytes_, users.high, users.low, users.step, result, places, layout.blocks)
        _peaks_of_one[(triton.cdiv(places, of_one.rows),)](*one, M=of_one.rows, **fixed, num_warps=of_one.warps)
        return result, users.margin
    if width > _PIPELINED:
        of_many = of_many._replace(tiles=1, stages=1, low=False)
    groups = triton.cdiv(count, of_many.users)
    high, low, step = (_filled(each, groups * of_many.users) for each in (users.high, users.low, users.step))
    result = torch.empty((groups * of_many.users, layout.blocks), device=layout.device)
    read = (layout.codes, layout.scale, bytes_, high, low, step, result, places, layout.blocks, groups)
    fixed |= {"M": of_many.rows, "U": of_many.users, "TILES": of_many.tiles, "LOW": of_many.low}
    programs = triton.cdiv(places, of_many.rows * of_many.tiles) * groups
    _peaks[(programs,)](*read, **fixed, num_warps=of_many.warps, num_stages=of_many.stages)
    return result[:count], users.margin if of_many.low else users.coarse


def _filled(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """The tensor with zeros for users up to ``count``."""
    if len(tensor) == count:
        return tensor
    return torch.cat([tensor, tensor.new_zeros((count - len(tensor), *tensor.shape[1:]))])


def _step(width: int) -> int:
    """How many codes of a row are multiplied at a time."""
    return 64 if width % 64 == 0 else 32


def of_groups(
    layout: DeviceLayout,
    users: Quantised,
    peak: torch.Tensor,
    margin: torch.Tensor,
    k: int,
    mask: torch.Tensor | None,
    room: int,
    items: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows and scores of the best of every group, and whether a list was too short for each user."""
    count, cells, device, (_, width) = len(peak), layout.cells, layout.device, layout.codes.shape
    groups, warps = count * cells, {"num_warps": _GROUP_WARPS}

    def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    long, listed, size = torch.zeros(count, dtype=torch.int32, device=device), empty(groups, room), empty(groups)
    parts = {"PARTS": max(_PARTS, _power(4 * k)), "BISECTIONS": _BISECTIONS}
    spread, place = (layout.error, layout.norm), (layout.block_start, listed, size, long, layout.blocks, cells, k)
    _blocks[(groups,)](peak.contiguous(), *spread, margin, *place, ROOM=room, **parts, **warps)
    approximate = empty(groups, room * BLOCK, dtype=torch.float32)
    bytes_ = layout.codes if mask is None else mask.view(torch.uint8)
    read = (layout.codes, layout.scale, layout.order, bytes_, users.high, users.low, users.step)
    fixed: dict[str, Any] = {"W": width, "K": _step(width), "MASKED": mask is not None, "M": 128, "BLOCK": BLOCK}
    _items[(groups,)](*read, listed, size, approximate, cells, ROOM=room, **fixed, **warps)
    chosen, number = empty(groups, items), empty(groups)
    found = (users.margin, listed, size, chosen, number, long, cells, k)
    fixed = {"ROOM": room, "ITEMS": items, "BLOCK": BLOCK, **parts}
    _chosen[(groups,)](approximate, *spread, *found, **fixed, **warps)
    rows, scores = empty(count, cells, k), empty(count, cells, k, dtype=torch.float32)
    exact = empty(groups, items, dtype=torch.float32)
    asked = (layout.rows, users.vectors, chosen, number, exact, cells, layout.rows.shape[1])
    _exact[(groups,)](*asked, ITEMS=items, M=min(items, 32), D=32, **warps)
    _sorted[(groups,)](exact, layout.order, chosen, number, rows, scores, k, ITEMS=items, **warps)
    return rows, scores, long
