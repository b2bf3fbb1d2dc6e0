"""Stages of training that every kind of data shares: networks, embeddings, checkpoints and the summary."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from setwise._types import Array, Floats32
from setwise._validation import numbers, real_array
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.storage import artifact
from setwise.training.device import resolve_device
from setwise.training.embeddings import MOST_SPECTRAL, correspondence, spectral, unit, word2vec
from setwise.training.export import export_model
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.slate_model import SlateModel
from setwise.training.trainer import Given, Schedule, TrainingReport, derive_seed, train

MANY_ENTRIES = 100_000  # of MOST_SPECTRAL sessions or fewer: word2vec takes minutes, and with fewer passes is no better
EMBEDDINGS = ("auto", "word2vec", "spectral", "correspondence")


class Saved(NamedTuple):
    """A part of a checkpoint: its arrays and its JSON data."""

    arrays: dict[str, Array]
    meta: dict[str, Any]


class Stages:
    """One run of the recipe: its settings, and the losses of its stages."""

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

    def network(self, embeddings: Floats32 | None) -> SimpleNetwork:
        """A new network, initialised from the seed; from sessions the base is not part of it (from_sessions.py)."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.schedule.seed))
            shape = self.shape if self.slates else replace(self.shape, base=False)
            return SimpleNetwork(len(self.ids), shape, embeddings)

    def train_stage(
        self,
        network: SimpleNetwork,
        slates: Slates | Callable[[int], Slates],
        validation: Slates | None,
        loss: str,
        schedule: Schedule,
        stage: str,
        run_key: str = "",
        given: Given | None = None,
    ) -> SlateModel:
        """Train the network for one stage, record the losses, and export the model."""
        self.train_part(network, slates, validation, loss, schedule, stage, run_key, given)
        return export_model(network, self.ids, self.attributes, self.summary())

    def train_part(
        self,
        network: nn.Module,
        slates: Slates | Callable[[int], Slates],
        validation: Slates | None,
        loss: str,
        schedule: Schedule,
        stage: str,
        run_key: str = "",
        given: Given | None = None,
    ) -> None:
        """Train the network for one stage and record the losses."""
        self.reports[stage] = train(
            network,
            slates,
            validation,
            loss,
            schedule,
            given=given,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint) / stage,
            run_key=run_key,
            device=self.device,
            progress=self.progress,
        )

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
        if given not in EMBEDDINGS:
            must = f"{', '.join(map(repr, EMBEDDINGS))}, an array or None"
            raise InvalidInput("embeddings", must, repr(given), "choose one of those")
        if not (sessions.items.lengths > 1).any():
            return None  # no two items co-occur, so there is nothing to learn embeddings from
        kind = self._kind_of_embeddings(sessions) if given == "auto" else given
        if kind == "word2vec":
            return unit(
                self._cached(given, sessions, lambda: word2vec(sessions, self.shape.dim, seed=self.schedule.seed))
            )
        make = spectral if kind == "spectral" else correspondence
        return unit(self._cached(given, sessions, lambda: make(sessions, self.shape.dim)))

    def _kind_of_embeddings(self, sessions: Sessions) -> str:
        """Spectral over few items, correspondence of few long sessions, else word2vec, which was better there."""
        if not self.slates:
            return "word2vec"
        if len(self.ids) <= MOST_SPECTRAL:
            return "spectral"
        few, entries = np.count_nonzero(sessions.items.lengths > 1) <= MOST_SPECTRAL, len(sessions.items.values)
        return "correspondence" if few and entries >= MANY_ENTRIES else "word2vec"

    def _cached(self, kind: str, sessions: Sessions, make: Callable[[], Floats32]) -> Floats32:
        """The embeddings, saved in the checkpoint if there is one: word2vec may be half the work."""
        identity = self.identity(sessions, kind, self.shape.dim)
        saved = self.saved("embeddings", identity, lambda: ({"vectors": make()}, {}))
        return np.array(saved.arrays["vectors"])

    def identity(self, sessions: Sessions, *settings: object) -> str:
        """A digest of what a part of the checkpoint depends on: the sessions, the seed and these settings."""
        digest = hashlib.sha256(repr((len(self.ids), self.schedule.seed, *settings)).encode())
        digest.update(sessions.items.values.tobytes() + sessions.items.offsets.tobytes())
        return digest.hexdigest()

    def saved(self, name: str, identity: str, make: Callable[[], tuple[dict[str, Array], dict[str, Any]]]) -> Saved:
        """Arrays and JSON data from the checkpoint's folder ``name``; computed, and saved there, if it is absent."""
        if self.checkpoint is None:
            return Saved(*make())
        folder = Path(self.checkpoint) / name
        if not (folder / "manifest.json").exists():
            arrays, meta = make()
            artifact.write(folder, name, arrays, {"identity": identity, **meta})
        kept = artifact.read(folder, name)
        if kept.meta["identity"] != identity:
            must, todo = "a checkpoint of the same run (data, sizes and schedule)", "choose another folder or remove it"
            raise InvalidInput("checkpoint", must, f"{self.checkpoint} of another run", todo)
        return Saved(dict(kept.arrays), dict(kept.meta))
