"""The search of a device layout in plain torch: the same steps on any device, and the reference for the kernels.

For every user and cell, with the margins of device_layout.py:

1. *Peaks.* One pass over the codes: the largest approximate score of each block's eligible places.
2. *Blocks.* Let L be the k-th largest of peak − margin over the blocks of a cell: k rows surely score at least L. Only
   blocks with peak + margin ≥ L can hold one of the k best rows of the cell.
3. *Items.* The same with the approximate scores of the single rows of these blocks.
4. *Exact scores* of what is left, from the float32 rows: the k best of these are the k best of the cell.

A comparison with NaN keeps a block or row: approximate scores that overflow cost time, not rows.
"""

from __future__ import annotations

import torch

from setwise.retrieval.device_layout import BLOCK, DeviceLayout, Quantised

_NUMBERS = 1 << 24  # code numbers that are converted to float32 at a time


def search(
    layout: DeviceLayout, users: Quantised, per_cell: int, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows (B, C, k) int64 and their scores, best first; −1 and −∞ in empty places; ``mask`` (P,) is by place."""
    peak = peaks(layout, users, mask)
    cell = torch.repeat_interleave(
        torch.arange(layout.cells, device=layout.device), layout.block_start.diff(), output_size=layout.blocks
    )
    margin = margins(layout, users)
    group = torch.arange(len(peak), device=cell.device)[:, None] * layout.cells + cell  # of user and cell
    floor = kth_largest((peak - margin).reshape(-1), group.reshape(-1), len(peak) * layout.cells, per_cell)
    may = (peak != -torch.inf) & ~(peak + margin < floor[group])
    user, block = torch.nonzero(may, as_tuple=True)
    approximate = item_scores(layout, users, user, block, mask)
    of_items = group[user, block][:, None].expand(-1, BLOCK)
    sure = approximate - margin[user, block][:, None]
    floor = kth_largest(sure.reshape(-1), of_items.reshape(-1), len(floor), per_cell)
    may = (approximate != -torch.inf) & ~(approximate + margin[user, block][:, None] < floor[of_items])
    pair, lane = torch.nonzero(may, as_tuple=True)
    place, user = block[pair] * BLOCK + lane, user[pair]
    score = (layout.rows[place] * users.vectors[user]).sum(dim=1)
    return _best(layout, of_items[pair, 0], place, score, len(peak), per_cell)


def peaks(layout: DeviceLayout, users: Quantised, mask: torch.Tensor | None) -> torch.Tensor:
    """The largest approximate score of every block: (B, blocks)."""
    result = torch.empty((len(users.vectors), layout.blocks), device=layout.device)
    step = max(1, _NUMBERS // (BLOCK * max(layout.codes.shape[1], len(result))))
    for first in range(0, layout.blocks, step):
        last = min(layout.blocks, first + step)
        codes = layout.codes[first * BLOCK : last * BLOCK].float()
        place = torch.arange(first * BLOCK, last * BLOCK, device=layout.device)
        scores = _eligible_only(codes @ _whole(users).T * users.step, layout, place, mask)
        result[:, first:last] = scores.reshape(last - first, BLOCK, -1).amax(dim=1).T
    return result


def item_scores(
    layout: DeviceLayout, users: Quantised, user: torch.Tensor, block: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """The approximate scores of the places of each (user, block) pair: (pairs, 32)."""
    result, whole = torch.empty((len(block), BLOCK), device=layout.device), _whole(users)
    step = max(1, _NUMBERS // (BLOCK * layout.codes.shape[1]))
    for first in range(0, len(block), step):
        some, own = block[first : first + step], user[first : first + step]
        place = some[:, None] * BLOCK + torch.arange(BLOCK, device=block.device)
        product = torch.bmm(layout.codes[place].float(), whole[own][:, :, None])[:, :, 0] * users.step[own][:, None]
        result[first : first + step] = _eligible_only(product, layout, place, mask)
    return result


def _whole(users: Quantised) -> torch.Tensor:
    """The whole numbers p of the users, as float32: (B, W)."""
    return 256.0 * users.high.float() + users.low.float()


def _eligible_only(
    product: torch.Tensor, layout: DeviceLayout, place: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Products times the steps of their blocks; −∞ where a place holds no eligible row."""
    scale, held = layout.scale[place // BLOCK], layout.order[place] >= 0
    if mask is not None:
        held &= mask[place]
    if product.ndim > place.ndim:  # one column per user
        scale, held = scale[:, None], held[:, None]
    return torch.where(held, product * scale, -torch.inf)


def margins(layout: DeviceLayout, users: Quantised) -> torch.Tensor:
    """How far approximate scores of a block may be off: (B, blocks)."""
    alpha, beta, gamma = users.margin.T[:, :, None]
    return torch.as_tensor(alpha * layout.error + beta * layout.norm + gamma)


def kth_largest(values: torch.Tensor, group: torch.Tensor, groups: int, k: int) -> torch.Tensor:
    """The k-th largest of the values of each group, −∞ where there are fewer: (groups,)."""
    if not len(values):
        return values.new_full((groups,), -torch.inf)
    values = torch.where(values.isnan(), -torch.inf, values)
    order, start, size = _sorted_groups(values, group, groups)
    at = torch.clamp(start + k - 1, max=len(values) - 1)
    return torch.where(size >= k, values[order[at]], -torch.inf)


def _sorted_groups(
    values: torch.Tensor, group: torch.Tensor, groups: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The order by group and, within it, from the largest value on; where each group starts in it, and its size."""
    by_value = torch.sort(values, descending=True, stable=True).indices
    order = by_value[torch.sort(group[by_value], stable=True).indices]
    size = torch.bincount(group, minlength=groups)
    return order, torch.cumsum(size, 0) - size, size


def _best(
    layout: DeviceLayout, group: torch.Tensor, place: torch.Tensor, score: torch.Tensor, users: int, per_cell: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``per_cell`` best places of each group, as rows."""
    groups = users * layout.cells
    order, start, _ = _sorted_groups(torch.where(score.isnan(), -torch.inf, score), group, groups)
    group, place, score = group[order], place[order], score[order]
    rank = torch.arange(len(order), device=group.device) - start[group]
    kept = rank < per_cell
    rows = torch.full((groups * per_cell,), -1, dtype=torch.int64, device=group.device)
    scores = torch.full((groups * per_cell,), -torch.inf, device=group.device)
    at = (group * per_cell + rank)[kept]
    rows[at], scores[at] = layout.order[place[kept]].long(), score[kept]
    shape = (users, layout.cells, per_cell)
    return rows.reshape(shape), scores.reshape(shape)
