"""Phase Two of the paper (Algorithm "Phase Two", Proposition "phase two"; Appendix F), for small instances.

    nonnegative_rank   W ≈ W' = A Bᵀ, rank r, error γ                    P(I)  → P'(I)
    enumeration        tuples X of the λ largest in every d_j            P'(I) → P(X)
    discretization     denominators t                                    P(X)  → P(X, t)
    linearization      thresholds θ and ζ                                P(X, t) → linear inequalities in {0,1}^m
    rounding           λ' largest rewards, a vertex, rounded down

with λ = ⌈(2r+2)(Vu)_max/ε⌉, λ' = ⌈(2r+2) max_i f_i((Vu)_max)/ε⌉, grids of ratio 1 + ε for t and θ, and a grid of step
kε for ζ. Of all solutions found the one of largest value in P'(I) is returned. λ is nearly always above k, and then
this is complete enumeration under W'; pass ``lam`` and ``lam_prime`` to run the linear programs. This is a reference
for tests, not a fast ranker.

**What is guaranteed.** The proposition's bound with its proof repaired (see the errata): σ = (Vu)_max of the shifted
scores, g and h the largest over the reward functions, F < 2r + 2 the largest sum of fractional entries of a vertex that
was rounded, and

    OPT' ≥ (1 − g(w)) OPT − k h(w),        w = γσ/(1 + √(1 − γ²))     W' for W
    v ≥ (1 − g(c)) OPT' − k h(c),          c = σ (1 − (1+ε)^−2)       t rounded up, θ rounded down
    ζ ≥ v − kε                                                        ζ rounded down
    φ·⌊z⌋ ≥ (1 − F/λ') ζ                                              rounding loses F of λ' or more rewards
    ALG' ≥ (1 − g(c')) φ·⌊z⌋ − k h(c'),    c' = σ min(1, F/λ)         and F of λ or more entries of every d_j
    ALG ≥ (1 − g(w)) ALG' − k h(w)                                    back to W

When λ ≥ k every solution is enumerated and ALG' = OPT'. The bound needs rewards of at least 0. The proof of every line
is in docs/explanation/guarantees.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proofs.discretization import denominators, number_of_denominators
from proofs.enumeration import PartialSolution, number_of_sets, small_solutions, valid_tuples
from proofs.linearization import number_of_targets, number_of_thresholds, targets, thresholds
from proofs.nonnegative_rank import (
    SURROGATES,
    Surrogate,
    SurrogateProblem,
    average_error,
    row_stochastic,
)
from proofs.rounding import AuxiliarySolver, Programs, number_of_guesses
from setwise._types import Mask
from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput, TooLarge
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import Reward

MAX_SETS = 200_000  # sets enumerated at once
MAX_POINTS = 1_000_000  # grid points (t, θ, ζ)
MAX_PROGRAMS = 10_000_000  # linear programs in the worst case; a small share of them is solved
FINEST = 1e-9  # the smallest ε: the solver's tolerance on the rows of the linear programs
WIDEST = 700.0  # the largest spread of logits in a row whose weights are all positive doubles


@dataclass(frozen=True, eq=False)
class PhaseTwo:
    """The set that Phase Two found, and the constants of the instance in its guarantee."""

    indices: NDArray[np.intp]
    value: float
    evaluations: int  # solutions valued
    programs: int  # linear programs solved
    most_fractional: int  # entries of a vertex, at most 2r + 2
    most_lost: float  # F: the largest sum of such entries
    epsilon: float
    k: int
    rank: int
    gamma: float
    lam: int
    lam_prime: int
    score_max: float  # σ
    reward_max: float  # the largest f_i(σ)
    rewards: tuple[Reward, ...] = field(repr=False)

    @property
    def complete(self) -> bool:
        """Whether every solution was enumerated."""
        return self.lam >= self.k

    def guarantee(self, optimum: float) -> float:
        """The value that the repaired proposition guarantees when the largest value is ``optimum``."""
        error = average_error(self.gamma) * self.score_max
        best = self._after(error, optimum)
        return self._after(error, best if self.complete else self._after_rounding(best))

    def _after_rounding(self, best: float) -> float:
        on_grid = self._after(self.score_max * (1 - (1 + self.epsilon) ** -2), best) - self.k * self.epsilon
        rounded = max(0.0, 1 - self.most_lost / self.lam_prime) * max(0.0, on_grid)
        return self._after(self.score_max * min(1.0, self.most_lost / self.lam), rounded)

    def _after(self, error: float, value: float) -> float:
        """(1 − g) value − k h: a lower bound on the value after this error in the argument of every reward."""
        if not math.isfinite(error):
            return 0.0
        g = max(reward.g(error) for reward in self.rewards)
        h = max(reward.h(error) for reward in self.rewards)
        return max(0.0, (1 - g) * value - self.k * h)  # rewards are at least 0, and so is every value


def phase_two(
    instance: Instance,
    constraints: Constraints,
    *,
    epsilon: float = 0.5,
    rank: int = 1,
    lam: int | None = None,
    lam_prime: int | None = None,
    surrogate: str | Surrogate = "clusters",
) -> PhaseTwo:
    """Run the paper's Phase Two; ``lam`` and ``lam_prime`` are λ and λ', by default those of its formulas.

    ``rank`` is the largest non-negative rank of W' and ``surrogate`` its construction (nonnegative_rank.py), or W'
    itself with a row for every candidate of the instance; ``rank`` is then not used.
    """
    epsilon = _precision(epsilon)
    small, candidates = _paper_case(instance, constraints)
    made = _surrogate(surrogate, small, candidates, instance.m, whole_number("rank", rank))
    problem = SurrogateProblem.of(small, made, min(constraints.k, small.m))
    score_max = float(problem.score.max())
    reward_max = _largest_reward(problem, score_max)
    lam = _depth("lam", lam, (2 * made.rank + 2) * score_max / epsilon)
    lam_prime = _depth("lam_prime", lam_prime, (2 * made.rank + 2) * reward_max / epsilon)
    search = _Enumeration(problem, epsilon, lam, lam_prime, reward_max)
    search.run()
    indices = candidates[np.flatnonzero(search.best)]
    return PhaseTwo(
        indices,
        instance.value(indices),
        len(search.seen),
        search.programs.solves,
        search.programs.most_fractional,
        search.programs.most_lost,
        epsilon,
        problem.k,
        made.rank,
        made.gamma,
        lam,
        lam_prime,
        score_max,
        reward_max,
        small.rewards,
    )


class _Enumeration:
    """All solutions that the algorithm finds, each valued once in P'(I), and the best of them."""

    def __init__(self, problem: SurrogateProblem, epsilon: float, lam: int, lam_prime: int, reward_max: float) -> None:
        self.problem, self.epsilon, self.lam, self.lam_prime = problem, epsilon, lam, lam_prime
        self.programs = Programs(problem)
        self.target_grid = (reward_max, problem.k, problem.k * epsilon)
        self.seen: set[bytes] = set()
        self.best, self.best_value = np.zeros(len(problem.score), bool), -math.inf

    def run(self) -> None:
        m, k, rank = len(self.problem.score), self.problem.k, self.problem.surrogate.rank
        sets = number_of_sets(m, k, self.lam, rank)
        if sets > MAX_SETS:
            raise TooLarge(
                f"phase two must enumerate at most {MAX_SETS:,} sets, got {sets:,} ({m} candidates, k = {k}, "
                f"λ = {self.lam}, rank {rank}); pass fewer candidates, lower k or use another ranker."
            )
        partials = list(valid_tuples(self.problem.d, k, self.lam))
        self._refuse_long(partials)
        for solutions in small_solutions(m, k, self.lam):
            self._record(solutions)
        for partial in partials:
            self._extend(partial)

    def _refuse_long(self, partials: list[PartialSolution]) -> None:
        """Count the work of the worst case in advance; raise TooLarge as soon as it exceeds a limit."""
        points = programs = 0
        for number, partial in enumerate(partials, 1):
            grid = number_of_denominators(self.problem, partial, self.epsilon) * number_of_targets(*self.target_grid)
            grid *= number_of_thresholds(self.problem, partial, self.epsilon)
            small, guesses = number_of_guesses(partial, self.problem.k, self.lam_prime)
            points, programs = points + grid, programs + 2 * grid * guesses
            if points > MAX_POINTS or programs > MAX_PROGRAMS or small > MAX_SETS:
                raise TooLarge(
                    f"phase two must solve at most {MAX_PROGRAMS:,} linear programs, got up to {programs:,} for the "
                    f"first {number:,} of {len(partials):,} tuples ({points:,} grid points, at most {MAX_POINTS:,}; "
                    f"{small:,} small X', λ = {self.lam}, λ' = {self.lam_prime}); raise epsilon, lower rank, pass "
                    "fewer candidates or use another ranker."
                )

    def _extend(self, partial: PartialSolution) -> None:
        solver = AuxiliarySolver(self.programs, partial, self.lam_prime)
        theta_grid, zetas = thresholds(self.problem, partial, self.epsilon), targets(*self.target_grid)
        for t in denominators(self.problem, partial, self.epsilon):
            for theta in theta_grid:
                for solution in solver.solutions(t, theta, zetas):
                    if solution.tobytes() not in self.seen:
                        self._record(solution[None, :])

    def _record(self, solutions: Mask) -> None:
        self.seen.update(map(bytes, solutions))
        values = self.problem.values(solutions)
        best = int(values.argmax())
        if values[best] > self.best_value:
            self.best, self.best_value = solutions[best], float(values[best])


