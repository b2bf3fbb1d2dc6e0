"""``fjlt``: ε-approximate k-nearest neighbours by a fast Johnson–Lindenstrauss transform (the paper's Appendix A).

**From products to distances.** In a cell whose longest vector has length v_max, with the square that the paper lost,

    v' = (√(v_max² − ‖v‖²), v) / v_max,      u' = (0, u) / ‖u‖,      v · u = v_max ‖u‖ (1 − ‖u' − v'‖²/2):

on the unit sphere the largest products belong to the nearest points. From here on products are shares of v_max ‖u‖.

**The transform** (Ailon and Chazelle). Φ = P H D: random signs D, the Walsh–Hadamard matrix H in p = 2^⌈log₂(d + 1)⌉
dimensions, which spreads every vector evenly, and an m × p matrix P whose entries are 0 but for a share q of them,
which are N(0, 1/qm). With L = log(4pn/failure) and ψ(a) = (1 + a) log(1 + a) − a,

    q = min(1, 2L²/ψ(1)p),      m = the least with  1/√m + 2√(2(1 + 1/√m)L/m) + 4L/m ≤ θ;

if q = 1, already 2√(L/m) + 2L/m ≤ θ will do.

*Lemma.* For a fixed x, ‖Φx‖² > (1 + θ)‖x‖² has a probability of at most failure/n.
*Proof.* Let ‖x‖ = 1 and y = HDx. We leave out fewer than 4p events of probability e^−L each. (1) By Hoeffding, twice
a coordinate, y_j² ≤ 2L/p. (2) Once the zeros of P are drawn, row r of Py is N(0, Z_r/m), and Z_r, the sum of y_j²/q
over its other places, adds up independent terms in [0, κ], κ = 2L/pq = ψ(1)/L, to a mean of 1. So Z_r ≤ 1 + a but for
e^(−ψ(a)/κ) (Bennett), and a = 1 gives Z_r ≤ 2 in each of m < p rows. (3) In the same way their average is at most
1 + a but for e^(−mψ(a)/κ), and a = 1/√m will do, since ψ(a) ≥ a²ψ(1). (4) By Laurent and Massart, Σ_r Z_r g_r²/m
exceeds Σ_r Z_r/m by at most 2√(L Σ_r Z_r²)/m + 2L max_r Z_r/m. If q = 1 then Z_r = 1, and (4) is all there is.  ∎

**The search.** Let Δ_i = ‖Φu' − Φv'_i‖². Look up the true products of the ``per_cell`` items of smallest Δ; let s be
the least. Then look up every item that could still be more than ε better: Δ_i ≤ (1 + θ)(2 − 2(s + ε)).

*Theorem.* For a user chosen independently of the seed, with probability 1 − failure: in every cell, for every j, the
j-th returned product is at least the j-th best minus ε; in scores, minus ε v_max ‖u‖ (``slack``), rounding aside.
*Proof.* By the lemma Δ_i ≤ (1 + θ)‖u' − v'_i‖² for all n items. So whatever was not looked up has a product below
s + ε. If one of the j best was not, the j-th best is below s + ε, and the j-th returned is at least s. Else all j
are there.  ∎

Distances need not be kept from *shrinking*, because what comes near is looked up. That allows θ = ε, where trusting
the smallest Δ blindly, as the paper does, takes ε/4 and 16 times the dimensions. (Were Δ_i ≥ (1 − θ)‖u' − v'_i‖² as
well, and s ≥ 0, the second look would stay within ε of s.) Still m is about 400 for ε = 1/2 and 7,000 for ε = 0.1.
Where it would exceed d, Φ is the identity, and the result exact. This is a reference, not a fast index: the tables of
Ailon and Chazelle are not built, the projected cell is scanned, and P is stored with its zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32, Ints, Mask
from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput
from setwise.retrieval.backends.protocol import Hits, by_cell, resolved

_CHUNK = 1 << 10  # rows per step, to keep the working memory small


@dataclass(frozen=True, eq=False)
class Transform:
    """Φ = P H D from R^d to R^m, m < d."""

    signs: NDArray[np.int8]  # (d,) D; where the vectors are padded it does not matter
    projection: Floats32  # (m, p) P

    @classmethod
    def draw(cls, n: int, d: int, theta: float, failure: float, seed: int) -> Self | None:
        """One that stretches none of n vectors beyond 1 + θ, but for ``failure``; None if that took d dimensions."""
        p = 1 << max(1, (d - 1).bit_length())
        log_odds = math.log(4 * p * n / failure)
        density = min(1.0, 2 * log_odds**2 / ((2 * math.log(2) - 1) * p))
        sufficient = _stretch(np.arange(1, d), log_odds, 1 if density == 1 else 2) <= 1 + theta
        if not sufficient.any():
            return None
        m = int(sufficient.argmax()) + 1
        rng = np.random.default_rng(seed)
        signs = rng.choice(np.array([-1, 1], np.int8), size=d)
        entries = rng.normal(scale=1 / math.sqrt(density * m), size=(m, p)) * (rng.random((m, p)) < density)
        return cls(signs, entries.astype(np.float32))

    def __call__(self, x: Floats) -> Floats:
        """Φx for each row of ``x`` (rows, d): (rows, m)."""
        padded = np.zeros((len(x), self.projection.shape[1]))
        padded[:, : x.shape[1]] = x * self.signs
        return np.asarray(walsh_hadamard(padded) @ self.projection.T)


def _stretch(m: Ints, log_odds: float, spread: int) -> Floats:
    """The lemma's bound on ‖Φx‖²/‖x‖² in m dimensions, when no Z_r exceeds ``spread``."""
    mean = 1 + (spread - 1) / np.sqrt(m)
    return np.asarray(mean + 2 * np.sqrt(spread * mean * log_odds / m) + 2 * spread * log_odds / m)


