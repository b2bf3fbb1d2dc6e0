"""Brute force breaks ties by row, whatever the number of rows requested."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from setwise.retrieval.backends.brute_force import BruteForce


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 70), st.integers(1, 3), st.integers(0, 99))
def test_ties_go_to_the_first_row(scores: list[int], per_cell: int, cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = np.array(scores, np.float32)[:, None]
    cell_of = rng.integers(0, cells, len(scores)).astype(np.int32)
    eligible = rng.random(len(scores)) >= 0.2
    hits = BruteForce.build(vectors, cell_of, cells).search(np.ones((1, 1), np.float32), per_cell, eligible)
    for cell in range(cells):
        rows = np.flatnonzero((cell_of == cell) & eligible)
        wanted = sorted(rows.tolist(), key=lambda row: (-scores[row], row))[:per_cell]
        found = hits.rows[0, cell]
        assert found[found >= 0].tolist() == wanted
