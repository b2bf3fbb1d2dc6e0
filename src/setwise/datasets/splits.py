"""Splits for training and evaluation.

* ``random_split``: row numbers at random into parts, such as training, validation and test.
* ``time_split``: the earliest rows and the latest, as in use: a model knows the past and recommends in the future.
* ``HistorySplit``: every session into a history, which the model sees, and targets, which it has to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise._types import Ints
from setwise._validation import frozen, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

HISTORY = 15  # items of a session that form its history, as in the paper; at most half of a short session


def random_split(n: int, shares: Sequence[float], seed: int = 0) -> list[Ints]:
    """The rows 0 … n − 1 at random in disjoint parts of these shares, which sum to one; each part is sorted."""
    order = np.random.default_rng(whole_number("seed", seed, least=0)).permutation(n)
    if not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise InvalidInput(
            "shares", "positive numbers that sum to 1", repr(list(shares)), "pass for instance (0.8, 0.2)"
        )
    return [np.sort(part) for part in np.split(order, np.round(np.cumsum(shares)[:-1] * n).astype(int))]


def time_split(data: Sessions | Slates, latest: int) -> tuple[Ints, Ints]:
    """The rows of the earliest sessions or slates, and of the ``latest``, each in the order of time."""
    if data.starts is None:
        must, todo = "sessions or slates with times", "name the column of times, or split at random"
        raise InvalidInput("data", must, "none", todo)
    count = min(whole_number("latest", latest), len(data))
    order = np.argsort(data.starts, kind="stable")
    return order[: len(order) - count], order[len(order) - count :]


@dataclass(frozen=True, eq=False)
class HistorySplit:
    """Sessions, each split into a history and the targets; both are lists of row numbers, one per session."""

    sessions: Sessions
    history: Ragged
    targets: Ragged

    @classmethod
    def first(cls, sessions: Sessions, history: int = HISTORY) -> HistorySplit:
        """The first ``history`` items (at most half the session) are the history. Used for evaluation."""
        return cls._split(sessions.distinct(), None, history)

    @classmethod
    def random(cls, sessions: Sessions, rng: np.random.Generator, history: int = HISTORY) -> HistorySplit:
        """A random subset of the items is the history. Used for training, with a new split every epoch."""
        return cls._split(sessions.distinct(), rng, history)

    @classmethod
    def window(
        cls, sessions: Sessions, history: int = HISTORY, size: int = 5, offset_seed: int | None = None
    ) -> HistorySplit:
        """``history`` consecutive items and the next ``size`` items as targets; shorter sessions are left out.

        The window starts at the first item, or, with ``offset_seed``, at a random offset.
        """
        before, after = whole_number("history", history), whole_number("size", size)
        distinct = sessions.distinct()
        kept = distinct.taken(np.flatnonzero(distinct.items.lengths >= before + after))
        start = kept.items.offsets[:-1].copy()
        if offset_seed is not None:
            spare = kept.items.lengths - before - after
            start += np.random.default_rng(whole_number("offset_seed", offset_seed, least=0)).integers(0, spare + 1)
        seen = kept.items.values[start[:, None] + np.arange(before)]
        following = kept.items.values[start[:, None] + before + np.arange(after)]
        return cls(
            kept,
            Ragged.cut(seen.ravel(), np.full(len(kept), before)),
            Ragged.cut(following.ravel(), np.full(len(kept), after)),
        )

    @classmethod
    def _split(cls, sessions: Sessions, rng: np.random.Generator | None, history: int) -> HistorySplit:
        items = sessions.items
        owner = items.owner
        position = np.arange(len(owner)) - items.offsets[owner]
        if rng is not None:
            order = np.lexsort((rng.random(len(owner)), owner))
            items = Ragged.cut(items.values[order], items.lengths)
        seen = position < np.minimum(history, items.lengths // 2)[owner]
        return cls(sessions, items.kept(seen), items.kept(~seen))

    def __len__(self) -> int:
        return len(self.history)

    def taken(self, rows: Ints) -> HistorySplit:
        """The split of the sessions of these rows."""
        return HistorySplit(self.sessions.taken(rows), self.history.taken(rows), self.targets.taken(rows))

    def outcomes(self, shown: Ragged) -> NDArray[np.float32]:
        """1 for every item shown that is a target of its session, else 0; aligned with ``shown.values``."""
        return self.targets.holds(shown.owner, shown.values).astype(np.float32)

    def slates(self, shown: Ragged) -> Slates:
        """The lists ``shown``, one per session, with their outcomes."""
        return Slates(self.history, shown, frozen(self.outcomes(shown)), self.sessions.ids, self.sessions.attributes)
