"""Item-kNN: items are related by the sessions that hold both.

    C_ji = Σ_s x_sj x_si |s|^−b        sessions in common, long sessions counting less
    W_ji = (C_ji / (n_j^a n_i^c))^p    n: sessions of an item; a ≠ c is the asymmetric cosine (Aiolli 2013)

Only the division differs between settings, so C is computed once for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats32
from setwise.training.base.session_matrix import cut, scipy_sparse


class Similarity(NamedTuple):
    """The exponents of a similarity: of the history's item, of the candidate, of the session's length, of the whole."""

    history: float
    candidate: float
    session: float = 0.5
    whole: float = 1.0


def common_sessions(matrix: Any, session: float) -> Any:
    """C (n, n), sparse, with a zero diagonal."""
    length = np.asarray(matrix.sum(axis=1)).ravel()
    weighted = scipy_sparse().diags(np.maximum(length, 1) ** -session).astype(np.float32) @ matrix
    together = (matrix.T @ weighted).tocsr()
    together.setdiag(0)
    together.eliminate_zeros()
    return together


def knn_scores(seen: Any, together: Any, count: Floats32, similarity: Similarity) -> Floats32:
    """The scores (B, n) that all neighbours give to weighted histories ``seen`` (B, n): W itself is not computed."""
    used = np.maximum(count, 1)
    raised = together if similarity.whole == 1 else together.power(similarity.whole)
    scaled = seen @ scipy_sparse().diags(used ** -(similarity.history * similarity.whole))
    scores: Floats32 = np.asarray((scaled @ raised).toarray(), np.float32)
    scores *= used ** -(similarity.candidate * similarity.whole)
    return scores


def fit_item_knn(together: Any, count: Floats32, similarity: Similarity, most: int) -> Any:
    """The ``most`` strongest weights of each row of W, as a sparse matrix (n, n)."""
    diagonals, used = scipy_sparse().diags, np.maximum(count, 1)
    weight = (diagonals(used**-similarity.history) @ together @ diagonals(used**-similarity.candidate)).tocsr()
    weight.data = (weight.data**similarity.whole).astype(np.float32)
    return cut(weight, most)
