"""Same value: what further items of one's own category do, each of them, or the first of them.

With N items of one's own value in the slate, oneself included, a head whose sink has the weight c gives N / (N + c).
A strong sink makes it the sum, N. For any other item, a step from N = 1 to N = 2, two heads with weak sinks are
combined: ``STEP`` is 0 for N = 1, and within 0.02 of 1 for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import LEAK, Block, Family, Head, Shown, in_words, sink_of_sums
from setwise.training.effects.features import Label

ONE_HOT = 48  # values: more have random codes instead
CODE_DIM, CODE_LEAK = 64, 45.0  # the cosine of two such codes is below 0.7


def count_equal(label: Label, shown: Shown) -> Floats:
    """The number of other items of the same value, for every item shown; 0 for missing values."""
    code = label.code[shown.rows]
    code = np.where(shown.filled & (code >= 0), code, -1 - np.arange(code.shape[1]))  # equal to no other
    total = np.zeros(code.shape)
    for place in range(code.shape[1]):
        total += code == code[:, place : place + 1]
    return shown.flat(total - 1)


def codes(label: Label) -> tuple[Floats, float]:
    """A unit vector for every item, and L: two of the same value have the product 1, others one below 1 − LEAK / L."""
    values = int(label.code.max()) + 1
    if values <= ONE_HOT:
        table, leak = np.eye(values), LEAK
    else:
        rng = np.random.default_rng(0)
        table, leak = rng.choice((-1.0, 1.0), (values, CODE_DIM)) / np.sqrt(CODE_DIM), CODE_LEAK
    return np.where((label.code >= 0)[:, None], table[label.code], 0.0), leak


def equal_weights(label: Label) -> tuple[Floats, Floats]:
    """Queries and keys for which items of the same value have the weight 1, others about e^−LEAK."""
    code, leak = codes(label)
    query = np.column_stack([leak * code, np.full(len(code), -leak)])
    return query, np.column_stack([code, np.ones(len(code))])


@dataclass(frozen=True, eq=False)
class Each(Family):
    """A coefficient for each further item of the same value."""

    label: Label
    most: int

    @property
    def name(self) -> str:
        return f"same {self.label.name}"

    def block(self, shown: Shown) -> Block:
        return Block(self.name, count_equal(self.label, shown)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        query, key = equal_weights(self.label)
        sink = sink_of_sums(abs(theta[0]) ** 0.5 * self.most)
        return (Head(query, key, np.full(len(query), theta[0] * np.exp(sink)), sink),)

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        effect = f"{in_words(theta[0], covariance[0, 0])}"
        return [f"each further item of the same {self.label.name}: {effect}"]


@dataclass(frozen=True, eq=False)
class AnyOther(Family):
    """A coefficient for whether there is a further item of the same value."""

    label: Label

    @property
    def name(self) -> str:
        return f"any of the same {self.label.name}"

    def block(self, shown: Shown) -> Block:
        together = count_equal(self.label, shown) + 1
        return Block(self.name, step(together)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        query, key = equal_weights(self.label)
        return [Head(query, key, np.full(len(query), theta[0] * part), float(np.log(c))) for c, part in STEP]

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        effect = f"{in_words(theta[0], covariance[0, 0])}"
        return [f"one or more further items of the same {self.label.name}: {effect}"]


def _combined(weights: Sequence[float], largest: int) -> tuple[tuple[float, float], ...]:
    """The combination of heads of these sinks that is nearest to a step from 1 to 2: (sink, factor) each."""
    together = np.arange(1.0, largest + 1)
    columns = np.column_stack([together / (together + c) - 1 / (1 + c) for c in weights])
    factors = np.linalg.lstsq(columns, (together > 1).astype(float), rcond=None)[0]
    return tuple(zip(weights, factors.tolist(), strict=True))


STEP = _combined((0.05, 0.3, 4.0), 12)  # further items of one value are rare


def step(together: Floats) -> Floats:
    """Nearly whether an item is together with another of its value."""
    total = np.zeros(len(together))
    for c, factor in STEP:
        total += factor * (together / (together + c) - 1 / (1 + c))
    return total
