"""Fit a simple transformer to sessions or slates, evaluate it on held-out data, save it and report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._standard_error import say
from setwise._types import Floats
from setwise.cli.held_out import write_sessions
from setwise.cli.train.data import RANDOM, hold_out, long_slates
from setwise.cli.train.output import Output
from setwise.cli.train.report import TrainReport
from setwise.datasets import Sessions, Slates
from setwise.datasets.splits import HistorySplit
from setwise.ranking import DEFAULT
from setwise.ranking.dpp import DPP
from setwise.ranking.greedy import GREEDY
from setwise.ranking.knn import KNN
from setwise.ranking.mmr import MMR
from setwise.ranking.top_k import TOP_K
from setwise.training import SimpleTransformer
from setwise.training.calibration import log_loss
from setwise.training.comparison import compare, verdict
from setwise.training.effects.features import Features
from setwise.training.on_policy import on_policy_slates
from setwise.training.rivals import advice, expected, rivals

EFFECTS = ("effects", "words", "effects_tried", "tastes", "notes")  # keys of the summary of a model of slates
BINS = 5  # of the reliability diagram
CUT = "log"  # the folder in a checkpoint in which train/log.py keeps the time of its log
# Slates for held-out sessions: the optimised one, and those of its rivals under the same model.
EVALUATED = (
    ("the optimised slate", DEFAULT),
    *((ranker.title, ranker) for ranker in (TOP_K, GREEDY, MMR, DPP, KNN)),
)


@dataclass(frozen=True)
class Fitting:
    """How a model is fitted: the size of the slates, the seed, the checkpoint, and further options that were given."""

    k: int
    seed: int
    checkpoint: Path
    options: dict[str, Any]

    @classmethod
    def of(cls, k: int, seed: int, checkpoint: Path, **options: Any) -> Fitting:
        """``options`` that are None were not given."""
        return cls(k, seed, checkpoint, {name: value for name, value in options.items() if value is not None})

    def with_options(self, **options: Any) -> Fitting:
        """With further options."""
        return replace(self, options={**self.options, **options})

    def run(
        self, data: Sessions | Slates, read: dict[str, Any], output: Output, held_out_file: Path | None = None
    ) -> None:
        """Say what there is to say of the data, fit, evaluate, save and report; ``read`` describes the data."""
        for note in [*read.get("notes", []), *long_slates(self.k, read["items"])]:
            say(note)
        training, held_out = hold_out(data, self.seed, read.setdefault("split", RANDOM))
        read = {**read, "held_out": 0 if held_out is None else len(held_out)}
        if held_out_file is not None:
            write_sessions(held_out_file, held_out)
            read["held_out_file"] = str(held_out_file)
        began = time.perf_counter()
        model = SimpleTransformer.fit(training, k=self.k, seed=self.seed, checkpoint=self.checkpoint, **self.options)
        seconds = time.perf_counter() - began
        quality = None if held_out is None else _quality(model, training, held_out, self.k)
        if quality is not None and isinstance(training, Slates):
            quality["comparison"] = self._beside_rules(model, training)
        report = {"read": read, "training": _training(model, seconds), "quality": quality}
        output.write(model, report, lambda console, shown: TrainReport(shown, model, self.k).print(console))
        _remove_checkpoint(self.checkpoint, model.summary["stages"])

    def _beside_rules(self, model: SimpleTransformer, slates: Slates) -> dict[str, Any] | None:
        """The optimised slate and simple rules, where effects that can be read were kept."""
        if model.summary["kept"] not in ("effects", "pointwise"):
            return None
        features = Features.of_slates(slates, self.options.get("embeddings"), self.options.get("features"))
        k = int(np.median(slates.shown.lengths))
        effects = model.summary["effects"]
        rows = rivals(slates, features, effects, k, self.seed)
        if not rows:
            return None
        text = "\n".join([advice(rows, effects), expected(rows)])
        return {"k": k, "rows": [asdict(row) for row in rows], "verdict": text}


def _remove_checkpoint(checkpoint: Path, stages: Iterable[str]) -> None:
    """Remove the checkpoints of this run, and no other files."""
    for part in ("base", "embeddings", CUT, *stages):
        if (checkpoint / part / "manifest.json").is_file():
            shutil.rmtree(checkpoint / part)
    if checkpoint.is_dir() and not any(checkpoint.iterdir()):
        checkpoint.rmdir()


# --- the report ---


def _training(model: SimpleTransformer, seconds: float) -> dict[str, Any]:
    """The stages with their losses, and what the summary of the model says."""
    stages = [
        {
            "stage": name,
            "epochs": len(stage["training"]),
            "kept_epoch": stage["kept"] + 1,
            "training_loss": stage["training"][stage["kept"]],
            "validation_loss": stage["validation"][stage["kept"]] if stage["validation"] else None,
        }
        for name, stage in model.summary["stages"].items()
    ]
    summary = {"kept": model.summary.get("kept")}
    summary |= {name: model.summary.get(name, []) for name in ("base", "tried", *EFFECTS)}
    return {"model": repr(model.catalog()), "seconds": seconds, "stages": stages, **summary}


def _quality(
    model: SimpleTransformer, training: Sessions | Slates, held_out: Sessions | Slates, k: int
) -> dict[str, Any]:
    """Hits of this model and of others, and the reliability of the predictions item by item."""
    compared, shown = None, dict[str, Slates]()
    if isinstance(training, Sessions) and isinstance(held_out, Sessions):
        split = HistorySplit.first(held_out)
        rows = compare(model, training, split, k, progress=None)
        compared = {"rows": [row.row() for row in rows], "verdict": verdict(rows)}
        for name, ranker in EVALUATED:
            shown[name] = on_policy_slates(model, split, k, ranker.name, progress=None)
    elif isinstance(held_out, Slates):
        shown["the logged slate"] = held_out
    predicted = {name: model.predict(slates) for name, slates in shown.items()}
    first, slates = next(iter(shown.items()))
    rate = np.full(len(predicted[first]), slates.outcome.mean())
    return {
        "comparison": compared,
        "slates": [_hits(name, predicted[name], shown[name]) for name in shown],
        "reliability": model.reliability(slates, BINS).rows(),
        "log_loss": log_loss(predicted[first], slates.outcome),
        "log_loss_of_the_rate": log_loss(rate, slates.outcome),
    }


def _hits(name: str, predicted: Floats, slates: Slates) -> dict[str, Any]:
    """Predicted and observed hits, as means over the slates."""
    count = len(slates)
    return {"slate": name, "predicted": predicted.sum() / count, "observed": float(slates.outcome.sum()) / count}
