"""What an encoder knows of each item, as one row of numbers: a shard keeps the rows of its items for histories.

These are the vectors x of the encoder, the factors of a fold-in and their solutions, and the vectors of a two-tower
network. Neighbours of a history, and scores for new users, are about other items than those of the history, so an
encoder with those is not split.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from setwise._types import Array, Floats32
from setwise.model.encoder import Encoder


def can_be_split(encoder: Encoder) -> bool:
    """Whether a user depends on the items of the history alone."""
    return not encoder.base_terms.neighbours and encoder.base_terms.new_user is None


def history_columns(encoder: Encoder) -> Floats32:
    """(n, D): everything that the encoder knows of each item."""
    return np.concatenate([np.asarray(part, np.float32) for part in _parts(encoder).values()], axis=1)


def with_columns(encoder: Encoder, columns: Array) -> Encoder:
    """The encoder of items with these columns."""
    parts = _parts(encoder)
    ends = np.cumsum([part.shape[1] for part in parts.values()])
    split = dict(zip(parts, np.split(columns, ends[:-1], axis=1), strict=True))
    terms = encoder.base_terms
    for model in ("fold_in", "two_tower"):
        mine = {name.partition(".")[2]: part for name, part in split.items() if name.startswith(f"{model}.")}
        if mine:
            terms = replace(terms, **{model: replace(getattr(terms, model), **mine)})
    return replace(encoder, items=split["items"], base_terms=terms)


def _parts(encoder: Encoder) -> dict[str, Array]:
    """The arrays with a row for each item, by name."""
    parts: dict[str, Array] = {"items": encoder.items}
    if (fold_in := encoder.base_terms.fold_in) is not None:
        parts |= {"fold_in.items": fold_in.items, "fold_in.solved": fold_in.solved}
    if (tower := encoder.base_terms.two_tower) is not None:
        parts |= {"two_tower.items": tower.items, "two_tower.seen": tower.seen, "two_tower.last": tower.last}
    return parts
