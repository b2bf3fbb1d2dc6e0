"""What a family of effects is made of: columns of the items shown, and heads of attention that compute the same sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from setwise._types import Floats, Ints, Mask
from setwise.model.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Block:
    """Columns, an item shown a row; ``shrunken`` ones have a common prior, whose variance is learned."""

    name: str
    columns: Any  # dense (rows, p), or a csr_matrix
    shrunken: bool = True


@dataclass(frozen=True, eq=False)
class Shown:
    """The items of every slate as a rectangle: rows (B, k) of the catalogue, and which places are filled."""

    rows: Ints
    filled: Mask

    @classmethod
    def of(cls, shown: Ragged) -> Shown:
        return cls(*shown.padded(max(1, int(shown.lengths.max(initial=0)))))

    @cached_property
    def item(self) -> Ints:
        """The item of every row of a block."""
        return np.asarray(self.rows[self.filled])

    @cached_property
    def owner(self) -> Ints:
        """The slate of every row of a block."""
        return np.nonzero(self.filled)[0]

    @cached_property
    def others(self) -> Floats:
        """The number of other items in the slate of every row."""
        return np.asarray((self.filled.sum(axis=1) - 1.0)[self.owner])

    def flat(self, cells: Floats) -> Floats:
        """Numbers (B, k) as one a row."""
        return np.asarray(cells[self.filled])

    def taken(self, slates: Ints) -> Shown:
        """Some of the slates."""
        return Shown(self.rows[slates], self.filled[slates])


@dataclass(frozen=True, eq=False)
class Head:
    """One head of attention: item i gives item j the weight e^(query_i · key_j), the sink e^sink; value_j may be any.

    An item attends to itself as well: a column must be 0 for an item alone, and a model takes ``alone`` from its base.
    """

    query: Floats  # (n, d)
    key: Floats  # (n, d)
    value: Floats  # (n,)
    sink: float

    @property
    def alone(self) -> Floats:
        """What the head gives to every item of which there is no other: (n,)."""
        logit = np.einsum("nd,nd->n", self.query, self.key)
        return np.asarray(self.value / (1 + np.exp(self.sink - logit)))


class Family(Protocol):
    """An effect of one form: its columns, and the heads that compute them for any set."""

    def pairs(self, pairs: Shown) -> Block:
        """The columns for slates of two items, or those of a like effect that two items can have."""
        return self.block(pairs)

    @property
    def name(self) -> str:
        """Unique, and readable: ``same category``."""

    def block(self, shown: Shown) -> Block:
        """The columns for the items of these slates."""

    def heads(self, theta: Floats) -> Sequence[Head]:
        """The heads whose sum, less what they give to an item alone, is the columns times ``theta``."""

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        """What the coefficients say, a line each."""


TRUNCATED = 1e-3  # log-odds: how much a sum by attention may be off
LEAK = 14.0  # −log of the weight of an item that does not count
NO_SINK = -30.0  # the logit of a sink that is attended to only by an item alone


def sink_of_sums(largest: float) -> float:
    """The logit M of the sink for which sums of up to ``largest`` are truncated by ``TRUNCATED`` (attention_sum.py)."""
    return float(max(2 * np.log(max(largest, 1e-3)) - np.log(TRUNCATED), 2.0))


def in_words(effect: float, variance: float) -> str:
    """``−1.42 ± 0.06 log-odds (odds ÷ 4.1)``."""
    return f"{effect:+.2f} ± {np.sqrt(variance):.2f} log-odds ({in_odds(effect)})"


def in_odds(effect: float) -> str:
    """−1.42 log-odds as a factor of the odds: ``odds ÷ 4.1``."""
    return f"odds × {np.exp(effect):.2g}" if effect > 0 else f"odds ÷ {np.exp(-effect):.2g}"
