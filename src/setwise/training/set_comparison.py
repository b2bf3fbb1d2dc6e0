"""What a model of set outcomes is worth beside simpler ones: losses on the same held-out sets.

All of them have the same link and loss and see the same training sets: the mean, which knows no items; the additive
model, one number an item; the pairwise model, one more for each pair; and the model with attention. Only differences of
losses on the same sets are compared, so the spread of the outcomes themselves does not hide them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from setwise._types import Floats
from setwise.datasets.outcome_sets import OutcomeSets
from setwise.training.outcome_links import LOSSES, losses, unlinked
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.set_pairs import PairMember, fit_pairs

MEAN, ADDITIVE, PAIRWISE, OURS = "the mean", "additive", "pairwise", "attention and pairs"
CLEAR = 2.0  # standard errors of a difference that counts


@dataclass(frozen=True)
class ComparedModel:
    """One model: its mean loss, the share of the mean's loss that it explains (R²), and its loss less ours."""

    model: str
    loss: float
    explained: float
    behind: float
    behind_error: float

    def row(self) -> dict[str, object]:
        """As plain values."""
        return asdict(self)

    @property
    def clearly_worse(self) -> bool:
        """Whether ours has a smaller loss, beyond two standard errors."""
        return self.behind > CLEAR * self.behind_error

    @property
    def clearly_better(self) -> bool:
        """Whether ours has a larger loss, beyond two standard errors."""
        return self.behind < -CLEAR * self.behind_error


def simpler_models(model: OutcomeModel, training: OutcomeSets, seed: int) -> dict[str, PairMember]:
    """The additive and the pairwise model of the same training sets, with the link and the unit of ``model``."""
    sets, outcome, n = training.sets, training.outcome / model.unit, training.n_items
    return {
        name: fit_pairs(
            sets, outcome, n, model.link, LOSSES[model.link][0], seed, additive=name == ADDITIVE, knee=model.knee
        )
        for name in (ADDITIVE, PAIRWISE)
    }


def compare_sets(
    model: OutcomeModel, simpler: Mapping[str, PairMember], training: OutcomeSets, held_out: OutcomeSets
) -> list[ComparedModel]:
    """All models on the held-out sets; ``model`` and the ``simpler`` ones were fitted to ``training``."""
    link, unit = model.link, model.unit
    target, loss = held_out.outcome / unit, LOSSES[link][0]
    values: dict[str, Floats] = {
        MEAN: np.full(len(held_out), unlinked(link, float(training.outcome.mean()) / unit)),
        **{name: member.values(held_out.sets) for name, member in simpler.items()},
        OURS: model.values(held_out.sets),
    }
    loss_by_model = {name: unit**2 * losses(link, loss, f, target, model.knee) for name, f in values.items()}
    root, whole = len(held_out) ** 0.5, max(float(loss_by_model[MEAN].mean()), 1e-300)
    return [
        ComparedModel(
            name,
            float(of_model.mean()),
            1 - float(of_model.mean()) / whole,
            float((of_model - loss_by_model[OURS]).mean()),
            float((of_model - loss_by_model[OURS]).std() / root),
        )
        for name, of_model in loss_by_model.items()
    ]


def prefers_pairs(rows: list[ComparedModel]) -> bool:
    """Whether the pairwise model predicts best, and better than ours beyond two standard errors."""
    of = {row.model: row for row in rows}
    return of[PAIRWISE].clearly_better and of[PAIRWISE].loss == min(row.loss for row in rows)


def sets_verdict(rows: list[ComparedModel]) -> str:
    """What to deploy, in one sentence."""
    of = {row.model: row for row in rows}
    better = min((row for row in rows if row.clearly_better), key=lambda row: row.loss, default=None)
    if prefers_pairs(rows):
        return (
            "Deploy the pairwise model, which is the one that was saved: it predicts better than attention, beyond two "
            "standard errors."
        )
    if better is not None:
        return (
            f"The model {better.model!r} predicts better, beyond two standard errors: measure more sets before you "
            "rely on the recommended ones."
        )
    if of[ADDITIVE].clearly_worse:
        gain = 1 - of[OURS].loss / of[ADDITIVE].loss
        return (
            f"Deploy this model: items change what others are worth. Its loss is {gain:.0%} below the additive model's."
        )
    if of[MEAN].clearly_worse:
        return "Items hardly change what others are worth here: the best items by themselves make as good a set."
    return "No model predicts better than the mean outcome: measure more sets before you rely on any of them."
