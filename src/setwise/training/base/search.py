"""The search for a base: settings of every base model and the weights of their blend, chosen on held-out sessions.

The sessions are split in two. Every model is fitted on the first part, once per setting, and measured on the second, or
on some of it if it is large: the start of each held-out session is its history, the rest are the targets. The best
setting of each model enters the blend. All models are then fitted again on all sessions, with those settings and
weights.

Recency is a setting of every model: in baskets and viewing histories the latest items say most, in playlists all count
alike. It costs nothing to try, because it changes histories and not models. Where it helps, order matters, and a
two-tower network that knows the last item joins the others; it is the slowest of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from setwise._progress import Progress
from setwise._types import SLATE_SIZE, Floats, Floats32, Ints, Mask
from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit, random_split
from setwise.model.base_terms import BaseTerms
from setwise.model.encoder import HISTORY
from setwise.model.neighbours import Neighbours
from setwise.model.ragged import Ragged
from setwise.model.recency import recency_weights
from setwise.model.two_tower import TwoTower
from setwise.training.base import blend
from setwise.training.base.als import fit_als
from setwise.training.base.ease import Ease
from setwise.training.base.item_knn import Similarity, common_sessions, fit_item_knn, knn_scores
from setwise.training.base.session_matrix import scipy_sparse, session_matrix

HELD_OUT, MOST_HELD_OUT = 0.2, 4000  # the share of the sessions that are held out, and its maximum
MOST_COMPARED = 1500  # of the held-out sessions settings are chosen on; all of them calibrate the reward
MOST_SCORES = 40_000_000  # numbers in a matrix of scores: large catalogues are measured on fewer sessions
DECAYS = (1.0, 0.9, 0.8, 0.7, 0.5)
NEIGHBOURS = 300  # per item
FACTORS = 128
MOST_INVERTED, MOST_FACTORISED = 5_000, 30_000  # rows: with more, EASE and ALS have one setting unless time is given
SIMILARITIES = (
    Similarity(0.7, 0.3),
    Similarity(0.8, 0.2),
    Similarity(0.6, 0.3, whole=0.8),
    Similarity(0.7, 0.3, session=0.0),
    Similarity(0.5, 0.5, session=0.0),
    Similarity(0.5, 0.3, session=0.0, whole=0.8),
)
EASE = ((100.0, 0.9), (300.0, 0.97), (30.0, 0.8))  # regularisation and dropout, the most reliable first
ALS = ((0.1, 10.0), (0.1, 3.0), (0.1, 30.0))  # regularisation and confidence, the most reliable first
SETTINGS = {  # what the numbers of a setting are
    "item-kNN": ("exponents of history", "candidate", "session", "whole"),
    "EASE": ("regularisation", "dropout"),
    "ALS": ("regularisation", "confidence"),
}
MOST_TRAINED = 50_000  # items: with more, the two-tower network is left out unless time is given
TWO_TOWER_DECAY = 0.8


class BaseSearch(NamedTuple):
    """The base fitted on all sessions, the same settings fitted without the held-out ones, and those sessions' rows."""

    final: BaseTerms
    trial: BaseTerms
    held_out: Ints
    tried: list[dict[str, Any]]  # one row per setting, and one for the blend
    chosen: list[dict[str, Any]]  # the setting, decay and weight of each model


def fit_base(
    sessions: Sessions,
    k: int = SLATE_SIZE,
    seed: int = 0,
    minutes: float | None = None,
    progress: bool | None = None,
    device: str | None = None,
) -> BaseSearch:
    """Choose settings and weights on a part of the sessions, then fit on all of them.

    By default the size of the data decides how many settings are tried, so that the same data and seed give the same
    model. With ``minutes`` settings are tried until the time is spent. The most reliable setting of each model is tried
    in any case. ``device``: cpu or cuda, for EASE and the two-tower network; a GPU by default where there is one.
    """
    share = max(min(HELD_OUT, MOST_HELD_OUT / len(sessions)), 2 / len(sessions))
    rows = random_split(len(sessions), (1 - share, share), seed)
    fitted, held_out = sessions.taken(rows[0]), sessions.taken(_compared(rows[1], sessions.n_items, seed))
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with Progress("base models", len(SIMILARITIES) + len(EASE) + len(ALS) + 3, progress) as bar:
        search = _Search(fitted, held_out, k, seed, deadline, bar, device)
        chosen = [search.item_knn(), search.ease(), search.als()]
        if max(choice.decay for choice in chosen[:2]) < 1:
            chosen += search.two_tower()
        weights = search.weights(chosen)
        settings = [
            {"model": choice.model, "setting": list(choice.setting), "decay": choice.decay, "weight": float(weight)}
            for choice, weight in zip(chosen, weights, strict=True)
        ]
        trial = fitted_terms(fitted, settings, seed, device)
        bar.advance(1, "blend fitted without the held-out sessions")
        final = fitted_terms(sessions, settings, seed, device)
        bar.advance(1, "blend fitted on all sessions")
    return BaseSearch(final, trial, rows[1], search.tried, settings)


