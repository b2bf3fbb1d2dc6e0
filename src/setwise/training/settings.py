"""The sizes of a simple transformer and the schedule of its training, with their defaults for sessions and for slates.

They need no torch, so that ``SimpleTransformer.fit`` can name them with their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput

POOLINGS = ("projected", "unit_mean", "mean", "attention")


@dataclass(frozen=True)
class Shape:
    """The sizes of a simple transformer."""

    dim: int = 32  # of the embeddings
    heads: int = 4
    d_kq: int = 8  # of queries and keys
    d_v: int = 8  # of values
    base: bool = True  # the residual term base_i · u⁰ + bias_i
    sink: bool = True  # a sink makes a softmax nearly additive
    pooling: str = "projected"  # of histories: P times the mean, at unit length; "unit_mean": without P; others

    def __post_init__(self) -> None:
        for name in ("dim", "heads", "d_kq", "d_v"):
            whole_number(name, getattr(self, name))
        if self.pooling not in POOLINGS:
            raise InvalidInput("pooling", f"one of {', '.join(POOLINGS)}", repr(self.pooling), "choose one of those")


@dataclass(frozen=True)
class Schedule:
    """Length of training, batch size, learning rate and regularisation."""

    epochs: int = 32  # at most; early stopping may end training before
    batch: int = 512  # slates per step
    learning_rate: float = 0.01  # the maximum of one cycle: linear warm-up over a fifth of the epochs, then cosine to 0
    weight_decay: float = 0.03  # of matrices; biases and offsets have none
    patience: int = 5  # epochs without a better validation loss before stopping, in the second half of the cycle
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience"):
            whole_number(name, getattr(self, name))
        whole_number("seed", self.seed, least=0)
        if real_number("learning_rate", self.learning_rate) <= 0 or real_number("weight_decay", self.weight_decay) < 0:
            got = f"learning rate {self.learning_rate}, weight decay {self.weight_decay}"
            raise InvalidInput("learning_rate", "positive, and weight_decay not negative", got, "try 0.005 and 0.03")

    def rate(self, done: float) -> float:
        """The learning rate after the share ``done`` of all epochs."""
        rising = 0.2
        if done < rising:
            return self.learning_rate * (0.05 + 0.95 * done / rising)
        return self.learning_rate * 0.5 * (1 + float(np.cos(np.pi * (done - rising) / (1 - rising))))


FOR_SLATES = Shape(), Schedule()
FOR_SESSIONS = Shape(dim=64, pooling="unit_mean"), Schedule(weight_decay=0.003)