def walsh_hadamard(x: Floats) -> Floats:
    """Hx for each row of ``x`` (rows, p), p a power of two, by log₂ p rounds of butterflies; H is orthonormal."""
    rows, p = x.shape
    width = 1
    while width < p:
        pair = x.reshape(rows, -1, 2, width)
        x = np.stack([pair[:, :, 0] + pair[:, :, 1], pair[:, :, 0] - pair[:, :, 1]], axis=2)
        width *= 2
    return np.asarray(x.reshape(rows, p) / math.sqrt(p))


class FJLT:
    """The vectors sorted by cell, their images under Φ, and the additive error that follows."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.vectors, self.order, self.start = (arrays[name] for name in ("vectors", "order", "start"))
        self.longest = arrays["longest"]  # (C,) v_max of each cell
        self.projected, self.square = arrays["projected"], arrays["square"]  # (n, m) Φv', (n,) ‖Φv'‖²
        self.eps, self.stretch = arrays["bounds"].tolist()  # ε and 1 + θ; 0 and 1 for the identity
        self.transform = Transform(arrays["signs"], arrays["projection"]) if "signs" in arrays else None

    @classmethod
    def build(
        cls,
        vectors: Floats32,
        cell_of: NDArray[np.int32],
        n_cells: int,
        eps: float = 0.1,  # as a share of v_max‖u‖, the largest product there can be
        failure: float = 0.01,  # the probability that a user meets a larger error
        seed: int = 0,
    ) -> Self:
        eps, failure = real_number("eps", eps), real_number("failure", failure)
        if eps <= 0:
            raise InvalidInput("eps", "greater than 0", eps, "pass the error you can accept, such as 0.1")
        if not 0 < failure < 1:
            raise InvalidInput("failure", "between 0 and 1", failure, "pass a small probability, such as 0.01")
        n, d = vectors.shape
        transform = Transform.draw(n, d + 1, eps, failure, whole_number("seed", seed, least=0))
        order, start = by_cell(cell_of, n_cells)
        vectors, cell = vectors[order], cell_of[order]
        longest = _longest(vectors, cell, n_cells)
        projected = _images(vectors, longest[cell], transform)
        arrays: dict[str, Array] = {
            "vectors": vectors,
            "order": order,
            "start": start,
            "longest": longest,
            "projected": projected,
            "square": np.einsum("ij,ij->i", projected, projected),
            "bounds": np.array([eps, 1 + eps] if transform else [0.0, 1.0]),
        }
        if transform:
            arrays |= {"signs": transform.signs, "projection": transform.projection}
        return cls(arrays)

    def slack(self, user: Floats32) -> Floats:
        """The additive error of the guarantee in each cell, ε v_max ‖u‖: (C,)."""
        return np.asarray(self.eps * self.longest * np.linalg.norm(user))

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        cells = len(self.start) - 1
        hits = Hits.none(len(users), cells, per_cell)
        allowed = np.ones(len(self.order), bool) if eligible is None else eligible[self.order]
        for b, user in enumerate(users):
            distance = self._distances(user)
            for c in range(cells):
                places = self.start[c] + np.flatnonzero(allowed[self.start[c] : self.start[c + 1]])
                best, score = self._best(places, distance[places], user, self.longest[c], per_cell)
                hits.rows[b, c, : len(best)], hits.scores[b, c, : len(best)] = self.order[best], score
        return hits

    def _distances(self, user: Floats32) -> Floats32:
        """Δ: (n,), in the order of the cells."""
        point = np.append(0.0, user)[None] / (np.linalg.norm(user) or 1.0)
        image = (self.transform(point) if self.transform else point)[0].astype(np.float32)
        return np.asarray(self.square - 2 * (self.projected @ image) + image @ image)

    def _best(
        self, places: Ints, distance: Floats32, user: Floats32, longest: float, per_cell: int
    ) -> tuple[Ints, Floats32]:
        """The best of ``places`` and their true scores, best first, looking up as few as the theorem allows."""
        if len(places) > per_cell:
            nearest = np.argpartition(distance, per_cell - 1)[:per_cell]
            least = (self.vectors[places[nearest]] @ user).min()
            reachable = 2 - 2 * (least / (longest * np.linalg.norm(user) or 1.0) + self.eps)
            places = places[distance <= max(distance[nearest].max(), self.stretch * reachable)]
        score = self.vectors[places] @ user
        best = np.argsort(-score, kind="stable")[:per_cell]
        return places[best], score[best]


def _longest(vectors: Floats32, cell: NDArray[np.int32], n_cells: int) -> Floats:
    """v_max of each cell: (C,), 0 for a cell without any length."""
    longest = np.zeros(n_cells)
    np.maximum.at(longest, cell, np.linalg.norm(vectors.astype(np.float64), axis=1))
    return longest


def _images(vectors: Floats32, longest: Floats, transform: Transform | None) -> Floats32:
    """Φv' of each row, v' being on the unit sphere: (n, m), or v' itself without a transform."""
    images = []
    for first in range(0, len(vectors), _CHUNK):
        v = vectors[first : first + _CHUNK].astype(np.float64)
        v_max = longest[first : first + _CHUNK, None]
        height = np.sqrt(np.maximum(v_max**2 - (v**2).sum(axis=1, keepdims=True), 0.0))
        point = np.hstack([height, v]) / np.where(v_max > 0, v_max, 1.0)
        images.append((transform(point) if transform else point).astype(np.float32))
    return np.concatenate(images)


def neighbours(name: str) -> tuple[str, type[Any]]:
    """The name and class of what finds nearest neighbours: a backend of setwise, or ``fjlt``."""
    return (name, FJLT) if name == "fjlt" else resolved(name)
