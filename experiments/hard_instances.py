"""Hard instances: the paper's reductions from clique and multi-dimensional knapsack (Section 2.5 and Appendix C).

Each returns a ``Reduction``: a catalogue, k, and the rows that must be pinned. The constructions have d_v = 1 and one
user, u = 1. What the paper prints wrongly is corrected here: docs/explanation/errata.md, 10 to 12.

**Cliques.** Both constructions have an item for each vertex, with value 1, and one extra item, the last row, with value
M and no reward. All items give the extra one the weight 1, and a vertex i gives the other chosen vertices together the
weight x, so that its average is

    a_i(S) = (M + x) / (1 + x),     falling in x;     a_i(S) = 1 when the extra item is not chosen.

The reward of a vertex is 1 for small x and 0 for large x. Attention is *negative* affinity: a vertex gives the weight
e^(−N) to its neighbours and itself, and a large weight to other vertices. So its reward is 1 among neighbours only.

(a)  ``clique_catalog``: any graph. K = I and Q = −N·A, with a unit diagonal in A; the reward is 1 up to x = 1/2, which
     is a = (2M+1)/3, and 0 from x = 1, which is a = (M+1)/2. One chosen non-neighbour gives x > 1; k − 1 neighbours
     give x ≤ (k−1)e^(−N). Hence the reward of a vertex is 1 if and only if the extra item is chosen and all other
     chosen vertices are its neighbours, and

         max { F(S) : |S| ≤ k } = min(ω(G), k − 1),      ω the size of the largest clique,

     of which the paper states the case k − 1. Here e^(−N) = 1/(4(k−1)), where the paper has 1/2 instead of 1/4: then
     every x lies in (0, 1/4] or in [1 + e^(−N), ∞), no x is near a knot, and F is exactly a whole number.

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
     N = log(M'/δ) / (1−δ), where (*) reads (1−δ)(δ/M')^(δ/(1−δ)) ≥ 1/4: δ ≤ 0.3 suffices for M' = 3.

**Knapsack.** max p · z subject to y_i · z ≤ t_i. The catalogue has a row for each constraint, one for each item, and a
dummy: n = k = d + c + 1, in this order. Item j has the reward p_j in every set. Constraint i attends to item j with
weight y_ij and to the dummy with weight 1; constraints have value 0, items 1, the dummy 2. So with Y = y_i · z and the
dummy chosen its average is (Y + 2)/(Y + 1) = 1 + 1/(1 + Y), falling in Y. Its reward is 0 up to Y = t_i + 1/3 and
−(Σp + 1) from t_i + 2/3 on. The constraint rows and the dummy are pinned; then F = p · z for feasible z, and F ≤ −1 for
all others. Weights of 0 are e^(−L), as queries and keys are finite; L keeps a feasible row 1/4 below its first knot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import setwise as sw
from setwise.errors import InvalidInput

SLACK = 1e-3  # the margin required in (*): far more than the rounding of float32
ROUNDS, AIM = 1000, 0.95  # of alternating projections, and the share of δ to which they clip


@dataclass(frozen=True, eq=False)
class Reduction:
    """Maximise F over the sets of at most ``k`` rows of ``catalog`` that contain all ``pinned`` rows, for u = 1."""

    catalog: sw.Catalog
    k: int
    pinned: np.ndarray

    def instance(self) -> sw.Instance:
        """The dense problem on all rows, in their order."""
        return sw.Instance.from_catalog(self.catalog, np.ones(1), np.arange(self.catalog.n_items))


# --- cliques ---


def closed(adjacency: np.ndarray) -> np.ndarray:
    """The adjacency with a full diagonal, the paper's A: (n, n)."""
    return adjacency | np.eye(len(adjacency), dtype=bool)


def clique_catalog(adjacency: np.ndarray, k: int, M: float = 2.0) -> Reduction:
    """Construction (a): the best F over |S| ≤ k is min(ω(G), k − 1); ``M`` ≥ 2 is the value of the extra item."""
    n = len(adjacency)
    query = np.zeros((n + 1, n + 1))
    query[:n, :n] = -math.log(4 * (k - 1)) * closed(adjacency)
    return _clique_reduction(query, np.eye(n + 1), k, M, earns_until=1 / 2, nothing_from=1.0)


def disjoint_cliques_catalog(
    adjacency: np.ndarray, k: int, dimension: int, coherence: float = 0.2, seed: int = 0
) -> Reduction:
    """Construction (b): the best F over |S| ≤ k is ω(G), for disjoint cliques of fewer than k vertices.

    d_kq = ``dimension`` may be smaller than the number of cliques; ``coherence`` is δ.
    """
    first_neighbour = closed(adjacency).argmax(axis=1)
    if (closed(adjacency) != (first_neighbour[:, None] == first_neighbour)).any():
        raise InvalidInput("adjacency", "a disjoint union of cliques", "another graph", "use clique_catalog")
    clique_of = np.unique(first_neighbour, return_inverse=True)[1]
    sizes = np.bincount(clique_of)
    if sizes.max() >= k:
        raise InvalidInput("k", f"more than the largest clique has vertices, {sizes.max()}", k, "raise k")
    N = _strength(k - int(sizes.min()), coherence)
    vector = near_orthogonal(len(sizes), dimension, coherence, seed)
    key = np.vstack([vector[clique_of], np.zeros(dimension)])
    small = k * math.exp(-N)
    return _clique_reduction(-N * key, key, k, 2.0, earns_until=small, nothing_from=small + 1 / 4)


