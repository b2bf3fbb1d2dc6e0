"""Tests of the duckdb backend beyond the conformance suite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("duckdb")

from setwise.retrieval.backends.duckdb import DuckDB


def test_threads_do_not_share_their_masks() -> None:
    index = DuckDB.build(np.arange(8, dtype=np.float32)[:, None], np.zeros(8, np.int32), 1)

    def best(excluded: int) -> list[int]:
        hits = index.search(np.ones((1, 1), np.float32), 7, np.arange(8) != excluded)
        return hits.rows[0, 0].tolist()

    with ThreadPoolExecutor(8) as threads:
        rows_found = list(threads.map(best, range(8)))
    assert rows_found == [[row for row in range(7, -1, -1) if row != excluded] for excluded in range(8)]
