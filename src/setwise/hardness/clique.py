"""Proposition "lower bound": finding the best set is as hard as finding cliques.

Both constructions have an item for each vertex, with value 1, and one extra item, the last row, with value M and no
reward. All items give the extra one the weight 1, and a vertex i gives the other chosen vertices together the weight x,
so that its average is

    a_i(S) = (M + x) / (1 + x),     falling in x;     a_i(S) = 1 when the extra item is not chosen.

The reward of a vertex is 1 for small x and 0 for large x. Attention is *negative* affinity: a vertex gives the weight
e^(−N) to its neighbours and itself, and a large weight to other vertices. So its reward is 1 among neighbours only.

(a)  ``clique_catalog``: any graph. K = I and Q = −N·A, with a unit diagonal in A; the reward is 1 up to x = 1/2, which
     is a = (2M+1)/3, and 0 from x = 1, which is a = (M+1)/2. One chosen non-neighbour gives x > 1; k − 1 neighbours
     give x ≤ (k−1)e^(−N). Hence the reward of a vertex is 1 if and only if the extra item is chosen and all other
     chosen vertices are its neighbours. Vertices of reward 1 form a clique, and every vertex of a clique with the extra
     item has reward 1:

         max { F(S) : |S| ≤ k } = min(ω(G), k − 1),      ω the size of the largest clique,

     of which the paper states the case k − 1. Here e^(−N) = 1/(4(k−1)), where the paper has 1/2 instead of 1/4: then
     every x lies in (0, 1/4] or in [1 + e^(−N), ∞). Non-neighbours have the weight 1 exactly, and rounding N to float32
     changes the other weights by a millionth, so that no x is near a knot and F is exactly a whole number.

(b)  ``disjoint_cliques_catalog``: disjoint cliques of k − M' to k − 1 vertices, in few dimensions. The members of a
     clique c share a unit vector u_c, with |u_c · u_c'| ≤ δ between cliques, and Q Kᵀ = −N·U Uᵀ. The extra item has
     value 2; the reward is 1 up to x = k e^(−N) and 0 from k e^(−N) + 1/4. Let the largest clique have k' vertices.

     * Its value is k': x = k' e^(−N) ≤ (k−1)e^(−N) for each member.
     * More than k' vertices have value 0: at most k' of the chosen are of i's own clique, and each of the others has a
       weight of at least e^(−δN) (above 1 for negative u_c · u_c'), so

           x ≥ k' e^(−N) + e^(−δN) ≥ k e^(−N) + 1/4      as soon as      e^(−δN) ≥ M' e^(−N) + 1/4.          (*)

     * At most k' vertices have a reward of at most 1 each; and k' vertices that are not one clique have an x of
       (k'−1)e^(−N) + e^(−δN) or more, above k e^(−N) by (*) and e^(−N) < 1/4, so rewards of less than 1.

     So max F = ω(G) = k', and the best sets are the largest cliques. e^(−δN) − M' e^(−N) is largest at
     N = log(M'/δ) / (1−δ), where (*) reads (1−δ)(δ/M')^(δ/(1−δ)) ≥ 1/4: δ ≤ 0.3 suffices for M' = 3, and δ ≤ 0.2 for
     M' = 20. (The paper's N = log 2M' with e^(−δN) ≥ 1 − e^(−N) needs δ ≤ 0.1 for M' = 3.) Whenever (*) is possible,
     δ < 1/2 and e^(−N) < 1/4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import index_array, real_number, whole_number
from setwise.errors import InvalidInput
from setwise.hardness.graph import Graph
from setwise.hardness.reduction import Reduction
from setwise.hardness.unit_vectors import near_orthogonal
from setwise.model.catalog import Catalog
from setwise.model.rewards import Constant, PiecewiseLinear

_SLACK = 1e-3  # the margin required in (*): far more than the rounding of float32


def clique_catalog(graph: Graph, k: int, M: float = 2.0) -> Reduction:
    """Construction (a): the best F over |S| ≤ k is min(ω(G), k − 1); ``M`` ≥ 2 is the value of the extra item."""
    k, M = whole_number("k", k, least=2), real_number("M", M)
    if M < 2:
        raise InvalidInput("M", "at least 2", M, "leave it out")
    n = graph.n_vertices
    query = np.zeros((n + 1, n + 1))
    query[:n, :n] = -math.log(4 * (k - 1)) * graph.closed
    return _reduction(query, np.eye(n + 1), k, M, earns_until=1 / 2, nothing_from=1.0)


def disjoint_cliques_catalog(graph: Graph, k: int, dimension: int, coherence: float = 0.2, seed: int = 0) -> Reduction:
    """Construction (b): the best F over |S| ≤ k is ω(G), for disjoint cliques of fewer than k vertices.

    d_kq = ``dimension`` may be smaller than the number of cliques; ``coherence`` is δ.
    """
    k = whole_number("k", k, least=2)
    clique_of = _disjoint_cliques(graph)
    sizes = np.bincount(clique_of)
    if sizes.max() >= k:
        raise InvalidInput("k", f"more than the largest clique has vertices, {sizes.max()}", k, "raise k")
    N = _strength(k - int(sizes.min()), coherence)
    vector = near_orthogonal(len(sizes), dimension, coherence, seed)
    key = np.vstack([vector[clique_of], np.zeros(dimension)])
    small = k * math.exp(-N)
    return _reduction(-N * key, key, k, 2.0, earns_until=small, nothing_from=small + 1 / 4)


def solution_to_clique(graph: Graph, rows: ArrayLike) -> Rows:
    """The clique that a set of rows encodes: of the chosen vertices, the neighbours of all others chosen.

    Empty without the extra item. In construction (a) these are the F(S) vertices of reward 1; in (b) a best set is such
    a clique and the extra item, while the value of other sets may exceed the size of their clique.
    """
    n = graph.n_vertices
    chosen = index_array("rows", rows, n + 1, "the reduced catalogue")
    if n not in chosen:
        return np.zeros(0, np.intp)
    vertices = np.sort(chosen[chosen < n])
    return vertices[graph.closed[np.ix_(vertices, vertices)].all(axis=1)]


def _reduction(query: Floats, key: Floats, k: int, M: float, earns_until: float, nothing_from: float) -> Reduction:
    """The vertices and the extra item; the reward of a vertex is 1 up to one x and 0 from another on."""
    n = len(query) - 1
    value = np.ones((n + 1, 1))
    value[n] = M
    seen = tuple((M + x) / (1 + x) for x in (nothing_from, earns_until))
    is_extra = np.arange(n + 1) == n
    rewards = ([PiecewiseLinear(seen, (0.0, 1.0)), Constant(0.0)], is_extra.astype(int))
    return Reduction(Catalog(query, key, value, rewards), k, np.zeros(0, np.intp))


def _disjoint_cliques(graph: Graph) -> Rows:
    """The number of each vertex's clique, (n,); raises InvalidInput if the graph is not a union of disjoint cliques."""
    first_neighbour = graph.closed.argmax(axis=1)
    if (graph.closed != (first_neighbour[:, None] == first_neighbour)).any():
        todo = "use clique_catalog, which takes any graph"
        raise InvalidInput("graph", "a disjoint union of cliques", "another graph", todo)
    return np.unique(first_neighbour, return_inverse=True)[1]


def _strength(M: int, coherence: float) -> float:
    """The N of the largest margin in (*); raises InvalidInput for a coherence without a margin."""
    delta = real_number("coherence", coherence)
    if 0 < delta < 1 / 2:
        N = math.log(M / delta) / (1 - delta)
        if math.exp(-delta * N) - M * math.exp(-N) >= 1 / 4 + _SLACK:
            return N
    must = f"above 0 and small enough for cliques of k − {M} vertices and more"
    raise InvalidInput("coherence", must, delta, "lower it, and raise the dimension if need be")
