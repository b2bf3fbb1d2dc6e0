"""What an encoder knows of each item, as one row of numbers: a shard keeps the rows of its items for histories.

These are the vectors x of the encoder, the factors of a fold-in and their solutions, and the vectors of a two-tower
network. Neighbours, which are few for each item, are kept beside them (``shard_history.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from setwise._types import Array, Floats32, Rows
from setwise.model.encoder import Encoder
from setwise.model.neighbours import Neighbours


def history_columns(encoder: Encoder, rows: Rows) -> Floats32:
    """(m, D): everything that the encoder knows of each of these items."""
    return np.concatenate([np.asarray(part[rows], np.float32) for part in _parts(encoder).values()], axis=1)


def with_columns(encoder: Encoder, columns: Array, neighbours: Sequence[Neighbours]) -> Encoder:
    """The encoder of items with these columns and neighbours; it has no scores for new users."""
    parts = _parts(encoder)
    ends = np.cumsum([part.shape[1] for part in parts.values()])
    split = dict(zip(parts, np.split(columns, ends[:-1], axis=1), strict=True))
    terms = replace(encoder.base_terms, neighbours=tuple(neighbours), new_user=None)
    for model in ("fold_in", "two_tower"):
        of_model = {name.partition(".")[2]: part for name, part in split.items() if name.startswith(f"{model}.")}
        if of_model:
            terms = replace(terms, **{model: replace(getattr(terms, model), **of_model)})
    return replace(encoder, items=split["items"], base_terms=terms)


def _parts(encoder: Encoder) -> dict[str, Array]:
    """The arrays with a row for each item, by name."""
    parts: dict[str, Array] = {"items": encoder.items}
    if (fold_in := encoder.base_terms.fold_in) is not None:
        parts |= {"fold_in.items": fold_in.items, "fold_in.solved": fold_in.solved}
    if (tower := encoder.base_terms.two_tower) is not None:
        parts |= {"two_tower.items": tower.items, "two_tower.seen": tower.seen, "two_tower.last": tower.last}
    return parts
