"""Numbers of candidates as a request names them: an attribute, one number for each, or {id: number}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from setwise._types import Floats
from setwise._validation import LARGEST, numbers, require_shape
from setwise.errors import Infeasible, InvalidInput
from setwise.model.sums import attribute_numbers
from setwise.recommend.rerank.candidates import Candidates

UNWEIGHTED = "unweighted"


def numbers_of(candidates: Candidates, parameter: str, stated: Any) -> Floats:
    """The number of each candidate, NaN where there is none."""
    if isinstance(stated, str):
        return attribute_numbers(candidates.attributes, parameter, stated)
    if isinstance(stated, Mapping):
        names = candidates.named(np.arange(len(candidates)))
        return np.asarray(numbers(parameter, [stated.get(name, np.nan) for name in names]), np.float64)
    array = np.asarray(numbers(parameter, stated), np.float64)
    if candidates.rows is None:
        require_shape(parameter, array, (len(candidates),))
        return array
    if array.ndim != 1 or len(array) <= candidates.rows[-1]:
        must = "one number for each candidate, {id: number}, or an attribute's name"
        raise InvalidInput(parameter, must, f"shape {array.shape}", "pass one of these")
    return array[candidates.rows]


def weighted(candidates: Candidates, weights: Any) -> tuple[Candidates, Floats]:
    """The candidates that have a weight, and the weights; the others are noted."""
    given = numbers_of(candidates, "weights", weights)
    known = np.isfinite(given)
    if not known.any():
        raise Infeasible("weights", "known for at least one candidate", "none", "check where they come from")
    if given[known].min() < 0 or given[known].max() > LARGEST:
        worst = float(given[known].min() if given[known].min() < 0 else given[known].max())
        raise InvalidInput("weights", f"from 0 to {LARGEST:g}", worst, "leave out candidates that must not be shown")
    if known.all():
        return candidates, given
    candidates.notes[UNWEIGHTED] = candidates.named(np.flatnonzero(~known))
    return candidates.taken(np.flatnonzero(known)), given[known]
