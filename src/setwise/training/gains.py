"""Gains: by how much one model predicts outcomes of slates better than another, and whether that is beyond doubt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.datasets.sessions import Slates
from setwise.training.calibration import item_log_losses

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


def slate_log_losses(predicted: Floats, slates: Slates) -> Floats:
    """The mean log loss of the items of each slate that has any."""
    shown, losses = slates.shown, item_log_losses(predicted, slates.outcome)
    total, filled = np.bincount(shown.owner, losses, len(shown)), shown.lengths > 0
    return np.asarray(total[filled] / shown.lengths[filled])
