"""From a fit to a model: the base as the self term, every effect as heads of attention in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from setwise._types import Floats
from setwise.model.catalog import Catalog, Sink
from setwise.model.encoder import Encoder
from setwise.model.rewards import Reward
from setwise.training.effects.columns import NO_SINK, Head
from setwise.training.slate_model import SlateModel


def as_model(
    base: Floats,
    taste: tuple[Floats, Floats],
    heads: Sequence[Head],
    reward: Reward,
    ids: Sequence[Any],
    attributes: Mapping[str, Sequence[Any]],
    summary: Mapping[str, Any],
) -> SlateModel:
    """The model; ``taste`` are vectors of the items, pooled over a history, and those that they meet in the base."""
    n = len(base)
    base = base - sum((part.alone for part in heads), np.zeros(n))
    parts = list(heads) or [Head(np.zeros((n, 1)), np.zeros((n, 1)), np.zeros(n), NO_SINK)]
    width = max(part.query.shape[1] for part in parts) + 1  # the last coordinate carries the level of the sink
    query, key = np.zeros((n, len(parts), width)), np.zeros((n, len(parts), width))
    sink = np.zeros((len(parts), width))
    for number, part in enumerate(parts):
        dim = part.query.shape[1]
        query[:, number, :dim], key[:, number, :dim] = part.query, part.key
        query[:, number, -1], sink[number, -1] = 1.0, part.sink
    value = np.stack([part.value for part in parts], axis=1)[:, :, None]
    pooled, met = (part if part.size else np.empty((n, 0)) for part in taste)
    catalog = Catalog(
        query,
        key,
        value,
        reward,
        np.column_stack([base, met]),
        Sink(sink, np.zeros((len(parts), 1))) if heads else None,
        list(ids),
        dict(attributes),
    )
    dim = max(pooled.shape[1], 1)
    items = pooled if pooled.size else np.zeros((n, 1))
    weight = np.concatenate([np.zeros((1, dim)), np.eye(dim)[: pooled.shape[1]]])
    bias = np.append(1.0, np.zeros(pooled.shape[1]))  # the first coordinate of u⁰ is 1 for every user
    users = Encoder(items, np.zeros((len(parts), 1, dim)), np.ones((len(parts), 1)), weight, bias)
    return SlateModel(catalog, users, dict(summary))
