"""Steps 4 to 6 of Phase Two: every solution has its cell of t and of θ, and solutions keep their slacks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proofs.algorithm import phase_two
from proofs.discretization import denominators
from proofs.enumeration import PartialSolution, valid_tuples
from proofs.geometric_grid import Axis, reach
from proofs.linearization import number_of_thresholds, targets, thresholds
from proofs.nonnegative_rank import SURROGATES, SurrogateProblem
from proofs.rounding import AuxiliarySolver, Programs, number_of_guesses

import setwise as sw
from counts import examples
from setwise.errors import SetwiseError
from setwise.model.constraints import Constraints

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


def test_a_factor_with_zeros_has_a_cell_for_zero() -> None:
    """y_j = 0 is no power of 1 + δ."""
    problem = random_problem(1, 5, 3, 1)
    b = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, 0.5], [0.0, 0.0]])
    made = type(problem.surrogate)(np.ones((5, 2)), b, 0.0)
    with_zeros = SurrogateProblem(made, problem.score, problem.offset, problem.rewards, problem.reward_class, 3)
    fixed = np.array([True, False, False, False, False])
    partial = PartialSolution(np.array([fixed, fixed]), np.zeros(5, bool))
    np.testing.assert_allclose(np.unique(denominators(with_zeros, partial, 1.0)[:, 0]), [0.5, 1.0, 1.5, 2.0])
    alone = PartialSolution(np.array([fixed, fixed]), ~fixed)
    np.testing.assert_allclose(denominators(with_zeros, alone, 1.0), np.full((1, 5), 0.5))


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


def test_targets_reach_the_most_that_rewards_can_add() -> None:
    np.testing.assert_allclose(targets(0.7, 3, 0.6), [0.0, 0.6, 1.2, 1.8])
    np.testing.assert_allclose(targets(0.0, 3, 0.6), [0.0])


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


@examples(30)
@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 2), st.integers(1, 3))
def test_conditions_met_with_equality_are_met(seed: int, m: int, rank: int, lam_prime: int) -> None:
    """t = W'x, θ = d·x and ζ = φ·x: sums in another order must not make x infeasible, enumerated or by a program.

    x is all items that the partial solution allows, and k is their number: no other solution reaches so much.
    """
    problem = random_problem(seed, m, m, rank)
    for partial in valid_tuples(problem.d, m, 1):
        x = partial.fixed | partial.free
        exact = SurrogateProblem(
            problem.surrogate, problem.score, problem.offset, problem.rewards, problem.reward_class, int(x.sum())
        )
        t, theta = exact.surrogate.weight @ x, exact.d @ x
        phi = exact.reward((exact.surrogate.a @ theta) / t)
        answers = list(AuxiliarySolver(Programs(exact), partial, lam_prime).solutions(t, theta, np.array([phi @ x])))
        assert [answer.tolist() for answer in answers] == [x.tolist()]


def test_programs_are_solved_and_roundings_lose() -> None:
    """The property test above would be empty if every answer came from small solutions."""
    solved = fractional = 0
    for seed in range(1, 40):
        problem = random_problem(seed, 8, 5, 1)
        programs = Programs(problem)
        for partial in valid_tuples(problem.d, 5, 1):
            x = extensions(partial, 5)[-1]
            t, theta = problem.surrogate.weight @ x, 0.95 * (problem.d @ x)
            phi = problem.reward((problem.surrogate.a @ theta) / t)
            list(AuxiliarySolver(programs, partial, 2).solutions(t, theta, np.array([0.9 * phi @ x])))
        solved += programs.solves
        fractional = max(fractional, programs.most_fractional)
    assert solved > 100
    assert 2 <= fractional <= 4


def test_what_a_partial_solution_reaches() -> None:
    """Two members fixed and two more places: the fixed ones alone, and with the two largest that are free."""
    partial = PartialSolution(members=np.arange(6)[None] < 2, excluded=np.arange(6) == 5)
    assert reach(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), partial, 4) == (3.0, 3.0 + 8.0 + 16.0)


def test_one_sum_needs_one_cell() -> None:
    """Free items that add nothing: every solution has the sum of the fixed one."""
    partial = PartialSolution(members=np.arange(4)[None] < 1, excluded=np.zeros(4, bool))
    axis = Axis(np.array([2.0, 0.0, 0.0, 0.0]), partial, 3, 0.1)
    assert (axis.number_of_uppers, axis.number_of_lowers) == (1, 1)
    assert axis.uppers().tolist() == axis.lowers().tolist() == [2.0]


@pytest.mark.parametrize(("lam_prime", "counts"), [(1, (1, 4)), (2, (1 + 4, 6)), (3, (1 + 4 + 6, 4)), (4, (15, 0))])
def test_the_numbers_of_guesses(lam_prime: int, counts: tuple[int, int]) -> None:
    """One item fixed, four free, three places left: sets of fewer than λ' items, and of λ'."""
    partial = PartialSolution(members=np.arange(5)[None] < 1, excluded=np.zeros(5, bool))
    assert number_of_guesses(partial, 4, lam_prime) == counts


def test_programs_are_counted_and_none_is_solved_in_vain() -> None:
    """Two for a point of PH, one where PH is empty, none where a single row shows that it is."""
    problem = random_problem(1, 5, 3, 1)
    programs, everything, nothing = Programs(problem), np.ones(5, bool), np.zeros(5, bool)
    assert (programs.most_fractional, programs.most_lost) == (0, 0.0)
    loose, phi = np.full(5, 10.0), np.arange(1.0, 6.0)
    assert programs.vertex(loose, np.zeros(1), 0.0, phi, nothing, everything).value == pytest.approx(12.0)
    assert programs.solves == 2
    assert programs.vertex(loose, np.zeros(1), 12.5, phi, nothing, everything) is None
    assert programs.solves == 3
    partial = next(iter(valid_tuples(problem.d, 3, 1)))
    solver = AuxiliarySolver(programs, partial, 1)
    most = np.sort(problem.reward(problem.surrogate.a @ np.zeros(1) / loose))[-3:].sum()
    assert not list(solver.solutions(loose, np.zeros(1), np.array([most * 1.001])))
    assert not list(solver.solutions(loose, np.full(1, problem.d.sum()) * 1.001, np.zeros(1)))
    assert programs.solves == 3


def test_an_empty_reduced_polyhedron_is_an_error(monkeypatch) -> None:
    problem = random_problem(1, 5, 3, 1)
    programs = Programs(problem)
    everything, nothing = np.ones(5, bool), np.zeros(5, bool)
    monkeypatch.setattr(programs._reduced, "maximise", lambda *_: None)
    with pytest.raises(SetwiseError, match=r"PH\(z\*\) must contain z\*"):
        programs.vertex(np.full(5, 10.0), np.zeros(1), 0.0, np.ones(5), nothing, everything)


class Recorded(Programs):
    """The programs that were asked for: φ, and the items fixed and allowed."""

    def __init__(self, problem: SurrogateProblem) -> None:
        super().__init__(problem)
        self.asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def vertex(self, t, theta, zeta, phi, lower, upper):
        self.asked.append((phi, lower, upper))
        return super().vertex(t, theta, zeta, phi, lower, upper)


@pytest.mark.parametrize("lam_prime", [1, 2])
def test_items_that_rank_before_the_guess_are_excluded(lam_prime: int) -> None:
    """X̂': beyond X and X', no item of a program has a larger φ than the smallest of X'; all smaller free ones are there."""
    asked = 0
    for seed in range(1, 12):
        problem = random_problem(seed, 7, 4, 1)
        for partial in valid_tuples(problem.d, 4, 1):
            programs = Recorded(problem)
            x = extensions(partial, 4)[-1]
            t, theta = 1.2 * problem.surrogate.weight @ x, 0.7 * (problem.d @ x)
            list(AuxiliarySolver(programs, partial, lam_prime).solutions(t, theta, np.array([0.5, 1.0])))
            for phi, lower, upper in programs.asked:
                guess = lower & ~partial.fixed
                assert guess.sum() == lam_prime
                assert (phi[upper & ~lower] <= phi[guess].min()).all()
                assert (upper | (phi >= phi[guess].min()) | ~partial.free).all(), "and only those"
                assert not (upper & partial.excluded).any()
            asked += len(programs.asked)
    assert asked > 10


def test_answers_of_the_programs_are_the_result() -> None:
    """λ = λ' = 1, rank 1: enumeration has single items only, so every larger set is a rounded vertex."""
    sizes = []
    for seed in range(1, 9):
        rng = np.random.default_rng(seed)
        instance = sw.Instance(np.tile(rng.normal(size=6), (6, 1)), rng.random(6), sw.Logistic(1.5, -0.5))
        made = phase_two(instance, Constraints.of(instance, 3), lam=1, lam_prime=1, epsilon=0.4)
        sizes.append(len(made.indices))
        assert made.evaluations > 6
    assert min(sizes) >= 2, "two items of probability above 0 have more value than one"
