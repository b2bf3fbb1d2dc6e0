"""Valid tuples: exactly those that some solution corresponds to, each once, ties or not."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from proofs.enumeration import small_solutions, valid_tuples

from counts import examples

Tuple = tuple[frozenset[int], ...]


@st.composite
def cases(draw) -> tuple[np.ndarray, int, int]:
    """d (r, m) with ties or without, k and λ."""
    m, rank = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    ties = draw(st.booleans())
    d = rng.integers(0, 3, (rank, m)).astype(float) if ties else rng.random((rank, m))
    return d, draw(st.integers(1, 5)), draw(st.integers(1, 4))


def before(row: np.ndarray, i: int, other: int) -> bool:
    """i ≻_j other."""
    return bool(row[i] > row[other] or (row[i] == row[other] and i < other))


def corresponding(solution: tuple[int, ...], d: np.ndarray, lam: int) -> Tuple:
    """The tuple of a solution, by the definition."""
    return tuple(frozenset(sorted(solution, key=lambda i, row=row: (-row[i], i))[:lam]) for row in d)


def solutions(m: int, k: int) -> list[tuple[int, ...]]:
    return [z for size in range(1, min(k, m) + 1) for z in combinations(range(m), size)]


def found(d: np.ndarray, k: int, lam: int) -> list[Tuple]:
    small = [row for rows in small_solutions(d.shape[1], k, lam) for row in rows]
    tuples = [(frozenset(np.flatnonzero(row).tolist()),) * len(d) for row in small]
    return tuples + [
        tuple(frozenset(np.flatnonzero(row).tolist()) for row in partial.members) for partial in valid_tuples(d, k, lam)
    ]


@examples(150)
@given(cases())
def test_enumeration_equals_correspondence(case) -> None:
    """The set of all tuples that some solution corresponds to, by going through all solutions."""
    d, k, lam = case
    enumerated = found(d, k, lam)
    assert len(enumerated) == len(set(enumerated)), "each once"
    assert set(enumerated) == {corresponding(z, d, lam) for z in solutions(d.shape[1], k)}


@examples(60)
@given(cases())
def test_enumeration_equals_the_test_of_validity(case) -> None:
    """The paper's way: all tuples of sets of λ, tested by |∪X_j| ≤ k and ∪X_j ∩ ∪X̂_j = ∅."""
    d, k, lam = case
    rank, m = d.shape
    lam = min(lam, 2)
    valid = set()
    for sets in product(list(combinations(range(m), lam)), repeat=rank):
        union = set().union(*sets)
        excluded = {
            i
            for x, row in zip(sets, d, strict=True)
            for i in range(m)
            if i not in x and any(before(row, i, j) for j in x)
        }
        if len(union) <= k and not union & excluded:
            valid.add(tuple(map(frozenset, sets)))
    assert {x for x in found(d, k, lam) if len(x[0]) == lam} == valid


def test_validity_admits_small_tuples_of_no_solution() -> None:
    """|X_j| = 1 < λ = 2: ({0}, {1}) passes the paper's test, yet a solution of one item has X_1 = X_2."""
    d = np.array([[2.0, 1.0], [2.0, 2.0]])
    sets = ({0}, {1})
    excluded = {
        i for x, row in zip(sets, d, strict=True) for i in range(2) if i not in x and row[i] > min(row[list(x)])
    }
    assert not {0, 1} & excluded
    assert ({0}, {1}) not in found(d, 2, 2)
    assert all(len(set(x)) == 1 for x in found(d, 2, 2) if len(x[0]) == 1)
