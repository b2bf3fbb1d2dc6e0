"""Training from slates: items shown, with the outcome of each.

1. The pointwise stage learns the reward of each item by itself.
2. The stage of pairs learns, with the pointwise model fixed, what items do to each other in pairs (pair_effects.py).
3. If these effects lower the log loss of validation slates beyond doubt, attention starts from them, and the
   interaction stage trains everything together. Otherwise the pointwise model is trained for the rest of the epochs.

4. A small catalogue also gets a table of what each item does to each other (pair_table.py). It is kept instead if its
   loss is smaller than attention's.

"Beyond doubt" is a gain of more than two standard errors over the slates. Attention and the table must also have such a
gain over the first pointwise model, or they are dropped. The summary states the gains. The reward is
calibrated on the validation slates. With another loss than "item", or with ``base=False``, there is one stage:
attention is always kept and nothing is calibrated.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from setwise._types import Floats, Floats32
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import random_split
from setwise.errors import InvalidInput
from setwise.training.calibration import item_log_losses
from setwise.training.pair_effects import PairEffects, initialise_heads
from setwise.training.pair_table import MOST_ITEMS, fit_pair_table
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

HELD_OUT = 0.05  # share of the slates, for validation
POINTWISE_SHARE = 0.4  # share of the epochs for the pointwise stage
PAIR_EPOCHS, PAIR_RATE = 4, 0.002  # further epochs, short ones, for the stage of pairs, and its learning rate at most
BEYOND_DOUBT = 2.0  # standard errors


@dataclass(frozen=True)
class Gain:
    """By how much a model lowers the log loss of an item, with its standard error over the slates."""

    log_loss: float
    standard_error: float

    @classmethod
    def of(cls, before: Floats, after: Floats) -> Gain:
        """The gain from the losses of the same slates."""
        gain = before - after
        return cls(float(gain.mean()), float(gain.std() / np.sqrt(len(gain))))

    @property
    def beyond_doubt(self) -> bool:
        """Whether the gain is more than two standard errors."""
        return self.log_loss > BEYOND_DOUBT * self.standard_error


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
    small = len(stages.ids) <= MOST_ITEMS
    first, pairs, second = _schedules(stages.schedule, small)
    network.pointwise = True
    pointwise = stages.train_stage(network, slates, validation, loss, first, "pointwise")
    effects = PairEffects(network)
    stages.train_part(effects, slates, validation, loss, pairs, "pairs")
    of_pairs = _gain_of_pairs(effects, validation)
    if of_pairs.beyond_doubt:
        initialise_heads(network, effects)
        network.pointwise = False
    stage = "continued" if network.pointwise else "interaction"
    last = stages.train_stage(network, slates, validation, loss, second, stage)
    alone = last if network.pointwise else pointwise
    table = fit_pair_table(alone, slates, validation) if small else None
    return _chosen(stages, pointwise, last, table, of_pairs, validation).calibrated(validation)


def _schedules(schedule: Schedule, small: bool) -> tuple[Schedule, Schedule, Schedule]:
    """The schedules of the stages: pointwise, pairs, and the last.

    A small catalogue has a pointwise stage of all epochs beside the others, since its table starts from that model.
    """
    epochs = max(1, round(POINTWISE_SHARE * schedule.epochs))
    rate = min(PAIR_RATE, schedule.learning_rate)
    pairs = replace(schedule, epochs=min(PAIR_EPOCHS, schedule.epochs), learning_rate=rate)
    first = schedule if small else replace(schedule, epochs=epochs)
    return first, pairs, replace(schedule, epochs=max(1, schedule.epochs - epochs))


def _gain_of_pairs(effects: PairEffects, slates: Slates) -> Gain:
    """Of the pairwise effects, over the same model without them."""
    losses = []
    for effects.alone in (True, False):
        argument = effects.arguments(slates)
        losses.append(_by_slate(item_log_losses(1 / (1 + np.exp(-argument)), slates.outcome), slates))
    return Gain.of(*losses)


def _chosen(
    stages: Stages,
    pointwise: SlateModel,
    last: SlateModel,
    table: SlateModel | None,
    of_pairs: Gain,
    validation: Slates,
) -> SlateModel:
    """The model with the smallest loss of those that pay: attention and the table of pairs must do so beyond doubt."""
    attention = "interaction" if of_pairs.beyond_doubt else "continued"
    models = {"pointwise": pointwise, attention: last} | ({} if table is None else {"pair_table": table})
    losses = {
        name: _by_slate(item_log_losses(model.predict(validation), validation.outcome), validation)
        for name, model in models.items()
    }
    gains = {name: Gain.of(losses["pointwise"], loss) for name, loss in losses.items()}
    paying = [name for name, gain in gains.items() if gain.beyond_doubt or name in ("pointwise", "continued")]
    kept = min(paying, key=lambda name: float(losses[name].mean()))
    summary = {
        "log_loss": {name: float(loss.mean()) for name, loss in losses.items()},
        "gain_of_pairs": asdict(of_pairs),
        "gain_of_attention": asdict(gains["interaction"]) if "interaction" in gains else None,
        "gain_of_pair_table": asdict(gains["pair_table"]) if table is not None else None,
        "kept": "pointwise" if kept == "continued" else kept,
    }
    return SlateModel(models[kept].catalog(), models[kept].encoder, {**stages.summary(), **summary})


def _by_slate(losses: Floats, slates: Slates) -> Floats:
    """The mean over the items of each slate that has any."""
    shown = slates.shown
    total, filled = np.bincount(shown.owner, losses, len(shown)), shown.lengths > 0
    return np.asarray(total[filled] / shown.lengths[filled])
