"""True continuations of sessions, and fakes to tell them from.

A session of at least history + size items is cut in what came before and the ``size`` items that followed: the true
slate. A fake has the same history and ``size`` other items, none of which the session holds anywhere. Three kinds, from
easy to hard:

* ``uniform``: any item, each as likely as another; the paper's. Popularity alone gives such fakes away.
* ``popular``: each true item is replaced by one of about its popularity.
* ``hard``: the same, but from a session that shares an item with the history: the right genre and the right popularity.
  Where no session does, a ``popular`` fake stands in.

Fakes come from ``pool``, the sessions whose items count as known (by default the very sessions that are cut). Learning
and judging should draw from the same pool, or a fake shows by having been seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise._types import Ints
from setwise._validation import frozen, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

KINDS = ("uniform", "popular", "hard")

MOST_ROUNDS = 200  # of drawing again what the session holds already; two or three are usual
HARD_ROUNDS = 20  # of which this many look for a hard fake
ALIKE = 1.25  # the factor within which popularities count as the same
FEWEST = 40  # candidates for a popular fake, however lonely the true item is in its popularity
OFFERS = 32  # hard candidates a place, of which the nearest in popularity is taken


@dataclass(frozen=True)
class _Cuts:
    """Sessions cut in two: what came before, and the places (B, size) of what followed."""

    sessions: Sessions
    history: Ragged
    shown: Ints

    def slates(self, shown: Ints, outcome: float) -> Slates:
        """These histories with the items ``shown`` (B, size), all of one outcome."""
        values = np.full(shown.size, outcome, np.float32)
        lists = Ragged.cut(shown.ravel(), np.full(len(shown), shown.shape[1]))
        return Slates(self.history, lists, frozen(values), self.sessions.ids, self.sessions.attributes)


def continuations(sessions: Sessions, history: int = 15, size: int = 5, anywhere: int | None = None) -> Slates:
    """The true slates: of every long enough session the first ``history`` items, then the next ``size``, outcome 1.

    ``anywhere``: a seed; sessions are then cut at a random place instead of their beginning.
    """
    cuts = _cut(sessions, history, size, anywhere)
    return cuts.slates(cuts.shown, 1)


def fakes(
    sessions: Sessions,
    kind: str = "uniform",
    history: int = 15,
    size: int = 5,
    seed: int = 0,
    pool: Sessions | None = None,
    anywhere: int | None = None,
) -> Slates:
    """A fake slate for every true one of ``continuations`` with the same arguments, outcome 0."""
    cuts = _cut(sessions, history, size, anywhere)
    return cuts.slates(_faked(cuts, kind, np.random.default_rng(whole_number("seed", seed, least=0)), pool), 0)


def true_and_fake(
    sessions: Sessions,
    kind: str = "uniform",
    history: int = 15,
    size: int = 5,
    seed: int = 0,
    pool: Sessions | None = None,
    anywhere: int | None = None,
) -> Slates:
    """As many true slates as fakes, first the true ones; slate r and slate r + half have the same history."""
    cuts = _cut(sessions, history, size, anywhere)
    fake = _faked(cuts, kind, np.random.default_rng(whole_number("seed", seed, least=0)), pool)
    both = _Cuts(cuts.sessions, cuts.history.taken(np.tile(np.arange(len(cuts.history)), 2)), cuts.shown)
    slates = both.slates(np.concatenate([cuts.shown, fake]), 0)
    outcome = np.repeat(np.array([1, 0], np.float32), cuts.shown.size)
    return Slates(slates.history, slates.shown, frozen(outcome), slates.ids, slates.attributes)


def _cut(sessions: Sessions, history: int, size: int, anywhere: int | None) -> _Cuts:
    before, after = whole_number("history", history), whole_number("size", size)
    distinct = sessions.distinct()
    kept = distinct.taken(np.flatnonzero(distinct.items.lengths >= before + after))
    spare = kept.items.lengths - before - after
    start = kept.items.offsets[:-1].copy()
    if anywhere is not None:
        start += np.random.default_rng(whole_number("anywhere", anywhere, least=0)).integers(0, spare + 1)
    heard = kept.items.values[start[:, None] + np.arange(before)]
    shown = kept.items.values[start[:, None] + before + np.arange(after)]
    return _Cuts(kept, Ragged.cut(heard.ravel(), np.full(len(kept), before)), shown)


Draw = Callable[[Ints, Ints], Ints]  # (session, true item) of each place to fill -> an item, or -1 where there is none


def _faked(cuts: _Cuts, kind: str, rng: np.random.Generator, pool: Sessions | None) -> Ints:
    """Items (B, size) of the kind, distinct within a slate, none of which the session holds."""
    if kind not in KINDS:
        raise InvalidInput("kind", f"one of {', '.join(KINDS)}", repr(kind), "choose one of them")
    known = (cuts.sessions if pool is None else pool).distinct()
    if known.n_items != cuts.sessions.n_items:
        raise InvalidInput("pool", f"over the same {cuts.sessions.n_items} ids", known.n_items, "number items alike")
    held = _Held(cuts.sessions)
    popular = _popular(known, rng)
    if kind == "uniform":
        return _filled(cuts, held, _uniform(known, rng))
    if kind == "popular":
        return _filled(cuts, held, popular)
    return _filled(cuts, held, popular, _hard(cuts, known, held, rng))


def _filled(cuts: _Cuts, held: _Held, draw: Draw, first: Draw | None = None) -> Ints:
    """What ``draw`` (in the first rounds ``first``) gives for every place, drawn again until it may stand there."""
    owner, true = np.repeat(np.arange(len(cuts.shown)), cuts.shown.shape[1]), cuts.shown.ravel()
    items = np.full(cuts.shown.shape, -1)
    for turn in range(MOST_ROUNDS):
        wrong = (items.ravel() < 0) | held(owner, items.ravel()) | _repeats(items).ravel()
        if not wrong.any():
            return items
        source = first if first is not None and turn < HARD_ROUNDS else draw
        items.ravel()[wrong] = source(owner[wrong], true[wrong])
    raise InvalidInput(
        "sessions", "over enough items that each leaves some out", "one that holds nearly all", "use shorter sessions"
    )


class _Held:
    """Whether a session holds an item."""

    def __init__(self, sessions: Sessions) -> None:
        self.n = max(sessions.n_items, 1)
        self.keys = np.sort(sessions.items.owner * self.n + sessions.items.values)

    def __call__(self, owner: Ints, items: Ints) -> NDArray[np.bool_]:
        wanted = owner * self.n + items
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.asarray(self.keys[place] == wanted)


def _repeats(items: Ints) -> NDArray[np.bool_]:
    """Which entries of each row stand further left already."""
    order = np.argsort(items, axis=1, kind="stable")
    ordered = np.take_along_axis(items, order, 1)
    again = np.zeros(items.shape, bool)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return again


def _uniform(known: Sessions, rng: np.random.Generator) -> Draw:
    present = np.flatnonzero(known.popularity)
    return lambda owner, true: present[rng.integers(len(present), size=len(true))]


def _popular(known: Sessions, rng: np.random.Generator) -> Draw:
    """Another item whose popularity is within a factor of ``ALIKE``, or one of the ``FEWEST`` nearest."""
    popularity = known.popularity
    order = np.flatnonzero(popularity)[np.argsort(popularity[popularity > 0], kind="stable")]
    levels = popularity[order]
    fewest = min(FEWEST, len(order))

    def draw(owner: Ints, true: Ints) -> Ints:
        level = popularity[true]
        first, last = np.searchsorted(levels, level / ALIKE, "left"), np.searchsorted(levels, level * ALIKE, "right")
        missing = np.maximum(fewest - (last - first), 0)
        first = np.clip(first - missing // 2, 0, len(order) - fewest)
        last = np.clip(last + missing - missing // 2, first + fewest, len(order))
        return np.asarray(order[rng.integers(first, last)])

    return draw


def _hard(cuts: _Cuts, known: Sessions, held: _Held, rng: np.random.Generator) -> Draw:
    """Of ``OFFERS`` items met by chance (an item of the history, a session with it, an item of that) the best match."""
    popularity = np.log1p(known.popularity)
    by_item = np.argsort(known.items.values, kind="stable")
    sessions_of = Ragged(frozen(known.items.owner[by_item]), frozen(np.r_[0, np.cumsum(known.popularity)]))

    def draw(owner: Ints, true: Ints) -> Ints:
        owners = np.repeat(owner, OFFERS)
        shared = _any_of(cuts.history, owners, rng)
        met = np.full(len(owners), -1)
        known_too = sessions_of.lengths[shared] > 0
        met[known_too] = _any_of(known.items, _any_of(sessions_of, shared[known_too], rng), rng)
        distance = np.abs(popularity[met] - popularity[np.repeat(true, OFFERS)])
        distance[~known_too | held(owners, met)] = np.inf
        distance = distance.reshape(len(owner), OFFERS)
        best = distance.argmin(1)
        rows = np.arange(len(owner))
        return np.where(np.isfinite(distance[rows, best]), met.reshape(len(owner), OFFERS)[rows, best], -1)

    return draw


def _any_of(lists: Ragged, rows: Ints, rng: np.random.Generator) -> Ints:
    """A random entry of each of these lists, none of them empty."""
    return np.asarray(lists.values[lists.offsets[rows] + rng.integers(lists.lengths[rows])])
