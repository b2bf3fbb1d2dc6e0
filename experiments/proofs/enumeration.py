"""Phase Two, step 2: enumerate partial solutions (Appendix F, step 2).

For each factor j order the items by d_j, largest first, equal ones by number: i ≻_j i'. A solution Z (1 ≤ |Z| ≤ k)
*corresponds* to the tuple (X_1, …, X_r) in which X_j is the first min(λ, |Z|) of Z in the order ≻_j. Since ≻_j is
strict, every Z corresponds to exactly one tuple; with equal d_j left unordered, as in the paper, to several perhaps.

|X_j| < λ   Then |Z| = |X_j|, so X_1 = … = X_r = Z. (The paper's test of validity, |∪X_j| ≤ k and ∪X_j ∩ ∪X̂_j = ∅, lets
            other tuples of such sizes pass, to which no solution corresponds.) These Z are solutions themselves.

|X_j| = λ   With X̂_j = {i ∉ X_j : i ≻_j the last of X_j}, a solution Z corresponds to the tuple if and only if
            ∪X_j ⊂ Z and Z ∩ ∪X̂_j = ∅. Some Z does if and only if |∪X_j| ≤ k and ∪X_j ∩ ∪X̂_j = ∅: then Z = ∪X_j is one.

So a tuple is determined by its union U: X_j is the first λ of U in ≻_j. The valid tuples are the sets U of λ to
min(k, λr) items in which every member is among the first λ of U for some j. There are at most Σ_q C(m, q) of them, not
C(m, λ)^r, and that is how they are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from setwise._types import Floats, Mask, Rows


@dataclass(frozen=True, eq=False)
class PartialSolution:
    """A valid tuple with |X_j| = λ: the items it fixes and the items it excludes."""

    members: Mask  # (r, m): X_j
    excluded: Mask  # (m,): ∪ X̂_j

    @property
    def fixed(self) -> Mask:
        """∪ X_j."""
        return np.asarray(self.members.any(axis=0))

    @property
    def free(self) -> Mask:
        """The items that are neither fixed nor excluded."""
        return ~(self.fixed | self.excluded)


def subsets(items: Rows, size: int, m: int) -> Mask:
    """All subsets of ``items`` of one size, as rows of a mask over m: (number, m), in lexicographic order."""
    count = math.comb(len(items), size)
    flat = chain.from_iterable(combinations(items.tolist(), size))
    places = np.fromiter(flat, np.intp, count * size).reshape(count, size)
    result = np.zeros((count, m), bool)
    result[np.arange(count)[:, None], places] = True
    return result


def small_solutions(m: int, k: int, lam: int) -> Iterator[Mask]:
    """Every solution of fewer than λ items, one array for each size."""
    for size in range(1, min(k, lam - 1, m) + 1):
        yield subsets(np.arange(m), size, m)


def number_of_sets(m: int, k: int, lam: int, rank: int) -> int:
    """The number of sets enumerated: solutions of fewer than λ items, and possible unions of a tuple."""
    return sum(math.comb(m, size) for size in range(1, min(k, m, lam * rank) + 1))


def ranks(d: Floats) -> Rows:
    """The place of every item in ≻_j, 0 first: (r, m)."""
    order = np.argsort(-d, axis=1, kind="stable")
    result = np.empty_like(order)
    np.put_along_axis(result, order, np.arange(d.shape[1])[None, :], axis=1)
    return result


def valid_tuples(d: Floats, k: int, lam: int) -> Iterator[PartialSolution]:
    """Every tuple with |X_j| = λ that some solution corresponds to, once; ``d`` is (r, m)."""
    place = ranks(d)
    rank, m = d.shape
    for size in range(lam, min(k, m, lam * rank) + 1):
        unions = subsets(np.arange(m), size, m)
        # The place of the λ-th of each union in each order: members up to it are X_j, non-members before it are X̂_j.
        inside = np.where(unions[:, None, :], place[None, :, :], m)
        last = np.sort(inside, axis=2)[:, :, lam - 1 : lam]
        members = inside <= last
        for union, chosen, end in zip(unions, members, last, strict=True):
            if (chosen.any(axis=0) == union).all():
                yield PartialSolution(chosen, ((place < end) & ~chosen).any(axis=0))
