"""Phase Two, step 1: from a distance δ to a surrogate W' of low non-negative rank (Corollary "rank partition").

*Proposition.* Pack the items greedily into cells: an item belongs to the first centre within δ/2 of its query *and* of
its key. With c(i) the centre of the cell of i, let W'_ij = exp(q_c(i) · k_c(j)). Then, after scaling its rows,

    1 − γ ≤ W_ij/W'_ij ≤ 1 + γ,     γ ≤ tanh(δR),     R = (‖Q‖ + ‖K‖)/2,     ‖Q‖ = max ‖q_i‖,     ‖K‖ = max ‖k_i‖,

and W' has non-negative rank at most the number of cells, at most ⌈1 + 4‖Q‖/δ⌉^d ⌈1 + 4‖K‖/δ⌉^d. *Proof.* q_i·k_j −
q_c(i)·k_c(j) = q_i·(k_j − k_c(j)) + (q_i − q_c(i))·k_c(j) is at most δR in size. So the ratios of a row lie between
e^(−δR) and e^(δR) times a constant, and the best scale turns them into 1 ± tanh(δR). W' has one row for each cell: with
A one-hot and B_jc = exp(q_c · k_c(j)), W' = A Bᵀ. Cells are counted by volume, as in cover.py.  ∎

The paper has γ = 17δ max(‖Q‖, ‖K‖) and rank ⌈4R/δ⌉^(4d). ``share_keys=False`` packs the queries alone, with
W'_ij = exp(q_c(i) · k_j): γ ≤ tanh(δ‖K‖/2) with at most ⌈1 + 4‖Q‖/δ⌉^d columns, better in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofs.cover import INWARDS, pack
from proofs.nonnegative_rank import Surrogate, one_hot, scaled
from setwise._types import Floats
from setwise._validation import real_number
from setwise.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class RankPartition:
    """W' of a partition, and what the proposition promises about it before the items are seen."""

    surrogate: Surrogate  # its ``gamma`` and ``rank`` are those of these items
    cell_of: NDArray[np.int32]  # (n,)
    most_gamma: float
    most_rank: int


def rank_partition(query: ArrayLike, key: ArrayLike, delta: float, *, share_keys: bool = True) -> RankPartition:
    """W' for ``query`` and ``key`` (n, d) from cells of diameter ``delta``."""
    queries, keys = _vectors("query", query), _vectors("key", key)
    if queries.shape != keys.shape:
        raise InvalidInput("key", f"of the shape of query, {queries.shape}", keys.shape, "pass both of one head")
    delta = real_number("delta", delta)
    if delta <= 0:
        raise InvalidInput("delta", "greater than 0", delta, "pass a distance between queries")
    parts = [queries, keys] if share_keys else [queries]
    cell_of = pack(parts, np.zeros(len(queries), np.int32), delta / 2 * INWARDS)
    centres = np.unique(cell_of, return_index=True)[1]  # the first item of every cell
    columns = keys[centres[cell_of]] if share_keys else keys
    made = scaled(queries @ keys.T, one_hot(cell_of.astype(np.intp)), columns @ queries[centres].T)
    longest = [float(np.linalg.norm(part, axis=1).max()) for part in (queries, keys)]
    error = delta / 2 * (sum(longest) if share_keys else longest[1])
    most = math.prod(math.ceil(1 + 4 * length / delta) ** queries.shape[1] for length in longest[: len(parts)])
    return RankPartition(made, cell_of, math.tanh(error), most)


def _vectors(name: str, given: ArrayLike) -> Floats:
    array = np.asarray(given, np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise InvalidInput(name, "finite, of shape (n, d)", array.shape, "pass the vectors of one head")
    return array
