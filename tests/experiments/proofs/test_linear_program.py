"""The linear programs: right answers by a check that enumerates vertices, at any scale, warm or cold; no bad point passes."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proofs.linear_program import LinearProgram

from counts import examples

INFINITY = np.inf


def best_vertex(cost, rows, low, high, lower, upper) -> float | None:
    """The largest cost of a vertex, by trying every basis: which entries are free, which rows are tight, and where."""
    count, m = rows.shape
    best = None
    for size in range(min(count, m) + 1):
        for free, tight in product(combinations(range(m), size), combinations(range(count), size)):
            held = [i for i in range(m) if i not in free]
            for sides in product(*[{float(low[t]), float(high[t])} for t in tight]):
                if not np.isfinite(sides).all():
                    continue
                for ends in product(*[{float(lower[i]), float(upper[i])} for i in held]):
                    x = np.zeros(m)
                    x[held] = ends
                    block = rows[np.ix_(tight, free)]
                    if size and abs(np.linalg.det(block)) < 1e-9:
                        continue
                    x[list(free)] = np.linalg.solve(block, np.array(sides) - rows[list(tight)] @ x) if size else 0
                    inside = (x >= lower - 1e-9).all() and (x <= upper + 1e-9).all()
                    reached = rows @ x
                    if inside and (reached >= low - 1e-9).all() and (reached <= high + 1e-9).all():
                        best = max(-np.inf if best is None else best, float(cost @ x))
    return best


@examples(60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 2))
def test_against_all_vertices(seed: int, m: int, count: int) -> None:
    """Several solves of one program: costs, sides, boxes and rows change, and every answer is right."""
    rng = np.random.default_rng(seed)
    rows, program = rng.integers(-3, 4, (count, m)).astype(float), None
    for change in ("all", "cost", "sides", "box", "rows"):
        if change in ("all", "rows"):
            rows = rng.integers(-3, 4, (count, m)).astype(float)
        if change in ("all", "sides"):
            middle, width = rows @ rng.random(m), 2 * rng.random(count)
            low = np.where(rng.random(count) < 0.4, -INFINITY, middle - width * rng.random(count))
            high = np.where(rng.random(count) < 0.4, INFINITY, middle + width - 1)
        if change in ("all", "box"):
            lower, upper = (rng.random(m) < 0.2).astype(float), np.ones(m)
            upper[(rng.random(m) < 0.2) & (lower == 0)] = 0.0
        cost = rng.normal(size=m)
        program = program or LinearProgram(rows, low, high)
        vertex = program.maximise(cost, rows=rows, low=low, high=high, lower=lower, upper=upper)
        truth = best_vertex(cost, rows, low, high, lower, upper)
        assert (vertex is None) == (truth is None)
        if vertex is not None:
            assert vertex.value == pytest.approx(truth, abs=1e-7)
            assert len(vertex.fractional) <= count
            assert ((vertex.x >= lower) & (vertex.x <= upper)).all()


def test_a_box_that_is_not_integral() -> None:
    vertex = LinearProgram(np.zeros((0, 3)), [], []).maximise([1, 1, -1], lower=[0, 0, 0.25], upper=[0.5, 1, 1])
    np.testing.assert_array_equal(vertex.x, [0.5, 1, 0.25])
    np.testing.assert_array_equal(vertex.fractional, [0, 2])


@pytest.mark.parametrize("exponent", [-700.0, -300.0, 0.0, 300.0])
def test_scale_of_rows_and_costs_changes_nothing(exponent: float) -> None:
    rng = np.random.default_rng(5)
    rows, cost = rng.normal(size=(3, 30)), rng.normal(size=30)
    low = rows @ rng.random(30) - 0.1
    truth = LinearProgram(rows, low, np.full(3, INFINITY)).maximise(cost)
    scale = np.exp([exponent, 0.0, exponent / 2])
    program = LinearProgram(rows * scale[:, None], low * scale, np.full(3, INFINITY))
    vertex = program.maximise(cost * np.exp(exponent / 3))
    np.testing.assert_allclose(vertex.x, truth.x, atol=1e-9)
    assert program.maximise(cost, low=low * scale + 1e3 * scale) is None


def test_entries_of_all_sizes_in_one_row() -> None:
    """e^−700 beside 1: what is too small to matter is left out, and what is asked of it alone is infeasible."""
    row = np.exp(-np.arange(0.0, 701.0, 100.0))[None, :]
    program = LinearProgram(row, [-INFINITY], [0.5])
    vertex = program.maximise(np.ones(8))
    np.testing.assert_allclose(vertex.x, [0.5, 1, 1, 1, 1, 1, 1, 1], atol=1e-6)
    assert program.maximise(np.ones(8), low=[0.25], upper=[0, 1, 1, 1, 1, 1, 1, 1]) is None


def test_all_that_a_row_can_reach_may_be_required() -> None:
    """Σx ≥ 3 of three variables, and −Σx ≤ −3; more than that is infeasible. A row of zeros requires nothing."""
    for rows, low, high in (([[1.0] * 3], [3.0], [INFINITY]), ([[-2.0] * 3], [-INFINITY], [-6.0])):
        program = LinearProgram(rows, low, high)
        np.testing.assert_array_equal(program.maximise([-1.0, -2.0, -3.0]).x, np.ones(3))
        assert program.maximise([1.0, 1.0, 1.0], low=[7.0], high=[INFINITY]) is None
    empty = LinearProgram(np.zeros((1, 2)), [-0.5], [0.5])
    np.testing.assert_array_equal(empty.maximise([1.0, -1.0]).x, [1.0, 0.0])
    assert empty.maximise([1.0, -1.0], low=[0.1]) is None


def test_an_objective_of_zeros_has_a_feasible_vertex() -> None:
    vertex = LinearProgram([[1.0, 1.0, 1.0]], [1.5], [2.5]).maximise([0.0, 0.0, 0.0])
    assert vertex.value == 0.0
    assert 1.5 - 1e-9 <= vertex.x.sum() <= 2.5 + 1e-9
    assert len(vertex.fractional) <= 1


def test_new_rows_of_another_number_and_what_stays() -> None:
    program = LinearProgram([[1.0, 1.0, 1.0]], [-INFINITY], [1.5])
    assert program.maximise([3, 2, 1]).value == pytest.approx(4.0)
    vertex = program.maximise([3, 2, 1], rows=[[1, 1, 1], [1, 0, 0]], low=[-INFINITY] * 2, high=[1.5, 0.25])
    np.testing.assert_allclose(vertex.x, [0.25, 1, 0.25])
    assert program.maximise([3, 2, 1], high=[2.5, 1]).value == pytest.approx(5.5)
    assert program.maximise([-1, -1, -1]).value == pytest.approx(0.0), "high stays, cost changes"
    assert program.solves == 4
    assert program.repeats == 0


def test_rows_of_the_same_shape_start_at_the_last_vertex() -> None:
    """The optimum is found before: no step of the simplex is needed."""
    rng = np.random.default_rng(0)
    rows, cost = rng.uniform(size=(3, 30)), rng.uniform(size=30)
    program = LinearProgram(rows, np.full(3, -INFINITY), np.full(3, 4.0))
    first = program.maximise(cost)
    assert program._solver.getInfo().simplex_iteration_count > 0
    again = program.maximise(cost, rows=rows.copy())
    assert program._solver.getInfo().simplex_iteration_count == 0
    assert again.value == pytest.approx(first.value, rel=1e-12)
