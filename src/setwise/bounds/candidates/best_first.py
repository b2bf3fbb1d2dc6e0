"""Compiled best-first branch and bound, with one root for every set size.

A node is (members P, candidates C, places q): the sets P ∪ R with R ⊂ C, |R| = q. Expanding it bounds its items, prunes
those that no set better than the incumbent contains, bounds pairs, prunes again, and branches: the t-th child contains
the t-th candidate of some order and none of those before it. With q = 2 the remaining pairs are evaluated and there is
no branching.

While a head's highest added score is not fixed, the order is that of the head's scores, because that score caps every
average of the head. After that it is the order of the bounds given each candidate. Pairs are bounded only then, because
caps are cheaper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Ints
from setwise.bounds.candidates.item_bounds import (
    DENOMINATOR,
    PEAK,
    SINK,
    bound_items,
    bound_of_others,
    padded,
    set_value,
    store_root_bounds,
    worth_upper,
)
from setwise.bounds.candidates.pair_bounds import (
    GIVEN,
    NONE,
    bound_members,
    bound_node,
    bound_pairs,
    bound_with_candidate,
    prune,
)
from setwise.bounds.candidates.sum_limits import drop_beyond_sums, keeps_sums
from setwise.kernels.heap import pop_top, push_entry
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import INNER, NO, NO_ITEM, OUTER, YES, ZERO, njit

OPEN, FREE, NODES, SIZE, WORK, NEXT = 0, 1, 2, 3, 4, 5  # places in NodeQueue.tally
VALUE, CUT = 0, 1  # places in NodeQueue.level
MEMBERS, PLACES, STAGE, ROOT = 0, 1, 2, 3  # columns of NodeQueue.kind
FINISHED, PAUSED, FULL = 0, 1, 2
TOLERANCE = 5e-10  # relative to Σ |f_i|: the search_nodes ignores smaller improvements


class NodeQueue(NamedTuple):
    """The open nodes: a heap by bound, whose entries are the slots that hold the nodes."""

    bound: Floats  # (slots,) keys of the heap
    slot: Ints  # (slots,) entries of the heap
    free: Ints  # (slots,) stack of unused slots
    kind: Ints  # (slots, 4): members, places, heads whose highest added score is fixed, whether a root
    chosen: NDArray[np.int32]  # (slots, k)
    mask: NDArray[np.uint64]  # (slots, words): the candidates, one bit each
    tally: Ints  # (6,): open nodes, free slots, nodes expanded, incumbent's size, work done, work of the next node
    level: Floats  # (2,): value of the incumbent, and what the bound of a node must exceed
    best: Ints  # (k,): the incumbent
    trial: Ints  # (k,)


@njit(**INNER)
def sort_descending(order: Ints, n: int, key: Floats) -> None:
    """Shell's sort of the first n of ``order`` by key, largest first; equal keys by number."""
    gap = n // 2
    while gap > 0:
        for at in range(gap, n):
            i, place = order[at], at
            while place >= gap:
                j = order[place - gap]
                if key[j] > key[i] or (key[j] == key[i] and j < i):
                    break
                order[place] = j
                place -= gap
            order[place] = i
        gap //= 2


@njit(**OUTER)
def offer_set(data: Any, queue: Any, size: int) -> None:
    """Make the first ``size`` of ``queue.trial`` the incumbent if they are better and keep the limits of sums."""
    if len(data.cost) and not keeps_sums(data.cost, data.ends[0], data.ends[1], queue.trial, size):
        return
    value, magnitude = set_value(data, queue.trial, size)
    if value > queue.level[VALUE]:
        queue.level[VALUE] = value
        queue.level[CUT] = value + TOLERANCE * magnitude - data.constant[0]
        queue.tally[SIZE] = size
        for place in range(size):
            queue.best[place] = queue.trial[place]


@njit(**INNER)
def open_child(
    queue: Any, node: Any, p: int, added: int, places: int, stage: int, first: int, left: int, paired: bool,
    bound: float,
) -> None:  # fmt: skip
    """Push a child: the members, the candidate ``added`` (−1: none), and its partners among order[first:left]."""
    queue.tally[FREE] -= 1
    slot = queue.free[queue.tally[FREE]]
    for place in range(p):
        queue.chosen[slot, place] = node.item[place]
    size = p
    if added >= 0:
        queue.chosen[slot, p] = node.item[p + added]
        size += 1
    kind = queue.kind[slot]
    kind[MEMBERS], kind[PLACES], kind[STAGE], kind[ROOT] = size, places, stage, 0
    for word in range(queue.mask.shape[1]):
        queue.mask[slot, word] = 0
    for place in range(first, left):
        c = node.order[place]
        if not paired or node.pair[p + added, c] > NONE:
            member = node.item[p + c]
            queue.mask[slot, member >> 6] |= np.uint64(1) << np.uint64(member & 63)
    push_entry(queue.bound, queue.slot, queue.tally[OPEN], bound, slot)
    queue.tally[OPEN] += 1


