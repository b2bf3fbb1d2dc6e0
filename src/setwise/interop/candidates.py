"""Candidates of a model with implicit's ``recommend``, as ``scores=`` takes them: item-kNN, BM25, factorisations.

scores = candidate_scores(model, histories, ids, count=500)
recommender.recommend_many(histories=histories, scores=scores)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from setwise._validation import listed, whole_number
from setwise.errors import InvalidInput
from setwise.interop.sparse_rows import history_matrix
from setwise.model.ids import IdChoice, Ids

_LOWEST = -1e37  # implicit fills places without an item with the lowest float32


def candidate_scores(
    model: Any, histories: Iterable[IdChoice], ids: IdChoice | Ids, count: int = 500
) -> list[dict[Any, float]]:
    """For each history the ``count`` best items of the model and their scores: {id: score}; seen items are left out.

    ``ids`` are those of the model's items in its order. A factorisation computes the user from the history first.
    """
    lists = listed("histories", histories, "histories")
    known = ids if isinstance(ids, Ids) else Ids.of(ids, len(ids))
    if not lists:
        return []
    matrix = history_matrix([known.rows_of(history) for history in lists], len(known))
    if not hasattr(model, "recommend"):
        raise InvalidInput("model", "one with implicit's recommend", type(model).__name__, "pass scores by hand")
    options = {"recalculate_user": True} if hasattr(model, "user_factors") else {}
    best = min(whole_number("count", count), len(known))
    users = np.arange(len(lists))
    try:
        rows, scores = model.recommend(users, matrix, N=best, filter_already_liked_items=True, **options)
    except NotImplementedError:  # BPR and LMF
        must, todo = "one that computes users from histories, such as ALS or item-kNN", "use from_implicit instead"
        raise InvalidInput("model", must, type(model).__name__, todo) from None
    filled = (np.asarray(rows) >= 0) & (np.asarray(scores) > _LOWEST)
    return [
        dict(zip(known[row[mask]].tolist(), score[mask].astype(float).tolist(), strict=True))
        for row, score, mask in zip(np.asarray(rows), np.asarray(scores), filled, strict=True)
    ]
