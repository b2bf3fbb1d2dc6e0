"""Phase Two, step 6: solve the auxiliary problem by rounding the vertices of a linear program (Appendix F, step 6).

Given a partial solution X, denominators t, thresholds θ and ζ, with φ_i = f_i(c_i·θ), c_i = a_i/t_i, step 6 either
finds that no solution of X has W'x ≤ t, d_j·x ≥ θ_j for all j and φ·x ≥ ζ, or returns one that has them up to slacks:

*  Guess X', the λ' members of largest φ beyond those that X fixes (ties by number); then X̂', the items that φ ranks
   before the last of X', are excluded. With fewer than λ' further members X' is all of them, and the check is exact.
   (The pseudo-code allows δ₁ and δ₂ even here, and so prefers a poor small solution to a good large one.)
*  Otherwise find z* in the polyhedron PH, the solutions of X and X' with 0 ≤ x ≤ 1 in place of x ∈ {0,1}: m + r + 2
   rows.
*  PH(z*) replaces the m rows W'x ≤ t by the r rows b_j·x ≤ b_j·z*, which imply them as A ≥ 0. It has 2r + 2 rows, so a
   vertex has at most 2r + 2 fractional entries.
*  Round them down. (The pseudo-code returns z itself.) Rows of ≤ stay satisfied. Each of the 2r + 2 entries lost is at
   most the smallest of X_j in d_j, and at most the smallest of X' in φ. So

        d_j·⌊z⌋ ≥ (1 − (2r+2)/λ) d_j·z ≥ (1 − (2r+2)/λ) θ_j      φ·⌊z⌋ ≥ (1 − (2r+2)/λ') φ·z,

   within the paper's slacks δ₁ and δ₂ for its λ and λ'. The entries lost sum to F < 2r + 2, which may take its place.

No program is solved for an X' when a single row shows that PH is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from proofs.enumeration import PartialSolution, ranks, subsets
from proofs.linear_program import INTEGRAL, LinearProgram, Vertex
from proofs.nonnegative_rank import SurrogateProblem
from setwise._types import Floats, Mask
from setwise.errors import SetwiseError

SLACK = 1e-9  # relative: sums in another order may differ by this much


class _Program:
    """Rows bounded above, e·x, the d_j and φ: only φ changes from one (t, θ) to the next."""

    def __init__(self, problem: SurrogateProblem, upper: Floats) -> None:
        self._fixed_rows = np.vstack([upper, np.ones(upper.shape[1]), problem.d])
        self._phi = np.zeros(upper.shape[1])
        self.solves = 0

    @cached_property
    def _program(self) -> LinearProgram:
        """Created at the first solve: often all solutions are enumerated, and no program is needed."""
        count = len(self._fixed_rows) + 1
        return LinearProgram(self._rows(), np.full(count, -np.inf), np.full(count, np.inf))

    def _rows(self) -> Floats:
        return np.vstack([self._fixed_rows, self._phi])

    def maximise(self, phi: Floats, at_most: Floats, at_least: Floats, lower: Mask, upper: Mask) -> Vertex | None:
        """The vertex of largest φ·x where the first rows are ``at_most`` and the others ``at_least``."""
        changed = not np.array_equal(phi, self._phi)
        self._phi = phi
        self.solves += 1
        return self._program.maximise(
            phi,
            rows=self._rows() if changed else None,
            low=np.append(np.full(len(at_most), -np.inf), at_least),
            high=np.append(at_most, np.full(len(at_least), np.inf)),
            lower=lower,
            upper=upper,
        )


class Programs:
    """The two linear programs of a problem, PH and PH(z*), kept from one solve to the next."""

    def __init__(self, problem: SurrogateProblem) -> None:
        self.problem = problem
        self._polyhedron = _Program(problem, problem.surrogate.weight)
        self._reduced = _Program(problem, problem.surrogate.b.T)
        self.most_fractional, self.most_lost = 0, 0.0

    @property
    def solves(self) -> int:
        """How many linear programs were solved."""
        return self._polyhedron.solves + self._reduced.solves

    def vertex(self, t: Floats, theta: Floats, zeta: float, phi: Floats, lower: Mask, upper: Mask) -> Vertex | None:
        """A point of PH with at most 2r + 2 fractional entries, or None when PH is empty."""
        wanted = np.append(theta, zeta)
        star = self._polyhedron.maximise(phi, np.append(t, self.problem.k), wanted, lower, upper)
        if star is None:
            return None
        # z* satisfies its rows up to the solver's tolerance; the relaxed sides keep it feasible here.
        used = np.append(self.problem.surrogate.b.T @ star.x, star.x.sum())
        met = np.minimum(wanted, np.append(self.problem.d @ star.x, phi @ star.x))
        vertex = self._reduced.maximise(phi, used, met, lower, upper)
        if vertex is None:
            raise SetwiseError("PH(z*) must contain z*, got infeasible from the solver; please report the instance.")
        self.most_fractional = max(self.most_fractional, len(vertex.fractional))
        self.most_lost = max(self.most_lost, float(vertex.x[vertex.fractional].sum()))
        return vertex


def _sizes(partial: PartialSolution, k: int, lam_prime: int) -> tuple[range, range]:
    """The numbers of further members: fewer than λ', which are enumerated, and λ', which are guessed first."""
    room = min(k - int(partial.fixed.sum()), int(partial.free.sum()))
    return range(min(lam_prime - 1, room) + 1), range(lam_prime, min(room, lam_prime) + 1)


def number_of_guesses(partial: PartialSolution, k: int, lam_prime: int) -> tuple[int, int]:
    """The numbers of X' of fewer than λ' items, and of λ': at most a pair of programs for each of the latter."""
    free = int(partial.free.sum())
    small, large = _sizes(partial, k, lam_prime)
    return sum(math.comb(free, size) for size in small), sum(math.comb(free, size) for size in large)


