"""The candidates of a list, from arrays, a mapping, records or a table; what is odd is decided here and reported.

    scores         what becomes of it
    unscored       a score that is missing, NaN or infinite: the candidate is left out
    repeated       an id that comes again: the row of the highest score counts, the others are left out
    without_vector a vector that is missing, zero or not finite, where others have one: the candidate is like no other
    unweighted     a weight that is missing, where weights are given: the candidate is left out
    unknown        an id of ``exclude`` that is no candidate: nothing is to be done

A table is a data frame (pandas, polars), an Arrow table or a mapping of columns. The id is in the column ``id``,
``item_id`` or ``item``, the score in ``score``, the vector in ``vector`` or ``embedding``; all others are attributes.
Records are a list of such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Floats, Rows
from setwise._validation import did_you_mean, numbers, require_shape
from setwise.errors import Infeasible, InvalidInput
from setwise.model.attributes import Attributes

IDS, SCORES, VECTORS = ("id", "item_id", "item"), ("score",), ("vector", "embedding")
UNKNOWN, UNSCORED, REPEATED, WITHOUT_VECTOR = "unknown", "unscored", "repeated", "without_vector"
Notes = dict[str, list[Any]]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates that can be chosen.

    scores      (m,) finite
    rows        (m,) where each was in what was passed; None: in the same order
    ids         (m,) their names; None: they are called by ``rows``
    vectors     (m, d) or None; ``square`` has the squares of their lengths
    attributes  of these candidates
    notes       the ids that were left out or are without something, by the reason
    """

    scores: Floats
    rows: Rows | None = None
    ids: NDArray[Any] | None = None
    vectors: Array | None = None
    square: Floats | None = None
    attributes: Attributes = field(default_factory=lambda: Attributes({}, 0))
    notes: Notes = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(
        cls, given: Any, ids: ArrayLike | None = None, vectors: ArrayLike | None = None, attributes: Any = None
    ) -> Candidates:
        """What was passed, checked; ``ids``, ``vectors`` and ``attributes`` are those beside plain scores."""
        if isinstance(given, Candidates):
            return given
        if isinstance(given, np.ndarray) or not _is_table(given):
            return cls._of_columns(given, ids, vectors, attributes)
        for name, beside in (("ids", ids), ("embeddings", vectors), ("attributes", attributes)):
            if beside is not None:
                raise InvalidInput(name, "a part of the candidates where these are a table", "both", "pass it once")
        if isinstance(given, Mapping) and all(np.ndim(cell) == 0 for cell in given.values()):
            return cls._of_columns(list(given.values()), list(given), None, None)
        columns = columns_of(given)
        names = {part: found_among(list(columns), known) for part, known in (("id", IDS), ("v", VECTORS))}
        score = found_among(list(columns), SCORES)
        if score is None:
            todo = did_you_mean("score", list(columns)) or "name the column of the scores so"
            raise InvalidInput("candidates", "with a column 'score'", f"{', '.join(columns) or 'none'}", todo)
        named = None if names["id"] is None else columns[names["id"]]
        vector = None if names["v"] is None else columns[names["v"]]
        used = {score, *names.values()}
        return cls._of_columns(
            columns[score], named, vector, {name: cells for name, cells in columns.items() if name not in used}
        )

    @classmethod
    def _of_columns(cls, scores: Any, ids: Any, vectors: Any, attributes: Any) -> Candidates:
        values, notes = _scores(scores), Notes()
        m = len(values)
        if not m:
            raise Infeasible("candidates", "at least one", "none", "pass the scores of some")
        names = None if ids is None else _ids(ids, m)
        table = Attributes.of(attributes, m) if attributes is not None else Attributes({}, m)
        kept = _kept(values, names, notes)
        rows = None if kept is None else np.flatnonzero(kept)
        if rows is not None:
            if not len(rows):
                raise Infeasible("scores", "finite for at least one candidate", "none", "check where they come from")
            values, table = values[rows], table.taken(rows)
        units = None if vectors is None else vectors_of(vectors, m)
        if rows is not None:
            names, units = None if names is None else names[rows], None if units is None else units[rows]
        square, without = None, np.zeros(0, np.intp)
        if units is not None:
            units, square, without = _directions(units)
        result = cls(values, rows, names, units, square, table, notes)
        if len(without):
            notes[WITHOUT_VECTOR] = result.named(without)
        return result

    def taken(self, chosen: Rows) -> Candidates:
        """Only these candidates, with the same notes."""
        return Candidates(
            self.scores[chosen],
            chosen if self.rows is None else self.rows[chosen],
            None if self.ids is None else self.ids[chosen],
            None if self.vectors is None else self.vectors[chosen],
            None if self.square is None else self.square[chosen],
            self.attributes.taken(chosen),
            self.notes,
        )

    def named(self, chosen: Rows) -> list[Any]:
        """The ids of these candidates, or where they were."""
        if self.ids is not None:
            return list(self.ids[chosen].tolist())
        return list((chosen if self.rows is None else self.rows[chosen]).tolist())

    def places_of(self, parameter: str, wanted: Any) -> tuple[Rows, list[Any]]:
        """Where these ids are among the candidates, and those that are none of them."""
        if isinstance(wanted, (str, bytes, Mapping)) or not hasattr(wanted, "__iter__"):
            raise InvalidInput(parameter, "a list of ids", repr(wanted), "put a single one into a list")
        ids = wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)
        if not ids:
            return np.zeros(0, np.intp), []
        place = {name: at for at, name in enumerate(self.named(np.arange(len(self))))}
        try:
            found = list(dict.fromkeys(place[id_] for id_ in ids if id_ in place))
            missing = list(dict.fromkeys(id_ for id_ in ids if id_ not in place))
        except TypeError:
            must, todo = "a list of ids", "pass the ids themselves"
            raise InvalidInput(parameter, must, "entries that are lists or mappings", todo) from None
        return np.array(found, np.intp), missing


