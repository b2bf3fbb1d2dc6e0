"""Steps 4 to 6 of Phase Two: every solution has its cell of t and of θ, and solutions keep their slacks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proofs.discretization import denominators
from proofs.enumeration import PartialSolution, valid_tuples
from proofs.linearization import number_of_thresholds, thresholds
from proofs.nonnegative_rank import SURROGATES, SurrogateProblem
from proofs.rounding import AuxiliarySolver, Programs

import setwise as sw
from counts import examples

pytestmark = pytest.mark.nightly

CLOSE = 1 + 1e-9


def random_problem(seed: int, m: int, k: int, rank: int, surrogate: str = "clusters") -> SurrogateProblem:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 4, m) if seed % 3 == 0 else rng.normal(size=m)  # ties and zeros a third of the time
    instance = sw.Instance(rng.normal(size=(m, m)), score, sw.Logistic(2.0, -0.5), base=rng.normal(size=m))
    return SurrogateProblem.of(instance, SURROGATES[surrogate](instance.logit[0], rank), k)


def extensions(partial: PartialSolution, k: int) -> np.ndarray:
    """All solutions that correspond to a partial solution: (n, m)."""
    free, room = np.flatnonzero(partial.free), k - int(partial.fixed.sum())
    rows = []
    for size in range(min(room, len(free)) + 1):
        for more in combinations(free, size):
            rows.append(partial.fixed.copy())
            rows[-1][list(more)] = True
    return np.array(rows)


problems = st.builds(
    random_problem,
    st.integers(0, 10**6),
    st.integers(2, 6),
    st.integers(1, 4),
    st.integers(1, 2),
    st.sampled_from(sorted(SURROGATES)),
)


@examples(40)
@given(problems, st.integers(1, 2), st.floats(0.05, 1.0))
def test_every_solution_has_a_denominator_just_above_its_own(problem, lam: int, delta: float) -> None:
    """W'x ≤ t ≤ (1 + δ) W'x: x is feasible for its t, and t costs at most the factor."""
    for partial in valid_tuples(problem.d, problem.k, lam):
        grid = denominators(problem, partial, delta)
        for x in extensions(partial, problem.k):
            own = problem.surrogate.weight @ x
            fits = (grid * CLOSE >= own).all(axis=1) & (grid <= (1 + delta) * own * CLOSE).all(axis=1)
            assert fits.any()


@examples(40)
@given(problems, st.integers(1, 2), st.floats(0.05, 1.0))
def test_every_solution_has_thresholds_just_below_its_own(problem, lam: int, delta: float) -> None:
    """θ ≤ d·x ≤ (1 + δ) θ; and at most 1 + ln(k/λ)/ln(1 + δ) values of each θ_j, whatever the weights are."""
    for partial in valid_tuples(problem.d, problem.k, lam):
        grid = thresholds(problem, partial, delta)
        assert len(grid) == number_of_thresholds(problem, partial, delta)
        most = 1 + np.log(problem.k / lam) / np.log1p(delta)
        assert all(len(np.unique(column)) <= most + 1e-6 for column in grid.T)
        for x in extensions(partial, problem.k):
            own = problem.d @ x
            fits = (grid <= own * CLOSE).all(axis=1) & ((1 + delta) * grid * CLOSE >= own).all(axis=1)
            assert fits.any()


@examples(60)
@given(
    st.integers(0, 10**6),
    st.integers(3, 9),
    st.integers(2, 7),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 4),
)
def test_the_solver_of_auxiliary_problems(seed: int, m: int, k: int, rank: int, lam: int, lam_prime: int) -> None:
    """Scenario one only where no solution meets t, θ and ζ; in scenario two a solution that misses by what rounding may cost."""
    problem = random_problem(seed, m, min(k, m), rank)
    rng = np.random.default_rng(seed)
    partials = list(valid_tuples(problem.d, problem.k, lam))
    if not partials:
        return
    partial = partials[rng.integers(len(partials))]
    programs = Programs(problem)
    solver = AuxiliarySolver(programs, partial, lam_prime)
    every, weight, entries = extensions(partial, problem.k), problem.surrogate.weight, 2 * problem.surrogate.rank + 2
    for _ in range(6):
        guide = every[rng.integers(len(every))]
        t = (weight @ guide) * rng.uniform(0.9, 1.4)
        theta = (problem.d @ guide) * rng.uniform(0.3, 1.1, problem.surrogate.rank)
        phi = problem.reward((problem.surrogate.a @ theta) / t)
        zeta = float(phi @ guide) * rng.uniform(0.5, 1.2)
        meets = (every @ weight.T <= t).all(axis=1) & (every @ problem.d.T >= theta).all(axis=1) & (every @ phi >= zeta)
        answers = list(solver.solutions(t, theta, np.array([zeta])))
        if not answers:
            assert not meets.any()
            continue
        (x,) = answers
        assert (every == x).all(axis=1).any(), "it corresponds to the partial solution"
        assert (weight @ x <= t * CLOSE).all()
        added = np.sort(phi[x & ~partial.fixed])[::-1]
        rounded = len(added) >= lam_prime
        smallest = np.where(partial.members, problem.d, np.inf).min(axis=1)
        assert (problem.d @ x >= theta - rounded * entries * smallest - 1e-6).all()
        assert phi @ x >= zeta - (entries * added[lam_prime - 1] if rounded else 0.0) - 1e-6
    assert programs.most_fractional <= entries
