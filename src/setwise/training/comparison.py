"""What a model trained on sessions is worth beside simpler recommenders: hits on the same held-out sessions.

Every method sees the first items of each session and shows k others. The methods are popularity, each base model alone
with its best setting, their blend, and, if attention was kept, the whole model with optimised slates. A model that the
blend left out (weight 0) is fitted here on the same training sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from setwise._progress import Progress
from setwise._types import Floats, Floats32
from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.model.base_terms import BaseTerms
from setwise.model.ragged import Ragged
from setwise.training.base.search import fitted_terms, padded
from setwise.training.on_policy import on_policy_slates
from setwise.training.slate_model import SlateModel

_TOGETHER = 256  # sessions whose scores are computed at once


@dataclass(frozen=True)
class Compared:
    """One method: hits per slate with their standard error, slates with a hit, and the share of the items shown."""

    method: str
    hits: float
    error: float
    any_hit: float
    coverage: float
    predicted: float | None = None  # hits, where the method predicts them
    of_sessions: Floats = field(default_factory=lambda: np.zeros(0), repr=False)  # hits of each slate

    def row(self) -> dict[str, object]:
        """As plain values, without those of each session."""
        return {name: value for name, value in vars(self).items() if name != "of_sessions"}

    def more_than(self, other: Compared) -> tuple[float, float]:
        """How many hits more a slate has than the other's for the same session, and the standard error of this."""
        more = self.of_sessions - other.of_sessions
        return float(more.mean()), float(more.std() / np.sqrt(len(more)))


def compare(
    model: SlateModel, sessions: Sessions, split: HistorySplit, k: int, progress: bool | None = False
) -> list[Compared]:
    """All methods, for a model that was trained on ``sessions``, on the held-out sessions of ``split``."""
    n = sessions.n_items
    popular = np.broadcast_to(sessions.popularity.astype(np.float32), (len(split), n))
    rows = [_measured("popularity", split, _top(popular, split, k), n)]
    with Progress("comparing base models", len(model.summary["base"]), progress) as bar:
        for name, terms in _base_models(model, sessions):
            rows.append(_measured(name, split, _top_of_terms(terms, split, n, k), n))
            bar.advance(1)
    slates = on_policy_slates(model, split, k, progress=progress)
    predicted = float(model.predict(slates).sum()) / len(slates)
    if model.summary["kept"] == "interaction":
        terms = model.encoder.base_terms
        rows.append(_measured("their blend", split, _top_of_terms(terms, split, n, k), n))
        rows.append(_measured("blend and attention", split, slates.shown, n, predicted))
    else:
        rows.append(_measured("their blend", split, slates.shown, n, predicted))
    return rows


def verdict(rows: list[Compared]) -> str:
    """What to deploy, and how the best of the others compares: by its difference on the same sessions."""
    ours, best = rows[-1], max(rows[:-1], key=lambda row: row.hits)
    more, error = ours.more_than(best)
    compared = f"{abs(more):.3f} ± {error:.3f} hits {'more' if more >= 0 else 'fewer'} than {best.method}"
    if more < -2 * error:
        return f"Deploy {best.method}: this model has {compared}, which is significant (two standard errors)."
    attention = "Attention brought no more hits, so this model's best slate is the k items of highest score."
    if ours.method == "blend and attention":
        attention = "Attention brought significantly more hits on validation data: optimise its slates."
    if more <= 2 * error:
        same = "which is no significant difference (two standard errors)"
        return f"Either will do: this model has {compared}, the best of the others, {same}. {attention}"
    significant = "which is significant (two standard errors)"
    return f"Deploy this model: it has {compared}, the best of the others, {significant}. {attention}"


def _base_models(model: SlateModel, sessions: Sessions) -> Iterator[tuple[str, BaseTerms]]:
    """Each base model alone: a part of the model's own base terms, or fitted now if the blend left it out."""
    terms, neighbours = model.encoder.base_terms, iter(model.encoder.base_terms.neighbours)
    for part in model.summary["base"]:
        if not part["weight"]:
            seed = model.summary["schedule"]["seed"]
            yield part["model"], fitted_terms(sessions, [{**part, "weight": 1.0}], seed)
        elif part["model"] == "ALS":
            yield "ALS", BaseTerms(terms.fold_in)
        elif part["model"] == "two-tower":
            yield "two-tower", BaseTerms(two_tower=terms.two_tower)
        else:
            yield part["model"], BaseTerms(None, (next(neighbours),))


def _top_of_terms(terms: BaseTerms, split: HistorySplit, n: int, k: int) -> Ragged:
    """The k best items of each session by these base terms."""
    shown = []
    for start in range(0, len(split), _TOGETHER):
        part = split.taken(np.arange(start, min(start + _TOGETHER, len(split))))
        rows, filled = padded(part.history)
        scores = np.zeros((len(part), n), np.float32)
        if terms.items is not None:
            scores += terms.vectors(rows, filled).astype(np.float32) @ terms.items.T
        for row, added in enumerate(terms.added(rows, filled, n) or ()):
            scores[row] += added.whole().astype(np.float32)
        shown.append(_top(scores, part, k))
    return Ragged.of([slate for part in shown for slate in part])


def _top(scores: Floats32, split: HistorySplit, k: int) -> Ragged:
    """The k items of highest score of each session, without those of its history; ties by row."""
    result = []
    for of_session, history in zip(scores, split.history, strict=True):
        open_scores = of_session.copy()
        open_scores[history] = -np.inf
        most = min(k, len(of_session) - len(history))
        few = np.argpartition(-open_scores, max(most - 1, 0))[:most]
        result.append(few[np.argsort(-open_scores[few], kind="stable")])
    return Ragged.of(result)


def _measured(method: str, split: HistorySplit, shown: Ragged, n: int, predicted: float | None = None) -> Compared:
    hits: Floats = np.bincount(shown.owner, weights=split.outcomes(shown), minlength=len(split)).astype(np.float64)
    return Compared(
        method,
        float(hits.mean()),
        float(hits.std() / np.sqrt(len(hits))),
        float((hits > 0).mean()),
        len(np.unique(shown.values)) / n,
        predicted,
        hits,
    )
