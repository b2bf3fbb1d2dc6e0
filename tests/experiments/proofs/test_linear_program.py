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
