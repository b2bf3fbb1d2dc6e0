"""User: the vectors that turn values into scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import numbers, real_array


@dataclass(frozen=True, eq=False)
class User:
    """A user: one vector per head, and one for the base term if the catalogue has one.

    heads (H, d_v) gives the scores s_i^h = v_i^h · u^h; base (d_0,) the self term base_i · u⁰.
    """

    heads: NDArray[np.float64]
    base: NDArray[np.float64] | None = None

    def __init__(self, heads: ArrayLike, base: ArrayLike | None = None) -> None:
        wide = numbers("user", heads)
        object.__setattr__(
            self, "heads", real_array("user", wide[None, :] if wide.ndim == 1 else wide, ("heads", "d_v"), np.float64)
        )
        object.__setattr__(self, "base", None if base is None else real_array("user base", base, ("d_0",), np.float64))