def _paper_case(instance: Instance, constraints: Constraints) -> tuple[Instance, NDArray[np.intp]]:
    """The instance on the open candidates, checked to be of the paper's form."""
    todo = "use another ranker"
    if instance.heads != 1 or instance.sink_logit is not None:
        raise InvalidInput("instance", "of one head and without a sink for the literal Phase Two", "another", todo)
    if len(constraints.pinned) or len(constraints.labels):
        raise InvalidInput("constraints", "k and exclusions alone for the literal Phase Two", "pins or limits", todo)
    candidates = np.flatnonzero(constraints.open)
    logit = instance.logit[:, candidates[:, None], candidates]
    if not (np.isfinite(logit).all() and np.ptp(logit, axis=2).max() <= WIDEST):
        must = f"finite, within {WIDEST:g} in a row, for the literal Phase Two"
        raise InvalidInput("logit", must, "others", todo)
    small = Instance(
        logit,
        instance.score[:, candidates],
        (instance.rewards, instance.reward_class[candidates]),
        instance.base[candidates],
    )
    return small, candidates


def _surrogate(given: str | Surrogate, small: Instance, candidates: NDArray[np.intp], m: int, rank: int) -> Surrogate:
    """W' on the open candidates; one that is passed is scaled to these rows and columns, and its γ measured again."""
    if isinstance(given, Surrogate):
        if len(given.a) != m:
            raise InvalidInput("surrogate", f"of {m} rows, one a candidate", len(given.a), "restrict it first")
        return Surrogate.of(row_stochastic(small.logit[0]), given.a[candidates], given.b[candidates])
    if not isinstance(given, str) or given not in SURROGATES:
        raise InvalidInput("surrogate", f"one of {', '.join(SURROGATES)}", repr(given), "choose one of those")
    return SURROGATES[given](small.logit[0], rank)


def _largest_reward(problem: SurrogateProblem, score_max: float) -> float:
    """max_i f_i((Vu)_max), after a check that all rewards are finite and at least 0."""
    m = len(problem.score)
    least, most = problem.reward(np.zeros(m)).min(), problem.reward(np.full(m, score_max)).max()
    if least < 0 or not math.isfinite(most):
        raise InvalidInput(
            "rewards",
            "finite and at least 0 for the literal Phase Two",
            f"{least:.3g} to {most:.3g}",
            "use another ranker",
        )
    return float(most)


def _precision(epsilon: float) -> float:
    value = real_number("epsilon", epsilon)
    if value < FINEST:
        raise InvalidInput("epsilon", f"at least {FINEST:g}", value, "pass the precision wanted")
    return value


def _depth(name: str, given: int | None, formula: float) -> int:
    if given is not None:
        return whole_number(name, given)
    return max(1, math.ceil(min(formula, 1e15)))
