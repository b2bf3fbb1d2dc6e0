"""What a shard computes for the choice of candidates: scores of its best rows, and values of pairs (measures.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Ints, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.recommend.cluster.packed import Packed
from setwise.retrieval.partners import pair_values


class Measured(NamedTuple):
    """Scores and cells of the best rows of a shard, and the vectors of that of the largest total score."""

    rows: Ints  # ascending
    score: Floats  # (H, m)
    cells: NDArray[np.int32]
    first: tuple[int, Packed]


class Anchor(NamedTuple):
    """The item that rows are paired with, and its self term."""

    item: Packed
    base: float


def measured_here(catalog: Catalog, numbers: Ints, cell_of: NDArray[np.int32], user: User, at: Rows) -> Measured:
    """The answer of a shard about its best rows; ``numbers`` (n,) are the rows of its items in the cluster."""
    score, _ = objective.scores(catalog, user, at, None)
    first = at[np.argmax(score.sum(axis=0) + objective.base_scores(catalog, user, at))]
    return Measured(numbers[at], score, cell_of[at], (int(numbers[first]), catalog.bare(first[None]).packed()))


def pairs_here(catalog: Catalog, user: User, at: Rows, base: Floats, anchor: Anchor) -> Floats:
    """The values of the pairs that these rows of a shard make with the anchor; ``base`` are their self terms."""
    small = catalog.bare(at).joined(Catalog.unpacked(*anchor.item))
    return pair_values(small, user, len(at), np.arange(len(at)), np.append(base, anchor.base))
