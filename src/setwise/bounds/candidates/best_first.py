"""The compiled search: best-first branch and bound, one root for every size of set.

A node is (members P, candidates C, places q): the sets P ∪ R with R ⊂ C, |R| = q. Expanding one bounds its items, drops
those that cannot be part of a set better than the incumbent, bounds pairs, drops again, and branches: the t-th child
takes the t-th candidate of some order in and leaves those before it out. With q = 2 the pairs left are evaluated and
nothing is branched.

The order is that of a head's scores while there are heads whose highest newcomer is not known, because that one caps
every average of its head; after that it is the order of the bounds given each candidate. Pairs are bounded only then:
caps are cheaper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise._types import Floats, Ints
from setwise.bounds.candidates.item_bounds import (
    DENOMINATOR,
    INNER,
    PEAK,
    SINK,
    bound_items,
    insert,
    padded,
    remember,
    rest_without,
    reward_above,
    set_value,
)
from setwise.bounds.candidates.pair_bounds import GIVEN, NONE, bound_members, bound_pairs, bound_whole, look_at, thin

OPEN, FREE, NODES, SIZE, WORK, NEXT = 0, 1, 2, 3, 4, 5  # places in Tree.tally
VALUE, CUT = 0, 1  # places in Tree.level
MEMBERS, PLACES, STAGE, ROOT = 0, 1, 2, 3  # columns of Tree.kind
FINISHED, PAUSED, FULL = 0, 1, 2
TOLERANCE = 5e-10  # relative to Σ |f_i|: sets that are better by no more than this are not looked for


class Tree(NamedTuple):
    """The open nodes, a heap by bound; each points to the slot that keeps the node."""

    bound: Floats  # (slots,) heap
    slot: Ints  # (slots,) heap
    free: Ints  # (slots,) stack of slots not in use
    kind: Ints  # (slots, 4): members, places, heads whose highest newcomer is known, whether a root
    chosen: NDArray[np.int32]  # (slots, k)
    mask: NDArray[np.uint64]  # (slots, words): the candidates, one bit each
    tally: Ints  # (6,): open nodes, free slots, nodes expanded, incumbent's size, work done, work of the next node
    level: Floats  # (2,): value of the incumbent, and what a node must exceed
    best: Ints  # (k,): the incumbent
    trial: Ints  # (k,)


@njit(**INNER)
def push(heap: Floats, slots: Ints, at: int, bound: float, slot: int) -> None:
    """Put a node into the heap of ``at`` nodes."""
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] >= bound:
            break
        heap[at], slots[at] = heap[parent], slots[parent]
        at = parent
    heap[at], slots[at] = bound, slot


@njit(**INNER)
def pop(heap: Floats, slots: Ints, last: int) -> None:
    """Take the first node out of the heap, of which ``last`` nodes remain."""
    bound, slot, at = heap[last], slots[last], 0
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= bound:
            break
        heap[at], slots[at] = heap[child], slots[child]
        at = child
    heap[at], slots[at] = bound, slot


@njit(**INNER)
def sort_falling(order: Ints, n: int, key: Floats) -> None:
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


@njit(cache=True, nogil=True, error_model="numpy")
def offer(problem: Any, tree: Any, size: int) -> None:
    """Take the first ``size`` of ``tree.trial`` as the incumbent if they are better."""
    value, magnitude = set_value(problem, tree.trial, size)
    if value > tree.level[VALUE]:
        tree.level[VALUE] = value
        tree.level[CUT] = value + TOLERANCE * magnitude
        tree.tally[SIZE] = size
        for place in range(size):
            tree.best[place] = tree.trial[place]


@njit(**INNER)
def keep(
    tree: Any, node: Any, p: int, newcomer: int, places: int, stage: int, first: int, left: int, paired: bool,
    bound: float,
) -> None:  # fmt: skip
    """Open a child: the members, ``newcomer`` (−1: none), and of the candidates order[first:left] its partners."""
    tree.tally[FREE] -= 1
    slot = tree.free[tree.tally[FREE]]
    for place in range(p):
        tree.chosen[slot, place] = node.item[place]
    size = p
    if newcomer >= 0:
        tree.chosen[slot, p] = node.item[p + newcomer]
        size += 1
    kind = tree.kind[slot]
    kind[MEMBERS], kind[PLACES], kind[STAGE], kind[ROOT] = size, places, stage, 0
    for word in range(tree.mask.shape[1]):
        tree.mask[slot, word] = 0
    for place in range(first, left):
        c = node.order[place]
        if not paired or node.pair[p + newcomer, c] > NONE:
            member = node.item[p + c]
            tree.mask[slot, member >> 6] |= np.uint64(1) << np.uint64(member & 63)
    push(tree.bound, tree.slot, tree.tally[OPEN], bound, slot)
    tree.tally[OPEN] += 1


@njit(**INNER)
def capped_reward(problem: Any, node: Any, r: int, h: int, cap: float) -> float:
    """Bound on row r's reward when no score of head h exceeds ``cap``."""
    i = node.item[r]
    a = problem.base[i, 0] + problem.base[i, 1]
    for g in range(problem.score.shape[0]):
        peak = node.sums[r, g, PEAK]
        if g == h:
            peak = min(peak, padded(cap if node.sums[r, g, DENOMINATOR] > 0 else max(cap, 0.0), problem.head, h))
        a += peak
    return float(reward_above(problem.reward, problem.knot, problem.reward_class[i], a))


