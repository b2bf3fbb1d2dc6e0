"""Compiled gradients of F(S) for a learner of set outcomes: linear rewards, one user, a sink.

    F(S) = Σ_{i∈S} [ b_i + Σ_h ( Σ_{j∈S} e^(q_i·k_j) v_j ) / ( e^(z_i) + Σ_{j∈S} e^(q_i·k_j) ) ]

with q, k (n, H, d), v, z (n, H), b (n,). With r the quotient, p_j = e^(q_i·k_j) / denominator and p_0 the sink's share,

    ∂r/∂v_j = p_j,    ∂r/∂(q_i·k_j) = p_j (v_j − r),    ∂r/∂z_i = −p_0 r.

A set is a row of item numbers; −1 marks an empty place. Logits are bounded by the learner, so plain ``exp`` is safe.
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.options import FAST, OUTER, njit


@njit(**OUTER, fastmath=FAST)
def set_values(q: Floats, k: Floats, v: Floats, z: Floats, b: Floats, sets: Ints, out: Floats) -> None:
    """F of every row of ``sets``, into ``out``."""
    heads, d = q.shape[1], q.shape[2]
    for t in range(sets.shape[0]):
        total = 0.0
        for i in sets[t]:
            if i < 0:
                continue
            total += b[i]
            for h in range(heads):
                above, below = 0.0, math.exp(z[i, h])
                for j in sets[t]:
                    if j < 0:
                        continue
                    logit = 0.0
                    for c in range(d):
                        logit += q[i, h, c] * k[j, h, c]
                    weight = math.exp(logit)
                    above += weight * v[j, h]
                    below += weight
                total += above / below
        out[t] = total


@njit(**OUTER, fastmath=FAST)
def values_by_table(weight: Floats, v: Floats, sink: Floats, b: Floats, sets: Ints, out: Floats) -> None:
    """F of every row of ``sets``, into ``out``; ``weight`` (n, n, H) has e^(q_i·k_j) of all pairs, ``sink`` e^(z_i)."""
    heads = v.shape[1]
    above, below = np.empty(heads), np.empty(heads)
    for t in range(sets.shape[0]):
        total = 0.0
        for i in sets[t]:
            if i < 0:
                continue
            total += b[i]
            for h in range(heads):
                above[h], below[h] = 0.0, sink[i, h]
            for j in sets[t]:
                if j < 0:
                    continue
                for h in range(heads):
                    above[h] += weight[i, j, h] * v[j, h]
                    below[h] += weight[i, j, h]
            for h in range(heads):
                total += above[h] / below[h]
        out[t] = total


@njit(**OUTER, fastmath=FAST)
def add_gradients(
    q: Floats, k: Floats, v: Floats, z: Floats, b: Floats, sets: Ints, outer: Floats,
    dq: Floats, dk: Floats, dv: Floats, dz: Floats, db: Floats,
) -> None:  # fmt: skip
    """Add Σ_t outer_t ∂F(S_t) to the gradients of the parameters."""
    heads, d = q.shape[1], q.shape[2]
    weight = np.empty(sets.shape[1])
    for t in range(sets.shape[0]):
        for i in sets[t]:
            if i < 0:
                continue
            db[i] += outer[t]
            for h in range(heads):
                sink = math.exp(z[i, h])
                above, below = 0.0, sink
                for place in range(sets.shape[1]):
                    j = sets[t, place]
                    if j < 0:
                        continue
                    logit = 0.0
                    for c in range(d):
                        logit += q[i, h, c] * k[j, h, c]
                    weight[place] = math.exp(logit)
                    above += weight[place] * v[j, h]
                    below += weight[place]
                average, factor = above / below, outer[t] / below
                dz[i, h] -= factor * sink * average
                for place in range(sets.shape[1]):
                    j = sets[t, place]
                    if j < 0:
                        continue
                    share = factor * weight[place]
                    dv[j, h] += share
                    slope = share * (v[j, h] - average)
                    for c in range(d):
                        dq[i, h, c] += slope * k[j, h, c]
                        dk[j, h, c] += slope * q[i, h, c]