@njit(**INNER)
def capped_reward(data: Any, node: Any, r: int, h: int, cap: float) -> float:
    """Bound on row r's reward when no score of head h exceeds ``cap``."""
    i = node.item[r]
    a = data.base[i, 0] + data.base[i, 1]
    for g in range(data.score.shape[0]):
        peak = node.sums[r, g, PEAK]
        if g == h:
            peak = min(peak, padded(cap if node.sums[r, g, DENOMINATOR] > 0 else max(cap, 0.0), data.head, h))
        a += peak
    return float(worth_upper(data, i, a))


@njit(**INNER)
def capped_bound(data: Any, node: Any, p: int, n: int, q: int, h: int, cap: float, first: int) -> float:
    """Bound by single items if no score of head h exceeds ``cap`` and q items of order[first:] are added."""
    total, best = 0.0, node.best[0]
    for r in range(p):
        total += capped_reward(data, node, r, h, cap)
    if q == 0:
        return total
    for place in range(q):
        best[place] = NONE
    for at in range(n):
        c = node.by_single[at]
        if node.single[p + c] <= best[q - 1]:
            break  # a cap only lowers a bound, and ``single`` decreases from here on
        if node.place[c] >= first:
            keep_largest(best, q, capped_reward(data, node, p + c, h, cap))
    for place in range(q):
        total += best[place]
    return total


@njit(**INNER)
def branch_on_head(data: Any, node: Any, queue: Any, p: int, n: int, q: int, stage: int, node_bound: float) -> None:
    """Push one child for each highest added item in the next head, and one where none exceeds members and sink."""
    h, order, left, floor = data.heads_in_order[stage], node.order, ZERO, NONE
    for r in range(p + n):
        if r < p:
            floor = max(floor, data.score[h, node.item[r]])
        if data.sink_weight[h, node.item[r]] > 0:
            floor = max(floor, data.head[h, SINK])
    for c in range(n):
        node.by_single[c], node.place[c] = c, -1
        if node.alive[c]:
            order[left] = c
            left += 1
    sort_descending(node.by_single, n, node.single[p:])
    sort_descending(order, left, node.score[h])
    for t in range(left):
        node.place[order[t]] = t
    cut, t = queue.level[CUT], ZERO
    while t <= left - q and node.score[h, order[t]] > floor:
        i = order[t]
        cap = node.score[h, i]
        if capped_bound(data, node, p, n, q, h, cap, t) <= cut:
            return
        bound = capped_reward(data, node, p + i, h, cap) + capped_bound(data, node, p, n, q - 1, h, cap, t + 1)
        bound = min(node_bound, bound)
        if bound > cut:
            open_child(queue, node, p, i, q - 1, stage + 1, t + 1, left, NO, bound)
        t += 1
    if left - t >= q and floor > NONE:
        bound = min(node_bound, capped_bound(data, node, p, n, q, h, floor, t))
        if bound > cut:
            open_child(queue, node, p, NO_ITEM, q, stage + 1, t, left, NO, bound)


@njit(**INNER)
def branch(node: Any, queue: Any, p: int, q: int, stage: int, left: int, node_bound: float) -> None:
    """Push one child for each candidate, in the order of bounds; its partners are the candidates after it."""
    order, given_candidate, cut = node.order, node.given_candidate, queue.level[CUT]
    for t in range(left):
        node.key[order[t]] = given_candidate[order[t], GIVEN]
    sort_descending(order, left, node.key)
    for t in range(left - q + 1):
        i = order[t]
        if bound_with_candidate(node.pair, given_candidate, node.best, p, q, i, order, t + 1, left):
            bound = min(node_bound, given_candidate[i, GIVEN])
            if bound > cut:
                open_child(queue, node, p, i, q - 1, stage, t + 1, left, YES, bound)


@njit(**INNER)
def bound_and_prune(data: Any, node: Any, p: int, n: int, q: int, cut: float, root: bool) -> tuple[int, float]:
    """Bound items and prune those that cannot beat ``cut``; return the rows left (0: none) and the bound.

    If a tenth or more is pruned, the others are bounded again, with fewer partners. Otherwise the pruned ones are only
    marked in ``alive``.
    """
    while n >= q:
        bound_items(data, node, p, n, q)
        most = 0.0
        for r in range(p):
            most += node.single[r]
        for place in range(q):
            most += node.best[3, place]
        if root:
            store_root_bounds(node, p, n, q, data.score.shape[0])
            sort_descending(node.known_order[p + q], data.score.shape[1], node.known[p + q, :, 0])
            root = False
        if most <= cut:
            return 0, most
        for c in range(n):
            r = p + c
            node.alive[c] = bound_of_others(node.single, node.best[3], p, q, r) + node.single[r] > cut
        left = bound_members(data, node, p, n, q, cut)
        if left < q:
            return 0, most
        if left > 0.9 * n:
            return n, most
        kept = 0
        for c in range(n):
            if node.alive[c]:
                node.item[p + kept] = node.item[p + c]
                kept += 1
        n = kept
    return 0, NONE


