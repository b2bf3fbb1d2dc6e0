"""The training recipe: from data to a calibrated model.

**From slates** (items shown, with outcomes; from_slates.py): a pointwise stage, then attention on top of it, kept if it
lowers the log loss of validation slates. Predictions for slates that the optimiser would choose can only be verified by
showing them: do so, and call ``model.calibrated(those slates)``.

**From sessions** (implicit feedback: it is not known what was shown; from_sessions.py): a blend of base models, chosen
on held-out sessions. Sessions do not say what else was shown, so that what looks like an effect of items on each
other there is mostly taste: attention is learned only if heads are asked for, as in the paper's experiments, and kept
if its slates have significantly more hits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from setwise._types import Floats32
from setwise._validation import real_number, whole_number
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.training.from_sessions import fit_sessions
from setwise.training.from_slates import fit_slates
from setwise.training.settings import Schedule, Shape
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages


def fit(
    data: Sessions | Slates,
    shape: Shape,
    schedule: Schedule,
    *,
    k: int,
    validation: Slates | None,
    loss: str,
    embeddings: str | Floats32 | None,
    features: Sequence[str] | None,
    attention: bool,
    minutes: float | None,
    checkpoint: str | os.PathLike[str] | None,
    device: str | None,
    progress: bool | None,
) -> SlateModel:
    """Train a model on sessions or slates; ``SimpleTransformer.fit`` says what the arguments mean."""
    if not isinstance(data, (Sessions, Slates)):
        todo = "read a file with setwise.datasets.read, or use Sessions.of(lists of ids)"
        raise InvalidInput("data", "Sessions or Slates", type(data).__name__, todo)
    if not len(data):
        raise InvalidInput("data", "one session or slate at least", "none", "check the file and its columns")
    stages = Stages(data, shape, schedule, checkpoint, device, progress)
    if isinstance(data, Slates):
        if validation is not None:
            _require_same_ids(validation, data)
        return fit_slates(stages, data, validation, loss, embeddings, features)
    todo = "leave it out, or make slates of the sessions first"
    if validation is not None:
        must = "None for sessions, a part of which is held out for validation"
        raise InvalidInput("validation", must, type(validation).__name__, todo)
    if loss != "item":
        raise InvalidInput("loss", "'item' for sessions", repr(loss), todo)
    if not shape.base:
        raise InvalidInput("base", "True for sessions, of which the base models are the largest part", "False", todo)
    if minutes is not None and real_number("minutes", minutes) <= 0:
        raise InvalidInput("minutes", "a positive number", minutes, "leave it out")
    return fit_sessions(stages, data, embeddings, whole_number("k", k), minutes, attention)


def _require_same_ids(validation: object, slates: Slates) -> None:
    if not isinstance(validation, Slates) or not len(validation) or list(validation.ids) != list(slates.ids):
        got = "no slates, or slates over different ids" if isinstance(validation, Slates) else type(validation).__name__
        todo = "use a part of the same slates, or build both from one list of ids"
        raise InvalidInput("validation", "Slates, one or more, over the same ids as the data", got, todo)
