"""Re-rank: choose the best set from given candidates and scores. One call, numpy in, numpy out.

    order = sw.rerank(scores, k=10, embeddings=x)              similar candidates compete
    order = sw.rerank(scores, k=10, query=q, key=k_)           candidates attend to each other by a trained layer

The result is the set S of at most k candidates of largest F(S) = Σ_{i∈S} f(a_i(S)) that the search finds. With f
logistic, the default, arguments are log-odds and F is the expected number of hits; for scores that are values already
(probabilities, ratings), pass ``reward=sw.Linear()``.

**With embeddings** x_i a candidate has its score, less a penalty for similar candidates in the set:

    a_i(S) = scores_i − strength · W_i / (1 + W_i),     W_i = Σ_{j∈S, j≠i} exp( sharpness · (cos(x_i, x_j) − 1) )

W_i counts the copies of i in S: 1 for an exact one, e^−sharpness for one at a right angle. One copy costs half the
strength, many the whole of it. As a simple transformer: the score is the base term, every candidate has the value
−strength, and the sink has weight 1 and value 0.

**With query and key** of a trained attention layer (scaling by √d included, heads second: (m, H, d)) the scores
s_j are (m,) or (m, H), as everywhere in setwise:

    a_i(S) = Σ_h Σ_{j∈S} exp(q_i^h · k_j^h) s_j^h / Σ_{j∈S} exp(q_i^h · k_j^h)

For base terms, sinks, classes of rewards and pinned items use ``Instance`` and ``rank``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import frozen, numbers, real_array, real_number, whole_number
from setwise.errors import InvalidInput
from setwise.model.instance import Instance
from setwise.model.rewards import Logistic, Reward
from setwise.ranking import rank, warm_up

LEAST = 2_000  # sets evaluated without a budget, at least: a millisecond or two
EFFORT = 10  # times k · m sets are evaluated without a budget; greedy search and all swaps take k · m each


def rerank(
    scores: ArrayLike,
    k: int = 10,
    *,
    embeddings: ArrayLike | None = None,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    strength: float = 2.0,
    sharpness: float = 10.0,
    reward: Reward = Logistic(),  # noqa: B008  # a frozen value
    groups: ArrayLike | None = None,
    at_most: int | None = None,
    budget_ms: float | None = None,
) -> NDArray[np.intp]:
    """The positions of the best set of at most k of m candidates, best first; a smaller set may be the best one.

    scores      (m,): log-odds of a hit, or any numbers that ``reward`` maps to values
    embeddings  (m, d): similar candidates compete; ``strength`` is the largest penalty, in units of the scores, and
                ``sharpness`` how similar they must be (10 halves the weight of a copy at a cosine of 0.93)
    query, key  (m, d) or (m, H, d): instead of embeddings, those of a trained attention layer
    groups      (m,) labels, text or numbers, of which at most ``at_most`` candidates each are chosen; None: no group
    budget_ms   for the search; without it 10 k m sets, at least 2,000, are evaluated, and results are deterministic

    The module's docstring states the objective.
    """
    if (embeddings is None) == (query is None) or (query is None) != (key is None):
        must = "either embeddings alone or query and key together"
        raise InvalidInput("rerank's arguments", must, "another choice", "pass one of the two")
    labels = {} if groups is None else {"groups": {"groups": groups}}
    if (groups is None) != (at_most is None):
        raise InvalidInput("groups and at_most", "given together", "one alone", "pass both or neither")
    if query is not None and key is not None:
        instance = _attending(scores, query, key, reward, labels)
    else:
        instance = _competing(scores, embeddings, strength, sharpness, reward, labels)
    warm_up()
    limit = {} if at_most is None else {"groups": at_most}
    work: dict[str, Any] = {"budget_ms": budget_ms}
    if budget_ms is None:
        work = {"evaluations": max(LEAST, EFFORT * min(whole_number("k", k), instance.m) * instance.m)}
    return rank(instance, k, at_most=limit, **work).indices


def _competing(
    scores: ArrayLike, embeddings: Any, strength: float, sharpness: float, reward: Reward, labels: dict[str, Any]
) -> Instance:
    """The instance in which similar candidates compete."""
    base = real_array("scores", scores, ("m",), np.float64)
    m, x = len(base), real_array("embeddings", embeddings, (len(base), "d"), np.float64)
    for name, number in (("strength", strength), ("sharpness", sharpness)):
        if real_number(name, number) < 0:
            raise InvalidInput(name, "at least 0", number, "pass 0 to switch it off")
    largest = np.abs(x).max(axis=1, initial=0.0, keepdims=True)
    x = x / np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor underflow
    length = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.where(length > 0, length, 1.0)  # a zero vector is similar to no candidate
    logit = sharpness * (x @ x.T - 1)
    np.fill_diagonal(logit, -np.inf)
    return Instance(frozen(logit), np.full(m, -float(strength)), reward, base, np.zeros(m), np.zeros(1), **labels)


def _attending(scores: ArrayLike, query: ArrayLike, key: ArrayLike, reward: Reward, labels: dict[str, Any]) -> Instance:
    """The instance in which candidates attend to each other by a trained layer."""
    score = real_array("scores", _headed("scores", scores, 1), ("m", "heads"), np.float64)
    q = real_array("query", _headed("query", query, 2), (*score.shape, "d"), np.float64)
    k = real_array("key", _headed("key", key, 2), q.shape, np.float64)
    return Instance(frozen(q.transpose(1, 0, 2) @ k.transpose(1, 2, 0)), score.T, reward, **labels)


def _headed(name: str, given: ArrayLike, plain: int) -> NDArray[Any]:
    """``given`` with heads as its second axis; one of ``plain`` dimensions has one head."""
    array = numbers(name, given)
    return array[:, None] if array.ndim == plain else array
