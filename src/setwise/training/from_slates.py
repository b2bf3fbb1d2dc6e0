"""Training from slates: items shown, with the outcome of each.

The pointwise stage learns the reward of each item by itself. The interaction stage then adds attention, which is kept
only if it lowers the log loss on validation slates. The reward is calibrated on those slates. With another loss than
"item", or with ``base=False``, there is one stage: attention is always kept and nothing is calibrated.
"""

from __future__ import annotations

from dataclasses import replace

from setwise._types import Floats32
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import random_split
from setwise.errors import InvalidInput
from setwise.training.calibration import log_loss
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

HELD_OUT = 0.05  # share of the slates, for validation
POINTWISE_SHARE = 0.4  # share of the epochs for the pointwise stage


def fit_slates(
    stages: Stages, slates: Slates, validation: Slates | None, loss: str, embeddings: str | Floats32 | None
) -> SlateModel:
    """Train on outcomes of slates."""
    if validation is None:
        if len(slates) < 2:
            raise InvalidInput("slates", "two or more, one of them for validation", len(slates), "pass more slates")
        shares = (1 - HELD_OUT, HELD_OUT) if len(slates) >= 40 else (0.5, 0.5)
        training, held_out = random_split(len(slates), shares, 0)
        slates, validation = slates.taken(training), slates.taken(held_out)
    network = stages.network(stages.embeddings(embeddings, Sessions(slates.history, stages.ids)))
    if not stages.shape.base or loss != "item":
        return stages.train_stage(network, slates, validation, loss, stages.schedule, "interaction")
    first, second = _schedules(stages.schedule)
    network.pointwise = True
    pointwise = stages.train_stage(network, slates, validation, loss, first, "pointwise")
    network.pointwise = False
    interaction = stages.train_stage(network, slates, validation, loss, second, "interaction")
    return _lower_loss(stages, pointwise, interaction, validation).calibrated(validation)


def _schedules(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """The schedules of the pointwise and the interaction stage."""
    epochs = max(1, round(POINTWISE_SHARE * schedule.epochs))
    return replace(schedule, epochs=epochs), replace(schedule, epochs=max(1, schedule.epochs - epochs))


def _lower_loss(stages: Stages, pointwise: SlateModel, interaction: SlateModel, validation: Slates) -> SlateModel:
    """The model of lower log loss on the validation slates."""
    models = {"pointwise": pointwise, "interaction": interaction}
    losses = {name: log_loss(model.predict(validation), validation.outcome) for name, model in models.items()}
    kept = "interaction" if losses["interaction"] < losses["pointwise"] else "pointwise"
    chosen = models[kept]
    return SlateModel(chosen.catalog(), chosen.encoder, {**stages.summary(), "log_loss": losses, "kept": kept})
