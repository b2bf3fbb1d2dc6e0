"""Compiled upper bounds U_i|j on the reward of item i in sets that contain item j as well.

Notation: item_bounds.py (a node with members P, q places to fill, sums N and D). With j ∈ S beside P ∪ {i}, e − 1 other
items are left to choose and

    h_j(α) = N − αD + min( top_e(α), top_{e−1}(α) + w_ij (s_j − α) )

(top_e: the sum of the e largest terms; the minimum is exact, as j is either among the e largest or not). h_j is the
maximum of one line in α for each choice of the other items, hence convex. So its chord between two values of α lies
above it, and the chord's zero is an upper bound on i's average. top_e and top_{e−1} are computed at five values of α;
each pair then costs one division.

A pair that no set better than the incumbent contains is pruned. So is a candidate with fewer than q − 1 partners left,
and one whose best partners do not suffice. For every i ∈ R = S∖P

    F(S) ≤ Σ_{p∈P} U_p|i + U_i' + (the q − 1 largest U_j|i over partners j),                          (given candidate)

where U_i' is the (q − 1)-th largest U_i|j: the reward of i is at most U_i|j for the worst of its q − 1 partners j. That
reward is also at most the mean of U_i|j over them, so the last two terms may be replaced by the sum of the
q − 1 largest U_i|j / (q − 1) + U_j|i.

The reward of p ∈ P is at most the mean of U_p|i over i ∈ R, and that of i ∈ R at most the mean of U_i|j over j ∈ R∖{i}.
The sum of these means, with the two bounds of each pair shared equally between its items, is

    F(S) ≤ Σ_{i∈R} degree_i,     degree_i = Σ_{p∈P} U_p|i / q + Σ_j (U_i|j + U_j|i) / (2(q − 1)),           (degree)

where j runs over the q − 1 partners of i with the largest sums U_i|j + U_j|i. So F(S) is at most the sum of the q
largest degrees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise._types import Floats
from setwise.bounds.candidates.item_bounds import (
    DENOMINATOR,
    LEAST,
    NUMERATOR,
    PEAK,
    argument_below,
    bound_item,
    bound_of_others,
    padded,
    top_terms,
    worth_upper,
)
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import INNER, ZERO, njit

# Columns of NodeWorkspace.given_candidate, bounds for sets with candidate i: on F(S), on the sum of the members'
# rewards, on the reward of i (U_i'), the sum of the q − 2 largest U_j|i over partners j, and the (q − 1)-th largest.
GIVEN, MEMBERS, OWN, BETTER, WORST = 0, 1, 2, 3, 4
KNOTS = 5  # values of α between which chords are drawn
ROUNDS = 3  # of pruning: later ones prune little
NONE = -np.inf  # a pair that cannot be part of a better set


@njit(**INNER)
def crossing(chord: Floats, weight: float, score: float) -> float:
    """An upper bound on the zero of h_j: that of its chord between neighbouring values of α."""
    high = chord[0, 0]
    above = min(chord[1, 0], chord[2, 0] + weight * (score - high))
    if above >= 0.0:
        return float(high)
    for g in range(1, KNOTS):
        low = chord[0, g]
        below = min(chord[1, g], chord[2, g] + weight * (score - low))
        if below >= 0.0:
            return float(
                high + (high - low) * (above / (below - above))
            )  # measured from ``high``, because ``low`` may be far away
        high, above = low, below
    return float(high)


@njit(**INNER)
def pair_row(data: Any, node: Any, r: int, p: int, n: int, q: int, need: float) -> None:
    """Bounds on a_r with each candidate c, into ``pair``; NONE where f of it is at most ``need``."""
    i, heads, pair = node.item[r], data.score.shape[0], node.pair[r]
    e, skip = (q, -1) if r < p else (q - 1, r - p)
    start = data.base[i, 0] + data.base[i, 1]
    peak, bottom = start, start
    for h in range(heads):
        peak += node.sums[r, h, PEAK]
        bottom += data.head[h, LEAST]
    floor = argument_below(data, i, min(bottom, peak), peak, need)
    cuts = worth_upper(data, i, floor) <= need
    for c in range(n):
        pair[c] = start
    for h in range(heads):
        weight, score, sums, chord = node.weight[r, h], node.score[h], node.sums[r, h], node.chord
        if data.wide[h, i] or sums[DENOMINATOR] <= 0.0:
            for c in range(n):
                pair[c] += sums[PEAK]
            continue
        for g in range(KNOTS):
            alpha = sums[PEAK] - (peak - floor) * (g / (KNOTS - 1)) ** 2
            top_terms(weight, score, n, skip, alpha, e, node.best[0], node.who, g > 0)
            total = sums[NUMERATOR] - alpha * sums[DENOMINATOR]
            for place in range(e - 1):
                total += node.best[0, place]
            chord[0, g], chord[1, g], chord[2, g] = alpha, total + node.best[0, e - 1], total
        for c in range(n):
            pair[c] += padded(crossing(chord, weight[c], score[c]), data.head, h)
    for c in range(n):
        pair[c] = min(pair[c], peak) if node.alive[c] and not (cuts and pair[c] <= floor) else NONE
    if r >= p:
        pair[skip] = NONE


@njit(**INNER)
def prune_conflicting_pairs(labels: Any, limits: Any, node: Any, p: int, n: int) -> None:
    """Prune pairs of candidates that a group limit does not allow together."""
    for g in range(len(limits)):
        for r in range(n):
            label = labels[g, node.item[p + r]]
            if label < 0:
                continue
            room = limits[g]
            for other in range(p):
                if labels[g, node.item[other]] == label:
                    room -= 1
            if room < 2:
                for c in range(n):
                    if labels[g, node.item[p + c]] == label:
                        node.pair[p + r, c] = NONE


@njit(**INNER)
def bound_members(data: Any, node: Any, p: int, n: int, q: int, cut: float) -> int:
    """Compute U_p|c for every member p and candidate c; return the number of candidates left."""
    for r in range(p):
        need = cut - bound_of_others(node.single, node.best[3], p, q, r)
        pair_row(data, node, r, p, n, q, need)
        for c in range(n):
            if node.pair[r, c] > NONE:
                node.pair[r, c] = worth_upper(data, node.item[r], node.pair[r, c])
            else:
                node.alive[c] = False
    left = 0
    for c in range(n):
        left += node.alive[c]
    return left


@njit(**INNER)
def bound_pairs(data: Any, node: Any, p: int, n: int, q: int, cut: float) -> None:
    """Compute U_i|j for all pairs of candidates; NONE in both directions if it is NONE in one."""
    for r in range(p, p + n):
        if node.alive[r - p]:
            need = cut - bound_of_others(node.single, node.best[3], p, q, r)
            if not node.fresh[r]:
                bound_item(data, node, p, n, q, r)
            pair_row(data, node, r, p, n, q, need)
    prune_conflicting_pairs(data.labels, data.limits, node, p, n)
    pair = node.pair
    for i in range(n):
        for j in range(i):
            if not (node.alive[i] and node.alive[j] and pair[p + i, j] > NONE and pair[p + j, i] > NONE):
                pair[p + i, j], pair[p + j, i] = NONE, NONE
                continue
            u = worth_upper(data, node.item[p + i], pair[p + i, j])
            v = worth_upper(data, node.item[p + j], pair[p + j, i])
            pair[p + i, j], pair[p + j, i] = u, v


@njit(**INNER)
def bound_with_candidate(
    pair: Floats, given_candidate: Floats, best: Floats, p: int, q: int, i: int, order: Any, first: int, last: int
) -> bool:
    """Bound F of sets with candidate i and partners among order[first:last]; False if there are too few of these."""
    own, partner, mixed = best[0], best[1], best[2]
    for place in range(q - 1):
        own[place], partner[place], mixed[place] = NONE, NONE, NONE
    count = 0
    for place in range(first, last):
        j = order[place]
        u = pair[p + i, j]
        if u > NONE:
            v = pair[p + j, i]
            count += 1
            keep_largest(own, q - 1, u)
            keep_largest(partner, q - 1, v)
            keep_largest(mixed, q - 1, u / (q - 1) + v)
    if count < q - 1:
        return False
    members, better, either = 0.0, 0.0, 0.0
    for r in range(p):
        members += pair[r, i]
    for place in range(q - 1):
        better += partner[place] if place < q - 2 else 0.0
        either += mixed[place]
    given = given_candidate[i]
    given[MEMBERS], given[OWN], given[BETTER], given[WORST] = members, own[q - 2], better, partner[q - 2]
    given[GIVEN] = members + min(own[q - 2] + better + partner[q - 2], either)
    return True


@njit(**INNER)
def prune(
    pair: Floats, given_candidate: Floats, best: Floats, alive: Any, order: Any, p: int, n: int, q: int, cut: float
) -> int:
    """Prune candidates and pairs that cannot beat ``cut``; return how many candidates are left, first in ``order``."""
    left = ZERO
    for i in range(n):
        if alive[i]:
            order[left] = i
            left += 1
    for step in range(ROUNDS):
        for place in range(left):
            i = order[place]
            if (
                not bound_with_candidate(pair, given_candidate, best, p, q, i, order, ZERO, left)
                or given_candidate[i, GIVEN] <= cut
            ):
                alive[i] = False
                for other in range(n):
                    pair[p + i, other], pair[p + other, i] = NONE, NONE
        kept = 0
        for place in range(left):
            if alive[order[place]]:
                order[kept] = order[place]
                kept += 1
        pruned, left = left - kept, kept
        if step == ROUNDS - 1 or left < q:
            break
        for one in range(left):
            for two in range(one):
                pruned += prune_pair(pair, given_candidate, p, order[one], order[two], cut)
        if pruned * 20 < left:
            break
    return left  # type: ignore[no-any-return]  # compiled, an int64 is an int


@njit(**INNER)
def prune_pair(pair: Floats, given_candidate: Floats, p: int, i: int, j: int, cut: float) -> int:
    """Prune the pair if no set with both beats ``cut``; return the number of pairs pruned."""
    u, v = pair[p + i, j], pair[p + j, i]
    if u == NONE:
        return 0
    members = 0.0
    for r in range(p):
        members += min(pair[r, i], pair[r, j])
    one = min(u, given_candidate[i, OWN]) + given_candidate[i, BETTER] + min(v, given_candidate[i, WORST])
    two = min(v, given_candidate[j, OWN]) + given_candidate[j, BETTER] + min(u, given_candidate[j, WORST])
    if members + min(one, two) > cut:
        return 0
    pair[p + i, j], pair[p + j, i] = NONE, NONE
    return 1


@njit(**INNER)
def bound_node(pair: Floats, given_candidate: Floats, best: Floats, order: Any, p: int, q: int, left: int) -> float:
    """F(S) ≤ ``GIVEN`` of each of its q candidates, so ≤ the q-th largest, and ≤ the sum of the q largest degrees."""
    given, degrees, partners = best[0], best[1], best[2]
    for place in range(q):
        given[place], degrees[place] = NONE, NONE
    for place in range(left):
        i = order[place]
        keep_largest(given, q, given_candidate[i, GIVEN])
        for other in range(q - 1):
            partners[other] = NONE
        for other in range(left):
            j = order[other]
            if pair[p + i, j] > NONE:
                keep_largest(partners, q - 1, pair[p + i, j] + pair[p + j, i])
        degree = 0.0
        for other in range(q - 1):
            degree += partners[other]
        keep_largest(degrees, q, given_candidate[i, MEMBERS] / q + degree / (2 * (q - 1)))
    total = 0.0
    for place in range(q):
        total += degrees[place]
    return float(min(given[q - 1], total))
