"""Random users of a recommender, as a stand-in where no real ones are at hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.users import User
from setwise.recommend.recommender import Recommender


class SampleUsers(NamedTuple):
    """What ``recommend`` takes as ``argument``, one for each user, and what they are, in words."""

    argument: str
    each: list[Any]
    text: str


def sample_users(recommender: Recommender, count: int, length: int, seed: int) -> SampleUsers:
    """Users by what the model computes them from: features, or histories of so many items; random vectors if nothing.

    Where all histories give the same user, as in models of whole sets, that one is repeated.
    """
    if recommender.features is not None:
        features = random_features(recommender.features, count, seed)
        return SampleUsers(
            "features", features, "random features" if recommender.features.names else "the average case"
        )
    if recommender.encoder is None:
        return SampleUsers("user", random_users(recommender, count, seed), "random vectors")
    if recommender.encoder.is_constant:
        return SampleUsers("history", [[]] * count, "the one user of this model")
    return SampleUsers("history", random_histories(recommender, count, length, seed), "histories of random items")


def random_histories(recommender: Recommender, count: int, length: int, seed: int) -> list[Any]:
    """Histories of random items."""
    rng, ids = np.random.default_rng(seed), recommender.index.catalog.ids
    length = min(length, len(ids) - 1)
    return [ids[rng.choice(len(ids), length, replace=False)] for _ in range(count)]


def random_users(recommender: Recommender, count: int, seed: int) -> list[User]:
    """Users whose vectors have standard normal entries, for catalogues without an encoder of histories."""
    rng, catalog = np.random.default_rng(seed), recommender.index.catalog
    heads = rng.normal(size=(count, catalog.heads, catalog.value.shape[2]))
    base = [None] * count if catalog.base is None else rng.normal(size=(count, catalog.base.shape[1]))
    return [User(vectors, vector) for vectors, vector in zip(heads, base, strict=True)]


def random_features(encoder: FeatureEncoder, count: int, seed: int) -> list[list[float]]:
    """Features drawn one by one from the values at which the trees split them, or just above; else their medians."""
    rng, columns = np.random.default_rng(seed), []
    for place in range(len(encoder.names)):
        splits = encoder.threshold[encoder.feature == place]
        at = rng.choice(splits, count) if len(splits) else np.full(count, encoder.fill[place])
        above = np.nextafter(at.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        columns.append(np.where(rng.random(count) < 0.5, at, above).tolist())
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(count)]
