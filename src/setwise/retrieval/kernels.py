"""The compiled searches of retrieval: the best of every cell from approximate scores, exactly.

With τ the k-th best approximate score of some items and margin the error that tiles.py bounds, k items have true scores
of at least τ − margin, and an item below τ − 2 margin has a true score below that: it is not among the best k. All
others are scored in float32. Ties aside the result is exact, over the items looked at: all of them (``scan``), or those
of the blocks that may matter (``climb``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise.retrieval.tiles import LANES, SEGMENT, eight_users, error_bound, one_user, quantise_user

Floats32 = NDArray[np.float32]


@njit(cache=True, error_model="numpy", nogil=True, fastmath=True)
def exact_score(vectors: Floats32, i: int, user: Floats32) -> np.float32:
    """v_i · y in float32."""
    total = np.float32(0)
    for j in range(len(user)):
        total += vectors[i, j] * user[j]
    return total


@njit(cache=True, error_model="numpy", nogil=True)
def insert(scores: Floats32, rows: Any, filled: int, score: np.float32, row: int) -> int:
    """Put (score, row) into the list of the best, kept in descending order; return how many it holds now."""
    at = filled
    if filled == len(scores):
        if score <= scores[filled - 1]:
            return filled
        at = filled - 1
    while at > 0 and scores[at - 1] < score:
        scores[at], rows[at] = scores[at - 1], rows[at - 1]
        at -= 1
    scores[at], rows[at] = score, row
    return min(filled + 1, len(scores))


@njit(cache=True, error_model="numpy", nogil=True)
def kth_best(values: Floats32, count: int, first: int, order: Any, barred: Any, best: Floats32) -> float:
    """The k-th best of ``count`` values that are not barred, k = len(best); −∞ when there are fewer."""
    k, held = len(best), 0
    for place in range(count):
        value = values[place]
        if (held == k and value <= best[k - 1]) or (len(barred) and barred[order[first + place]]):
            continue
        at = min(held, k - 1)
        while at > 0 and best[at - 1] < value:
            best[at] = best[at - 1]
            at -= 1
        best[at] = value
        held = min(held + 1, k)
    return best[k - 1] if held == k else -np.inf


@njit(cache=True, error_model="numpy", nogil=True)
def promising(
    approximate: Floats32, peak: Floats32, size: int, floor: float, first: int, order: Any, barred: Any, out: Any
) -> int:
    """Write the places of the items at or above ``floor`` that are not barred to ``out``; return how many there are."""
    count = 0
    for tile in range((size + LANES - 1) // LANES):
        if peak[tile] < floor:
            continue
        for place in range(tile * LANES, min(size, (tile + 1) * LANES)):
            if approximate[place] >= floor and not (len(barred) and barred[order[first + place]]):
                out[count] = first + place
                count += 1
    return count


@njit(cache=True, error_model="numpy", nogil=True)
def settle(
    approximate: Floats32,
    peak: Floats32,
    first: int,
    size: int,
    margin: float,
    step: float,
    vectors: Floats32,
    user: Floats32,
    order: Any,
    barred: Any,
    best: Floats32,
    chosen: Any,
    true: Floats32,
    scores: Floats32,
    rows: Any,
    filled: int,
) -> int:
    """Fold ``size`` of the sorted vectors, from ``first`` on, into the best of their cell: scores and rows.

    ``filled`` of those are there already. Approximate scores are in units of ``step``; ``best``, ``chosen``, ``true``
    are scratch space; an empty ``barred`` bars nothing.
    """
    k, tiles = len(scores), (size + LANES - 1) // LANES
    if size % LANES:  # lanes beyond the cell hold zeros, which must not pass for an item's score
        peak[tiles - 1] = approximate[(tiles - 1) * LANES : size].max()
    # The k-th best peak is a score that k items reach, so it can stand for the k-th best score, in a sixteenth of the
    # time; a peak may be a barred item's, so with those every item is looked at.
    if len(barred):
        floor = kth_best(approximate, size, first, order, barred, best)
    else:
        floor = kth_best(peak, tiles, first, order, barred, best)
    floor -= 2 * margin / step
    if filled == k:  # what was found before is exact: only the item's own error counts
        floor = max(floor, (scores[k - 1] - margin) / step)
    found = promising(approximate, peak, size, floor, first, order, barred, chosen)
    for place in range(found):  # apart from the insertion, so that the loads from memory overlap
        true[place] = exact_score(vectors, chosen[place], user)
    for place in range(found):
        filled = insert(scores, rows, filled, true[place], order[chosen[place]])
    return filled


@njit(cache=True, error_model="numpy", nogil=True)
def scan(
    vectors: Floats32,
    order: Any,
    start: Any,
    tile_start: Any,
    tiles: Any,
    scale: Floats32,
    spread: Floats32,
    users: Floats32,
    barred: Any,
    rows: Any,
    scores: Floats32,
) -> None:
    """The best of every cell for every user, into rows and scores (B, C, k), which hold −1 and −∞ on entry.

    An empty ``barred`` bars nothing. Approximate scores stay in units of t, the user's own step.
    """
    count, d = users.shape
    k = rows.shape[2]
    groups = (d + 1) // 2
    width = 2 * groups
    table = np.zeros((count, width), np.int16)
    measures = np.empty((count, 3))
    for b in range(count):
        measures[b, 0], measures[b, 1], measures[b, 2] = quantise_user(users[b], table[b])
    query = table.reshape(-1)
    approximate, peak = np.empty(count * SEGMENT, np.float32), np.empty(count * SEGMENT // LANES, np.float32)
    best, filled = np.empty(k, np.float32), np.empty(count, np.int64)
    chosen, true = np.empty(SEGMENT, np.int64), np.empty(SEGMENT, np.float32)
    for c in range(len(start) - 1):
        filled[:] = 0
        for first in range(start[c], start[c + 1], SEGMENT):
            size = min(SEGMENT, start[c + 1] - first)
            tile_count = (size + LANES - 1) // LANES
            begin = tile_start[c] + (first - start[c]) // LANES
            for tile in range(tile_count):
                at, scale_at = (begin + tile) * groups * 2 * LANES, (begin + tile) * LANES
                b = 0
                while b + 8 <= count:
                    out_at, peak_at = b * SEGMENT + tile * LANES, b * (SEGMENT // LANES) + tile
                    eight_users(tiles, at, query, b, width, scale, scale_at, approximate, out_at, peak, peak_at)
                    b += 8
                while b < count:
                    out_at, peak_at = b * SEGMENT + tile * LANES, b * (SEGMENT // LANES) + tile
                    one_user(tiles, at, query, b, width, scale, scale_at, approximate, out_at, peak, peak_at)
                    b += 1
            for b in range(count):
                step, length, rest = measures[b]
                filled[b] = settle(
                    approximate[b * SEGMENT :],
                    peak[b * (SEGMENT // LANES) :],
                    first,
                    size,
                    error_bound(spread[c], length, rest),
                    step,
                    vectors,
                    users[b],
                    order,
                    barred,
                    best,
                    chosen,
                    true,
                    scores[b, c],
                    rows[b, c],
                    filled[b],
                )


@njit(cache=True, error_model="numpy", nogil=True, fastmath=True)
def hopes(
    user: Floats32,
    turned: Floats32,
    centre: Floats32,
    reach: Floats32,
    first: int,
    last: int,
    optimism: float,
    out: Any,
) -> None:
    """What the best item of each block may score: an upper bound for optimism 0, else mean + optimism · deviation.

    ``turned`` is the user in principal coordinates; ``reach`` holds, for each block, the half-widths of its box in the
    leading ones and the radius in the rest (optimism 0), or the deviations in the same coordinates.
    """
    leading = reach.shape[1] - 1
    beyond = np.float32(0)
    for j in range(leading, len(turned)):
        beyond += turned[j] * turned[j]
    for block in range(first, last):
        middle, spread = np.float32(0), np.float32(0)
        for j in range(len(user)):
            middle += user[j] * centre[block, j]
        if optimism == 0:
            for j in range(leading):
                spread += abs(turned[j]) * reach[block, j]
            out[block - first] = middle + spread + math.sqrt(beyond) * reach[block, leading]
        else:
            for j in range(leading):
                spread += (turned[j] * reach[block, j]) ** 2
            out[block - first] = middle + optimism * math.sqrt(spread + beyond * reach[block, leading] ** 2)


@njit(cache=True, error_model="numpy", nogil=True)
def climb(
    vectors: Floats32,
    order: Any,
    first_block: Any,
    start: Any,
    tile_start: Any,
    tiles: Any,
    scale: Floats32,
    spread: Floats32,
    centre: Floats32,
    reach: Floats32,
    optimism: float,
    users: Floats32,
    turned: Floats32,
    barred: Any,
    rows: Any,
    scores: Floats32,
) -> int:
    """The best of every cell, its blocks visited best hope first, until the k-th best found beats every hope left.

    Returns how many blocks were visited.
    """
    count, d = users.shape
    k = rows.shape[2]
    groups = (d + 1) // 2
    width = 2 * groups
    query = np.zeros(width, np.int16)
    approximate, peak = np.empty(SEGMENT, np.float32), np.empty(SEGMENT // LANES, np.float32)
    best, chosen, true = np.empty(k, np.float32), np.empty(SEGMENT, np.int64), np.empty(SEGMENT, np.float32)
    hope = np.empty(np.max(np.diff(first_block)) + 1)
    visited = 0
    for b in range(count):
        step, length, rest = quantise_user(users[b], query)
        for c in range(len(first_block) - 1):
            blocks = first_block[c + 1] - first_block[c]
            hopes(users[b], turned[b], centre, reach, first_block[c], first_block[c + 1], optimism, hope)
            filled = 0
            for _ in range(blocks):
                pick = np.argmax(hope[:blocks])
                slack = 1e-5 * spread[first_block[c] + pick, 1] * length  # rounding of the bound itself
                if filled == k and hope[pick] + slack < scores[b, c, k - 1]:
                    break
                hope[pick] = -np.inf
                block = first_block[c] + pick
                visited += 1
                first, size = start[block], start[block + 1] - start[block]
                for tile in range((size + LANES - 1) // LANES):
                    at, scale_at = (tile_start[block] + tile) * groups * 2 * LANES, (tile_start[block] + tile) * LANES
                    one_user(tiles, at, query, 0, width, scale, scale_at, approximate, tile * LANES, peak, tile)
                filled = settle(
                    approximate,
                    peak,
                    first,
                    size,
                    error_bound(spread[block], length, rest),
                    step,
                    vectors,
                    users[b],
                    order,
                    barred,
                    best,
                    chosen,
                    true,
                    scores[b, c],
                    rows[b, c],
                    filled,
                )
    return visited
