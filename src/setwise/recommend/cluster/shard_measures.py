"""What a shard computes for the choice of candidates: scores of its best rows, and values of pairs (measures.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from setwise._types import Floats, Ints, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.recommend.cluster.packed import Packed, Records
from setwise.retrieval.partners import pairs_with


class Measured(NamedTuple):
    """Scores of the best rows of a shard, and the vectors of that of the largest total score."""

    scores: list[Floats]  # (H, vectors, cells, best) for each pass, in the places of its rows
    first: tuple[int, Packed]


class Anchor(NamedTuple):
    """The item that rows are paired with, and its self term."""

    item: Packed
    base: float


class Paired(NamedTuple):
    """The rows of a shard that make the best pairs with the anchor, best first, and the values of these pairs.

    total    the rows that were valued: there are further ones where it is larger than the number of ``rows``
    records  the best of them, and the rows that are candidates in any case
    """

    rows: Ints
    values: Floats
    total: int
    records: Records


def measured_here(catalog: Catalog, numbers: Ints, user: User, best: Sequence[Ints]) -> Measured:
    """The answer of a shard about the best rows of its passes, (vectors, cells, best) each with −1 in empty places.

    ``numbers`` (n,) are the rows of its items in the cluster.
    """
    rows = np.concatenate([of_cell.reshape(-1) for of_cell in best])
    is_here = rows >= 0
    at = rows[is_here]
    score, _ = objective.scores(catalog, user, at, None)
    first = at[np.argmax(score.sum(axis=0) + objective.base_scores(catalog, user, at))]
    if len(at) < len(rows):
        whole = np.zeros((len(score), len(rows)))
        whole[:, is_here] = score
        score = whole
    parts = np.split(score, np.cumsum([of_cell.size for of_cell in best])[:-1], axis=1)
    scores = [part.reshape(len(score), *of_cell.shape) for part, of_cell in zip(parts, best, strict=True)]
    return Measured(scores, (int(numbers[first]), catalog.bare(first[None]).packed()))


def pairs_here(catalog: Catalog, user: User, at: Rows, base: Floats | None, anchor: Anchor) -> Floats:
    """The values of the pairs that these rows of a shard make with the anchor.

    ``base`` are their self terms; None: all are zero.
    """
    argument = np.zeros(len(at)) if base is None else base
    return pairs_with(catalog, user, Catalog.unpacked(*anchor.item), 0, at, np.append(argument, anchor.base))
