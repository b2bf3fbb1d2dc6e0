"""The compiled searches of retrieval: the best of every cell from approximate scores, exactly.

Let a_i be the approximate score of item i and m_i the margin of its tile, so that its true score, in float32, lies in
[a_i − m_i, a_i + m_i] (tiles.py). If k items have a_i − m_i ≥ L, then the k-th best true score is at least L, and an
item with a_i + m_i < L is not among the best k; nor is one with a_i + m_i below the k-th best true score found so far.
All others are scored in float32. Ties aside the result is exact, over the items looked at: all of them (``scan``), or
those of the blocks that may matter (``climb``).

numba's cache does not see that tiles.py has changed: delete __pycache__/*.nb* after editing it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setwise._types import Floats32
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import INNER, OUTER, ZERO, njit
from setwise.retrieval.int8_tiles import LANES, SEGMENT, eight_users, one_user, quantise_user, rounding

_REORDER = {"reassoc", "contract", "nsz"}  # of fastmath, what vector code needs; an infinity stays one


@njit(**INNER, fastmath=_REORDER)
def exact_score(vectors: Floats32, i: int, user: Floats32) -> np.float32:
    """v_i · y in float32."""
    total = np.float32(0)
    for j in range(len(user)):
        total += vectors[i, j] * user[j]
    return total


@njit(**INNER)
def insert(scores: Any, rows: Any, filled: int, score: Any, row: int) -> int:
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


@njit(**INNER)
def reached_by_items(
    approximate: Floats32, margin: Any, size: int, first: int, order: Any, eligible: Any, best: Any, best_at: Any
) -> float:
    """The k-th best that items surely reach, k = len(best); −∞ when fewer may be returned."""
    k, held = len(best), ZERO
    for place in range(size):
        if len(eligible) == 0 or eligible[order[first + place]]:
            held = insert(best, best_at, held, approximate[place] - margin[place // LANES], place)
    return best[k - 1] if held == k else -np.inf


@njit(**INNER)
def reached(
    approximate: Floats32, peak: Floats32, margin: Any, size: int, first: int, order: Any, eligible: Any, best: Any,
    best_at: Any,
) -> float:  # fmt: skip
    """L: a score that k = len(best) items surely reach; −∞ when none is known.

    A tile's peak less its margin is reached by one item at least, so the k-th best of the tiles will do, in a
    sixteenth of the time; a peak may belong to an item that is not eligible, so with a mask the
    items of promising tiles are examined. Where there are fewer tiles than k, all items are.
    """
    k, held, tiles = len(best), ZERO, (size + LANES - 1) // LANES
    if tiles < k:
        return float(reached_by_items(approximate, margin, size, first, order, eligible, best, best_at))
    for tile in range(tiles):
        sure = peak[tile] - margin[tile]
        if held == k and sure <= best[k - 1]:
            continue
        if len(eligible) == 0:
            held = insert(best, best_at, held, sure, tile)
            continue
        for place in range(tile * LANES, min(size, (tile + 1) * LANES)):
            if eligible[order[first + place]]:
                held = insert(best, best_at, held, approximate[place] - margin[tile], place)
    return best[k - 1] if held == k else -np.inf


@njit(**INNER)
def promising(
    approximate: Floats32, peak: Floats32, margin: Any, size: int, floor: float, first: int, order: Any, eligible: Any,
    out: Any,
) -> int:  # fmt: skip
    """Write the places of the items that may reach ``floor`` and are eligible to ``out``; return how many."""
    count = 0
    for tile in range((size + LANES - 1) // LANES):
        least = floor - margin[tile]
        if peak[tile] < least:
            continue
        for place in range(tile * LANES, min(size, (tile + 1) * LANES)):
            if approximate[place] >= least and (len(eligible) == 0 or eligible[order[first + place]]):
                out[count] = first + place
                count += 1
    return count


@njit(**INNER)
def settle(
    approximate: Floats32,
    peak: Floats32,
    spread: Any,
    first: int,
    size: int,
    measure: Any,
    vectors: Floats32,
    user: Floats32,
    order: Any,
    eligible: Any,
    margin: Any,
    best: Any,
    best_at: Any,
    chosen: Any,
    true: Floats32,
    scores: Floats32,
    rows: Any,
    filled: int,
) -> int:
    """Fold ``size`` of the sorted vectors, from ``first`` on, into the best of their cell: scores and rows.

    ``filled`` of those are there already. ``spread`` begins at the first tile; ``measure`` is what ``quantise_user``
    returned, and approximate scores and margins are in units of t; ``margin``, ``best``, ``best_at``, ``chosen`` and
    ``true`` are scratch space; with an empty ``eligible`` every item is.
    """
    k, tiles = len(scores), (size + LANES - 1) // LANES
    step, alpha, beta, gamma = measure[0], measure[1], measure[2], measure[3]
    for tile in range(tiles):
        margin[tile] = alpha * spread[tile, 0] + beta * spread[tile, 1] + gamma
    if size % LANES:  # lanes beyond the cell hold zeros, which must not pass for an item's score
        peak[tiles - 1] = approximate[(tiles - 1) * LANES : size].max()
    floor = reached(approximate, peak, margin, size, first, order, eligible, best, best_at)
    if filled == k:
        floor = max(floor, scores[k - 1] / step)
    found = promising(approximate, peak, margin, size, floor, first, order, eligible, chosen)
    for place in range(found):  # apart from the insertion, so that the loads from memory overlap
        true[place] = exact_score(vectors, chosen[place], user)
    for place in range(found):
        filled = insert(scores, rows, filled, true[place], order[chosen[place]])
    return filled


@njit(**INNER)
def score_tiles(
    tiles: Any, begin: int, count: int, query: Any, users: int, width: int, scale: Floats32, approximate: Floats32,
    peak: Floats32,
) -> None:  # fmt: skip
    """Approximate scores of ``count`` tiles from ``begin`` on for every user, and the largest score of each tile."""
    for tile in range(count):
        at, scale_at = (begin + tile) * width * LANES, (begin + tile) * LANES
        b = 0
        while b + 8 <= users:
            out_at, peak_at = b * SEGMENT + tile * LANES, b * (SEGMENT // LANES) + tile
            eight_users(tiles, at, query, b, width, scale, scale_at, approximate, out_at, peak, peak_at)
            b += 8
        while b < users:
            out_at, peak_at = b * SEGMENT + tile * LANES, b * (SEGMENT // LANES) + tile
            one_user(tiles, at, query, b, width, scale, scale_at, approximate, out_at, peak, peak_at)
            b += 1


@njit(**OUTER)
def scan(
    vectors: Floats32,
    order: Any,
    start: Any,
    tile_start: Any,
    tiles: Any,
    scale: Floats32,
    spread: Any,
    users: Floats32,
    eligible: Any,
    rows: Any,
    scores: Floats32,
) -> None:
    """The best of every cell for every user, into rows and scores (B, C, k), which hold −1 and −∞ on entry.

    With an empty ``eligible`` every item is. Approximate scores stay in units of t, the user's own step.
    """
    count, d = users.shape
    k = rows.shape[2]
    width = 2 * ((d + 1) // 2)
    table, measures = np.zeros((count, width), np.int16), np.empty((count, 4))
    for b in range(count):
        measures[b, 0], measures[b, 1], measures[b, 2], measures[b, 3] = quantise_user(users[b], table[b])
    query = table.reshape(-1)
    approximate, peak = np.empty(count * SEGMENT, np.float32), np.empty(count * SEGMENT // LANES, np.float32)
    margin, best, best_at = np.empty(SEGMENT // LANES), np.empty(k), np.empty(k, np.int64)
    chosen, true, filled = np.empty(SEGMENT, np.int64), np.empty(SEGMENT, np.float32), np.empty(count, np.int64)
    for c in range(len(start) - 1):
        filled[:] = 0
        for first in range(start[c], start[c + 1], SEGMENT):
            size = min(SEGMENT, start[c + 1] - first)
            begin = tile_start[c] + (first - start[c]) // LANES
            score_tiles(tiles, begin, (size + LANES - 1) // LANES, query, count, width, scale, approximate, peak)
            for b in range(count):
                filled[b] = settle(
                    approximate[b * SEGMENT :], peak[b * (SEGMENT // LANES) :], spread[begin:], first, size,
                    measures[b], vectors, users[b], order, eligible, margin, best, best_at, chosen, true, scores[b, c],
                    rows[b, c], filled[b],
                )  # fmt: skip


@njit(**INNER, fastmath=_REORDER)
def block_bounds(
    user: Any, turned: Any, centre: Floats32, reach: Any, first: int, last: int, optimism: float, out: Any
) -> None:
    """The largest score in each block: an upper bound for optimism 0, an estimate mean + optimism · deviation else.

    ``turned`` is (|z_1|, …, |z_m|, ‖z_rest‖, ‖y‖) of the user y, z being y in principal coordinates. Against these,
    ``reach`` holds, for each block, the half-widths of its box in the leading coordinates and the radius in the rest
    (optimism 0), or the deviations in the same; and the norm of its longest item, for the rounding of true scores. In
    float64 nothing here can overflow or underflow.
    """
    directions, d = len(turned) - 1, len(user)
    relative, absolute = rounding(d)
    relative *= turned[directions]
    for block in range(first, last):
        middle, away = 0.0, 0.0
        for j in range(d):
            middle += user[j] * centre[block, j]
        if optimism == 0:
            for j in range(directions):
                away += turned[j] * reach[block, j]
        else:
            for j in range(directions):
                away += (turned[j] * reach[block, j]) ** 2
            away = optimism * math.sqrt(away)
        out[block - first] = middle + away + relative * reach[block, directions] + absolute


@njit(**OUTER)
def climb(
    vectors: Floats32,
    order: Any,
    first_block: Any,
    start: Any,
    tile_start: Any,
    tiles: Any,
    scale: Floats32,
    spread: Any,
    centre: Floats32,
    reach: Any,
    optimism: float,
    users: Floats32,
    turned: Any,
    eligible: Any,
    rows: Any,
    scores: Floats32,
) -> int:
    """The best of every cell: blocks in order of their bound, until the k-th best score beats every bound left.

    Returns how many blocks were visited.
    """
    k, visited = rows.shape[2], 0
    width = 2 * ((users.shape[1] + 1) // 2)
    query, wide = np.zeros(width, np.int16), np.empty(users.shape[1])
    approximate, peak = np.empty(SEGMENT, np.float32), np.empty(SEGMENT // LANES, np.float32)
    margin, best, best_at = np.empty(SEGMENT // LANES), np.empty(k), np.empty(k, np.int64)
    chosen, true = np.empty(SEGMENT, np.int64), np.empty(SEGMENT, np.float32)
    most = 0
    for c in range(len(first_block) - 1):
        most = max(most, first_block[c + 1] - first_block[c])
    bound, measure, alone = np.empty(most + 1), np.empty(4), np.int64(1)
    for b in range(len(users)):
        measure[0], measure[1], measure[2], measure[3] = quantise_user(users[b], query)
        copy_entries(wide, users[b], len(wide))
        for c in range(len(first_block) - 1):
            blocks = first_block[c + 1] - first_block[c]
            block_bounds(wide, turned[b], centre, reach, first_block[c], first_block[c + 1], optimism, bound)
            filled = ZERO
            for _ in range(blocks):
                pick = np.argmax(bound[:blocks])
                if filled == k and bound[pick] < scores[b, c, k - 1]:
                    break
                bound[pick] = -np.inf  # visited: the others have a finite bound
                block = first_block[c] + pick
                visited += 1
                first, size, begin = start[block], start[block + 1] - start[block], tile_start[block]
                score_tiles(tiles, begin, (size + LANES - 1) // LANES, query, alone, width, scale, approximate, peak)
                filled = settle(
                    approximate, peak, spread[begin:], first, size, measure, vectors, users[b], order, eligible, margin,
                    best, best_at, chosen, true, scores[b, c], rows[b, c], filled,
                )  # fmt: skip
    return visited