@njit(**INNER)
def evaluate_leaves(data: Any, node: Any, queue: Any, p: int, q: int, left: int) -> None:
    """Evaluate every set of a node with one place or two to fill."""
    order, trial = node.order, queue.trial
    for place in range(p):
        trial[place] = node.item[place]
    for one in range(left):
        trial[p] = node.item[p + order[one]]
        if q == 1:
            offer_set(data, queue, p + 1)
            continue
        for two in range(one):
            if node.pair[p + order[one], order[two]] > NONE:
                trial[p + 1] = node.item[p + order[two]]
                offer_set(data, queue, p + 2)


@njit(**INNER)
def expand(data: Any, node: Any, queue: Any, p: int, n: int, q: int, stage: int, node_bound: float, root: bool) -> None:
    """Bound one node and open its children."""
    if q == 0:
        for place in range(p):
            queue.trial[place] = node.item[place]
        offer_set(data, queue, p)
        return
    cut = queue.level[CUT]
    n, most = bound_and_prune(data, node, p, n, q, cut, root)
    if n == 0:
        return
    if q > 2 and stage < data.score.shape[0]:
        branch_on_head(data, node, queue, p, n, q, stage, min(node_bound, most))
        return
    left = ZERO
    if q == 1:
        for c in range(n):
            if node.alive[c]:
                node.order[left] = c
                left += 1
    else:
        bound_pairs(data, node, p, n, q, cut)
        left = prune(node.pair, node.given_candidate, node.best, node.alive, node.order, p, n, q, cut)
    if q <= 2:
        evaluate_leaves(data, node, queue, p, q, left)
    elif left >= q:
        node_bound = min(
            min(node_bound, most), bound_node(node.pair, node.given_candidate, node.best, node.order, p, q, left)
        )
        if node_bound > cut:
            branch(node, queue, p, q, stage, left, node_bound)


@njit(**INNER)
def drop_full_groups(labels: Ints, limits: Ints, item: Ints, p: int, n: int) -> int:
    """Drop candidates whose groups are full; return how many of the n are left."""
    kept = 0
    for c in range(p, p + n):
        open_ = True
        for g in range(len(limits)):
            room = limits[g]
            for r in range(p):
                if labels[g, item[c]] >= 0 and labels[g, item[r]] == labels[g, item[c]]:
                    room -= 1
            open_ = open_ and room > 0
        if open_:
            item[p + kept] = item[c]
            kept += 1
    return kept


@njit(**INNER)
def work_of(n: int, q: int, stage: int, root: bool, heads: int) -> int:
    """An estimate of the cost of expanding a node, in steps of the inner loops: for pairs, all rows, or some rows."""
    if stage == heads or q == 2:
        return n * n * (16 * heads + 24) + 100
    return n * (n if root else min(n, 40)) * (4 * heads + 4) + 100


@njit(**OUTER)
def search_nodes(data: Any, node: Any, queue: Any, max_nodes: int, max_work: int) -> int:
    """Expand nodes, highest bound first, until none can hold a better set or a maximum is reached; at least one node.

    FULL is returned if there may not be slots for the children of one more node.
    """
    heads, m = data.score.shape
    began, tally = queue.tally[NODES], queue.tally
    while tally[OPEN] > 0:
        node_bound, slot = queue.bound[0], queue.slot[0]
        if node_bound <= queue.level[CUT]:
            return FINISHED
        p, q, stage, n = queue.kind[slot, MEMBERS], queue.kind[slot, PLACES], queue.kind[slot, STAGE], ZERO
        root = queue.kind[slot, ROOT] == 1
        for place in range(p):
            node.item[place] = queue.chosen[slot, place]
        for i in range(m):
            if (queue.mask[slot, i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
                node.item[p + n] = i
                n += 1
        n = drop_full_groups(data.labels, data.limits, node.item, p, n)
        if len(data.cost):
            n = drop_beyond_sums(data.cost, data.ends[2], data.ends[3], node.item, node.key, p, n, q)
        tally[NEXT] = work_of(max(n, 0), q, stage, root, heads)
        if tally[NODES] >= max_nodes or (tally[NODES] > began and tally[WORK] + tally[NEXT] > max_work):
            return PAUSED
        if tally[FREE] < m:
            return FULL
        tally[OPEN] -= 1
        pop_top(queue.bound, queue.slot, tally[OPEN])
        queue.free[tally[FREE]] = slot
        tally[FREE] += 1
        tally[NODES] += 1
        tally[WORK] += tally[NEXT]
        if n < 0:  # none of its sets keeps the limits of sums
            continue
        expand(data, node, queue, p, n, q, stage, node_bound, root)
    return FINISHED
