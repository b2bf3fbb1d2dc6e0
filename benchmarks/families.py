"""Families of instances that rankers are compared on: ``family(seed, large) -> list of Problem``.

Rows about random families may be committed; rows about ``trained`` families come from real playlists and are not
committed. ``FAMILIES`` names the random ones; ``trained_families(data)`` those in a data folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import setwise as sw
from setwise.preferences import Complementarity, HaloMNL

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from hard_instances import Knapsack, Reduction, clique_catalog, knapsack_catalog
from sequential_variety import SequentialVariety


class Problem(NamedTuple):
    """At most k of the instance's candidates, the pinned ones among them."""

    instance: sw.Instance
    k: int
    pinned: tuple[int, ...] = ()


Family = Callable[..., list[Problem]]

# (candidates, k): the heavy ones only on request
SIZES, LARGE_SIZES = ((100, 5), (300, 10)), ((1000, 10), (1000, 50))


def _sizes(large: bool) -> tuple[tuple[int, int], ...]:
    return SIZES + LARGE_SIZES if large else SIZES


def gaussian(seed: int, large: bool = False, heads: int = 1, sharpness: float = 1.0) -> list[Problem]:
    """Independent normal vectors; logits of standard deviation ``sharpness``, scores of standard deviation 1 in each head."""
    rng, d, problems = np.random.default_rng(seed), 8, []
    reward = sw.Logistic(1.5 / np.sqrt(heads), -4.0)  # so that the best sets get about half of what there is to have
    for m, k in _sizes(large):
        query, key, value = (rng.normal(size=(m, heads, d)) for _ in range(3))
        catalog = sw.Catalog(query * (sharpness / np.sqrt(d)), key, value, reward, dtype=np.float64)
        user = rng.normal(size=(heads, d))
        user /= np.linalg.norm(user, axis=1, keepdims=True)
        problems.append(Problem(sw.Instance.from_catalog(catalog, user, np.arange(m)), k))
    return problems


def variety(seed: int, large: bool = False, beta: float = -0.5) -> list[Problem]:
    """Ordered slates: the paper's Model 1, every (item, place) pair a candidate; β < 0 is bored by the previous item."""
    rng, d, problems = np.random.default_rng(seed), 3, []
    for n, k in ((20, 5), (40, 8)) + (((100, 10), (50, 20)) if large else ()):
        x = rng.normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        model = SequentialVariety(rng.lognormal(0.0, 0.5, n), x, 0.8 ** np.arange(k - 1), beta)
        problems.append(Problem(sw.Instance.from_catalog(model.to_catalog(1e-4), model.user(), np.arange(n)), k))
    return problems


def _effects(rng: np.random.Generator, n: int, density: float, size: float) -> np.ndarray:
    """A few pairs that help or hinder each other."""
    effect = rng.normal(scale=size, size=(n, n)) * (rng.random((n, n)) < density)
    np.fill_diagonal(effect, 0.0)
    return effect


def complementarity(seed: int, large: bool = False) -> list[Problem]:
    """The paper's Model 2: one pair in ten are complements or substitutes, as strong as items are good."""
    rng, problems = np.random.default_rng(seed), []
    for n, k in _sizes(large):
        model = Complementarity(rng.normal(size=(n, 4)), _effects(rng, n, 0.1, 1.0))
        user = model.user(rng.normal(size=4) / 2)
        problems.append(Problem(sw.Instance.from_catalog(model.to_catalog(1e-4, k), user, np.arange(n)), k))
    return problems


def halo_mnl(seed: int, large: bool = False) -> list[Problem]:
    """Total choice weight V(S) of a Halo-MNL, one pair in ten with a halo."""
    rng, problems = np.random.default_rng(seed), []
    for n, k in _sizes(large):
        problems.append(Problem(HaloMNL(rng.normal(-1.0, 1.0, n), _effects(rng, n, 0.1, 0.4)).instance(), k))
    return problems


def _asked(reduction: Reduction) -> Problem:
    return Problem(reduction.instance(), reduction.k, tuple(reduction.pinned.tolist()))


def clique(seed: int, large: bool = False) -> list[Problem]:
    """Random graphs with a planted clique of k − 1 vertices; the best F is k − 1."""
    rng, problems = np.random.default_rng(seed), []
    for n, k in ((40, 8), (80, 12)) + (((500, 25),) if large else ()):
        edges = rng.random((n, n)) < 0.4
        planted = rng.permutation(n)[: k - 1]
        edges[np.ix_(planted, planted)] = True
        upper = np.triu(edges, 1)
        problems.append(_asked(clique_catalog(upper | upper.T, k)))
    return problems


def knapsack(seed: int, large: bool = False) -> list[Problem]:
    """Multi-dimensional knapsacks: capacity for half of each weight, profits that follow the weights."""
    rng, problems = np.random.default_rng(seed), []
    for c, d in ((16, 3), (24, 5)) + (((80, 10),) if large else ()):
        weight = rng.integers(1, 100, (d, c))
        profit = weight.mean(axis=0).round() + rng.integers(1, 40, c)
        problems.append(_asked(knapsack_catalog(Knapsack(profit, weight, weight.sum(axis=1) // 2))))
    return problems


FAMILIES: dict[str, Family] = {
    f"gaussian, {heads} head{'s' * (heads > 1)}, {name}": partial(gaussian, heads=heads, sharpness=sharpness)
    for heads in (1, 2, 4)
    for name, sharpness in (("weak", 1.0), ("strong", 6.0))
} | {
    "variety": variety,
    "continuity": partial(variety, beta=0.5),
    "complementarity": complementarity,
    "halo-mnl": halo_mnl,
    "clique": clique,
    "knapsack": knapsack,
}


class _Trained:
    """Held-out users of a trained catalogue, with the candidates that Phase One retrieves for them."""

    def __init__(self, path: Path) -> None:
        arrays = np.load(path)
        reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
        self.catalog = sw.Catalog(arrays["query"], arrays["key"], arrays["value"], reward, base=arrays.get("base"))
        bases = arrays["user_base"] if "user_base" in arrays else [None] * len(arrays["user_heads"])
        self.users = [sw.User(heads, base) for heads, base in zip(arrays["user_heads"], bases, strict=True)]
        self.histories = arrays["history"]
        self.index = sw.Index.build(self.catalog, cells=40)

    def __call__(self, seed: int, large: bool = False) -> list[Problem]:
        user, history = self.users[seed % len(self.users)], np.unique(self.histories[seed % len(self.users)])
        problems = []
        for k in (5, 10) + ((25,) if large else ()):
            candidates = self.index.candidates(user, per_cell=k, exclude=history)
            problems.append(Problem(sw.Instance.from_catalog(self.catalog, user, candidates), k))
        return problems


def trained_families(data: Path) -> dict[str, Family]:
    """The two trained catalogues of a data folder, a user a seed; none where the folder is absent."""
    paths = {
        f"trained, {heads}": data / "catalogs" / f"playlists_{heads.replace(' ', '_')}.npz"
        for heads in ("one head", "four heads")
    }
    return {name: _Trained(path) for name, path in paths.items() if path.is_file()}
