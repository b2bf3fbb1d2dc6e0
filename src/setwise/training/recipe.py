"""The training recipe: from data to a calibrated model.

**From slates** (items shown, with outcomes; from_slates.py): a pointwise stage, then attention on top of it, kept if it
lowers the log loss of validation slates. Predictions for slates that the optimiser would choose can only be verified by
showing them: do so, and call ``model.calibrated(those slates)``.

**From sessions** (implicit feedback: it is not known what was shown; from_sessions.py): a blend of base models, chosen
on held-out sessions, then attention on top of it, kept if its slates have significantly more hits.
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from setwise._types import Floats32
from setwise._validation import did_you_mean, real_number, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.training.from_sessions import fit_sessions
from setwise.training.from_slates import fit_slates
from setwise.training.network import Shape
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

SESSION_DEFAULTS = {"dim": 64, "pooling": "unit_mean", "learning_rate": 0.01, "weight_decay": 0.003}


def fit(
    data: Sessions | Slates,
    *,
    validation: Slates | None = None,
    loss: str = "item",
    embeddings: str | Floats32 | None = "auto",
    k: int = 10,
    minutes: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> SlateModel:
    """Train a model on sessions or slates.

    ``validation``: slates for early stopping, for the choice between the stages and for calibration (slates only; a
    part of the data unless given); ``loss``: item, set or choice (sessions: item only); ``embeddings``: of the items
    that attend to each other: "word2vec" or "spectral" of the sessions or histories, an array (n_items, d), None for
    random initial embeddings, or "auto" (for sessions the item factors of ALS; for slates spectral over few items,
    word2vec otherwise); ``k``: the size of the slates that will be shown (sessions only); ``minutes``: time to try
    settings of the base models (sessions only; by default the size of the data decides); ``checkpoint``: a folder from
    which an interrupted run resumes; ``device``: cpu or cuda.
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
    stages = Stages(data, shape, schedule, checkpoint, device, progress)
    if isinstance(data, Slates):
        if validation is not None:
            _require_same_ids(validation, data)
        return fit_slates(stages, data, validation, loss, embeddings)
    todo = "leave it out, or make slates first (training.negatives)"
    if validation is not None:
        must = "None for sessions, a part of which is held out for validation"
        raise InvalidInput("validation", must, type(validation).__name__, todo)
    if loss != "item":
        raise InvalidInput("loss", "'item' for sessions", repr(loss), todo)
    if not shape.base:
        raise InvalidInput("base", "True for sessions, of which the base models are the largest part", "False", todo)
    if minutes is not None and real_number("minutes", minutes) <= 0:
        raise InvalidInput("minutes", "a positive number", minutes, "leave it out")
    return fit_sessions(stages, data, embeddings, whole_number("k", k), minutes)


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
            todo = did_you_mean(name, known) or "leave it out"
            raise InvalidInput("options", f"among {', '.join(known)}", repr(name), todo)
    parts = [{name: value for name, value in options.items() if known[name] is kind} for kind in (Shape, Schedule)]
    return Shape(**parts[0]), Schedule(**parts[1])
