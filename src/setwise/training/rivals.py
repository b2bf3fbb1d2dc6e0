"""What the slates of a model are worth beside those of simple rules, when a log of slates is all there is.

An optimiser picks the sets that the model errs upwards on, so the value that it promises does not show what they are
worth. Two models are fitted, one to each half of the log, with the effects that the whole log shows. Every rule chooses
slates by the model of one half, and that of the other half, which errs elsewhere, values them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from setwise._types import Floats, Ints, Rows
from setwise.datasets.sessions import Slates
from setwise.model.ragged import Ragged
from setwise.ranking import DEFAULT
from setwise.ranking.greedy import GREEDY
from setwise.ranking.mmr import MMR
from setwise.ranking.top_k import TOP_K
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import fit_effects
from setwise.training.on_policy import optimised_slates
from setwise.training.slate_model import SlateModel

HALF_LEAST = 100  # slates of a half, at least
USERS = 20  # histories of each half for which slates are chosen
SEEN_LEAST = 10.0  # showings with the mean outcome, added to those of each item for its click rate
SHORTLIST = 200  # items among which a rule looks for values that differ
WORTH_IT = 0.005  # of a slate's value: less is not worth an optimiser
OPTIMISED, TOP = "the optimised slate", "the items of highest score"
SEARCHES = {OPTIMISED: DEFAULT.name, GREEDY.title: GREEDY.name, MMR.title: MMR.name}  # the rankers that are no rules


@dataclass(frozen=True)
class Rival:
    """A way to choose slates, and their hits by the model of the other half: the mean, and for each half."""

    rule: str
    hits: float
    by_half: tuple[float, ...]
    promised: float | None = None  # of the optimised slate: by the model of its own half


def rivals(slates: Slates, features: Features, effects: Sequence[str], k: int, seed: int = 0) -> list[Rival]:
    """The optimised slate first, then its rivals; none of a log too small to be halved."""
    # slates of one session are in the same half
    group = np.arange(len(slates)) if slates.session is None else np.unique(slates.session, return_inverse=True)[1]
    side = np.random.default_rng(seed).permutation(int(group.max(initial=0)) + 1)[group] % 2
    halves = [slates.taken(np.flatnonzero(side == number)) for number in (0, 1)]
    if min(map(len, halves)) < HALF_LEAST:
        return []
    models = [fit_effects(half, features, seed, effects).model(half) for half in halves]
    worth: dict[str, list[float]] = {}
    promised = []
    for half, model, other_model in zip(halves, models, models[::-1], strict=True):
        history = half.history.taken(np.linspace(0, len(half) - 1, USERS).astype(int))
        history = history if len(history.values) else history.taken([0])  # without histories all users are one
        slates_of = _slates_by_rule(model, half, features, history, k)
        for rule, rows in slates_of.items():
            worth.setdefault(rule, []).append(_worth(other_model, history, rows))
        promised.append(_worth(model, history, slates_of[OPTIMISED]))
    in_both = {rule: hits for rule, hits in worth.items() if len(hits) == len(halves)}
    ours, *others = [Rival(rule, float(np.mean(hits)), tuple(hits)) for rule, hits in in_both.items()]
    return [replace(ours, promised=float(np.mean(promised))), *others]


def advice(rows: Sequence[Rival], effects: Sequence[str]) -> str:
    """What to deploy: the optimised slate, or a rule of one line that is worth as much."""
    ours = rows[0]
    if not effects:
        return f"Deploy {TOP}: items of a slate were not found to do anything to each other."
    best = max((row for row in rows if row.rule not in SEARCHES), key=lambda row: row.hits)
    more = ours.hits / best.hits - 1
    if more < WORTH_IT or any(first <= second for first, second in zip(ours.by_half, best.by_half, strict=True)):
        return f"Deploy {best.rule}: optimised slates are worth {more:+.1%} beside it, not surely more."
    return (
        f"Deploy the optimised slates: they are worth {more:.1%} more than {best.rule}, the best of the simple rules."
    )


def expected(rows: Sequence[Rival]) -> str:
    """What to expect of an optimised slate: both models are cautious, so the truth is rarely below the first."""
    ours = rows[0]
    if ours.promised is None:
        return ""
    return (
        f"Expect {ours.hits:.2f} to {ours.promised:.2f} hits of an optimised slate: what the other half's model of "
        "the log gives it, and what that of its own half promises."
    )


def _slates_by_rule(
    model: SlateModel, half: Slates, features: Features, history: Ragged, k: int
) -> dict[str, list[Rows]]:
    """The slates of every rule, one for each of these users; a rule that cannot fill all of them is left out."""
    catalog, users, seen = model.catalog(), list(model.users(history)), list(history)
    slates = {
        title: optimised_slates(catalog, users, seen, min(k, len(catalog)), ranker)
        for title, ranker in SEARCHES.items()
    }
    shortlists = optimised_slates(catalog, users, seen, min(SHORTLIST, len(catalog)), TOP_K.name)
    slates[TOP] = [rows[:k] for rows in shortlists]
    outcome, items = np.asarray(half.outcome, np.float64), half.shown.values
    hits, shown = np.bincount(items, outcome, half.n_items), np.bincount(items, minlength=half.n_items)
    popular = np.argsort(-(hits + SEEN_LEAST * outcome.mean()) / (shown + SEEN_LEAST), kind="stable")
    slates["the items of highest click rate"] = [popular[~np.isin(popular, rows)][:k] for rows in seen]
    for label in features.labels:
        apart = [rows[_one_per_value(label.code[rows])][:k] for rows in shortlists]
        if min(map(len, apart)) == k:
            slates[f"the items of highest score, one per {label.name}"] = apart
    return slates


def _one_per_value(code: Ints) -> Ints:
    """The positions of the first item of each value, and of all items without a value."""
    first = np.unique(code, return_index=True)[1]
    return np.union1d(first, np.flatnonzero(code < 0))


def _worth(model: SlateModel, history: Ragged, shown: Sequence[Rows]) -> float:
    """The mean value of the slates of these users."""
    slates = Ragged.of(shown)
    outcome = np.zeros(len(slates.values), np.float32)
    predicted: Floats = model.predict(Slates(history, slates, outcome, model.catalog().ids[:]))
    return float(predicted.sum()) / len(slates)
