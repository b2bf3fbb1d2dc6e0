"""The scores of all items for users, raised by more than the effect of rounding: what whole-catalogue bounds read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from setwise._types import Floats, Ints, Mask
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.score_order import Scored, add_base, lead_scores, score_items
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility, require_rows
from setwise.model.users import User

WEIGHTS = 1e-10  # relative margin: weights and rewards are computed to a relative 1e-11
_UNDERFLOW = 1e-180  # absolute margin: smaller products with weights may underflow


class Measured(Protocol):
    """A catalogue whose longest vectors are known."""

    @property
    def catalog(self) -> Catalog:
        """The catalogue, or what has its sizes and sink."""
        ...

    @property
    def norms(self) -> Floats:
        """(4, H), as ``CellBounds.norms``."""
        ...

    def added(self, user: User) -> AddedScores | None:
        """The added scores of a request for this user."""
        ...


def _masks(cells: CellBounds, eligible: Sequence[Eligibility | None]) -> Mask:
    """Whether each item is eligible, for each user: (B, n)."""
    n = len(cells.catalog)
    masks = np.ones((len(eligible), n), bool)
    for mask, one in zip(masks, eligible, strict=True):
        if one is not None:
            require_rows(one, n)
            if one.mask is not None:
                mask[:] = one.mask
    return masks


def scores(cells: CellBounds, users: Sequence[User], eligible: Sequence[Eligibility | None]) -> list[Scored]:
    """Scores and σ of all items for several users, each with their eligible items, in one pass over the values."""
    pads = [rounding_pads(cells, user) for user in users]
    score, total = scores_by_place(cells.catalog, users, [pad for pad, _ in pads], _masks(cells, eligible), cells.place)
    if cells.catalog.heads > 1:
        for own, each in zip(score, total, strict=True):
            lead_scores(own, each)
    bases = [
        self_terms(cells.catalog, user, padding, cells.rows, cells.place)
        for user, (_, padding) in zip(users, pads, strict=True)
    ]
    return [Scored(*parts) for parts in zip(score, bases, total, strict=True)]


def scores_by_place(
    catalog: Catalog, users: Sequence[User], pads: Sequence[Floats], eligible: Mask, place: Ints
) -> tuple[Floats, Floats]:
    """Raised scores (B, H, n) of all items for several users, each at its place, and their sums (B, n).

    The sum is −∞, and the scores 0, for items that are not eligible (B, n).
    """
    n = len(catalog)
    score, total = np.empty((len(users), catalog.heads, n)), np.empty((len(users), n))
    score_items(catalog.value, np.stack([user.heads for user in users]), np.stack(pads), eligible, place, score, total)
    return score, total


def self_terms(catalog: Catalog, user: User, padding: float, rows: Ints, place: Ints) -> Floats:
    """base_i · u⁰ + t_i of all items, in the order of ``rows``, raised by ``padding`` and by the rounding of t_i.

    The margin of t_i is its own, so that one large t_i does not loosen the bounds of all other items.
    """
    added = np.zeros(len(catalog))
    if user.scores is not None:
        added = np.take(user.scores.whole(), rows, mode="clip")  # without a second check of the rows
        margin = np.abs(added)
        margin *= WEIGHTS
        added += margin
    if catalog.base is not None and user.base is not None:
        add_base(catalog.base, user.base, place, added)
    added += padding
    return added


def rounding_pads(cells: Measured, user: User) -> tuple[Floats, float]:
    """The amounts by which scores of each head and the base term are raised: more than the effect of rounding.

    A sum of d products has an error of d 2⁻⁵³ times the product of the norms. An error ε in a logit changes its weight
    by a factor e^ε, and an average by at most 2 ε max|s|. The reference objective and the search both have these
    errors; a factor of 8 leaves a margin.
    """
    catalog = cells.catalog
    query, key, value, base = cells.norms
    length = np.linalg.norm(user.heads, axis=1)
    if catalog.sink is not None:
        key = np.maximum(key, np.linalg.norm(catalog.sink.key.astype(np.float64), axis=1))
        value = np.maximum(value, np.linalg.norm(catalog.sink.value.astype(np.float64), axis=1))
    d, d_v = catalog.query.shape[2], catalog.value.shape[2]
    with np.errstate(over="ignore"):
        relative = np.minimum(8 * 2.0**-52 * (d_v + 4 * d * query * key) + WEIGHTS, 4.0)  # 4 covers any weights
    pad = relative * value * length + _UNDERFLOW
    if user.base is None:
        return pad, 0.0
    return pad, float((8 * 2.0**-52 * len(user.base) + WEIGHTS) * base[0] * np.linalg.norm(user.base))


def largest_terms(cells: Measured, user: User) -> float:
    """The largest size of base_i · u⁰ + t_i and of the scores of all heads together."""
    base, value = cells.norms[3, 0], cells.norms[2]
    total = float((value * np.linalg.norm(user.heads, axis=1)).sum())
    if user.base is not None:
        total += float(base * np.linalg.norm(user.base))
    added = cells.added(user)
    return total if added is None else total + float(np.abs(added.whole()).max(initial=0.0))
