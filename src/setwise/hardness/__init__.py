"""Instances that are hard, on purpose: the paper's reductions, and the published suites they make usable.

    clique.py               (k−1)-clique, and disjoint cliques in few dimensions (Proposition "lower bound")
    knapsack.py             multi-dimensional knapsack (Proposition "MDK lower bound")
    quadratic_knapsack.py   pairs of items that are worth more together
    published.py            ``suite``: the DIMACS, OR-Library, SAC-94 and Billionnet-Soutif instances with best values

Each has a reader of its files and a way back from a set of rows to a solution of the problem it came from.
"""

from setwise.hardness.clique import clique_catalog, disjoint_cliques_catalog, solution_to_clique
from setwise.hardness.graph import Graph, read_dimacs
from setwise.hardness.knapsack import (
    Knapsack,
    knapsack_catalog,
    knapsack_to_solution,
    read_or_library,
    read_sac94,
    solution_to_knapsack,
)
from setwise.hardness.published import HardInstance, cliques, knapsacks, quadratic_knapsacks, suite
from setwise.hardness.quadratic_knapsack import (
    QuadraticKnapsack,
    pairwise_instance,
    quadratic_knapsack_instance,
    read_billionnet_soutif,
    solution_to_quadratic_knapsack,
)
from setwise.hardness.reduction import Reduction
from setwise.hardness.unit_vectors import near_orthogonal

__all__ = [
    "Graph",
    "HardInstance",
    "Knapsack",
    "QuadraticKnapsack",
    "Reduction",
    "clique_catalog",
    "cliques",
    "disjoint_cliques_catalog",
    "knapsack_catalog",
    "knapsack_to_solution",
    "knapsacks",
    "near_orthogonal",
    "pairwise_instance",
    "quadratic_knapsack_instance",
    "quadratic_knapsacks",
    "read_billionnet_soutif",
    "read_dimacs",
    "read_or_library",
    "read_sac94",
    "solution_to_clique",
    "solution_to_knapsack",
    "solution_to_quadratic_knapsack",
    "suite",
]
