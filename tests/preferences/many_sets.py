"""Many sets at once: the value of a catalogue with a sink, straight from its arrays, for counts that the reference objective is slow at."""

from __future__ import annotations

import itertools

import numpy as np

import setwise as sw
from setwise.model.rewards import evaluate


def all_sets(n: int, largest: int) -> np.ndarray:
    """Every set of 1 to ``largest`` of n items, as rows of indicators."""
    sets = [chosen for size in range(1, largest + 1) for chosen in itertools.combinations(range(n), size)]
    members = np.zeros((len(sets), n), bool)
    for row, chosen in zip(members, sets, strict=True):
        row[list(chosen)] = True
    return members


def random_sets(rng: np.random.Generator, count: int, n: int, smallest: int, largest: int) -> np.ndarray:
    """``count`` random sets of ``smallest`` to ``largest`` items."""
    rank = rng.random((count, n)).argsort(axis=1).argsort(axis=1)
    return rank < rng.integers(smallest, largest + 1, count)[:, None]


def catalog_values(catalog: sw.Catalog, user: sw.User, members: np.ndarray) -> np.ndarray:
    """F of every row of ``members``; weights are taken relative to the sink's."""
    sink_logit = np.einsum("ihd,hd->hi", catalog.query, catalog.sink.key)
    weight = np.exp(np.einsum("ihd,jhd->hij", catalog.query, catalog.key) - sink_logit[:, :, None])
    score = np.einsum("jhd,hd->hj", catalog.value, user.heads)
    inside = members.astype(float)
    a = np.broadcast_to(catalog.base @ user.base, inside.shape).copy()
    for head_weight, head_score in zip(weight, score, strict=True):
        a += (inside @ (head_weight * head_score).T) / (1.0 + inside @ head_weight.T)
    return np.where(members, evaluate(catalog.rewards, catalog.reward_class, a), 0.0).sum(axis=1)
