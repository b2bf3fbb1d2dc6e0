"""Complements and substitutes: the paper's Model 2.

    g(S, i) = v̂_i · û + Σ_{j∈S} H_ij        the utility of item i in the set S for the user û
    value(S) = Σ_{i∈S} g(S, i)

H_ij > 0: the presence of j makes i more useful (a complement); H_ij < 0: less (a substitute); H_ii = 0. H need not be
symmetric. ``to_catalog`` gives the simple transformer that computes it: the sum over H by ``attention_sum.py``, and
v̂_i · û by the base term, which is the paper's third head.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.catalog import Catalog
from setwise.checks import index_array, real_array, real_number, whole_number
from setwise.errors import InvalidInput
from setwise.ids import IdChoice
from setwise.preferences.attention_sum import AttentionSum, require_reachable
from setwise.rewards import Linear
from setwise.users import User

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Complementarity:
    """n items with values v̂ (n, d) and pairwise effects H (n, n)."""

    def __init__(self, value: ArrayLike, interaction: ArrayLike) -> None:
        self.item_value: Floats = real_array("value", value, ("n", "d"), np.float64)
        self.interaction = interaction_matrix("interaction", interaction, len(self.item_value))

    def __len__(self) -> int:
        return len(self.item_value)

    def __repr__(self) -> str:
        return f"Complementarity({len(self)} items, d={self.item_value.shape[1]})"

    def item_utilities(self, user: ArrayLike, items: ArrayLike) -> Floats:
        """g(S, i) for each of ``items``, in their order."""
        rows = index_array("items", items, len(self), "the model")
        wishes = real_array("user", user, (self.item_value.shape[1],), np.float64)
        return np.asarray(self.item_value[rows] @ wishes + self.interaction[rows[:, None], rows].sum(axis=1))

    def value(self, user: ArrayLike, items: ArrayLike) -> float:
        """The sum of the utilities; 0 for the empty set."""
        return float(self.item_utilities(user, items).sum())

    def sample(self, user: ArrayLike, items: ArrayLike, size: int, seed: int) -> Rows:
        """``size`` choices of one item of the set each, with probability proportional to e^g(S, i)."""
        rows = index_array("items", items, len(self), "the model")
        return draw(rows, self.item_utilities(user, rows), size, seed)

    def to_catalog(
        self, eps: float, k: int | None = None, ids: IdChoice | None = None, attributes: Any = None
    ) -> Catalog:
        """The simple transformer whose F(S) is ``value(user, S)`` within ``eps`` for every set of at most k items.

        Evaluate it with ``self.user(û)``. k items within eps/k each make eps. The rounding of v̂_i · û itself is not
        counted: û is not known here, and model and catalogue round it alike.
        """
        eps, k = positive("eps", eps), set_size(k, len(self))
        construction = AttentionSum.within(self.interaction, k, eps / k)
        require_reachable(eps, 2 * k * construction.rounding)
        return construction.catalog(self.item_value, Linear(), ids, attributes)

    def user(self, user: ArrayLike) -> User:
        """The user û as ``to_catalog`` needs it."""
        return User(heads=np.ones((2, 1)), base=user)


def interaction_matrix(parameter: str, given: ArrayLike, n: int) -> Floats:
    """``given`` as a finite (n, n) matrix with a zero diagonal, n > 0."""
    if n == 0:
        raise InvalidInput("items", "at least one", "none", "check the source of the model")
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
    """The largest set that a construction must serve: ``k``, or all n items."""
    return n if k is None else min(whole_number("k", k), n)


def positive(parameter: str, number: float) -> float:
    """``number`` as a finite float above 0."""
    value = real_number(parameter, number)
    if value <= 0:
        raise InvalidInput(parameter, "above 0", value, "pass a small positive number")
    return value


def softmax(utility: Floats) -> Floats:
    """Probabilities proportional to e^utility."""
    weight = np.exp(utility - utility.max())
    return np.asarray(weight / weight.sum())


def draw(items: Rows, utility: Floats, size: int, seed: int) -> Rows:
    """``size`` of ``items``, independently, each with probability proportional to e^utility."""
    if not items.size:
        raise InvalidInput("items", "a set of at least one item", "the empty set", "offer something to choose")
    chosen = np.random.default_rng(seed).choice(len(items), whole_number("size", size), p=softmax(utility))
    return items[chosen]
