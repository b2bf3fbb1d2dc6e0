"""A list whose candidates attend to each other by queries and keys of a trained layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import frozen, numbers, real_array
from setwise.model.instance import Instance
from setwise.model.rewards import Reward
from setwise.recommend.rerank.candidates import Candidates


def attending(
    scores: Any, query: ArrayLike, key: ArrayLike, reward: Reward, ids: ArrayLike | None, attributes: Any
) -> tuple[Candidates, Instance]:
    """The candidates, and the instance in which they attend to each other."""
    score = real_array("scores", _headed("scores", scores, 1), ("m", "heads"), np.float64)
    q = real_array("query", _headed("query", query, 2), (*score.shape, "d"), np.float64)
    k = real_array("key", _headed("key", key, 2), q.shape, np.float64)
    listed = Candidates.of(score.sum(axis=1), ids, None, attributes)
    if listed.rows is not None:
        score, q, k = score[listed.rows], q[listed.rows], k[listed.rows]
    return listed, Instance(frozen(q.transpose(1, 0, 2) @ k.transpose(1, 2, 0)), score.T, reward)


def _headed(name: str, given: ArrayLike, plain: int) -> NDArray[Any]:
    """``given`` with heads as its second axis; one of ``plain`` dimensions has one head."""
    array = numbers(name, given)
    return array[:, None] if array.ndim == plain else array
