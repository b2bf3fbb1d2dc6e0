"""The compiled bounds of pairs: what an item can be worth at most when another is in the set as well.

With j forced in beside P ∪ {i}, e − 1 companions are left to choose and

    h_j(α) = N − αD + min( top_e(α), top_{e−1}(α) + w_ij (s_j − α) )

(top_e: the sum of the e largest terms; the minimum is exact, as j is either among the e largest or not). h_j is convex,
being a maximum of lines, so its chord between two values of α lies above it, and where the chord falls through 0 is an
upper bound on i's average: top_e and top_{e−1} are worked out at five values of α, and each pair costs one division.

Pairs whose presence cannot beat the incumbent are struck out; with them goes every candidate that is left with fewer
than q − 1 partners, and every one whose best partners do not suffice:

    F(S) ≤ Σ_{p∈P} U_p|i + U_i' + (the q − 1 largest U_j|i over partners j)          for every i ∈ S∖P,

U_i' being the (q−1)-st largest U_i|j: i is worth no more than with the worst of its q − 1 companions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from setwise._types import Floats
from setwise.bounds.candidates.item_bounds import (
    DENOMINATOR,
    INNER,
    LEAST,
    NUMERATOR,
    PEAK,
    argument_below,
    bound_item,
    insert,
    padded,
    rest_without,
    reward_above,
    top_terms,
)

GIVEN, MEMBERS, OWN, BETTER, WORST = 0, 1, 2, 3, 4  # columns of Node.about
KNOTS = 5  # values of α a chord is drawn between
ROUNDS = 3  # of striking out: later ones strike little
NONE = -np.inf  # a pair that cannot be part of a better set


@njit(**INNER)
def crossing(chord: Floats, weight: float, score: float) -> float:
    """An upper bound on where h_j falls through 0, by the chord of h_j between neighbouring values of α."""
    high = chord[0, 0]
    above = min(chord[1, 0], chord[2, 0] + weight * (score - high))
    if above >= 0.0:
        return float(high)
    for g in range(1, KNOTS):
        low = chord[0, g]
        below = min(chord[1, g], chord[2, g] + weight * (score - low))
        if below >= 0.0:
            return float(high + (high - low) * (above / (below - above)))  # from high: low may be far off
        high, above = low, below
    return float(high)


@njit(**INNER)
def pair_row(problem: Any, node: Any, r: int, p: int, n: int, q: int, need: float) -> None:
    """Bounds on a_r with each candidate c, into ``pair``; NONE where f of it is at most ``need``."""
    i, heads, pair = node.item[r], problem.score.shape[0], node.pair[r]
    e, skip = (q, -1) if r < p else (q - 1, r - p)
    start = problem.base[i, 0] + problem.base[i, 1]
    peak, bottom = start, start
    for h in range(heads):
        peak += node.sums[r, h, PEAK]
        bottom += problem.head[h, LEAST]
    function = problem.reward_class[i]
    floor = argument_below(problem.reward, problem.knot, function, min(bottom, peak), peak, need)
    cuts = reward_above(problem.reward, problem.knot, function, floor) <= need
    for c in range(n):
        pair[c] = start
    for h in range(heads):
        weight, score, sums, chord = node.weight[r, h], node.score[h], node.sums[r, h], node.chord
        if problem.wide[h, i] or sums[DENOMINATOR] <= 0.0:
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
            pair[c] += padded(crossing(chord, weight[c], score[c]), problem.head, h)
    for c in range(n):
        pair[c] = min(pair[c], peak) if node.alive[c] and not (cuts and pair[c] <= floor) else NONE
    if r >= p:
        pair[skip] = NONE


@njit(**INNER)
def part_rivals(labels: Any, limits: Any, node: Any, p: int, n: int) -> None:
    """Strike out pairs that a group limit keeps apart."""
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
def bound_members(problem: Any, node: Any, p: int, n: int, q: int, cut: float) -> int:
    """U_p|c for every member p and candidate c; how many candidates are left."""
    for r in range(p):
        need = cut - rest_without(node.single, node.best[3], p, q, r)
        pair_row(problem, node, r, p, n, q, need)
        function = problem.reward_class[node.item[r]]
        for c in range(n):
            if node.pair[r, c] > NONE:
                node.pair[r, c] = reward_above(problem.reward, problem.knot, function, node.pair[r, c])
            else:
                node.alive[c] = False
    left = 0
    for c in range(n):
        left += node.alive[c]
    return left


@njit(**INNER)
def bound_pairs(problem: Any, node: Any, p: int, n: int, q: int, cut: float) -> None:
    """U_i|j for all pairs of candidates; NONE both ways where one is."""
    for r in range(p, p + n):
        if node.alive[r - p]:
            need = cut - rest_without(node.single, node.best[3], p, q, r)
            if not node.fresh[r]:
                bound_item(problem, node, p, n, q, r)
            pair_row(problem, node, r, p, n, q, need)
    part_rivals(problem.labels, problem.limits, node, p, n)
    pair, reward, knot = node.pair, problem.reward, problem.knot
    for i in range(n):
        for j in range(i):
            if not (node.alive[i] and node.alive[j] and pair[p + i, j] > NONE and pair[p + j, i] > NONE):
                pair[p + i, j], pair[p + j, i] = NONE, NONE
                continue
            u = reward_above(reward, knot, problem.reward_class[node.item[p + i]], pair[p + i, j])
            v = reward_above(reward, knot, problem.reward_class[node.item[p + j]], pair[p + j, i])
            pair[p + i, j], pair[p + j, i] = u, v


@njit(**INNER)
def look_at(
    pair: Floats, about: Floats, best: Floats, p: int, q: int, i: int, order: Any, first: int, last: int
) -> bool:
    """What F can be with candidate i and partners among order[first:last]; False where there are too few."""
    own, company, mixed = best[0], best[1], best[2]
    for place in range(q - 1):
        own[place], company[place], mixed[place] = NONE, NONE, NONE
    count = 0
    for place in range(first, last):
        j = order[place]
        u = pair[p + i, j]
        if u > NONE:
            v = pair[p + j, i]
            count += 1
            insert(own, q - 1, u)
            insert(company, q - 1, v)
            insert(mixed, q - 1, u / (q - 1) + v)
    if count < q - 1:
        return False
    members, better, either = 0.0, 0.0, 0.0
    for r in range(p):
        members += pair[r, i]
    for place in range(q - 1):
        better += company[place] if place < q - 2 else 0.0
        either += mixed[place]
    about[i, MEMBERS], about[i, OWN], about[i, BETTER], about[i, WORST] = members, own[q - 2], better, company[q - 2]
    about[i, GIVEN] = members + min(own[q - 2] + better + company[q - 2], either)
    return True


@njit(**INNER)
def thin(pair: Floats, about: Floats, best: Floats, alive: Any, order: Any, p: int, n: int, q: int, cut: float) -> int:
    """Strike out candidates and pairs that cannot beat ``cut``; the candidates left stand first in ``order``."""
    left = 0
    for i in range(n):
        if alive[i]:
            order[left] = i
            left += 1
    for step in range(ROUNDS):
        for place in range(left):
            i = order[place]
            if not look_at(pair, about, best, p, q, i, order, 0, left) or about[i, GIVEN] <= cut:
                alive[i] = False
                for other in range(n):
                    pair[p + i, other], pair[p + other, i] = NONE, NONE
        kept = 0
        for place in range(left):
            if alive[order[place]]:
                order[kept] = order[place]
                kept += 1
        struck, left = left - kept, kept
        if step == ROUNDS - 1 or left < q:
            break
        for one in range(left):
            for two in range(one):
                struck += strike(pair, about, p, order[one], order[two], cut)
        if struck * 20 < left:
            break
    return left


@njit(**INNER)
def strike(pair: Floats, about: Floats, p: int, i: int, j: int, cut: float) -> int:
    """Strike the pair out if no set with both beats ``cut``."""
    u, v = pair[p + i, j], pair[p + j, i]
    if u == NONE:
        return 0
    members = 0.0
    for r in range(p):
        members += min(pair[r, i], pair[r, j])
    one = min(u, about[i, OWN]) + about[i, BETTER] + min(v, about[i, WORST])
    two = min(v, about[j, OWN]) + about[j, BETTER] + min(u, about[j, WORST])
    if members + min(one, two) > cut:
        return 0
    pair[p + i, j], pair[p + j, i] = NONE, NONE
    return 1


@njit(**INNER)
def bound_whole(pair: Floats, about: Floats, best: Floats, order: Any, p: int, q: int, left: int) -> float:
    """F(S) ≤ the q-th largest ``GIVEN``, and ≤ the sum of the q largest degrees."""
    given, degrees, partners = best[0], best[1], best[2]
    for place in range(q):
        given[place], degrees[place] = NONE, NONE
    for place in range(left):
        i = order[place]
        insert(given, q, about[i, GIVEN])
        for other in range(q - 1):
            partners[other] = NONE
        for other in range(left):
            j = order[other]
            if pair[p + i, j] > NONE:
                insert(partners, q - 1, pair[p + i, j] + pair[p + j, i])
        degree = 0.0
        for other in range(q - 1):
            degree += partners[other]
        insert(degrees, q, about[i, MEMBERS] / q + degree / (2 * (q - 1)))
    total = 0.0
    for place in range(q):
        total += degrees[place]
    return float(min(given[q - 1], total))
