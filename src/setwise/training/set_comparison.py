"""What a model of set outcomes is worth beside simpler ones: losses on the same held-out sets.

All of them have the same link and loss and see the same training sets: the mean, which knows no items; the additive
model, one number an item; the pairwise model, one more for each pair; and the model with attention. Only differences of
losses on the same sets are compared, so the spread of the outcomes themselves does not hide them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from setwise._types import Floats
from setwise.datasets.outcome_sets import OutcomeSets
from setwise.training.outcome_links import LOSSES, losses, unlinked
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.set_pairs import fit_pairs

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


def compare_sets(model: OutcomeModel, training: OutcomeSets, held_out: OutcomeSets, seed: int) -> list[ComparedModel]:
    """All models on the held-out sets; ``model`` was fitted to ``training``."""
    link, target = model.link, held_out.outcome
    loss = LOSSES[link][0]
    values: dict[str, Floats] = {
        MEAN: np.full(len(held_out), unlinked(link, float(training.outcome.mean()))),
        **{
            name: fit_pairs(
                training.sets,
                training.outcome,
                training.n_items,
                link,
                loss,
                seed,
                additive=name == ADDITIVE,
                knee=model.knee,
            ).values(held_out.sets)
            for name in (ADDITIVE, PAIRWISE)
        },
        OURS: model.values(held_out.sets),
    }
    each = {name: losses(link, loss, f, target, model.knee) for name, f in values.items()}
    root, whole = len(held_out) ** 0.5, max(float(each[MEAN].mean()), 1e-300)
    return [
        ComparedModel(
            name,
            float(one.mean()),
            1 - float(one.mean()) / whole,
            float((one - each[OURS]).mean()),
            float((one - each[OURS]).std() / root),
        )
        for name, one in each.items()
    ]


def sets_verdict(rows: list[ComparedModel]) -> str:
    """What to deploy, in one sentence."""
    of = {row.model: row for row in rows}
    better = min((row for row in rows if row.clearly_better), key=lambda row: row.loss, default=None)
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
