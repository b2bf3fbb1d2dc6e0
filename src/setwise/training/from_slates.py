"""Training from slates: items shown, with the outcome of each.

1. Effects that can be read (effects/fitting.py): what items are worth alone, by their attributes and the history of
   the user, and what items of a slate do to each other through their attributes. This is a convex fit.
2. What no attribute explains, in three further stages, where users have histories or items no attributes: a network of
   what each item is worth alone; with it fixed, what items do to each other in pairs (pair_effects.py); and, if that
   lowers the log loss of validation slates beyond doubt, attention that starts from these pairs. Otherwise the network
   is trained for the rest of the epochs.
3. A small catalogue also gets a table of what each item does to each other (pair_table.py).

The model with the smallest loss of validation slates is kept, if its gain over the effects is beyond doubt: more than
two standard errors over the slates. The summary states the gains. The reward of a model of point 2 or 3 is calibrated
on the validation slates. Where a taste of the user that the network does not know plainly passes for an effect
(effects/identification.py), neither attention nor a table is learned. With another loss than "item", or with
``base=False``, there is one stage: attention is always kept and nothing is calibrated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from setwise._types import Floats32
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import random_split
from setwise.errors import InvalidInput
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import fit_effects
from setwise.training.effects.mistakes import never_differs
from setwise.training.gains import Gain, slate_log_losses
from setwise.training.pair_effects import PairEffects, initialise_heads
from setwise.training.pair_table import MOST_ITEMS, fit_pair_table
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

HELD_OUT = 0.05  # share of the slates, for validation
POINTWISE_SHARE = 0.4  # share of the epochs for the pointwise stage
PAIR_EPOCHS, PAIR_RATE = 4, 0.002  # further epochs, short ones, for the stage of pairs, and its learning rate at most


def fit_slates(
    stages: Stages,
    slates: Slates,
    validation: Slates | None,
    loss: str,
    embeddings: str | Floats32 | None,
    features: Sequence[str] | None = None,
) -> SlateModel:
    """Train on outcomes of slates; ``features`` are the attributes that may have effects, by default all."""
    if not stages.shape.base or loss != "item":
        slates, validation = _held_out(slates, validation)
        network = stages.network(stages.embeddings(embeddings, Sessions(slates.history, stages.ids)))
        return stages.train_stage(network, slates, validation, loss, stages.schedule, "interaction")
    of_items = Features.of_slates(slates, embeddings, features)
    small, latent = len(stages.ids) <= MOST_ITEMS, bool(len(slates.history.values)) or not of_items.known
    if never_differs(slates) or not (small or latent):
        return fit_effects(slates, of_items, stages.schedule.seed, progress=stages.progress).model(slates)
    slates, validation = _held_out(slates, validation)
    effects = fit_effects(slates, of_items, stages.schedule.seed, progress=stages.progress)
    models = {"effects": effects.model(slates)}
    slates = slates if effects.explored is None else slates.taken(effects.explored)
    gain_of_pairs, masked = None, effects.masked
    if latent:
        masked_beside = partial(effects.masked_beside, features=of_items, slates=slates)
        networks, gain_of_pairs = _networks(stages, slates, validation, embeddings, small, masked_beside)
        models |= networks
        masked = masked_beside(networks["pointwise"])
    if small and not masked and not effects.choices:
        alone = models.get("pointwise") or replace(effects, heads=()).model(slates)
        models["pair_table"] = fit_pair_table(alone, slates, validation, stages.progress)
    return _best(stages, models, gain_of_pairs, validation)


def _held_out(slates: Slates, validation: Slates | None) -> tuple[Slates, Slates]:
    """Slates for training, and for validation."""
    if validation is not None:
        return slates, validation
    if len(slates) < 2:
        raise InvalidInput("slates", "two or more, one of them for validation", len(slates), "pass more slates")
    shares = (1 - HELD_OUT, HELD_OUT) if len(slates) >= 40 else (0.5, 0.5)
    training, held_out = random_split(len(slates), shares, 0)
    return slates.taken(training), slates.taken(held_out)


def _networks(
    stages: Stages,
    slates: Slates,
    validation: Slates,
    embeddings: str | Floats32 | None,
    small: bool,
    masked_beside: Callable[[SlateModel], bool],
) -> tuple[dict[str, SlateModel], Gain | None]:
    """The models of the network, and the gain of the pairs: None where taste may pass for an effect beside it."""
    network = stages.network(stages.embeddings(embeddings, Sessions(slates.history, stages.ids)))
    first, pairs, second = _schedules(stages.schedule, small)
    network.pointwise = True
    models = {"pointwise": stages.train_stage(network, slates, validation, "item", first, "pointwise")}
    gain = None
    if not masked_beside(models["pointwise"]):
        effects = PairEffects(network)
        stages.train_part(effects, slates, validation, "item", pairs, "pairs")
        gain = _gain_of_pairs(effects, validation)
        if gain.beyond_doubt:
            initialise_heads(network, effects)
            network.pointwise = False
    if network.pointwise and small:  # it had all the epochs
        return models, gain
    stage = "continued" if network.pointwise else "interaction"
    last = stages.train_stage(network, slates, validation, "item", second, stage)
    models["pointwise" if network.pointwise else "interaction"] = last
    return models, gain


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
    """The gain of the pairwise effects over the same model without them."""
    losses = []
    for effects.alone in (True, False):
        argument = effects.arguments(slates)
        losses.append(slate_log_losses(1 / (1 + np.exp(-argument)), slates))
    return Gain.of(*losses)


def _best(stages: Stages, models: dict[str, SlateModel], gain_of_pairs: Gain | None, validation: Slates) -> SlateModel:
    """The model with the smallest loss of those that gain beyond doubt over the effects, or the effects."""
    losses = {name: slate_log_losses(model.predict(validation), validation) for name, model in models.items()}
    gains = {name: Gain.of(losses["effects"], loss) for name, loss in losses.items()}
    paying = [name for name, gain in gains.items() if gain.beyond_doubt or name == "effects"]
    if "pointwise" in paying:  # attention and tables are compared with the same items alone
        over_items = {name: Gain.of(losses["pointwise"], losses[name]) for name in paying}
        paying = [name for name in paying if name in ("effects", "pointwise") or over_items[name].beyond_doubt]
    kept = min(paying, key=lambda name: float(losses[name].mean()))
    summary = {
        **models["effects"].summary,
        **stages.summary(),
        "log_loss": {name: float(loss.mean()) for name, loss in losses.items()},
        "gain_of_pairs": None if gain_of_pairs is None else asdict(gain_of_pairs),
        "gain_of_attention": asdict(gains["interaction"]) if "interaction" in gains else None,
        "gain_of_pair_table": asdict(gains["pair_table"]) if "pair_table" in gains else None,
    }
    if kept == "effects":
        return SlateModel(models[kept].catalog(), models[kept].encoder, summary)
    summary |= {"kept": kept, "effects": [], "words": [], "pictures": []}
    return SlateModel(models[kept].catalog(), models[kept].encoder, summary).calibrated(validation)