# --- columns ---


def columns_of(table: Any) -> dict[str, Any]:
    """The columns of a table, or of a list of records, by name; a value that a record lacks is None."""
    if isinstance(table, Mapping):
        return dict(table)
    if hasattr(table, "column_names"):  # of Arrow
        return {name: table[name].to_pylist() for name in table.column_names}
    if hasattr(table, "columns"):
        return {str(name): _plain(table[name]) for name in table.columns}
    names = dict.fromkeys(name for record in table for name in record)
    return {name: [record.get(name) for record in table] for name in names}


def _plain(column: Any) -> Any:
    """The cells of a column of a data frame: an array of numbers where it is one, else a list."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    return column.to_numpy() if kind and kind in "fiub" else column.to_list()


def _is_table(given: Any) -> bool:
    if isinstance(given, Mapping) or hasattr(given, "columns") or hasattr(given, "column_names"):
        return True
    return isinstance(given, Sequence) and bool(given) and isinstance(given[0], Mapping)


def found_among(names: Iterable[Any], known: Sequence[str]) -> str | None:
    """The first of the known names that is there."""
    there = set(names)
    return next((name for name in known if name in there), None)


def _scores(given: Any) -> Floats:
    """Scores (m,), NaN where one is missing or no number can be."""
    values = given
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "fiu" or np.ma.isMaskedArray(given):
        cells = list(given) if hasattr(given, "__iter__") else given
        if isinstance(cells, list):
            cells = [np.nan if _missing(cell) else cell for cell in cells]
        values = numbers("scores", cells if cells != [] else np.zeros(0))
    require_shape("scores", values, ("m",))
    return np.asarray(values, np.float64)


def _missing(cell: Any) -> bool:
    return cell is None or cell is np.ma.masked or type(cell).__name__ == "NAType"


def _ids(given: Any, m: int) -> NDArray[Any]:
    names = given if isinstance(given, np.ndarray) else _array(given)
    if names.shape != (m,):
        raise InvalidInput("ids", f"{m}, one for each score", f"shape {names.shape}", "align ids with scores")
    return names


def _array(given: Any) -> NDArray[Any]:
    """Ids as an array; of different types, as objects: numpy would turn 1 and "a" into texts."""
    cells = given if isinstance(given, list) else list(given)
    if len({type(cell) for cell in cells}) == 1 and isinstance(cells[0], (int, str)):
        return np.asarray(cells)
    result = np.empty(len(cells), object)
    result[:] = cells
    return result


def _kept(scores: Floats, names: NDArray[Any] | None, notes: Notes) -> NDArray[np.bool_] | None:
    """The rows that count; None for all of them."""
    finite = np.isfinite(scores)
    kept = None
    if not finite.all():
        out = np.flatnonzero(~finite)
        notes[UNSCORED] = (out if names is None else names[out]).tolist()
        kept = finite
    if names is None:
        return kept
    cells = names.tolist()
    try:
        if len(set(cells)) == len(cells):
            return kept
    except TypeError:
        todo = "pass one text or number for each candidate"
        raise InvalidInput("ids", "texts or numbers", "lists or mappings", todo) from None
    kept = finite.copy()
    best: dict[Any, int] = {}
    for at in np.flatnonzero(finite).tolist():
        before = best.setdefault(cells[at], at)
        if before != at:
            worse = at if scores[at] <= scores[before] else before
            kept[worse] = False
            best[cells[at]] = at + before - worse
    notes[REPEATED] = list(dict.fromkeys(cells[at] for at in np.flatnonzero(finite & ~kept).tolist()))
    return kept


def _directions(vectors: Array) -> tuple[Array, Floats, Rows]:
    """The vectors, zero where one is no direction, the squares of their lengths, and the rows that are zero."""
    square = np.einsum("ij,ij->i", vectors, vectors)
    if square.min() > 0 and square.max() < np.inf:  # false for NaN
        return vectors, square, np.zeros(0, np.intp)
    finite = np.isfinite(vectors).all(axis=1, keepdims=True)
    vectors = np.where(finite, vectors, 0)
    return vectors, np.einsum("ij,ij->i", vectors, vectors), np.flatnonzero(~vectors.any(axis=1))


def vectors_of(given: Any, m: int) -> Array | None:
    """Vectors (m, d), zero where there is none; None if there is none at all."""
    if not isinstance(given, np.ndarray) or given.dtype.kind == "O":
        cells = list(given)
        if all(cell is None for cell in cells):
            return None
        sizes = {len(cell) for cell in cells if cell is not None and hasattr(cell, "__len__")}
        if len(sizes) == 1 and any(cell is None for cell in cells):
            nothing = [0.0] * sizes.pop()
            cells = [nothing if cell is None else cell for cell in cells]
        try:
            given = np.array(cells, np.float64)  # None is NaN
        except (TypeError, ValueError):
            given = cells
    array = numbers("embeddings", given)
    require_shape("embeddings", array, (m, "d"))
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
