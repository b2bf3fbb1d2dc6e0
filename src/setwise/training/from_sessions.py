"""Training from sessions: items that were chosen together; what else was shown is not known.

1. A base is chosen and fitted (base/search.py): the settings on held-out sessions, then once more on all sessions.
2. Its reward is calibrated on the slates that it would show for the held-out sessions (on_policy.py): an item is a hit
   if the rest of the session, its targets, contains it. This uses the base that was fitted without these sessions.
3. If it is asked for, attention is learned on top of the fixed base, from on-policy slates for one half of the held-out
   sessions. It is kept only if its slates have significantly more hits for the other half. Otherwise the model has no
   attention, and the best slate is the k items of highest score.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Array, Floats, Floats32
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import HistorySplit, random_split
from setwise.errors import InvalidInput
from setwise.model.base_terms import BaseTerms
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.rewards import Logistic
from setwise.storage.artifact import under
from setwise.training.base.search import BaseSearch, fit_base
from setwise.training.calibration import fit_logistic
from setwise.training.embeddings import unit
from setwise.training.export import export_model
from setwise.training.network import SimpleNetwork
from setwise.training.new_users import with_new_users
from setwise.training.on_policy import on_policy_slates
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

ON_POLICY_SESSIONS = 1500  # sessions per epoch, at most, for which on-policy slates are computed
SIGNIFICANT = 2.0  # standard errors by which attention must increase the hits
CALIBRATIONS = 2  # rounds of choosing slates and fitting the reward: another reward leads to other slates
LEAST_SESSIONS = 20


class Evaluated(NamedTuple):
    """A model calibrated on its on-policy slates, its reward, and the number of hits of each slate."""

    model: SlateModel
    reward: Logistic
    hits: Floats


def fit_sessions(
    stages: Stages,
    sessions: Sessions,
    embeddings: str | Floats32 | None,
    k: int,
    minutes: float | None,
    attention: bool,
) -> SlateModel:
    """Train on sessions of items that were chosen together, with ``attention`` between those of a slate or without."""
    sessions = _usable(sessions.shuffled_where_unordered(stages.schedule.seed).distinct())
    final, trial, held_out, tried, chosen = _base(stages, sessions, k, minutes)
    split = HistorySplit.first(sessions.taken(held_out))
    pointwise = calibrate_on_policy(with_base(stages, trial), split, k, stages.progress)
    final, trial = final.scaled(pointwise.reward.scale), trial.scaled(pointwise.reward.scale)
    bias = Logistic(1.0, pointwise.reward.bias)
    plain = with_base(stages, trial).with_reward(bias)
    kept, hits, attentive = "pointwise", {"pointwise": float(pointwise.hits.mean())}, plain
    if attention:
        halves = [split.taken(part) for part in random_split(len(split), (0.5, 0.5), stages.schedule.seed)]
        network = stages.network(_vectors(stages, embeddings, trial, sessions))
        attentive = learn_attention(stages, network, Evaluated(plain, bias, pointwise.hits), trial, halves, k)
        kept, hits = _more_hits(plain, attentive, halves[1], k, stages.progress)
    model = with_base(stages, final, attentive if kept == "interaction" else None)
    base = {"base": chosen, "tried": tried, "calibrated_on": len(split)}
    summary = {**stages.summary(), **base, "hits": hits, "kept": kept}
    reward = bias if kept == "pointwise" else calibrate_on_policy(attentive, split, k, stages.progress).reward
    catalog = model.with_reward(reward).catalog()
    return SlateModel(catalog, with_new_users(model.encoder, catalog, reward, sessions), summary)


def _usable(sessions: Sessions) -> Sessions:
    usable = np.flatnonzero(sessions.items.lengths >= 2)
    if len(usable) < LEAST_SESSIONS:
        todo = "pass more sessions, or check which columns are session and item"
        raise InvalidInput("sessions", f"{LEAST_SESSIONS} or more of two items or more", len(usable), todo)
    return sessions.taken(usable)


# --- the base ---


def _base(stages: Stages, sessions: Sessions, k: int, minutes: float | None) -> BaseSearch:
    """The base, from the checkpoint if it is there."""

    def make() -> tuple[dict[str, Array], dict[str, Any]]:
        base = fit_base(sessions, k, stages.schedule.seed, minutes, stages.progress, stages.device)
        parts = {"final": base.final.packed(), "trial": base.trial.packed()}
        arrays = {f"{name}.{part}": array for name, packed in parts.items() for part, array in packed.items()}
        return {**arrays, "held_out": base.held_out}, {"tried": base.tried, "chosen": base.chosen}

    saved = stages.saved("base", stages.identity(sessions, k, minutes), make)
    final, trial = (BaseTerms.unpacked(under(f"{name}.", saved.arrays)) for name in ("final", "trial"))
    return BaseSearch(final, trial, saved.arrays["held_out"], saved.meta["tried"], saved.meta["chosen"])


def with_base(stages: Stages, base: BaseTerms, attention: SlateModel | None = None) -> SlateModel:
    """A model of this base, with the attention of another model or without any: then all values are zero."""
    n = len(stages.ids)
    if attention is None:
        zeros = np.zeros((n, 1, 1), np.float32)
        catalog = Catalog(zeros, zeros, zeros, ids=list(stages.ids), attributes=dict(stages.attributes))
        encoder = Encoder(zeros[:, 0], np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.float32))
    else:
        catalog, encoder = attention.catalog(), attention.encoder
    joined = Catalog(
        catalog.query,
        catalog.key,
        catalog.value,
        catalog.rewards[0],
        base.items,
        catalog.sink,
        list(stages.ids),
        dict(stages.attributes),
    )
    return SlateModel(joined, replace(encoder, base_terms=base))


def calibrate_on_policy(model: SlateModel, split: HistorySplit, k: int, progress: bool | None = False) -> Evaluated:
    """Fit the reward on the slates that the model chooses, in several rounds."""
    for _ in range(CALIBRATIONS):
        slates = on_policy_slates(model, split, k, progress=progress)
        reward = fit_logistic(model.arguments(slates.history, slates.shown), slates.outcome)
        model = model.with_reward(reward, {"calibrated_on": len(slates)})
    return Evaluated(model, reward, _hits(slates))


def _hits(slates: Slates) -> Floats:
    return np.asarray(np.bincount(slates.shown.owner, weights=slates.outcome, minlength=len(slates)), np.float64)


# --- attention ---


def _vectors(stages: Stages, embeddings: str | Floats32 | None, base: BaseTerms, sessions: Sessions) -> Floats32 | None:
    """The initial embeddings of the items that attend to each other."""
    if isinstance(embeddings, str) and embeddings == "auto" and base.fold_in is not None:
        return unit(base.fold_in.items)
    return stages.embeddings(embeddings, sessions)


def learn_attention(
    stages: Stages, network: SimpleNetwork, plain: Evaluated, base: BaseTerms, halves: list[HistorySplit], k: int
) -> SlateModel:
    """Attention on top of the base, from on-policy slates of the first half, stopped early by those of the second."""

    def given(slates: Slates) -> Floats:
        return plain.model.arguments(slates.history, slates.shown) + plain.reward.bias

    def of_epoch(epoch: int) -> Slates:
        rng = np.random.default_rng([stages.schedule.seed, 3, epoch])
        split = HistorySplit.random(halves[0].sessions, rng)
        network.eval()
        sessions = split.taken(np.sort(rng.permutation(len(split))[:ON_POLICY_SESSIONS]))
        return on_policy_slates(with_attention(export_model(network, stages.ids, {})), sessions, k)

    def with_attention(exported: SlateModel) -> SlateModel:
        offset = Logistic(1.0, float(network.offset.detach()) + plain.reward.bias)
        return with_base(stages, base, exported).with_reward(offset)

    validation = on_policy_slates(plain.model, halves[1], k, progress=stages.progress)
    trained = stages.train_stage(
        network,
        of_epoch,
        validation,
        "item",
        _schedule(stages.schedule),
        "interaction",
        run_key=f"slates of {k}",
        given=given,
    )
    return with_attention(trained)


def _schedule(schedule: Schedule) -> Schedule:
    """Half the epochs, and an eighth of the slates per batch: there are far fewer on-policy slates than sessions."""
    return replace(schedule, epochs=max(1, schedule.epochs // 2), batch=max(1, schedule.batch // 8))


def _more_hits(
    plain: SlateModel, attention: SlateModel, split: HistorySplit, k: int, progress: bool | None
) -> tuple[str, dict[str, float]]:
    """Which model to keep on this split, and the hits of both."""
    return better(*(_hits(on_policy_slates(model, split, k, progress=progress)) for model in (plain, attention)))


def better(pointwise: Floats, interaction: Floats) -> tuple[str, dict[str, float]]:
    """The stage to keep, "interaction" if attention has significantly more hits per slate; and the means of both."""
    more = interaction - pointwise
    kept = "interaction" if more.mean() > SIGNIFICANT * more.std() / np.sqrt(len(more)) else "pointwise"
    return kept, {"pointwise": float(pointwise.mean()), "interaction": float(interaction.mean())}
