"""Linear programs of Phase Two: a vertex that maximises c·x over low ≤ A x ≤ high, lower ≤ x ≤ upper.

The programs have a few dense rows over m variables in [0, 1] and are solved thousands of times with small changes. One
HiGHS model is kept, and each solve starts from the last basis, also after new rows of the same number.

Rounding requires a *basic* solution: all entries but at most one per row are at a bound. Every solve counts them and
checks the point against rows and bounds: HiGHS has returned infeasible points as optimal, and warm starts have ended at
points that are not basic. A solution that fails the check is computed once more from scratch before an error is raised.

Weights span e^−700 to 1, so every row is divided by its largest entry. Entries below 1e−11 of it are left out of the
solver's model, but not of the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise.errors import InvalidInput, SetwiseError

INTEGRAL = 1e-6  # an entry this close to a bound is on it
FEASIBLE = 1e-6  # how far a row of largest entry 1 may miss its bounds, relative to a bound above 1
SMALLEST = 1e-11  # the smallest entry of such a row in the solver's model

OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "solver": "simplex",
    "presolve": "off",
    "parallel": "off",
    "threads": 1,
    "simplex_scale_strategy": 0,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": 1e-9,
}

# Whether each final status of the solver is optimal; the box is bounded, so "unbounded or infeasible" is infeasible.
OUTCOME = {"kOptimal": True, "kInfeasible": False, "kUnboundedOrInfeasible": False}


@dataclass(frozen=True, eq=False)
class Vertex:
    """A basic optimal solution: the point, its value, and the entries that are neither 0 nor 1."""

    x: Floats  # (m,)
    value: float
    fractional: NDArray[np.intp]


class LinearProgram:
    """A model that is kept between solves. ``rows`` is (R, m); ``low`` and ``high`` are (R,) and may be infinite."""

    def __init__(self, rows: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
        import highspy  # slow to import: only when a linear program is solved

        self._solver: Any = highspy.Highs()
        for name, value in OPTIONS.items():
            self._solver.setOptionValue(name, value)
        matrix = _matrix(rows)
        m = matrix.shape[1]
        self._lower, self._upper, self._cost = np.zeros(m), np.ones(m), np.zeros(m)
        self._low = self._high = np.empty(0)
        self._set_rows(matrix, low, high)
        self._load(basis=None)
        self.solves = 0
        self.repeats = 0

    def maximise(
        self,
        objective: ArrayLike,
        *,
        rows: ArrayLike | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Vertex | None:
        """A vertex that maximises ``objective``, or None when no point is feasible.

        Each argument replaces that part of the model, for this solve and later ones. New ``rows`` of another number
        require ``low`` and ``high``.
        """
        cost = _vector("objective", objective, self._rows.shape[1])
        if rows is not None:
            self._replace_rows(rows, low, high)
        elif low is not None or high is not None:
            self._change_sides(low, high)
        if lower is not None or upper is not None:
            self._change_box(lower, upper)
        self._change_cost(cost)
        self.solves += 1
        x = self._solve()
        if x is None:
            return None
        return Vertex(x, float(cost @ x), np.flatnonzero((x > INTEGRAL) & (x < 1 - INTEGRAL)))

    # --- the parts of the model ---

    def _set_rows(self, rows: Floats, low: ArrayLike | None, high: ArrayLike | None) -> None:
        """Divide rows and their bounds by the row's largest entry; clip bounds that no x in the box can reach."""
        count, m = rows.shape
        given_low = self._low if low is None else _vector("low", low, count, finite=False)
        given_high = self._high if high is None else _vector("high", high, count, finite=False)
        if len(given_low) != count or len(given_high) != count:
            raise InvalidInput("low and high", f"given for {count} new rows", "one or none of them", "pass both")
        scale = np.abs(rows).max(axis=1)
        scale[scale == 0] = 1.0
        with np.errstate(over="ignore"):
            low_scaled, high_scaled = given_low / scale, given_high / scale
        beyond = m + 1.0
        self._row_low = np.where(low_scaled < -beyond, -np.inf, np.minimum(low_scaled, beyond))
        self._row_high = np.where(high_scaled > beyond, np.inf, np.maximum(high_scaled, -beyond))
        self._rows, self._low, self._high, self._scaled = rows, given_low, given_high, rows / scale[:, None]

    def _load(self, basis: Any) -> None:
        """Pass the whole model to the solver, and the basis if there is one."""
        count, m = self._rows.shape
        kept = np.abs(self._scaled) >= SMALLEST
        start = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int32)
        place = np.nonzero(kept)[1].astype(np.int32)
        self._solver.passModel(
            m, count, len(place), 2, -1, 0.0,  # 2: by rows; −1: maximise; no constant term
            self._cost, self._lower, self._upper, self._row_low, self._row_high,
            start, place, self._scaled[kept], np.zeros(m, np.int32),
        )  # fmt: skip
        if basis is not None and basis.valid:
            self._solver.setBasis(basis)

    def _replace_rows(self, rows: ArrayLike, low: ArrayLike | None, high: ArrayLike | None) -> None:
        new = _matrix(rows)
        if new.shape[1] != self._rows.shape[1]:
            raise InvalidInput(
                "rows", f"{self._rows.shape[1]} columns", f"{new.shape[1]}", "make another LinearProgram"
            )
        basis = self._solver.getBasis() if new.shape == self._rows.shape else None
        self._set_rows(new, low, high)
        self._load(basis)

    def _change_sides(self, low: ArrayLike | None, high: ArrayLike | None) -> None:
        self._set_rows(self._rows, low, high)
        count = len(self._rows)
        self._solver.changeRowsBounds(count, np.arange(count, dtype=np.int32), self._row_low, self._row_high)

    def _change_box(self, lower: ArrayLike | None, upper: ArrayLike | None) -> None:
        m = self._rows.shape[1]
        low = self._lower if lower is None else _vector("lower", lower, m)
        high = self._upper if upper is None else _vector("upper", upper, m)
        if (low < 0).any() or (high > 1).any() or (low > high).any():
            raise InvalidInput("lower and upper", "0 ≤ lower ≤ upper ≤ 1", "others", "correct the bounds")
        self._lower, self._upper = low, high
        self._solver.changeColsBounds(m, np.arange(m, dtype=np.int32), low, high)

    def _change_cost(self, cost: Floats) -> None:
        """Divide the costs by the largest: the vertex is the same, and the solver's tolerances are relative."""
        self._cost = cost / (np.abs(cost).max() or 1.0)
        self._solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), self._cost)

    # --- solving ---

    def _solve(self) -> Floats | None:
        """Run, check, and run once more from scratch when the check fails."""
        defect = ""
        for attempt in range(2):
            if attempt:
                self.repeats += 1
                self._solver.clearSolver()
            self._solver.run()
            status = self._solver.getModelStatus().name
            if status in OUTCOME and not OUTCOME[status]:
                return None
            if status in OUTCOME:
                x = np.array(self._solver.getSolution().col_value)
                defect = self._defect(x)
                if not defect:
                    return np.asarray(np.clip(x, self._lower, self._upper))
            else:
                defect = f"status {status}"
        raise SetwiseError(
            f"a linear program of {len(self._rows)} rows must end optimal or infeasible, got {defect} twice; "
            "please report the instance."
        )

    def _defect(self, x: Floats) -> str:
        """The defect of a point that the solver returned as optimal; empty when there is none."""
        if (x < self._lower - FEASIBLE).any() or (x > self._upper + FEASIBLE).any():
            return "a point outside its bounds"
        reached = self._scaled @ x
        slack_low = FEASIBLE * np.maximum(1.0, np.abs(self._row_low))
        slack_high = FEASIBLE * np.maximum(1.0, np.abs(self._row_high))
        if (reached < self._row_low - slack_low).any() or (reached > self._row_high + slack_high).any():
            return "a point that breaks a row"
        between = int(((x > self._lower + INTEGRAL) & (x < self._upper - INTEGRAL)).sum())
        if between > len(self._rows):
            return f"a point with {between} entries between their bounds, which is not a vertex"
        return ""


def _matrix(rows: ArrayLike) -> Floats:
    result = np.array(rows, np.float64)
    if result.ndim != 2 or result.shape[1] == 0 or not np.isfinite(result).all():
        raise InvalidInput("rows", "finite, of shape (R, m) with m ≥ 1", f"shape {result.shape}", "pass such a matrix")
    return result


def _vector(name: str, given: ArrayLike, size: int, finite: bool = True) -> Floats:
    result = np.array(given, np.float64)
    if result.shape != (size,) or np.isnan(result).any() or (finite and np.isinf(result).any()):
        raise InvalidInput(name, f"{size} numbers", f"shape {result.shape}", "pass one a row or column")
    return result
