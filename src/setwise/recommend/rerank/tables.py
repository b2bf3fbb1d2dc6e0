"""Many lists in one table, a row for each candidate: every group of rows is re-ranked by itself.

The table is read by columns, so that a million rows are: attributes and vectors are looked up once for all lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Rows
from setwise._validation import available_cores, numbers, require_shape, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model.attributes import Attributes, Categorical
from setwise.recommend.arguments import SLATE_SIZE
from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.candidates import IDS, SCORES, VECTORS, Candidates, columns_of, found_among, vectors_of
from setwise.recommend.rerank.requests import rerank_quietly

GROUPS = ("list", "user_id", "user", "session")
Vectors = Mapping[Any, ArrayLike] | tuple[Any, ArrayLike]


@dataclass(frozen=True, eq=False)
class RerankedTable:
    """The chosen candidates of all lists, a row for each: list by list, best first.

    columns  group, id, rank (1 is the best), score, reward and row, the place in the table
    notes    of each list with odd candidates, as ``Order.notes``
    failed   of each list of which no set keeps the rules, why
    """

    columns: dict[str, Any]
    notes: dict[Any, dict[str, list[Any]]]
    failed: dict[Any, str]


def rerank_table(
    table: Any,
    k: int = SLATE_SIZE,
    *,
    group: str | None = None,
    vectors: Vectors | None = None,
    threads: int | None = None,
    **options: Any,
) -> RerankedTable:
    """Every list of the table re-ranked; the options are those of ``rerank``.

    group    the column that names the list of a row; by default the first of list, user_id, user and session
    vectors  of the items: {id: vector}, or (ids, matrix); a candidate without one is like no other
    threads  lists at a time; by default one for each core
    """
    columns = columns_of(table)
    name = group if group is not None else found_among(columns, GROUPS)
    if name is None or name not in columns:
        must = f"one of the columns ({', '.join(columns)})"
        raise InvalidInput("group", must, repr(group), "name the column of the lists")
    names, parts = grouped(columns.pop(name))
    lists = Lists(columns, vectors)
    workers = available_cores() if threads is None else whole_number("threads", threads)
    compute = partial(_answer, lists, partial(rerank_quietly, k=k, **options))
    with ThreadPoolExecutor(workers) as pool:
        first = [compute(rows) for rows in parts[:1]]  # compiles
        answers = [*first, *pool.map(compute, parts[1:])]
    return _joined(name, names, parts, answers)


Answer = Order | Infeasible


def _answer(lists: Lists, compute: Callable[[Candidates], Order], rows: Rows) -> Answer:
    try:
        order = compute(lists.candidates(rows))
        _ = order.rewards  # computed here, in this thread
        return order
    except Infeasible as error:
        return error


class Lists:
    """The columns of a table, from which the candidates of single lists are taken."""

    def __init__(self, columns: dict[str, Any], vectors: Vectors | None) -> None:
        score, id_ = found_among(columns, SCORES), found_among(columns, IDS)
        if score is None:
            raise InvalidInput("table", "one with a column 'score'", ", ".join(columns), "name the scores so")
        self._scores = _column(columns.pop(score))
        self._ids = None if id_ is None else _column(columns.pop(id_))
        given = found_among(columns, VECTORS)
        own = None if given is None else vectors_of(columns.pop(given), len(self._scores))
        if own is not None and vectors is not None:
            raise InvalidInput("vectors", "left out where the table has some", "both", "drop one of the two")
        self._attributes = Attributes.of(columns, len(self._scores))
        self._vectors: Array | _ItemVectors | None = own if vectors is None else _ItemVectors(self._ids, vectors)

    def candidates(self, rows: Rows) -> Candidates:
        """Those of these rows."""
        table = {name: _taken(column, rows) for name, column in self._attributes.items()}
        ids = None if self._ids is None else self._ids[rows]
        vectors = None if self._vectors is None else self._vectors[rows]
        return Candidates.of(self._scores[rows], ids, vectors, Attributes(table, len(rows)))


class _ItemVectors:
    """The vectors of the items of each row."""

    def __init__(self, ids: NDArray[Any] | None, vectors: Vectors) -> None:
        if ids is None:
            raise InvalidInput("vectors", "for a table with ids", "one without", "name its items in a column 'id'")
        known, rows = (list(vectors), list(vectors.values())) if isinstance(vectors, Mapping) else vectors
        matrix = numbers("vectors", np.asarray(rows))
        require_shape("vectors", matrix, (len(known), "d"))
        kind = np.float32 if matrix.dtype == np.float32 else np.float64
        place = {id_: at for at, id_ in enumerate(known.tolist() if isinstance(known, np.ndarray) else known)}
        nothing = len(known)
        self._matrix = np.concatenate([matrix, np.zeros((1, matrix.shape[1]))]).astype(kind)
        self._row = np.array([place.get(id_, nothing) for id_ in ids.tolist()], np.intp)

    def __getitem__(self, rows: Rows) -> Array:
        return np.asarray(self._matrix[self._row[rows]])


def _taken(column: Any, rows: Rows) -> Any:
    """The cells of these rows; the texts of a column are shared."""
    return Categorical(column.codes[rows], column.values) if isinstance(column, Categorical) else column[rows]


def _column(given: Any) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    cells = np.empty(len(given), object)
    cells[:] = given
    return cells


def grouped(given: Any) -> tuple[list[Any], list[Rows]]:
    """The names of the lists in the order of their first rows, and the rows of each."""
    cells = given.tolist() if isinstance(given, np.ndarray) else list(given)
    number: dict[Any, int] = {}
    try:
        codes = np.array([number.setdefault(cell, len(number)) for cell in cells], np.intp)
    except TypeError:
        todo = "use a column of texts or numbers"
        raise InvalidInput("group", "a column of names", "lists or mappings", todo) from None
    order = codes.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    return list(number), np.split(order, starts) if len(order) else []


def _joined(name: str, names: list[Any], parts: list[Rows], answers: list[Answer]) -> RerankedTable:
    columns: dict[str, list[Any]] = {part: [] for part in (name, "id", "rank", "score", "reward", "row")}
    notes, failed = {}, {}
    for list_, rows, answer in zip(names, parts, answers, strict=True):
        if isinstance(answer, Infeasible):
            failed[list_] = str(answer)
            continue
        size = len(answer)
        columns[name] += [list_] * size
        columns["id"] += answer.tolist()
        columns["rank"] += range(1, size + 1)
        columns["score"] += answer.scores.tolist()
        columns["reward"] += answer.rewards.tolist()
        columns["row"] += rows[answer.indices].tolist()
        if answer.notes:
            notes[list_] = answer.notes
    return RerankedTable(columns, notes, failed)
