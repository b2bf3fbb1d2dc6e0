"""User and Users: the vectors that turn values into scores, and the numbers that a request gives to items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._display import short_repr
from setwise._validation import numbers, real_array
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores


def reward_weights(parameter: str, weights: ArrayLike) -> NDArray[np.float64]:
    """What a unit of reward of each item is worth, ω_i ≥ 0: with a negative one a reward would decrease.

    Bounds rest on rewards that do not decrease, as those of a higher argument bound those of a lower one.
    """
    checked = real_array(parameter, weights, ("n",), np.float64)
    if len(checked) and checked.min() < 0:
        must = "at least 0, because a reward that counts negatively would decrease where no bound holds"
        raise InvalidInput(parameter, must, float(checked.min()), "exclude the item, or give it the weight 0")
    return checked


@dataclass(frozen=True, eq=False)
class User:
    """A user: one vector per head, and one for the base term if the catalogue has one.

    heads (H, d_v) gives the scores s_i^h = v_i^h · u^h; base (d_0,) the self term base_i · u⁰. ``scores`` are added
    scores: numbers of the items for this user alone, (n,) or an ``AddedScores``, which join the self term. ``weights``
    (n,) are what a unit of each item's reward is worth in this request, ω_i ≥ 0: F(S) = Σ ω_i f_i(a_i(S)).
    """

    heads: NDArray[np.float64]
    base: NDArray[np.float64] | None = None
    scores: AddedScores | None = None
    weights: NDArray[np.float64] | None = None

    __repr__ = short_repr

    def __init__(
        self,
        heads: ArrayLike,
        base: ArrayLike | None = None,
        scores: AddedScores | ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        wide = numbers("user", heads)
        object.__setattr__(
            self, "heads", real_array("user", wide[None, :] if wide.ndim == 1 else wide, ("heads", "d_v"), np.float64)
        )
        object.__setattr__(self, "base", None if base is None else real_array("user base", base, ("d_0",), np.float64))
        added = scores if scores is None or isinstance(scores, AddedScores) else AddedScores.dense(scores)
        object.__setattr__(self, "scores", added)
        object.__setattr__(self, "weights", None if weights is None else reward_weights("weights", weights))

    def with_scores(self, scores: AddedScores | None) -> User:
        """The same vectors with these added scores instead."""
        return User(self.heads, self.base, scores, self.weights)

    def with_weights(self, weights: NDArray[np.float64] | None) -> User:
        """The same vectors and scores with these weights of rewards instead."""
        return User(self.heads, self.base, self.scores, weights)

    def weights_of(self, rows: NDArray[np.integer]) -> NDArray[np.float64] | None:
        """ω_i of these rows; None without weights, where it is 1."""
        return None if self.weights is None else self.weights[rows]


@dataclass(frozen=True, eq=False)
class Users:
    """Many users of one catalogue: heads (B, H, d_v), base (B, d_0) or None, and the added scores of each or None."""

    heads: NDArray[np.float64]
    base: NDArray[np.float64] | None = None
    scores: Sequence[AddedScores] | None = None

    def __len__(self) -> int:
        return len(self.heads)

    def __getitem__(self, row: int) -> User:
        base = None if self.base is None else self.base[row]
        return User(self.heads[row], base, None if self.scores is None else self.scores[row])

    def __iter__(self) -> Iterator[User]:
        return (self[row] for row in range(len(self)))

    def added(self, shown: NDArray[np.integer]) -> NDArray[np.float64]:
        """The added scores (B, L) of the items ``shown`` (B, L)."""
        result = np.zeros(shown.shape)
        for row, scores in enumerate(self.scores or ()):
            result[row] = scores.of(shown[row])
        return result
