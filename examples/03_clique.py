"""A clique found by a recommender.

Thirty people, some of whom know each other, and among them a group of six who all do. Each person becomes an item that
earns only beside acquaintances, so that the best set is the largest group. Finding cliques is hard;
hence finding best sets is, and this is how the paper proves it.

Everyone attends to strangers much more than to acquaintances and to themselves. An extra item, which everyone attends
to, has the value 2, all others 1: beside it a person's average is near 2 among acquaintances alone, and at most 1.5
beside a stranger. The reward is 1 at an average of 5/3, and 0 at 3/2.
"""

from __future__ import annotations

import math

import numpy as np

import setwise as sw

PEOPLE, GROUP, K = 30, 6, 7  # K: the group, and the extra item of the construction


def acquaintances(seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Who knows whom, by chance and in a planted clique; and the clique."""
    rng = np.random.default_rng(seed)
    knows = np.triu(rng.random((PEOPLE, PEOPLE)) < 0.3, 1)
    planted = np.sort(rng.choice(PEOPLE, GROUP, replace=False))
    knows[np.ix_(planted, planted)] |= np.triu(np.ones((GROUP, GROUP), bool), 1)
    return knows | knows.T, planted.tolist()


def clique_catalog(knows: np.ndarray) -> sw.Catalog:
    """The people, and the extra item as the last row."""
    query = np.zeros((PEOPLE + 1, PEOPLE + 1))
    query[:PEOPLE, :PEOPLE] = -math.log(4 * (K - 1)) * (knows | np.eye(PEOPLE, dtype=bool))
    value = np.append(np.ones(PEOPLE), 2.0)[:, None]
    is_extra = np.arange(PEOPLE + 1) == PEOPLE
    rewards = ([sw.PiecewiseLinear((3 / 2, 5 / 3), (0.0, 1.0)), sw.Constant(0.0)], is_extra.astype(int))
    return sw.Catalog(query, np.eye(PEOPLE + 1), value, rewards)


def main() -> None:
    knows, planted = acquaintances()
    catalog = clique_catalog(knows)
    print(f"catalogue: {catalog}")
    instance = sw.Instance.from_catalog(catalog, np.ones(1), np.arange(len(catalog)))
    best = sw.rank(instance, K, "exhaustive")
    print(f"best of {best.evaluations:,} sets: F = {best.value:.0f}")
    print(f"the clique it encodes: {sorted(row for row in best.indices.tolist() if row < PEOPLE)}")
    print(f"the planted one:       {planted}")


if __name__ == "__main__":
    main()