@njit(**INNER)
def capped(problem: Any, node: Any, p: int, n: int, q: int, h: int, cap: float, first: int) -> float:
    """Bound by single items when no score of head h exceeds ``cap`` and only order[first:] may join, of whom q must."""
    total, best = 0.0, node.best[0]
    for r in range(p):
        total += capped_reward(problem, node, r, h, cap)
    if q == 0:
        return total
    for place in range(q):
        best[place] = NONE
    for at in range(n):
        c = node.by_single[at]
        if node.single[p + c] <= best[q - 1]:
            break  # a cap only lowers, and ``single`` falls from here on
        if node.place[c] >= first:
            insert(best, q, capped_reward(problem, node, p + c, h, cap))
    for place in range(q):
        total += best[place]
    return total


@njit(**INNER)
def branch_on_head(problem: Any, node: Any, tree: Any, p: int, n: int, q: int, stage: int, limit: float) -> None:
    """Children by the highest newcomer in the next head, and one where none exceeds the members and the sink."""
    h, order, left, floor = problem.heads_in_order[stage], node.order, 0, NONE
    for r in range(p + n):
        if r < p:
            floor = max(floor, problem.score[h, node.item[r]])
        if problem.sink_weight[h, node.item[r]] > 0:
            floor = max(floor, problem.head[h, SINK])
    for c in range(n):
        node.by_single[c], node.place[c] = c, -1
        if node.alive[c]:
            order[left] = c
            left += 1
    sort_falling(node.by_single, n, node.single[p:])
    sort_falling(order, left, node.score[h])
    for t in range(left):
        node.place[order[t]] = t
    cut, t = tree.level[CUT], 0
    while t <= left - q and node.score[h, order[t]] > floor:
        i = order[t]
        cap = node.score[h, i]
        if capped(problem, node, p, n, q, h, cap, t) <= cut:
            return
        bound = capped_reward(problem, node, p + i, h, cap) + capped(problem, node, p, n, q - 1, h, cap, t + 1)
        bound = min(limit, bound)
        if bound > cut:
            keep(tree, node, p, i, q - 1, stage + 1, t + 1, left, False, bound)
        t += 1
    if left - t >= q and floor > NONE:
        bound = min(limit, capped(problem, node, p, n, q, h, floor, t))
        if bound > cut:
            keep(tree, node, p, -1, q, stage + 1, t, left, False, bound)


@njit(**INNER)
def branch(node: Any, tree: Any, p: int, q: int, stage: int, left: int, limit: float) -> None:
    """Children by candidate, the one with the highest bound first; partners among those after it."""
    order, about, cut = node.order, node.about, tree.level[CUT]
    for t in range(left):
        node.key[order[t]] = about[order[t], GIVEN]
    sort_falling(order, left, node.key)
    for t in range(left - q + 1):
        i = order[t]
        if look_at(node.pair, about, node.best, p, q, i, order, t + 1, left):
            bound = min(limit, about[i, GIVEN])
            if bound > cut:
                keep(tree, node, p, i, q - 1, stage, t + 1, left, True, bound)


