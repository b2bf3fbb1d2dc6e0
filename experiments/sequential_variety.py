"""Sequential variety (the paper's Model 1): the items shown before change the utility of the next one.

    g(S, i_t) = û_{i_t} · exp( β Σ_{ℓ=1}^{t−1} λ_ℓ s(i_t, i_{t−ℓ}) ),      s(i, j) = x_i · x_j,   ‖x_i‖ = 1

β < 0 prefers variety, β > 0 continuity; λ_ℓ ≥ 0 is the weight of what was shown ℓ places before.

**As a simple transformer** (appendix B, with the errata). Two heads for each coordinate a of the embedding, one for
its positive and one for its negative part, because a weight has no sign: in head (a, ±) item i at place t gives item j
at place m the weight λ_{t−m} x±_ia when m < t, and at most e^−L otherwise. The value of j there is ±β e^M x_ja, the
sink has the logit M and the value 0, so that the softmax acts like a sum and the heads add up to β Σ λ_{t−m} x_i · x_j.
The base term is log û_i, and the reward is Exp. (β sits in the values: in front of the argument, as printed, f would
decrease for β < 0.) In coordinates, with r_t(m) = log λ_{t−m} for m < t and −L for m ≥ t,

    query (i, t) = [r_t(1), …, r_t(k), log x±_ia, 1]    key (j, m) = [e_m, 1, 0]    key of the sink = [0, …, 0, M]

and the part that depends on the place is a positional encoding, added to the part that depends on the item.

**How large M and L must be.** Let Λ = Σ_ℓ λ_ℓ and σ = max(0, max_{i≠j} β x_i · x_j), so that no exponent exceeds σΛ. F
has at most k terms, each at most û_max e^{σΛ}: with an error of at most δ in every exponent F is right within
B (e^δ − 1), B = k û_max e^{σΛ}, which is eps/2 for δ = log(1 + eps/2B). Half of δ goes to each of

* truncation: a head of weight W and true sum N gives N / (1 + e^−M W). W ≤ (Λ + 1)|x_ia| and |N| ≤ |β|(Λ + 1)|x_ia|
  make at most |β|(Λ + 1)² e^−M over all heads (the 1 covers leakage), so M = log(2|β|(Λ + 1)²/δ);
* leakage: weights that should be 0, or are below e^−L, are at most e^−L max(1, λ_max) instead. Each of at most k items
  leaks into 2d heads with values |β x_ja|, and Σ_a |x_ja| ≤ √d: L = log(4 k √d |β| max(1, λ_max)/δ).

Rounding, with unit ε = 2^−52, changes a weight by a factor of at most 1 + ε(3(2L + |log λ|_max) + M + 12kd + 16), and
the weighted terms add up to at most |β|Λ in absolute value; log û and exp add ε(|log û| + 2). With an error of ρ in
every exponent F changes by at most B (e^ρ − 1); an eps below twice that is refused. So are a B above e^700 and values
β e^M beyond 10^100, which no catalogue accepts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import LARGEST, index_array, real_array, real_number
from setwise.errors import InvalidInput
from setwise.model.attention_sum import TINIEST, UNIT, growth, require_reachable
from setwise.model.catalog import Catalog, Positions, Sink
from setwise.model.ids import IdChoice
from setwise.model.rewards import Exp
from setwise.model.users import User
from setwise.preferences.model_parts import positive

_HIGHEST = 700.0  # e^700 is still a double


class SequentialVariety:
    """n items with base utilities û (n,) and embeddings x (n, d); lag weights λ (k − 1,) for sequences of at most k."""

    def __init__(self, utility: ArrayLike, embedding: ArrayLike, lag_weight: ArrayLike, beta: float) -> None:
        self.utility = real_array("utility", utility, ("n",), np.float64)
        self.embedding = real_array("embedding", embedding, (len(self.utility), "d"), np.float64)
        self.lag_weight = real_array("lag_weight", np.atleast_1d(lag_weight), ("k - 1",), np.float64)
        self.beta = real_number("beta", beta)

    @property
    def k(self) -> int:
        """The longest sequence."""
        return len(self.lag_weight) + 1

    def item_utilities(self, sequence: ArrayLike) -> Floats:
        """g(S, i_t) for each item of the sequence, in its order."""
        rows = self._rows(sequence)
        with np.errstate(over="ignore"):  # beyond e^709 the utility is infinite
            return np.asarray(self.utility[rows] * np.exp(self._exponents(rows)))

    def _rows(self, sequence: ArrayLike) -> NDArray[np.intp]:
        rows = index_array("sequence", sequence, len(self.utility), "the model")
        if len(rows) > self.k:
            raise InvalidInput(
                "sequence", f"at most {self.k} items", f"{len(rows)}", "shorten it or pass more lag weights"
            )
        return rows

    def _exponents(self, rows: NDArray[np.intp]) -> Floats:
        """β Σ_ℓ λ_ℓ s(i_t, i_{t−ℓ}) for each place t."""
        similarity = self.embedding[rows] @ self.embedding[rows].T
        return np.asarray(self.beta * (self._weights(len(rows)) * similarity).sum(axis=1))

    def _weights(self, length: int) -> Floats:
        """λ_{t−m}, the weight of place m for place t > m, and 0 for m ≥ t: (length, length)."""
        lag = np.arange(length)[:, None] - np.arange(length)
        return np.where(lag > 0, np.append(0.0, self.lag_weight)[np.maximum(lag, 0)], 0.0)

    def value(self, sequence: ArrayLike) -> float:
        """Σ_t g(S, i_t)."""
        return float(self.item_utilities(sequence).sum())

    # --- the same as a simple transformer ---

    def user(self) -> User:
        """The user to evaluate ``to_catalog`` with: the model has only one."""
        return User(heads=np.ones((2 * self.embedding.shape[1], 1)), base=[1.0])

    def to_catalog(self, eps: float, ids: IdChoice | None = None) -> Catalog:
        """The simple transformer whose F is within ``eps`` of ``value`` for every sequence of at most k items."""
        sink, floor = self._constants(positive("eps", eps))
        (n, d), k = self.embedding.shape, self.k
        signed = np.stack([np.maximum(self.embedding, 0.0), np.maximum(-self.embedding, 0.0)], axis=2)  # (n, d, ±)
        heads, width = 2 * d, k + 2
        query, key = np.zeros((n, heads, width)), np.zeros((n, heads, width))
        query[:, :, k] = np.log(np.maximum(signed, math.exp(-floor))).reshape(n, heads)
        query[:, :, k + 1] = key[:, :, k] = 1.0
        value = self.beta * math.exp(sink) * self.embedding[:, :, None] * np.array([1.0, -1.0])
        sink_key = np.zeros((heads, width))
        sink_key[:, k + 1] = sink
        return Catalog(
            query,
            key,
            value.reshape(n, heads, 1),
            reward=Exp(),
            base=np.log(self.utility)[:, None],
            sink=Sink(sink_key, np.zeros((heads, 1))),
            ids=ids,
            positions=self._positions(floor, heads, width),
            dtype=np.float64,
        )

    def _positions(self, floor: float, heads: int, width: int) -> Positions:
        """r_t in the queries, e_m in the keys, the same in every head."""
        k = self.k
        query, key = np.zeros((k, heads, width)), np.zeros((k, heads, width))
        query[:, :, :k] = np.log(np.maximum(self._weights(k), math.exp(-floor)))[:, None, :]
        key[:, :, :k] = np.eye(k)[:, None, :]
        return Positions(query, key, np.zeros((k, heads, 1)))

    def _strongest_pull(self) -> float:
        """σ: the most that one item of unit lag weight can add to another's exponent, computed by blocks of rows."""
        strongest = 0.0
        for start in range(0, len(self.embedding), 1024):
            pull = self.beta * self.embedding[start : start + 1024] @ self.embedding.T
            pull[np.arange(len(pull)), start + np.arange(len(pull))] = 0.0  # no item is in a sequence twice
            strongest = max(strongest, float(pull.max()))
        return strongest

    def _constants(self, eps: float) -> tuple[float, float]:
        """M and L for this eps, by the derivation above."""
        strength, total = abs(self.beta), float(self.lag_weight.sum())
        log_bound = math.log(self.k) + math.log(self.utility.max()) + self._strongest_pull() * total  # log B
        if not log_bound <= _HIGHEST:
            todo = "lower beta, the lag weights or the utilities"
            raise InvalidInput("the value of a sequence", "below e^700", f"up to e^{log_bound:.3g}", todo)
        delta = float(np.clip(np.logaddexp(0.0, math.log(eps) - math.log(2) - log_bound), TINIEST, 1.0))
        heaviest = max(1.0, float(self.lag_weight.max(initial=0.0)))
        d = self.embedding.shape[1]
        log_strength = math.log(max(strength, TINIEST))
        sink = max(0.0, math.log(2) + log_strength + 2 * math.log1p(total) - math.log(delta))
        floor = max(0.0, math.log(4 * self.k * math.sqrt(d) * heaviest) + log_strength - math.log(delta))
        logs = 2 * floor + float(np.abs(np.log(self.lag_weight[self.lag_weight > 0])).max(initial=0.0))
        rounding = UNIT * (
            strength * total * (3 * logs + sink + 12 * self.k * d + 16) + float(np.abs(np.log(self.utility)).max()) + 2
        )
        require_reachable(eps, 2 * math.exp(log_bound) * growth(rounding))
        if sink + max(0.0, log_strength) > math.log(LARGEST):  # of the values
            require_reachable(eps, math.inf)
        return sink, floor
