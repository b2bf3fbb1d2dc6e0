"""Place and size of the slate: how much is looked at. Always there where the log varies them; they confound the rest.

A place is not an effect of the other items, and a set has none, so the model of a set has the average place
(``calibration`` makes the average right). The number of other items is a sum of ones over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import Block, Family, Head, Shown, in_words, sink_of_sums

MOST_PLACES = 50  # further ones are the last


@dataclass(frozen=True, eq=False)
class Place:
    """A coefficient for each place but the first; not part of a set."""

    place: Ints  # of every item shown
    name: str = "place"

    def block(self, shown: Shown) -> Block:
        place = np.minimum(self.place, MOST_PLACES)
        return Block(self.name, (place[:, None] == np.arange(1, place.max(initial=0) + 1)).astype(float))

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        places = np.arange(1, len(theta) + 1)
        weights = places / max(int(places @ places), 1)
        slope, error = float(weights @ theta), float(np.sqrt(weights @ covariance @ weights))
        if abs(slope) < 2 * error:
            return []
        return [f"each further place: {in_words(slope, error**2)}"]


@dataclass(frozen=True, eq=False)
class Size(Family):
    """What each further item of a slate does to all of them."""

    items: int
    most: int  # items of a slate
    name: str = "size of the slate"

    def block(self, shown: Shown) -> Block:
        return Block(self.name, shown.others[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        sink, zeros = sink_of_sums(self.most), np.zeros((self.items, 1))
        return (Head(zeros, zeros, np.full(self.items, theta[0] * np.exp(sink)), sink),)

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        return [f"each further item of a slate: {in_words(theta[0], covariance[0, 0])}"]