@njit(**INNER)
def sift(problem: Any, node: Any, p: int, n: int, q: int, cut: float, root: bool) -> tuple[int, float]:
    """Bound items and drop those that cannot beat ``cut``: rows left (0: none), and the bound.

    When a tenth goes, the rest is bounded again: its company is poorer now. Fewer only lose their place in ``alive``.
    """
    while n >= q:
        bound_items(problem, node, p, n, q)
        most = 0.0
        for r in range(p):
            most += node.single[r]
        for place in range(q):
            most += node.best[3, place]
        if root:
            remember(node, p, n, q, problem.score.shape[0])
            sort_falling(node.known_order[p + q], problem.score.shape[1], node.known[p + q, :, 0])
            root = False
        if most <= cut:
            return 0, most
        for c in range(n):
            r = p + c
            node.alive[c] = rest_without(node.single, node.best[3], p, q, r) + node.single[r] > cut
        left = bound_members(problem, node, p, n, q, cut)
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
def try_all(problem: Any, node: Any, tree: Any, p: int, q: int, left: int) -> None:
    """Evaluate every set of a node with one place or two to fill."""
    order, trial = node.order, tree.trial
    for place in range(p):
        trial[place] = node.item[place]
    for one in range(left):
        trial[p] = node.item[p + order[one]]
        if q == 1:
            offer(problem, tree, p + 1)
            continue
        for two in range(one):
            if node.pair[p + order[one], order[two]] > NONE:
                trial[p + 1] = node.item[p + order[two]]
                offer(problem, tree, p + 2)


@njit(**INNER)
def expand(problem: Any, node: Any, tree: Any, p: int, n: int, q: int, stage: int, limit: float, root: bool) -> None:
    """Bound one node and open its children."""
    if q == 0:
        for place in range(p):
            tree.trial[place] = node.item[place]
        offer(problem, tree, p)
        return
    cut = tree.level[CUT]
    n, most = sift(problem, node, p, n, q, cut, root)
    if n == 0:
        return
    if q > 2 and stage < problem.score.shape[0]:
        branch_on_head(problem, node, tree, p, n, q, stage, min(limit, most))
        return
    left = 0
    if q == 1:
        for c in range(n):
            if node.alive[c]:
                node.order[left] = c
                left += 1
    else:
        bound_pairs(problem, node, p, n, q, cut)
        left = thin(node.pair, node.about, node.best, node.alive, node.order, p, n, q, cut)
    if q <= 2:
        try_all(problem, node, tree, p, q, left)
    elif left >= q:
        limit = min(min(limit, most), bound_whole(node.pair, node.about, node.best, node.order, p, q, left))
        if limit > cut:
            branch(node, tree, p, q, stage, left, limit)


@njit(**INNER)
def admitted(labels: Ints, limits: Ints, item: Ints, p: int, n: int) -> int:
    """How many of the n candidates are left when those go whose groups are full."""
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
    """About what expanding a node costs at most, in steps of the inner loops: pairs, or all rows, or a few."""
    if stage == heads or q == 2:
        return n * n * (16 * heads + 24) + 100
    return n * (n if root else min(n, 40)) * (4 * heads + 4) + 100


@njit(cache=True, nogil=True, error_model="numpy")
def search(problem: Any, node: Any, tree: Any, most_nodes: int, most_work: int) -> int:
    """Expand nodes, highest bound first, until none can hold a better set or a limit is met; at least one if allowed.

    FULL: there may not be slots for the children of one more node.
    """
    heads, m = problem.score.shape
    began, tally = tree.tally[NODES], tree.tally
    while tally[OPEN] > 0:
        limit, slot = tree.bound[0], tree.slot[0]
        if limit <= tree.level[CUT]:
            return FINISHED
        p, q, stage, n = tree.kind[slot, MEMBERS], tree.kind[slot, PLACES], tree.kind[slot, STAGE], 0
        root = tree.kind[slot, ROOT] == 1
        for place in range(p):
            node.item[place] = tree.chosen[slot, place]
        for i in range(m):
            if (tree.mask[slot, i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
                node.item[p + n] = i
                n += 1
        n = admitted(problem.labels, problem.limits, node.item, p, n)
        tally[NEXT] = work_of(n, q, stage, root, heads)
        if tally[NODES] >= most_nodes or (tally[NODES] > began and tally[WORK] + tally[NEXT] > most_work):
            return PAUSED
        if tally[FREE] < m:
            return FULL
        tally[OPEN] -= 1
        pop(tree.bound, tree.slot, tally[OPEN])
        tree.free[tally[FREE]] = slot
        tally[FREE] += 1
        tally[NODES] += 1
        tally[WORK] += tally[NEXT]
        expand(problem, node, tree, p, n, q, stage, limit, root)
    return FINISHED
