"""Complements and substitutes: the paper's Model 2.

    g(S, i) = v̂_i · û + Σ_{j∈S} H_ij        the utility of item i in the set S for the user û
    value(S) = Σ_{i∈S} g(S, i)

H_ij > 0: the presence of j makes i more useful (a complement); H_ij < 0: less (a substitute); H_ii = 0. H need not be
symmetric. ``to_catalog`` returns the simple transformer that computes it: ``model/attention_sum.py`` constructs the sum
over H, and the base term is v̂_i · û, the paper's third head.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import index_array, real_array
from setwise.model.attention_sum import AttentionSum, require_reachable
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice
from setwise.model.rewards import Linear
from setwise.model.users import User
from setwise.preferences.model_parts import draw, interaction_matrix, positive, set_size


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
        taste = real_array("user", user, (self.item_value.shape[1],), np.float64)
        return np.asarray(self.item_value[rows] @ taste + self.interaction[rows[:, None], rows].sum(axis=1))

    def value(self, user: ArrayLike, items: ArrayLike) -> float:
        """The sum of the utilities; 0 for the empty set."""
        return float(self.item_utilities(user, items).sum())

    def sample(self, user: ArrayLike, items: ArrayLike, size: int, seed: int = 0) -> Rows:
        """``size`` independent choices of one item of the set, with probability proportional to e^g(S, i)."""
        rows = index_array("items", items, len(self), "the model")
        return draw("items", rows, self.item_utilities(user, rows), size, seed)

    def to_catalog(
        self, eps: float, k: int | None = None, ids: IdChoice | None = None, attributes: Any = None
    ) -> Catalog:
        """The simple transformer whose F(S) is ``value(user, S)`` within ``eps`` for every set of at most k items.

        Evaluate it with ``self.user(û)``. An error of eps/k in each of k items adds up to eps. The rounding of v̂_i · û
        is not counted: û is unknown here, and model and catalogue round it alike.
        """
        eps, k = positive("eps", eps), set_size(k, len(self))
        construction = AttentionSum.within(self.interaction, k, eps / k)
        require_reachable(eps, 2 * k * construction.rounding)
        return construction.catalog(self.item_value, Linear(), ids, attributes)

    def user(self, user: ArrayLike) -> User:
        """The user of ``to_catalog`` that stands for û."""
        return User(heads=np.ones((2, 1)), base=user)
