"""Sizes: a catalogue as the front knows it, by its sizes, its rewards and its sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise.model.catalog import Catalog
from setwise.model.users import User


@dataclass(frozen=True)
class Sizes:
    """The sizes of the whole catalogue, for what is estimated from them; the arrays take no memory."""

    pattern: Catalog
    n: int
    attends: bool

    def __getattr__(self, name: str) -> Any:
        part = getattr(self.pattern, name)
        if name in ("value", "base") and part is not None:
            return np.broadcast_to(part, (self.n, *part.shape[1:]))
        return part

    def __len__(self) -> int:
        return self.n

    def user(self, user: ArrayLike | User) -> User:
        """``user`` without added scores, which are those of a few items at the front."""
        return self.pattern.user(user.with_scores(None) if isinstance(user, User) else user)
