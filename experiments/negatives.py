"""Positive and negative slates, made from sessions.

A session of at least history + size items gives a history and the ``size`` items that follow it: the positive slate. A
negative slate has the same history and ``size`` other items that the session does not hold. Three kinds, from easy to
hard:

* ``uniform``: any item with equal probability, as in the paper. Popularity alone distinguishes these negatives.
* ``popular``: each positive item is replaced by one of similar popularity.
* ``hard``: the same, but from a session that shares an item with the history: similar genre and similar popularity.
  Where no session does, a ``popular`` negative is used.

Negatives are sampled from ``pool``, by default the sessions themselves. Training and test should use the same pool;
otherwise an item that never occurred in training gives a negative away.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setwise._types import Ints
from setwise._validation import frozen, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

KINDS = ("uniform", "popular", "hard")

MOST_ROUNDS = 200  # of drawing again the items that the session holds; two or three are usual
HARD_ROUNDS = 20  # the first rounds, which look for a hard negative
ALIKE = 1.25  # the factor within which popularities count as the same
FEWEST = 40  # candidates for a popular negative, even if fewer items have a similar popularity
OFFERS = 32  # candidates for a hard negative, of which the nearest in popularity is used


def continuations(sessions: Sessions, history: int = 15, size: int = 5, offset_seed: int | None = None) -> Slates:
    """The positive slates: ``history`` items of every long enough session, then the next ``size`` items, outcome 1.

    The history starts at the first item, or, with ``offset_seed``, at a random offset.
    """
    split = HistorySplit.window(sessions, history, size, offset_seed)
    return _slates(split, _targets(split, size), 1)


def negative_slates(
    sessions: Sessions,
    kind: str = "uniform",
    history: int = 15,
    size: int = 5,
    seed: int = 0,
    pool: Sessions | None = None,
    offset_seed: int | None = None,
) -> Slates:
    """A negative slate, outcome 0, for every slate of ``continuations`` with the same arguments."""
    split = HistorySplit.window(sessions, history, size, offset_seed)
    return _slates(split, _sample(split, size, kind, seed, pool), 0)


def positive_and_negative_slates(
    sessions: Sessions,
    kind: str = "uniform",
    history: int = 15,
    size: int = 5,
    seed: int = 0,
    pool: Sessions | None = None,
    offset_seed: int | None = None,
) -> Slates:
    """As many positive as negative slates, the positive first; slate r and slate r + half have the same history."""
    split = HistorySplit.window(sessions, history, size, offset_seed)
    positive = _slates(split, _targets(split, size), 1)
    return positive.joined(_slates(split, _sample(split, size, kind, seed, pool), 0))


def _targets(split: HistorySplit, size: int) -> Ints:
    """The targets (B, size) of the split."""
    return split.targets.values.reshape(-1, size)


def _slates(split: HistorySplit, shown: Ints, outcome: float) -> Slates:
    """The histories of the split with the items ``shown`` (B, size), all of one outcome."""
    values = np.full(shown.size, outcome, np.float32)
    lists = Ragged.cut(shown.ravel(), np.full(len(shown), shown.shape[1]))
    return Slates(split.history, lists, frozen(values), split.sessions.ids, split.sessions.attributes)


Sampler = Callable[[Ints, Ints], Ints]  # (session, positive item) of each place -> an item, or -1 if there is none


def _sample(split: HistorySplit, size: int, kind: str, seed: int, pool: Sessions | None) -> Ints:
    """Negatives (B, size) of the kind, distinct within a slate, none of which the session holds."""
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    if kind not in KINDS:
        raise InvalidInput("kind", f"one of {', '.join(KINDS)}", repr(kind), "choose one of them")
    known = (split.sessions if pool is None else pool).distinct()
    if known.n_items != split.sessions.n_items:
        raise InvalidInput("pool", f"over the same {split.sessions.n_items} ids", known.n_items, "number items alike")
    positive, contains = _targets(split, size), _Membership(split.sessions)
    popular = _popular(known, rng)
    if kind == "uniform":
        present = np.flatnonzero(known.popularity)
        return _fill(positive, contains, lambda _, items: present[rng.integers(len(present), size=len(items))])
    if kind == "popular":
        return _fill(positive, contains, popular)
    return _fill(positive, contains, popular, _hard(split.history, known, contains, rng))


def _fill(positive: Ints, contains: _Membership, sample: Sampler, first: Sampler | None = None) -> Ints:
    """Items by ``sample`` (in the first rounds ``first``), drawn again while the session or the slate holds them."""
    owner, replaced = np.repeat(np.arange(len(positive)), positive.shape[1]), positive.ravel()
    items = np.full(positive.shape, -1)
    for turn in range(MOST_ROUNDS):
        wrong = (items.ravel() < 0) | contains(owner, items.ravel()) | _repeats(items).ravel()
        if not wrong.any():
            return items
        source = first if first is not None and turn < HARD_ROUNDS else sample
        items.ravel()[wrong] = source(owner[wrong], replaced[wrong])
    raise InvalidInput(
        "sessions", "that each leave out enough items", "one that holds nearly all items", "use shorter sessions"
    )


class _Membership:
    """Whether a session holds an item."""

    def __init__(self, sessions: Sessions) -> None:
        self.n = max(sessions.n_items, 1)
        self.keys = np.sort(sessions.items.owner * self.n + sessions.items.values)

    def __call__(self, owner: Ints, items: Ints) -> NDArray[np.bool_]:
        keys = owner * self.n + items
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys[position] == keys)


def _repeats(items: Ints) -> NDArray[np.bool_]:
    """True for entries that occur further left in their row."""
    order = np.argsort(items, axis=1, kind="stable")
    ordered = np.take_along_axis(items, order, 1)
    again = np.zeros(items.shape, bool)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return again


def _popular(known: Sessions, rng: np.random.Generator) -> Sampler:
    """Sample an item whose popularity is within a factor of ``ALIKE``, or one of the ``FEWEST`` nearest."""
    popularity = known.popularity
    order = np.flatnonzero(popularity)[np.argsort(popularity[popularity > 0], kind="stable")]
    levels = popularity[order]
    fewest = min(FEWEST, len(order))

    def sample(owner: Ints, positive: Ints) -> Ints:
        level = popularity[positive]
        first, last = np.searchsorted(levels, level / ALIKE, "left"), np.searchsorted(levels, level * ALIKE, "right")
        missing = np.maximum(fewest - (last - first), 0)
        first = np.clip(first - missing // 2, 0, len(order) - fewest)
        last = np.clip(last + missing - missing // 2, first + fewest, len(order))
        return np.asarray(order[rng.integers(first, last)])

    return sample


def _hard(history: Ragged, known: Sessions, contains: _Membership, rng: np.random.Generator) -> Sampler:
    """Sample ``OFFERS`` items from sessions that share an item with the history; keep the nearest in popularity."""
    popularity = np.log1p(known.popularity)
    by_item = np.argsort(known.items.values, kind="stable")
    sessions_of = Ragged(frozen(known.items.owner[by_item]), frozen(np.r_[0, np.cumsum(known.popularity)]))

    def sample(owner: Ints, positive: Ints) -> Ints:
        owners = np.repeat(owner, OFFERS)
        shared = _any_of(history, owners, rng)
        found = np.full(len(owners), -1)
        in_pool = sessions_of.lengths[shared] > 0
        found[in_pool] = _any_of(known.items, _any_of(sessions_of, shared[in_pool], rng), rng)
        distance = np.abs(popularity[found] - popularity[np.repeat(positive, OFFERS)])
        distance[~in_pool | contains(owners, found)] = np.inf
        distance = distance.reshape(len(owner), OFFERS)
        best = distance.argmin(1)
        rows = np.arange(len(owner))
        return np.where(np.isfinite(distance[rows, best]), found.reshape(len(owner), OFFERS)[rows, best], -1)

    return sample


def _any_of(lists: Ragged, rows: Ints, rng: np.random.Generator) -> Ints:
    """A random entry of each of these lists, which must not be empty."""
    return np.asarray(lists.values[lists.offsets[rows] + rng.integers(lists.lengths[rows])])
