"""The training recipe: from data to a calibrated model.

**From slates** (items shown, with outcomes): item embeddings from the histories. The pointwise stage learns the reward
of each item by itself. The interaction stage then adds attention, which is kept only if it lowers the log loss on
validation slates. The reward is calibrated on those slates. With another loss than "item", or with ``base=False``,
there is one stage: attention is always kept and nothing is calibrated; call ``model.calibrated(slates)``. Predictions
for slates that the optimiser would choose can only be verified by showing them: do so, and call
``model.calibrated(those slates)``.

**From sessions** (implicit feedback: it is not known what was shown): the sessions are split in three parts. The
pointwise stage learns from single items of the first part (pointwise.py). The interaction stage learns, with the items
frozen, from on-policy slates for the second part (on_policy.py): an item is a hit if the rest of the session, its
targets, contains it. Both models are evaluated on the third part: attention is kept only if its slates have
significantly more hits, and the reward is calibrated there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from setwise._types import Floats, Floats32
from setwise._validation import numbers, real_array, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import HistorySplit, random_split
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic
from setwise.storage import artifact
from setwise.training.calibration import fit_logistic, log_loss
from setwise.training.embeddings import MOST_SPECTRAL, spectral, unit, word2vec
from setwise.training.export import export_model
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.on_policy import on_policy_slates
from setwise.training.pointwise import pointwise_slates
from setwise.training.slate_model import SlateModel
from setwise.training.trainer import Schedule, TrainingReport, derive_seed, resolve_device, train

HELD_OUT = 0.05  # share of the slates, for validation
POINTWISE_SHARE = 0.4  # share of the epochs for the pointwise stage, when training on slates
SHARES = (0.7, 0.15, 0.15)  # of the sessions, for the pointwise stage, the interaction stage and the evaluation
ON_POLICY_SESSIONS = 1500  # sessions per epoch, at most, for which on-policy slates are computed
SIGNIFICANT = 2.0  # standard errors by which attention must increase the hits
CALIBRATIONS = 2  # rounds of choosing slates and fitting the reward: another reward leads to other slates
SESSION_DEFAULTS = {"dim": 64, "pooling": "unit_mean", "learning_rate": 0.01, "weight_decay": 0.003}


def fit(
    data: Sessions | Slates,
    *,
    validation: Slates | None = None,
    loss: str = "item",
    embeddings: str | Floats32 | None = "auto",
    k: int = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    device: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> SlateModel:
    """Train a model on sessions or slates.

    ``validation``: slates for early stopping, for the choice between the stages and for calibration (slates only; a
    part of the data unless given); ``loss``: item, set or choice (sessions: item only); ``embeddings``: "word2vec" or
    "spectral" of the sessions or histories ("auto": spectral for slates over few items, word2vec otherwise), an array
    (n_items, d), or None for random initial embeddings; ``k``: the size of the on-policy slates (sessions only);
    ``checkpoint``: a folder from which an interrupted run resumes; ``device``: cpu or cuda.
    ``options`` are those of ``Shape`` (dim, heads, d_kq, d_v, base, sink, pooling) and ``Schedule`` (epochs, batch,
    learning_rate, weight_decay, patience, seed).
    """
    if not isinstance(data, (Sessions, Slates)):
        todo = "read a file with setwise.datasets.read, or use Sessions.of(lists of ids)"
        raise InvalidInput("data", "Sessions or Slates", type(data).__name__, todo)
    if not len(data):
        raise InvalidInput("data", "one session or slate at least", "none", "check the file and its columns")
    if isinstance(data, Sessions):
        options = {**SESSION_DEFAULTS, **options}
    shape, schedule = _settings(options)
    run = _Run(data, shape, schedule, checkpoint, device, progress)
    if isinstance(data, Slates):
        if validation is not None:
            _require_same_ids(validation, data)
        return run.fit_slates(data, validation, loss, embeddings)
    todo = "leave it out, or make slates first (training.negatives)"
    if validation is not None:
        must = "None for sessions, a part of which is held out for validation"
        raise InvalidInput("validation", must, type(validation).__name__, todo)
    if loss != "item":
        raise InvalidInput("loss", "'item' for sessions", repr(loss), todo)
    return run.fit_sessions(data, embeddings, whole_number("k", k))


def _require_same_ids(validation: object, slates: Slates) -> None:
    if not isinstance(validation, Slates) or not len(validation) or list(validation.ids) != list(slates.ids):
        got = "no slates, or slates over different ids" if isinstance(validation, Slates) else type(validation).__name__
        todo = "use a part of the same slates, or build both from one list of ids"
        raise InvalidInput("validation", "Slates, one or more, over the same ids as the data", got, todo)


def _settings(options: dict[str, Any]) -> tuple[Shape, Schedule]:
    """The options, each assigned to the dataclass that has it."""
    known = {one.name: kind for kind in (Shape, Schedule) for one in fields(kind)}
    for name in options:
        if name not in known:
            raise InvalidInput("options", f"among {', '.join(known)}", repr(name), "check its spelling")
    parts = [{name: value for name, value in options.items() if known[name] is kind} for kind in (Shape, Schedule)]
    return Shape(**parts[0]), Schedule(**parts[1])


class _Evaluated(NamedTuple):
    """A model calibrated on its on-policy slates, its reward, and the number of hits of each slate."""

    model: SlateModel
    reward: Logistic
    hits: Floats


def _calibrate_on_policy(model: SlateModel, split: HistorySplit, k: int) -> _Evaluated:
    for _ in range(CALIBRATIONS):
        slates = on_policy_slates(model, split, k)
        reward = fit_logistic(model.arguments(slates.history, slates.shown), slates.outcome)
        model = model.with_reward(reward, {"calibrated_on": len(slates)})
    hits = np.bincount(slates.shown.owner, weights=slates.outcome, minlength=len(slates))
    return _Evaluated(model, reward, np.asarray(hits, np.float64))


class _Run:
    """One run of the recipe: its settings, and the steps that both kinds of data share."""

    def __init__(
        self,
        data: Sessions | Slates,
        shape: Shape,
        schedule: Schedule,
        checkpoint: str | os.PathLike[str] | None,
        device: str | None,
        progress: bool | None,
    ) -> None:
        self.ids, self.attributes, self.slates = data.ids, data.attributes, isinstance(data, Slates)
        self.shape, self.schedule, self.device, self.progress = shape, schedule, device, progress
        self.checkpoint = checkpoint
        self.reports: dict[str, TrainingReport] = {}
        zeros = np.zeros((len(self.ids), 1), np.float32)
        Catalog(zeros, zeros, zeros, ids=list(self.ids), attributes=dict(self.attributes))  # refuse invalid ids early
        resolve_device(device)

    # --- from slates ---

    def fit_slates(
        self, slates: Slates, validation: Slates | None, loss: str, embeddings: str | Floats32 | None
    ) -> SlateModel:
        """Train on outcomes of slates."""
        if validation is None:
            if len(slates) < 2:
                raise InvalidInput("slates", "two or more, one of them for validation", len(slates), "pass more slates")
            shares = (1 - HELD_OUT, HELD_OUT) if len(slates) >= 40 else (0.5, 0.5)
            training, held_out = random_split(len(slates), shares, 0)
            slates, validation = slates.taken(training), slates.taken(held_out)
        network = self.network(self.embeddings(embeddings, Sessions(slates.history, self.ids)))
        if not self.shape.base or loss != "item":
            return self.train_stage(network, slates, validation, loss, self.schedule, "interaction")
        first, second = self.stage_schedules()
        network.pointwise = True
        pointwise = self.train_stage(network, slates, validation, loss, first, "pointwise")
        network.pointwise = False
        interaction = self.train_stage(network, slates, validation, loss, second, "interaction")
        return self.lower_loss(pointwise, interaction, validation).calibrated(validation)

    def stage_schedules(self) -> tuple[Schedule, Schedule]:
        """The schedules of the pointwise and the interaction stage on slates."""
        epochs = max(1, round(POINTWISE_SHARE * self.schedule.epochs))
        return replace(self.schedule, epochs=epochs), replace(
            self.schedule, epochs=max(1, self.schedule.epochs - epochs)
        )

    def lower_loss(self, pointwise: SlateModel, interaction: SlateModel, validation: Slates) -> SlateModel:
        """The model of lower log loss on the validation slates."""
        models = {"pointwise": pointwise, "interaction": interaction}
        losses = {name: log_loss(model.predict(validation), validation.outcome) for name, model in models.items()}
        kept = "interaction" if losses["interaction"] < losses["pointwise"] else "pointwise"
        chosen = models[kept]
        return SlateModel(chosen.catalog(), chosen.encoder, {**self.summary(), "log_loss": losses, "kept": kept})

    # --- from sessions ---

    def fit_sessions(self, sessions: Sessions, embeddings: str | Floats32 | None, k: int) -> SlateModel:
        """Train on sessions of items that were chosen together."""
        sessions = sessions.shuffled_where_unordered(self.schedule.seed).distinct()
        usable = np.flatnonzero(sessions.items.lengths >= 2)
        if len(usable) < 20:
            todo = "pass more sessions, or check which columns are session and item"
            raise InvalidInput("sessions", "20 or more of two items or more", len(usable), todo)
        sessions = sessions.taken(usable)
        parts = random_split(len(sessions), SHARES, self.schedule.seed)
        first, second, third = (sessions.taken(part) for part in parts)
        network = self.network(self.embeddings(embeddings, first))
        network.pointwise = self.shape.base  # without a base term a single item is worth only its attention to itself
        model = self.train_stage(network, self.pointwise_epochs(first), None, "item", self.schedule, "pointwise")
        evaluation = HistorySplit.first(third)
        pointwise = _calibrate_on_policy(model, evaluation, k)
        network.pointwise = False
        if self.shape.base:
            network.freeze_items(pointwise.reward)
        training, validation = self.on_policy_epochs(network, second, k), on_policy_slates(model, evaluation, k)
        schedule = self.interaction_schedule()
        trained = self.train_stage(
            network, training, validation, "item", schedule, "interaction", run_key=f"slates of {k}"
        )
        return self.more_hits(pointwise, _calibrate_on_policy(trained, evaluation, k))

    def interaction_schedule(self) -> Schedule:
        """The schedule of the interaction stage on sessions: half the epochs, and an eighth of the slates per batch."""
        epochs, batch = max(1, self.schedule.epochs // 2), max(1, self.schedule.batch // 8)
        return replace(self.schedule, epochs=epochs, batch=batch)

    def pointwise_epochs(self, sessions: Sessions) -> Callable[[int], Slates]:
        """The slates of single items of each epoch, from a new random split."""

        def of_epoch(epoch: int) -> Slates:
            rng = np.random.default_rng([self.schedule.seed, 2, epoch])
            return pointwise_slates(HistorySplit.random(sessions, rng), rng)

        return of_epoch

    def on_policy_epochs(self, network: SimpleNetwork, sessions: Sessions, k: int) -> Callable[[int], Slates]:
        """The on-policy slates of each epoch, chosen by the network as it is at that time."""

        def of_epoch(epoch: int) -> Slates:
            rng = np.random.default_rng([self.schedule.seed, 3, epoch])
            split = HistorySplit.random(sessions, rng)
            network.eval()
            some = split.taken(np.sort(rng.permutation(len(split))[:ON_POLICY_SESSIONS]))
            return on_policy_slates(export_model(network, self.ids, {}), some, k)

        return of_epoch

    def more_hits(self, pointwise: _Evaluated, interaction: _Evaluated) -> SlateModel:
        """The model with attention if its slates have significantly more hits, else the pointwise model."""
        more = interaction.hits - pointwise.hits
        better = more.mean() > SIGNIFICANT * more.std() / np.sqrt(len(more))
        hits = {"pointwise": float(pointwise.hits.mean()), "interaction": float(interaction.hits.mean())}
        chosen, kept = (interaction.model, "interaction") if better else (pointwise.model, "pointwise")
        summary = {**chosen.summary, **self.summary(), "hits": hits, "kept": kept}
        return SlateModel(chosen.catalog(), chosen.encoder, summary)

    # --- shared steps ---

    def network(self, embeddings: Floats32 | None) -> SimpleNetwork:
        """A new network, initialised from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.schedule.seed))
            return SimpleNetwork(len(self.ids), self.shape, embeddings)

    def train_stage(
        self,
        network: SimpleNetwork,
        slates: Slates | Callable[[int], Slates],
        validation: Slates | None,
        loss: str,
        schedule: Schedule,
        stage: str,
        run_key: str = "",
    ) -> SlateModel:
        """Train the network for one stage, record the losses, and export the model."""
        self.reports[stage] = train(
            network,
            slates,
            validation,
            loss,
            schedule,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint) / stage,
            run_key=run_key,
            device=self.device,
            progress=self.progress,
        )
        return export_model(network, self.ids, self.attributes, self.summary())

    def summary(self) -> dict[str, Any]:
        """Sizes, schedule and losses, saved with the model."""
        stages = {stage: {**asdict(report), "kept": report.best} for stage, report in self.reports.items()}
        return {"shape": asdict(self.shape), "schedule": asdict(self.schedule), "stages": stages}

    def embeddings(self, given: str | Floats32 | None, sessions: Sessions) -> Floats32 | None:
        """The initial item embeddings as unit vectors, so that inner products are cosines; None for random ones."""
        if given is None:
            return None
        if not isinstance(given, str):
            n = len(self.ids)
            return unit(real_array("embeddings", numbers("embeddings", given), (n, "d"), np.float32))
        if given not in ("auto", "word2vec", "spectral"):
            must = "'auto', 'word2vec', 'spectral', an array or None"
            raise InvalidInput("embeddings", must, repr(given), "choose one of those")
        if not (sessions.items.lengths > 1).any():
            return None  # no two items co-occur, so there is nothing to learn embeddings from
        if given == "word2vec" or (given == "auto" and (not self.slates or len(self.ids) > MOST_SPECTRAL)):
            return unit(
                self._cached(given, sessions, lambda: word2vec(sessions, self.shape.dim, seed=self.schedule.seed))
            )
        return unit(self._cached(given, sessions, lambda: spectral(sessions, self.shape.dim)))

    def _cached(self, kind: str, sessions: Sessions, make: Callable[[], Floats32]) -> Floats32:
        """The embeddings, saved in the checkpoint if there is one: word2vec may be half the work."""
        if self.checkpoint is None:
            return make()
        digest = hashlib.sha256(repr((kind, len(self.ids), self.shape.dim, self.schedule.seed)).encode())
        digest.update(sessions.items.values.tobytes() + sessions.items.offsets.tobytes())
        folder, identity = Path(self.checkpoint) / "embeddings", digest.hexdigest()
        if not (folder / "manifest.json").exists():
            artifact.write(folder, "embeddings", {"vectors": make()}, {"identity": identity})
        saved = artifact.read(folder, "embeddings")
        if saved.meta["identity"] != identity:
            must, todo = "a checkpoint of the same run (data, sizes and schedule)", "choose another folder or remove it"
            raise InvalidInput("checkpoint", must, f"{self.checkpoint} of another run", todo)
        return np.array(saved.arrays["vectors"])
