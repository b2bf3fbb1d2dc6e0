"""Hard instances: the paper's reductions, and published benchmark suites through these reductions.

    clique.py               (k−1)-clique, and disjoint cliques in few dimensions (Proposition "lower bound")
    knapsack.py             multi-dimensional knapsack (Proposition "MDK lower bound")
    quadratic_knapsack.py   knapsack with profits for pairs of items
    published.py            ``suite``: the DIMACS, OR-Library, SAC-94 and Billionnet-Soutif instances with best values

Each module reads the files of its problem and maps a set of rows back to a solution of the problem.
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
