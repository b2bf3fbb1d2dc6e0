"""A clique found by a recommender.

Thirty people, some of whom know each other, and among them a group of six who all do. Each person becomes an item that
earns only beside acquaintances, so that the best set is the largest group. Finding cliques is hard;
hence finding best sets is, and this is how the paper proves it.
"""

from __future__ import annotations

import numpy as np

import setwise as sw
from setwise.hardness import Graph, clique_catalog, solution_to_clique

PEOPLE, GROUP, K = 30, 6, 7  # K: the group, and the extra item of the construction


def acquaintances(seed: int = 0) -> tuple[Graph, list[int]]:
    """A random graph with a planted clique, and the clique."""
    rng = np.random.default_rng(seed)
    knows = np.triu(rng.random((PEOPLE, PEOPLE)) < 0.3, 1)
    planted = np.sort(rng.choice(PEOPLE, GROUP, replace=False))
    knows[np.ix_(planted, planted)] |= np.triu(np.ones((GROUP, GROUP), bool), 1)
    return Graph(knows | knows.T), planted.tolist()


def main() -> None:
    graph, planted = acquaintances()
    reduction = clique_catalog(graph, K)
    print(f"catalogue: {reduction.catalog}")
    best = sw.rank(reduction.instance(), K, "exhaustive")
    clique = solution_to_clique(graph, best.indices).tolist()
    print(f"best of {best.evaluations:,} sets: F = {best.value:.0f}")
    print(f"the clique it encodes: {clique}")
    print(f"the planted one:       {planted}")


if __name__ == "__main__":
    main()
