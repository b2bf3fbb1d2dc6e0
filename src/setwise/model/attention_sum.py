"""Attention that sums: two heads and a sink that add up H_ij over the set (appendix B, Model 2).

A softmax averages; the models here sum. The sink (the paper's dummy row) turns the average into a sum. Split
H = H⁺ − H⁻ into its positive and negative parts. In head 1 item i gives item j the weight H⁺_ij (its logit is
log H⁺_ij), every item has the value e^M, and the sink has the logit M and the value 0:

    head 1 of i  =  e^M T / (T + e^M)  =  φ(T),    φ(t) = t / (1 + e^−M t),    T = Σ_{j∈S} H⁺_ij  →  T as M grows.

Head 2 does the same for H⁻ with the value −e^M. So signs live in the values, the heads are added, and one
non-decreasing f may act on the sum (errata 6). Query i is [log H^±_i1, …, log H^±_in, 1], key j is [e_j, 0], and the
key of the sink is [0, …, 0, M].

**How large M and L must be.** A weight of zero has no finite logit; entries below e^−L are given e^−L instead. Let T
bound Σ_{j∈S} H⁺_ij and Σ_{j∈S} H⁻_ij over all i and all sets of at most k items, and let each sum be needed within δ.

* Truncation: t − φ(t) = e^−M t² / (1 + e^−M t) ≤ e^−M T², which is δ/4 for M = log(4T²/δ).
* Leakage: at most k entries of a head are raised, each by at most e^−L: together δ/4 for L = log(4k/δ). As φ is
  increasing and φ(t) ≤ t, a head with leakage λ lies between φ(T) and T + λ, so the two errors do not multiply.
  Each head is right within δ/4 below and δ/4 above, their difference within δ/2.
* Rounding, with unit ε = 2^−52: a weight e^(log t − M) is off by a factor of up to 1 + ε(3 |log t| + M + 4), since exp
  multiplies an error of its argument by the weight; division, the products with e^M and sums of up to k positive
  terms (here, and in the model's own value) add 6k + 12. Nothing cancels inside a head, so both heads together are off
  by at most 2 (T + δ) ε (3 Λ + M + 6k + 16), Λ = max(L, log max|H|). It must be at most δ/2, or δ is out of reach.

e^M must itself be a number that a catalogue accepts, at most 10^100: this requires δ ≥ 4T² 10^−100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._types import Floats
from setwise._validation import LARGEST
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog, Sink
from setwise.model.ids import IdChoice, Ids
from setwise.model.rewards import Reward

UNIT = 2.0**-52
TINIEST = 1e-300  # errors below it cannot be achieved, except for H = 0


@dataclass(frozen=True, eq=False)
class AttentionSum:
    """The constants M and L for one H, and the remaining rounding error."""

    interaction: Floats
    sink: float  # M
    floor: float  # L
    rounding: float

    @classmethod
    def within(cls, interaction: Floats, k: int, error: float) -> AttentionSum:
        """The construction whose error is at most ``error`` for every item of every set of at most k items."""
        error = max(error, TINIEST)
        total = float(max(part.max() for part in largest_sums(interaction, k)))
        sink = sink_logit(total, error / 4)
        floor = max(0.0, math.log(4 * k / error))
        widest = max(floor, _log(float(np.abs(interaction).max())))
        rounding = 2 * (total + error) * UNIT * (3 * widest + sink + 6 * k + 16)
        return cls(interaction, sink, floor, max(rounding, 2 * total * (total / LARGEST)))

    def catalog(self, base: Floats, reward: Reward, ids: IdChoice | Ids | None, attributes: Any) -> Catalog:
        """The transformer: f(base_i · u⁰ + Σ_{j∈S} H_ij) for users whose two heads are 1."""
        n = len(self.interaction)
        query, key = np.ones((n, 2, n + 1)), np.zeros((n, 2, n + 1))
        least = math.exp(-self.floor)
        for head, part in enumerate(signed_parts(self.interaction)):
            query[:, head, :n] = np.log(np.maximum(part, least))
            key[:, head, :n] = np.eye(n)
        value = np.empty((n, 2, 1))
        value[:] = sum_scores(self.sink)[:, None]
        sink = Sink(np.append(np.zeros((2, n)), np.full((2, 1), self.sink), axis=1), np.zeros((2, 1)))
        return Catalog(query, key, value, reward, base, sink, ids, attributes, dtype=np.float64)


def signed_parts(interaction: Floats) -> tuple[Floats, Floats]:
    """H⁺ and H⁻, both at least 0."""
    return np.maximum(interaction, 0.0), np.maximum(-interaction, 0.0)


def largest_sums(interaction: Floats, k: int) -> tuple[Floats, Floats]:
    """The largest Σ_{j∈S} H⁺_ij and Σ_{j∈S} H⁻_ij over the sets S of at most k items that contain i: (n,) each."""
    n = len(interaction)
    first = n - min(k, n) + 1  # the k − 1 largest entries of a sorted row start here: H_ii = 0 adds nothing
    plus, minus = (
        np.partition(part, min(first, n - 1), axis=1)[:, first:].sum(axis=1) for part in signed_parts(interaction)
    )
    return plus, minus


def sink_logit(total: float, error: float) -> float:
    """The M ≥ 0 for which sums of up to ``total`` are truncated by no more than ``error``."""
    return max(0.0, 2 * math.log(total) - math.log(error)) if total > 0 else 0.0


def sum_scores(sink: float) -> Floats:
    """The value that every item has in head 1 and in head 2: (2,)."""
    return np.array([math.exp(sink), -math.exp(sink)])


def require_reachable(eps: float, least: float) -> None:
    """Raise InvalidInput for an ``eps`` below ``least``, the rounding error; infinite or NaN refuses every eps."""
    if eps >= least:
        return
    must, got = f"at least {1.1 * least:.1e}, which is what double precision can keep here", f"{eps:g}"
    if not math.isfinite(least):
        must, got = "within reach of double precision", f"{eps:g} for a model of numbers too large"
    raise InvalidInput("eps", must, got, "raise it, lower k or scale the model down")


def growth(error: float) -> float:
    """e^error − 1: by how much a factor e^g grows when g does by ``error``; infinite beyond e^700."""
    return math.expm1(error) if error <= 700.0 else math.inf


def _log(number: float) -> float:
    return math.log(number) if number > 0 else -math.inf
