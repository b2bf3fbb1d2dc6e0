"""Functions that the preference models share: argument checks, and choices drawn from utilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import real_array, real_number, whole_number
from setwise.errors import InvalidInput


def require_items(n: int) -> None:
    """Raise InvalidInput for a model without items."""
    if n == 0:
        raise InvalidInput("items", "at least one", "none", "check the source of the model")


def interaction_matrix(parameter: str, given: ArrayLike, n: int) -> Floats:
    """``given`` as a finite (n, n) matrix with a zero diagonal, n > 0."""
    require_items(n)
    matrix: Floats = real_array(parameter, given, (n, n), np.float64)
    at = np.flatnonzero(np.diagonal(matrix))
    if at.size:
        raise InvalidInput(
            parameter,
            "zero on its diagonal, because no item affects itself",
            f"{matrix[at[0], at[0]]:g} for item {at[0]}",
            "add the diagonal to the items' own utilities",
        )
    return matrix


def set_size(k: int | None, n: int) -> int:
    """The largest set size that a construction must cover: ``k``, or all n items."""
    return n if k is None else min(whole_number("k", k), n)


def positive(parameter: str, number: float) -> float:
    """``number`` as a finite float above 0."""
    value = real_number(parameter, number)
    if value <= 0:
        raise InvalidInput(parameter, "above 0", value, "pass a small positive number")
    return value


def shares(utility: Floats) -> Floats:
    """Probabilities proportional to e^utility."""
    weight = np.exp(utility - utility.max())
    return np.asarray(weight / weight.sum())


def draw(parameter: str, items: Rows, utility: Floats, size: int, seed: int) -> Rows:
    """``size`` of ``items``, independently, each with probability proportional to e^utility."""
    if not items.size:
        raise InvalidInput(parameter, "a set of at least one item", "the empty set", "offer something to choose")
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    return items[rng.choice(len(items), whole_number("size", size), p=shares(utility))]
