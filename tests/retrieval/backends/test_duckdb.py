"""What the conformance suite does not ask of the duckdb backend."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("duckdb")

from setwise.retrieval.backends.duckdb import DuckDB


def test_threads_do_not_see_the_rows_that_others_bar() -> None:
    index = DuckDB.build(np.arange(8, dtype=np.float32)[:, None], np.zeros(8, np.int32), 1)

    def best(barred_row: int) -> list[int]:
        hits = index.search(np.ones((1, 1), np.float32), 7, np.arange(8) == barred_row)
        return hits.rows[0, 0].tolist()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(best, range(8)))
    assert answers == [[row for row in range(7, -1, -1) if row != barred] for barred in range(8)]
