"""Thresholds: what m or more items of one value do, to each other or to the whole slate.

Attention is no step at m ≥ 3. Heads with weak sinks (same_value.py) give a combination that is nearest to 0 for smaller
groups, to 1 for groups of m, and between the two and ``MOST`` for larger ones: a search that avoids crowds needs no
more. An effect on the whole slate is given to the m items of the crowd, times the size of a slate over m: a head cannot
see what two others share, and the sum over the slate is about the same. The rule ``at_most`` of ``limit`` says it
exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import Block, Family, Head, Shown, in_words
from setwise.training.effects.features import Label
from setwise.training.effects.same_value import count_equal, equal_weights

SIZES = (3, 4, 5)  # m; 2 as well for a whole slate
SINKS = (0.3, 1.0, 2.0, 5.0)
MOST, MOST_GAIN = 2.5, 1.3  # times the effect in larger groups: of a loss, and of a gain, which a search looks for
LARGEST = 5000.0  # of a factor: large ones cancel each other


@dataclass(frozen=True, eq=False)
class Crowd(Family):
    """A coefficient for being one of m or more items of the same value, or beside them."""

    label: Label
    size: int
    most: int  # items of a slate
    whole: float = 0.0  # the size of a slate, if all of it has the effect

    @property
    def name(self) -> str:
        return f"{self.size} or more of the same {self.label.name}" + " in the slate" * bool(self.whole)

    @property
    def limit(self) -> tuple[str, int]:
        """The largest number of items of one value that has no such effect: for ``at_most``."""
        return self.label.name, self.size - 1

    def block(self, shown: Shown) -> Block:
        crowded = count_equal(self.label, shown) + 1 >= self.size
        if self.whole:
            crowded = np.bincount(shown.owner, crowded, len(shown.rows))[shown.owner] > 0
        return Block(self.name, crowded[:, None].astype(np.float64), shrunken=False)

    def pairs(self, pairs: Shown) -> Block:
        return Block(self.name, count_equal(self.label, pairs)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        query, key = equal_weights(self.label)
        factors = rise(self.size, self.most, MOST if theta[0] < 0 else MOST_GAIN) * (
            self.whole / self.size if self.whole else 1.0
        )
        return [
            Head(query, key, np.full(len(query), theta[0] * factor), float(np.log(sink)))
            for sink, factor in zip(SINKS, factors, strict=True)
        ]

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        whom = "for all items of the slate" if self.whole else "for each of them"
        return [f"{self.size} or more of the same {self.label.name}: {in_words(theta[0], covariance[0, 0])} {whom}"]


def rise(size: int, most: int, highest: float) -> Floats:
    """The factors of the heads that rise from 0 to 1 at groups of this size, and then not above ``highest``.

    A linear program: the smallest error below and at ``size``.
    """
    from scipy.optimize import linprog

    together = np.arange(1.0, max(most, size) + 1)
    columns = np.column_stack([together / (together + sink) - 1 / (1 + sink) for sink in SINKS])
    wanted = (together >= size).astype(float)
    above = np.where(together > size, highest, wanted)
    error = np.where(together > size, 0.0, -1.0)  # the last variable
    rows = np.concatenate([np.column_stack([columns, error]), np.column_stack([-columns, -np.ones(len(wanted))])])
    bounds = [*[(-LARGEST, LARGEST)] * len(SINKS), (0.0, None)]
    price = np.append(np.zeros(len(SINKS)), 1.0)
    return np.asarray(linprog(price, rows, np.concatenate([above, -wanted]), bounds=bounds).x[:-1])
