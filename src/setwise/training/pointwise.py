"""Examples for the pointwise stage: single items with their outcomes, made from sessions.

A session says which items went together, not which were shown and refused. The pointwise stage learns what an item is
worth by itself from slates of one item: a target of the session, or a sampled negative.

Slates that mix targets and random items would be the wrong data for the interaction stage. Attention would learn to
recognise the mixing: items that match each other would count as hits because the sampled items do not match, and an
optimiser would fill slates with items that match each other. The interaction stage therefore learns from on-policy
slates only (on_policy.py).
"""

from __future__ import annotations

import numpy as np

from setwise._validation import frozen
from setwise.datasets.sessions import Slates
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged


def pointwise_slates(split: HistorySplit, rng: np.random.Generator, targets: int = 8, negatives: int = 4) -> Slates:
    """Slates of one item: up to ``targets`` targets of every session, and ``negatives`` sampled items for each.

    Half of the sampled items are drawn uniformly, half by popularity. A sampled item that is a target gets outcome 1;
    one that is in the history is dropped.
    """
    positive = _sample(split.targets, rng, targets)
    owner = np.repeat(positive.owner, negatives)
    by_popularity = rng.choice(split.sessions.items.values, len(owner))
    uniform = rng.integers(split.sessions.n_items, size=len(owner))
    sampled = np.where(rng.random(len(owner)) < 0.5, by_popularity, uniform)
    rows, items = np.concatenate([positive.owner, owner]), np.concatenate([positive.values, sampled])
    unseen = ~split.history.holds(rows, items)
    rows, items = rows[unseen], items[unseen]
    outcome = frozen(split.targets.holds(rows, items).astype(np.float32))
    single = Ragged.cut(items, np.ones(len(items), np.int64))
    return Slates(split.history.taken(rows), single, outcome, split.sessions.ids, split.sessions.attributes)


def _sample(lists: Ragged, rng: np.random.Generator, most: int) -> Ragged:
    """At most ``most`` entries of every list, at random."""
    order = np.lexsort((rng.random(len(lists.values)), lists.owner))
    shuffled = Ragged.cut(lists.values[order], lists.lengths)
    position = np.arange(len(shuffled.values)) - shuffled.offsets[shuffled.owner]
    return shuffled.kept(position < most)