def _compared(held_out: Ints, n_items: int, seed: int) -> Ints:
    """The held-out sessions that settings are chosen on: as many as a matrix of scores may have rows."""
    most = max(2, min(MOST_COMPARED, MOST_SCORES // n_items))
    return held_out if len(held_out) <= most else np.sort(np.random.default_rng(seed).permutation(held_out)[:most])


class Chosen(NamedTuple):
    """The best setting of one model, its recency decay, and its scores (B, n) of the held-out sessions."""

    model: str
    setting: Any
    decay: float
    scores: Floats32


class _Search:
    """Fits models on one part of the sessions and measures them on the other."""

    def __init__(
        self,
        fitted: Sessions,
        held_out: Sessions,
        k: int,
        seed: int,
        deadline: float | None,
        bar: Progress,
        device: str | None,
    ) -> None:
        self.device = device
        self.n, self.k, self.seed, self.deadline, self.bar = fitted.n_items, k, seed, deadline, bar
        self.fitted, self.matrix = fitted.items, session_matrix(fitted.items, self.n)
        split = HistorySplit.first(held_out)
        self.history = split.history
        self.seen: Mask = session_matrix(split.history, self.n).toarray() > 0
        self.target: Mask = session_matrix(split.targets, self.n).toarray() > 0
        self.tried: list[dict[str, Any]] = []

    # --- models ---

    def item_knn(self) -> Chosen:
        """The best similarity; the sessions in common are counted once per weight of long sessions."""
        count = np.asarray(self.matrix.sum(axis=0), np.float32).ravel()
        powers = {setting.session for setting in SIMILARITIES}
        together = {power: common_sessions(self.matrix, power) for power in powers}

        def scorer(setting: Similarity) -> Callable[[float], Floats32]:
            return lambda decay: knn_scores(self.weighted(decay), together[setting.session], count, setting)

        chosen = self.best("item-kNN", SIMILARITIES, scorer)
        kept = fit_item_knn(together[chosen.setting.session], count, chosen.setting, NEIGHBOURS)
        return chosen._replace(scores=np.asarray((self.weighted(chosen.decay) @ kept).toarray(), np.float32))

    def ease(self) -> Chosen:
        """The best regularisation of EASE."""

        def scorer(setting: tuple[float, float]) -> Callable[[float], Floats32]:
            model = Ease.fit(self.matrix, *setting, self.device)
            return lambda decay: model.scores(self.weighted(decay))

        return self.best("EASE", self.affordable(EASE, min(self.matrix.shape) <= MOST_INVERTED), scorer)

    def als(self) -> Chosen:
        """The best confidence of ALS."""
        rows, filled = padded(self.history)

        def scorer(setting: tuple[float, float]) -> Callable[[float], Floats32]:
            model = fit_als(self.matrix, FACTORS, *setting, seed=self.seed)
            return lambda decay: replace(model, decay=decay).vectors(rows, filled).astype(np.float32) @ model.items.T

        return self.best("ALS", self.affordable(ALS, sum(self.matrix.shape) <= MOST_FACTORISED), scorer)

    def two_tower(self) -> list[Chosen]:
        """A network that knows the order of a history, if there is time for it."""
        if self.n > MOST_TRAINED if self.deadline is None else time.monotonic() > self.deadline:
            return []
        model = fitted_two_tower(self.fitted, self.n, TWO_TOWER_DECAY, self.seed, self.device)
        scores = model.vectors(*padded(self.history)).astype(np.float32) @ model.items.T
        self.note("two-tower", (), TWO_TOWER_DECAY, np.where(self.seen, -np.inf, scores).astype(np.float32))
        self.bar.advance(1, f"two-tower, {self.tried[-1]['hits']:.3f} hits")
        return [Chosen("two-tower", (), TWO_TOWER_DECAY, scores)]

    # --- measuring ---

    def weighted(self, decay: float) -> Any:
        """The histories as a sparse matrix of recency weights."""
        return weighted_histories(self.history, self.n, decay)

    def best(self, model: str, settings: Any, scorer: Callable[[Any], Callable[[float], Floats32]]) -> Chosen:
        """The setting and decay of most smoothed hits."""
        best: tuple[float, Chosen] | None = None
        for setting in self.in_time(settings):
            scores_for = scorer(setting)
            for decay in self.decays(best):
                scores = scores_for(decay)
                hidden = np.where(self.seen, -np.inf, scores).astype(np.float32)
                measure = blend.smoothed_hits(hidden, self.target, self.k)
                self.note(model, setting, decay, hidden)
                if best is None or measure > best[0]:
                    best = measure, Chosen(model, setting, decay, scores)
                elif decay < best[1].decay and setting == best[1].setting:
                    break  # the measure falls with faster decay
            self.bar.advance(1, f"{model}, {self.tried[-1]['hits']:.3f} hits")
        return best[1]  # type: ignore[index]  # in_time yields one setting at least

    def decays(self, found: tuple[float, Chosen] | None) -> tuple[float, ...]:
        """All decays for a first setting, the best so far and its neighbours for later ones."""
        if found is None:
            return DECAYS
        place = DECAYS.index(found[1].decay)
        return DECAYS[max(0, place - 1) : place + 2]

    def affordable(self, settings: Any, small: bool) -> Any:
        """All settings if the data is small or a deadline limits the search, else the first."""
        return settings if small or self.deadline is not None else settings[:1]

    def in_time(self, settings: Any) -> Iterator[Any]:
        """The settings, the first in any case and the others until the deadline."""
        for number, setting in enumerate(settings):
            if number == 0 or self.deadline is None or time.monotonic() < self.deadline:
                yield setting

    def note(self, model: str, setting: Any, decay: float, scores: Floats32) -> None:
        """Add a row to the table of what was tried."""
        hits = float(blend.hits(scores, self.target, self.k).mean())
        self.tried.append({"model": model, "setting": list(setting), "decay": decay, "hits": hits})

    def weights(self, chosen: list[Chosen]) -> Floats:
        """The weights of the blend."""
        pool = blend.pooled([choice.scores for choice in chosen], self.seen, self.target)
        weights = blend.blend_weights(pool, self.k)
        hits = float(blend.hits(blend.combined(pool, weights), pool.target, self.k).mean())
        relative = weights * blend.spread(pool.scores)
        setting = {choice.model: round(float(part), 3) for choice, part in zip(chosen, relative, strict=True)}
        self.tried.append({"model": "blend", "setting": setting, "decay": None, "hits": hits})
        return weights


def fitted_terms(sessions: Sessions, settings: list[dict[str, Any]], seed: int, device: str | None = None) -> BaseTerms:
    """The models of these settings on these sessions, scaled by their weights; those of weight 0 are left out."""
    matrix, fold_in, two_tower = session_matrix(sessions.items, sessions.n_items), None, None
    neighbours = list[Neighbours]()
    for part in settings:
        setting, weight, decay = part["setting"], part["weight"], part["decay"]
        if not weight:
            continue
        if part["model"] == "ALS":
            model = fit_als(matrix, FACTORS, setting[0], setting[1], seed=seed)
            fold_in = replace(model, decay=decay, scale=weight)
            continue
        if part["model"] == "two-tower":
            network = fitted_two_tower(sessions.items, sessions.n_items, decay, seed, device)
            two_tower = replace(network, scale=weight)
            continue
        if part["model"] == "EASE":
            related = Ease.fit(matrix, setting[0], setting[1], device).strongest(NEIGHBOURS)
        else:
            count, similarity = np.asarray(matrix.sum(axis=0), np.float32).ravel(), Similarity(*setting)
            related = fit_item_knn(common_sessions(matrix, similarity.session), count, similarity, NEIGHBOURS)
        scaled = (related.data * weight).astype(np.float32)
        neighbours.append(Neighbours(related.indptr.astype(np.int64), related.indices.astype(np.int32), scaled, decay))
    return BaseTerms(fold_in, tuple(neighbours), two_tower)


def fitted_two_tower(sessions: Ragged, n: int, decay: float, seed: int, device: str | None) -> TwoTower:
    """A two-tower network; torch, which it needs, is imported now, not by the command line."""
    from setwise.training.base.two_tower import fit_two_tower

    return fit_two_tower(sessions, n, decay, seed, device)


def padded(history: Ragged) -> tuple[Any, Mask]:
    """Histories as rectangles, cut to the latest HISTORY items as an encoder does."""
    return history.padded(min(HISTORY, max(1, int(history.lengths.max(initial=0)))))


def weighted_histories(history: Ragged, n: int, decay: float) -> Any:
    """The histories (B, n) as a sparse matrix of recency weights."""
    rows, filled = padded(history)
    weight = recency_weights(filled, decay)[filled].astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    return scipy_sparse().csr_matrix((weight, rows[filled], offsets), shape=(len(history), n))
