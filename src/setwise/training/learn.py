"""The whole way from data to a model whose promises can be believed.

**From slates** (what was shown, what came of it): embeddings from the histories; first what items are worth alone, then
company, which is kept only if slates held out become likelier by it; calibration on those slates. Promises on slates
that the optimiser would show can only be checked by showing them: do so, and call ``model.calibrated(those)``.

**From sessions** (implicit: no exposure): what an item is worth alone is learned from single items. Then, with the
items as they are, company from slates that the model itself would show to people it has not met, judged by what they
really held (examples.py). On a last part of the sessions both models show their slates: company is kept only if it
brings more hits beyond doubt, and promises are calibrated there.
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
from numpy.typing import NDArray

from setwise._types import Floats32
from setwise._validation import numbers, real_array, whole_number
from setwise.datasets.sessions import Sessions, Slates, parted
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic
from setwise.storage import artifact
from setwise.training.calibration import calibrated, fitted_logistic, log_loss
from setwise.training.embeddings import MOST_SPECTRAL, spectral, unit, word2vec
from setwise.training.examples import Cuts, own_slates, singles
from setwise.training.export import exported
from setwise.training.fit import Report, Schedule, device_named, hash_of, train
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.simple_transformer import SimpleTransformer

HELD_OUT = 0.05  # of the slates, for validation
ALONE = 0.4  # the share of the epochs in which items are learned alone; company must then earn its place
SHARES = (0.7, 0.15, 0.15)  # of the sessions teach items alone, teach company, and judge
OWN = 1500  # sessions an epoch, at most, for which the model's own slates are made and judged
BEYOND_DOUBT = 2.0  # standard errors by which company must bring more hits
CALIBRATIONS = 2  # rounds of showing and fitting: another reward shows other slates
SESSION_DEFAULTS = {"dim": 64, "reading": "direction", "learning_rate": 0.01, "weight_decay": 0.003}


def learn(
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
) -> SimpleTransformer:
    """A model from sessions or slates.

    ``validation``: slates to stop by (some of the data unless given); ``loss``: item, set or choice (slates only);
    ``embeddings``: "word2vec" or "spectral" of the sessions or histories ("auto": spectral for
    slates over few items, word2vec otherwise), an array (n_items, d), or None to learn from scratch;
    ``k``: how long the slates will be; ``checkpoint``: a folder to go on from after an interruption; ``device``: cpu or
    cuda. ``options`` are those of ``Shape`` (dim, heads, d_kq, d_v, base, sink, reading) and ``Schedule``
    (epochs, batch, learning_rate, weight_decay, patience, seed).
    """
    if not isinstance(data, (Sessions, Slates)):
        todo = "read a file with setwise.datasets.read, or use Sessions.of(lists of ids)"
        raise InvalidInput("data", "Sessions or Slates", type(data).__name__, todo)
    if not len(data):
        raise InvalidInput("data", "one session or slate at least", "none", "check the file and its columns")
    if isinstance(data, Sessions):
        options = {**SESSION_DEFAULTS, **options}
    shape, schedule = _settings(options)
    teacher = _Teacher(data, shape, schedule, checkpoint, device, progress)
    if isinstance(data, Slates):
        if validation is not None:
            _refuse_misnumbered(validation, data)
        return teacher.from_slates(data, validation, loss, embeddings)
    if validation is not None or loss != "item":
        must = "left out with sessions, where single items and the model's own slates are learned"
        raise InvalidInput("validation and loss", must, f"loss={loss!r}", "make slates first (training.negatives)")
    return teacher.from_sessions(data, embeddings, whole_number("k", k))


def _refuse_misnumbered(validation: object, slates: Slates) -> None:
    if not isinstance(validation, Slates) or not len(validation) or list(validation.ids) != list(slates.ids):
        got = "others" if isinstance(validation, Slates) else type(validation).__name__
        todo = "take some of the same slates, or number the items alike"
        raise InvalidInput("validation", "Slates, one or more, over the same ids as the data", got, todo)


def _settings(options: dict[str, Any]) -> tuple[Shape, Schedule]:
    known = {one.name: kind for kind in (Shape, Schedule) for one in fields(kind)}
    for name in options:
        if name not in known:
            raise InvalidInput("options", f"among {', '.join(known)}", repr(name), "check its spelling")
    parts = [{name: value for name, value in options.items() if known[name] is kind} for kind in (Shape, Schedule)]
    return Shape(**parts[0]), Schedule(**parts[1])


class _Shown(NamedTuple):
    """A model calibrated on slates that it showed, and how many hits each of them had."""

    model: SimpleTransformer
    reward: Logistic
    hits: NDArray[np.float64]


def _shown(model: SimpleTransformer, cuts: Cuts, k: int) -> _Shown:
    for _ in range(CALIBRATIONS):
        slates = own_slates(model, cuts, k)
        reward = fitted_logistic(model.arguments(slates.history, slates.shown), slates.outcome)
        model = model.rewarded(reward, {"calibrated_on": len(slates)})
    hits = np.bincount(slates.shown.owner, weights=slates.outcome, minlength=len(slates))
    return _Shown(model, reward, np.asarray(hits, np.float64))


class _Teacher:
    """One run: its settings, and what both ways share."""

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
        self.reports: dict[str, Report] = {}
        nothing = np.zeros((len(self.ids), 1), np.float32)
        Catalog(nothing, nothing, nothing, ids=list(self.ids), attributes=dict(self.attributes))  # refuse at once
        device_named(device)

    def network(self, embeddings: Floats32 | None) -> SimpleNetwork:
        """A new network from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hash_of(self.schedule.seed))
            return SimpleNetwork(len(self.ids), self.shape, embeddings)

    def taught(
        self,
        network: SimpleNetwork,
        slates: Slates | Callable[[int], Slates],
        validation: Slates | None,
        loss: str,
        schedule: Schedule,
        stage: str,
        about: str = "",
    ) -> SimpleTransformer:
        """The model after one stage of training."""
        report = train(
            network,
            slates,
            validation,
            loss,
            schedule,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint) / stage,
            about=about,
            device=self.device,
            progress=self.progress,
        )
        self.reports[stage] = report
        return exported(network, self.ids, self.attributes, self.summary())

    def summary(self) -> dict[str, Any]:
        """What to remember of how a model came about."""
        stages = {stage: {**asdict(report), "kept": report.best} for stage, report in self.reports.items()}
        return {"shape": asdict(self.shape), "schedule": asdict(self.schedule), "stages": stages}

    def from_slates(
        self, slates: Slates, validation: Slates | None, loss: str, embeddings: str | Floats32 | None
    ) -> SimpleTransformer:
        """Learn from outcomes."""
        if validation is None:
            if len(slates) < 2:
                raise InvalidInput("slates", "two or more, one of them for validation", len(slates), "show more first")
            kept, held = parted(len(slates), (1 - HELD_OUT, HELD_OUT) if len(slates) >= 40 else (0.5, 0.5), 0)
            slates, validation = slates.taken(kept), slates.taken(held)
        network = self.network(self.embeddings(embeddings, Sessions(slates.history, self.ids)))
        if not self.shape.base or loss != "item":
            return self.taught(network, slates, validation, loss, self.schedule, "company")
        alone, company = self.halves()
        network.silent = True
        before = self.taught(network, slates, validation, loss, alone, "alone")
        network.silent = False
        model = self.taught(network, slates, validation, loss, company, "company")
        return calibrated(self.worthwhile(before, model, validation), validation)

    def halves(self) -> tuple[Schedule, Schedule]:
        """The schedules of the two stages: items alone, then company."""
        epochs = max(1, round(ALONE * self.schedule.epochs))
        return replace(self.schedule, epochs=epochs), replace(
            self.schedule, epochs=max(1, self.schedule.epochs - epochs)
        )

    def worthwhile(self, alone: SimpleTransformer, company: SimpleTransformer, validation: Slates) -> SimpleTransformer:
        """The model with company if it tells more of slates it has not seen than the one without; else that one."""
        models = {"alone": alone, "company": company}
        losses = {name: log_loss(model.predict(validation), validation.outcome) for name, model in models.items()}
        kept = "company" if losses["company"] < losses["alone"] else "alone"
        chosen = models[kept]
        return SimpleTransformer(chosen.catalog(), chosen.encoder, {**self.summary(), "log_loss": losses, "kept": kept})

    def from_sessions(self, sessions: Sessions, embeddings: str | Floats32 | None, k: int) -> SimpleTransformer:
        """Learn from what went together."""
        sessions = sessions.shuffled_where_unordered(self.schedule.seed).distinct()
        usable = np.flatnonzero(sessions.items.lengths >= 2)
        if len(usable) < 20:
            todo = "bring more, or check which columns are session and item"
            raise InvalidInput("sessions", "20 or more of two items or more", len(usable), todo)
        sessions = sessions.taken(usable)
        parts = parted(len(sessions), SHARES, self.schedule.seed)
        met, unmet, judges = (sessions.taken(part) for part in parts)
        network = self.network(self.embeddings(embeddings, met))
        network.silent = self.shape.base  # without a base term an item alone draws on itself
        alone = self.taught(network, self.single_items(met), None, "item", self.schedule, "alone")
        cuts = Cuts.first(judges)
        without = _shown(alone, cuts, k)
        network.silent = False
        if self.shape.base:
            network.keep_items(without.reward)
        lessons, validation = self.own_slates(network, unmet, k), own_slates(alone, cuts, k)
        company = self.taught(network, lessons, validation, "item", self.second(), "company", f"slates of {k}")
        return self.more_hits(without, _shown(company, cuts, k))

    def second(self) -> Schedule:
        """The schedule of company: half the epochs, and smaller batches, as there are fewer slates."""
        epochs, batch = max(1, self.schedule.epochs // 2), max(1, self.schedule.batch // 8)
        return replace(self.schedule, epochs=epochs, batch=batch)

    def single_items(self, sessions: Sessions) -> Callable[[int], Slates]:
        """Single items for every epoch, each time of other cuts."""

        def of_epoch(epoch: int) -> Slates:
            rng = np.random.default_rng([self.schedule.seed, 2, epoch])
            return singles(Cuts.random(sessions, rng), rng)

        return of_epoch

    def own_slates(self, network: SimpleNetwork, sessions: Sessions, k: int) -> Callable[[int], Slates]:
        """For every epoch slates that the network would show as it is then."""

        def of_epoch(epoch: int) -> Slates:
            rng = np.random.default_rng([self.schedule.seed, 3, epoch])
            cuts = Cuts.random(sessions, rng)
            network.eval()
            some = cuts.taken(np.sort(rng.permutation(len(cuts.sessions))[:OWN]))
            return own_slates(exported(network, self.ids, {}), some, k)

        return of_epoch

    def more_hits(self, alone: _Shown, company: _Shown) -> SimpleTransformer:
        """The model with company if its slates had more hits than the other's beyond doubt; else the one without."""
        more = company.hits - alone.hits
        earned = more.mean() > BEYOND_DOUBT * more.std() / np.sqrt(len(more))
        hits = {"alone": float(alone.hits.mean()), "company": float(company.hits.mean())}
        chosen, kept = (company.model, "company") if earned else (alone.model, "alone")
        summary = {**chosen.summary, **self.summary(), "hits": hits, "kept": kept}
        return SimpleTransformer(chosen.catalog(), chosen.encoder, summary)

    def embeddings(self, given: str | Floats32 | None, sessions: Sessions) -> Floats32 | None:
        """What the input layer starts from: unit vectors, so that inner products are cosines."""
        if given is None:
            return None
        if not isinstance(given, str):
            n = len(self.ids)
            return unit(real_array("embeddings", numbers("embeddings", given), (n, "d"), np.float32))
        if given not in ("auto", "word2vec", "spectral"):
            must = "'auto', 'word2vec', 'spectral', an array or None"
            raise InvalidInput("embeddings", must, repr(given), "choose one of those")
        if not (sessions.items.lengths > 1).any():
            return None  # no two items were ever heard together: there is nothing to learn them from
        if given == "word2vec" or (given == "auto" and (not self.slates or len(self.ids) > MOST_SPECTRAL)):
            return unit(
                self._cached(given, sessions, lambda: word2vec(sessions, self.shape.dim, seed=self.schedule.seed))
            )
        return unit(self._cached(given, sessions, lambda: spectral(sessions, self.shape.dim)))

    def _cached(self, kind: str, sessions: Sessions, make: Callable[[], Floats32]) -> Floats32:
        """With a checkpoint, embeddings are made once: word2vec may be half the work."""
        if self.checkpoint is None:
            return make()
        digest = hashlib.sha256(repr((kind, len(self.ids), self.shape.dim, self.schedule.seed)).encode())
        digest.update(sessions.items.values.tobytes() + sessions.items.offsets.tobytes())
        folder, identity = Path(self.checkpoint) / "embeddings", digest.hexdigest()
        if not (folder / "manifest.json").exists():
            artifact.write(folder, "embeddings", {"vectors": make()}, {"identity": identity})
        saved = artifact.read(folder, "embeddings")
        if saved.meta["identity"] != identity:
            must, todo = "a folder of this very run (data, sizes and schedule)", "choose another folder or remove it"
            raise InvalidInput("checkpoint", must, f"{self.checkpoint} of another", todo)
        return np.array(saved.arrays["vectors"])
