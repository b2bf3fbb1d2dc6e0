"""From sessions to slates that a model can learn from.

A playlist says what went together, not what was shown and refused. Two kinds of slate are made from it, each from a
session cut at random into a history and the rest, the hits:

* ``singles``: one item by itself, a hit or something else. It teaches what an item is worth alone. Slates mixed from
  hits and random items would teach attention to recognise the mixing: items that fit each other would be called hits
  because the others are strangers, and an optimiser would then fill slates with items that fit each other.
* ``own_slates``: what the model itself would show for the history, every item a hit or not. Company is learned from
  these alone: where it is believed, it is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise._types import Ints
from setwise._validation import frozen
from setwise.datasets.sessions import Sessions, Slates
from setwise.model.ragged import Ragged
from setwise.training.showing import shown_slates
from setwise.training.simple_transformer import SimpleTransformer

HISTORY = 15  # items of a session that are taken for known, as in the paper; fewer of a short one


@dataclass(frozen=True, eq=False)
class Cuts:
    """Sessions cut in two: what is known of the user, and the hits."""

    sessions: Sessions
    history: Ragged
    hits: Ragged

    @classmethod
    def first(cls, sessions: Sessions, history: int = HISTORY) -> Cuts:
        """The first ``history`` items (at most half the session) are known: how a model is judged."""
        return cls._at(sessions.distinct(), None, history)

    @classmethod
    def random(cls, sessions: Sessions, rng: np.random.Generator, history: int = HISTORY) -> Cuts:
        """Any items are known: how a model learns, each time from others."""
        return cls._at(sessions.distinct(), rng, history)

    @classmethod
    def _at(cls, sessions: Sessions, rng: np.random.Generator | None, history: int) -> Cuts:
        items = sessions.items
        owner = items.owner
        place = np.arange(len(owner)) - items.offsets[owner]
        if rng is not None:
            order = np.lexsort((rng.random(len(owner)), owner))
            items = Ragged.cut(items.values[order], items.lengths)
        known = place < np.minimum(history, items.lengths // 2)[owner]
        return cls(sessions, items.kept(known), items.kept(~known))

    def taken(self, rows: Ints) -> Cuts:
        """Some of the sessions."""
        return Cuts(self.sessions.taken(rows), self.history.taken(rows), self.hits.taken(rows))

    def judged(self, shown: Ragged) -> NDArray[np.float32]:
        """1 for every item shown that is a hit, aligned with ``shown.values``: one list a session."""
        return self.hits.holds(shown.owner, shown.values).astype(np.float32)

    def slates(self, shown: Ragged) -> Slates:
        """What came of showing these lists, one a session."""
        return Slates(self.history, shown, frozen(self.judged(shown)), self.sessions.ids, self.sessions.attributes)


def singles(cuts: Cuts, rng: np.random.Generator, hits: int = 8, misses: int = 4) -> Slates:
    """Up to ``hits`` hits of every session, one by one, and ``misses`` times as many others.

    Half of the others are drawn evenly, half by popularity; those that happen to be hits are called so, those that are
    known are left out.
    """
    chosen = _some(cuts.hits, rng, hits)
    owner = np.repeat(chosen.owner, misses)
    by_popularity = rng.choice(cuts.sessions.items.values, len(owner))
    evenly = rng.integers(cuts.sessions.n_items, size=len(owner))
    others = np.where(rng.random(len(owner)) < 0.5, by_popularity, evenly)
    rows, items = np.concatenate([chosen.owner, owner]), np.concatenate([chosen.values, others])
    new = ~cuts.history.holds(rows, items)
    rows, items = rows[new], items[new]
    outcome = frozen(cuts.hits.holds(rows, items).astype(np.float32))
    alone = Ragged.cut(items, np.ones(len(items), np.int64))
    return Slates(cuts.history.taken(rows), alone, outcome, cuts.sessions.ids, cuts.sessions.attributes)


def own_slates(model: SimpleTransformer, cuts: Cuts, k: int = 10, ranker: str = "swap") -> Slates:
    """What ``model`` would show for every history, and what would have come of it."""
    users, barred = model.users(cuts.history), list(cuts.history)
    return cuts.slates(Ragged.of(shown_slates(model.catalog(), users, barred, k, ranker)))


def _some(lists: Ragged, rng: np.random.Generator, most: int) -> Ragged:
    """At most so many of every list, at random."""
    order = np.lexsort((rng.random(len(lists.values)), lists.owner))
    shuffled = Ragged.cut(lists.values[order], lists.lengths)
    place = np.arange(len(shuffled.values)) - shuffled.offsets[shuffled.owner]
    return shuffled.kept(place < most)
