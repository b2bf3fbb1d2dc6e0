"""The caller's own scores of a request: from what was passed to added scores, and to JSON and back.

    scores          one number per item in the order of the catalogue, or a mapping {id: score}
    scores_floor    with a mapping: the score of the items that it does not name; left out: these are not eligible

In JSON a mapping is an object, whose keys are texts. So where the ids of a catalogue are whole numbers, a key may also
be the decimal text of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import LARGEST, real_array, real_number
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores
from setwise.model.attributes import Strings
from setwise.model.catalog import Catalog
from setwise.recommend.arguments import ERROR, IGNORE, Given
from setwise.recommend.histories import known_items


class CallerScores(NamedTuple):
    """Checked scores.

    named    the only eligible rows, ascending, or None where all items are
    ignored  ids that the catalogue does not have
    """

    scores: AddedScores
    named: Rows | None
    ignored: tuple[Any, ...] = ()

    def combined(self, others: AddedScores | None) -> AddedScores:
        """These scores plus ``others``, which a user may have already."""
        total = self.scores.plus(others)
        return total if self.named is None else total.only(self.named)


def caller_scores(
    catalog: Catalog, scores: Given | None, floor: float | None, unknown: str = IGNORE
) -> CallerScores | None:
    """What was passed as ``scores`` and ``scores_floor``, checked against the catalogue; None without scores."""
    if scores is None:
        if floor is not None:
            raise InvalidInput("scores_floor", "left out without scores", floor, "pass scores={id: score} too")
        return None
    if isinstance(scores, Mapping):
        return _of_mapping(catalog, scores, checked_floor(floor), unknown)
    if floor is not None:
        must = "left out where scores has a number for every item"
        raise InvalidInput("scores_floor", must, floor, "pass scores={id: score} to leave items out")
    dense = AddedScores.dense(scores)
    if dense.n != len(catalog):
        todo = "pass one score per item, in the order of the catalogue, or a mapping {id: score}"
        raise InvalidInput("scores", f"one for each of {len(catalog)} items", f"{dense.n}", todo)
    return CallerScores(dense, None)


def checked_floor(floor: object) -> float | None:
    """``scores_floor`` as a number, or None where it was left out."""
    if floor is None:
        return None
    value = real_number("scores_floor", floor)
    if abs(value) > LARGEST:
        raise InvalidInput("scores_floor", f"at most {LARGEST:g} in size", value, "pass a smaller one")
    return value


def _of_mapping(catalog: Catalog, scores: Mapping[Any, float], floor: float | None, unknown: str) -> CallerScores:
    ids = ids_of(catalog, scores, floor)
    rows, ignored = known_items(catalog, "scores", ids, unknown)
    if floor is None and not len(rows):
        known_items(catalog, "scores", ids, ERROR)  # nothing would be left: the first of them is refused
    values = values_of(scores)
    if ignored:
        strange = set(ignored)
        values = values[[id_ not in strange for id_ in ids]]
    sparse = AddedScores.sparse(len(catalog), rows, values, 0.0 if floor is None else floor)
    return CallerScores(sparse, sparse.rows if floor is None else None, ignored)


def ids_of(catalog: Catalog, scores: Mapping[Any, float], floor: float | None, parameter: str = "scores") -> list[Any]:
    """The ids that a mapping names, as the catalogue has them: whole numbers where it has those."""
    if not scores and floor is None:
        todo = "state a scores_floor" if parameter == "scores" else "name the items, or leave it out"
        raise InvalidInput(parameter, "a mapping with at least one item", "an empty one", todo)
    return list(scores) if isinstance(catalog.ids.values, Strings) else [_whole(id_) for id_ in scores]


def values_of(scores: Mapping[Any, float], parameter: str = "scores") -> Floats:
    """The scores of a mapping, checked."""
    values = np.array(list(scores.values())) if scores else np.zeros(0)
    if values.ndim != 1 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        values = np.array([real_number(f"{parameter}[{id_!r}]", score) for id_, score in scores.items()])
    return real_array(parameter, values, (len(scores),), np.float64)


def _whole(id_: Any) -> Any:
    """A decimal text as the number that it names; anything else as it is."""
    if isinstance(id_, str) and id_.removeprefix("-").isdecimal() and len(id_) < 20 and str(int(id_)) == id_:
        return int(id_)
    return id_


def scores_to_json(catalog: Catalog, scores: AddedScores | None, all_eligible: bool) -> dict[str, Any]:
    """``scores`` and ``scores_floor`` of the JSON form; the floor is null unless items without a score are eligible."""
    if scores is None:
        return {"scores": None, "scores_floor": None}
    if scores.rows is None:
        return {"scores": scores.values.tolist(), "scores_floor": None}
    named = zip(catalog.ids[scores.rows].tolist(), scores.values.tolist(), strict=True)
    return {"scores": {str(id_): score for id_, score in named}, "scores_floor": scores.rest if all_eligible else None}