def solution_to_clique(adjacency: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The clique that a set of rows encodes: of the chosen vertices, the neighbours of all others chosen.

    Empty without the extra item. In construction (a) these are the F(S) vertices of reward 1; in (b) a best set is such
    a clique and the extra item, while the value of other sets may exceed the size of their clique.
    """
    n = len(adjacency)
    if n not in rows:
        return np.zeros(0, np.intp)
    vertices = np.setdiff1d(rows, [n])
    return vertices[closed(adjacency)[np.ix_(vertices, vertices)].all(axis=1)]


def _clique_reduction(
    query: np.ndarray, key: np.ndarray, k: int, M: float, earns_until: float, nothing_from: float
) -> Reduction:
    """The vertices and the extra item; the reward of a vertex is 1 up to one x and 0 from another on."""
    value = np.ones((len(query), 1))
    value[-1] = M
    averages = tuple((M + x) / (1 + x) for x in (nothing_from, earns_until))
    is_extra = np.arange(len(query)) == len(query) - 1
    rewards = ([sw.PiecewiseLinear(averages, (0.0, 1.0)), sw.Constant(0.0)], is_extra.astype(int))
    return Reduction(sw.Catalog(query, key, value, rewards), k, np.zeros(0, np.intp))


def _strength(M: int, coherence: float) -> float:
    """The N of the largest margin in (*); raises InvalidInput for a coherence without a margin."""
    if 0 < coherence < 1 / 2:
        N = math.log(M / coherence) / (1 - coherence)
        if math.exp(-coherence * N) - M * math.exp(-N) >= 1 / 4 + SLACK:
            return N
    must = f"above 0 and small enough for cliques of k − {M} vertices and more"
    raise InvalidInput("coherence", must, coherence, "lower it, and raise the dimension if need be")


def near_orthogonal(count: int, dimension: int, coherence: float, seed: int = 0) -> np.ndarray:
    """``count`` unit vectors of R^dimension with |u_i · u_j| ≤ coherence for i ≠ j: (count, dimension).

    The lemma of Johnson and Lindenstrauss only states that they exist. Their Gram matrix has a unit diagonal and small
    entries, and is positive semi-definite of rank d: the method projects on these two sets in turn (Tropp et al.,
    "Designing structured tight frames via an alternating projection method").
    """
    if count <= dimension:
        return np.eye(count, dimension)
    vectors = _unit(np.random.default_rng(seed).standard_normal((count, dimension)))
    for _ in range(ROUNDS):
        gram = vectors @ vectors.T
        np.fill_diagonal(gram, 0.0)
        if np.abs(gram).max() <= coherence:
            return vectors
        clipped = np.clip(gram, -AIM * coherence, AIM * coherence) + np.eye(count)
        eigenvalue, eigenvector = np.linalg.eigh(clipped)
        vectors = _unit(eigenvector[:, -dimension:] * np.sqrt(np.maximum(eigenvalue[-dimension:], 0.0)))
    must = f"within reach for {count} vectors in {dimension} dimensions"
    raise InvalidInput("coherence", must, f"no such vectors in {ROUNDS} rounds", "raise the dimension or the coherence")


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# --- knapsack ---


@dataclass(frozen=True, eq=False)
class Knapsack:
    """profit p (c,), and whole numbers: weight y (d, c) and capacity t (d,)."""

    profit: np.ndarray
    weight: np.ndarray
    capacity: np.ndarray

    def is_feasible(self, z: np.ndarray) -> bool:
        """Whether y_i · z ≤ t_i for every constraint i."""
        return bool((self.weight @ z <= self.capacity).all())


def knapsack_catalog(problem: Knapsack) -> Reduction:
    """The catalogue whose best set, with ``pinned`` included, has F = the optimum of ``problem``."""
    d, c = problem.weight.shape
    n, largest = d + c + 1, int(problem.capacity.max())
    if largest > largest_capacity(n):
        raise InvalidInput("capacity", f"at most {largest_capacity(n)} with {n} rows", largest, "scale weights down")
    nothing = -math.log(24 * (c + d * (largest + 2)))  # −L
    key = np.full((n, d), nothing)
    key[d:-1] = np.where(problem.weight > 0, np.log(np.maximum(problem.weight, 1)), nothing).T
    key[-1] = 0.0
    value = np.repeat([0.0, 1.0, 2.0], [d, c, 1])[:, None]
    penalty = float(problem.profit.sum()) + 1
    rewards: list[sw.PiecewiseLinear | sw.Constant] = [
        sw.PiecewiseLinear((1 + 1 / (1 + t + 2 / 3), 1 + 1 / (1 + t + 1 / 3)), (-penalty, 0.0))
        for t in map(int, problem.capacity)
    ]
    rewards += [sw.Constant(float(p)) for p in (*problem.profit, 0.0)]
    catalog = sw.Catalog(np.eye(n, d), key, value, (rewards, np.arange(n)), dtype=np.float64)
    return Reduction(catalog, n, np.append(np.arange(d), n - 1))


def largest_capacity(n: int) -> int:
    """The largest t that n rows of float64 resolve.

    For a whole sum the average of a constraint is at least 1/(4(t+2)²) away from a knot; rounding, at most 8nε, may use
    half of it.
    """
    return math.floor(math.sqrt(1 / (64 * n * np.finfo(float).eps))) - 2


def solution_to_knapsack(problem: Knapsack, rows: np.ndarray) -> np.ndarray:
    """The z that a set of rows encodes: (c,)."""
    d, c = problem.weight.shape
    return np.isin(np.arange(d, d + c), rows)