class AuxiliarySolver:
    """Step 6 for the solutions of one partial solution."""

    def __init__(self, programs: Programs, partial: PartialSolution, lam_prime: int) -> None:
        self.programs, self.problem, self.partial = programs, programs.problem, partial
        free, m = np.flatnonzero(partial.free), len(partial.free)
        small, large = _sizes(partial, self.problem.k, lam_prime)
        self._small = np.vstack([subsets(free, size, m) for size in small]) | partial.fixed
        self._guesses = np.vstack([np.zeros((0, m), bool), *(subsets(free, size, m) for size in large)])

    def solutions(self, t: Floats, theta: Floats, zetas: Floats) -> Iterator[Mask]:
        """For every ζ the solution that step 6 finds, where it finds one: (m,) each."""
        phi = self.problem.reward((self.problem.surrogate.a @ theta) / t)
        small = self._small[self._within(self._small, t) & self._reaches(self._small, theta)]
        for zeta in zetas:
            found = np.flatnonzero((small @ phi) * (1 + SLACK) >= zeta)
            solution = small[found[0]] if len(found) else self._rounded(t, theta, zeta, phi)
            if solution is not None:
                yield solution

    def _within(self, chosen: Mask, t: Floats) -> Mask:
        return np.asarray((chosen @ self.problem.surrogate.weight.T <= t * (1 + SLACK)).all(axis=1))

    def _reaches(self, chosen: Mask, theta: Floats) -> Mask:
        return np.asarray(((chosen @ self.problem.d.T) * (1 + SLACK) >= theta).all(axis=1))

    def _rounded(self, t: Floats, theta: Floats, zeta: float, phi: Floats) -> Mask | None:
        """The first X' of λ' items for which PH is not empty, its vertex rounded down."""
        if not len(self._guesses):
            return None
        place = ranks(phi[None, :])[0]
        last = np.where(self._guesses, place, -1).max(axis=1)
        lower = self._guesses | self.partial.fixed
        upper = lower | (self.partial.free & (place > last[:, None]))
        for number in np.flatnonzero(self._within(lower, t) & self._possible(lower, upper, theta, zeta, phi)):
            vertex = self.programs.vertex(t, theta, zeta, phi, lower[number], upper[number])
            if vertex is not None:
                return np.asarray(vertex.x >= 1 - INTEGRAL)
        return None

    def _possible(self, lower: Mask, upper: Mask, theta: Floats, zeta: float, phi: Floats) -> Mask:
        """Whether each row of ≥ by itself can be reached with the largest allowed entries, at most k in all."""
        rows, wanted = np.vstack([self.problem.d, phi]), np.append(theta, zeta)
        room = self.problem.k - int(lower[0].sum())
        extra = np.where((upper & ~lower)[:, None, :], rows, 0.0)
        most = lower @ rows.T + np.sort(extra, axis=2)[:, :, ::-1][:, :, :room].sum(axis=2)
        return np.asarray((most * (1 + SLACK) >= wanted).all(axis=1))
