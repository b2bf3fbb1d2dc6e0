"""Re-rank: choose the best set from given candidates and scores. One call, numpy in, numpy out.

    order = sw.rerank(scores, k=10, embeddings=x)                   similar candidates compete
    order = sw.rerank(scores, k=10, embeddings=x, diversity=0.5)    more variety, at the expense of scores
    order = sw.rerank(scores, k=10, embeddings=x, strategy="mmr")   as other libraries do it
    order = sw.rerank(scores, k=10, query=q, key=k_)                candidates attend to each other by a trained layer

Scores may have any scale: they are mapped to arguments first (``score_scaling.py``). The result is the set S of at most
k candidates of largest F(S) = Σ_{i∈S} f(a_i(S)) that the search finds, with f logistic unless ``reward`` is given.

**With embeddings** x_i a candidate has its scaled score t_i, less a penalty for similar candidates in the set:

    a_i(S) = t_i − strength · W_i / (1 + W_i),     W_i = Σ_{j∈S, j≠i} exp( sharpness · (cos(x_i, x_j) − 1) )

W_i counts the copies of i in S: 1 for an exact one, e^−sharpness for one at a right angle. One copy costs half the
strength, many the whole of it; the strength is 4 · ``diversity``. As a simple transformer: the score is the base term,
every candidate has the value −strength, and the sink has weight 1 and value 0. The strategies ``mmr`` and ``dpp`` take
the same scaled scores and diversity (``ranking/mmr.py``, ``ranking/dpp.py``). With ``diversity=0`` every strategy
returns the k highest scores.

**With query and key** of a trained attention layer (scaling by √d included, heads second: (m, H, d)) the scores
s_j are (m,) or (m, H), as everywhere in setwise, and are not scaled:

    a_i(S) = Σ_h Σ_{j∈S} exp(q_i^h · k_j^h) s_j^h / Σ_{j∈S} exp(q_i^h · k_j^h)

For base terms, sinks, classes of rewards and pinned items use ``Instance`` and ``rank``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import did_you_mean, frozen, numbers, real_array, real_number, whole_number
from setwise.errors import InvalidInput, ScoresGivenUp
from setwise.model.instance import Instance, unit_rows
from setwise.model.rewards import Logistic, Reward
from setwise.ranking import rank, warm_up
from setwise.ranking.dpp import DPP
from setwise.ranking.mmr import DIVERSITY, MMR, share_of_diversity
from setwise.ranking.top_k import TOP_K
from setwise.recommend.arguments import SLATE_SIZE
from setwise.recommend.score_scaling import given_up, scaled

SETWISE = "setwise"
STRATEGIES = (SETWISE, MMR.name, DPP.name)
STRONGEST = 4.0  # the penalty for many copies at diversity 1, in units of scaled scores
WARN_ABOVE = 0.2  # share of the scores' advantage

LEAST = 2_000  # sets evaluated without a budget, at least: a millisecond or two
EFFORT = 10  # times k · m sets are evaluated without a budget; greedy search and all swaps take k · m each


def rerank(
    scores: ArrayLike,
    k: int = SLATE_SIZE,
    *,
    embeddings: ArrayLike | None = None,
    strategy: str = SETWISE,
    diversity: float | None = None,
    ids: ArrayLike | None = None,
    scale: str | None = None,
    outcomes: tuple[ArrayLike, ArrayLike] | None = None,
    warn_above: float = WARN_ABOVE,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    strength: float | None = None,
    sharpness: float = 10.0,
    reward: Reward | None = None,
    groups: ArrayLike | None = None,
    at_most: int | None = None,
    budget_ms: float | None = None,
) -> NDArray[Any]:
    """The positions, or ``ids``, of the best set of at most k of m candidates, best first; a smaller one may be best.

    scores      (m,): higher is better, on any scale
    embeddings  (m, d): similar candidates compete
    strategy    "setwise" (the best set of the objective above), "mmr" or "dpp"
    diversity   from 0 (the k highest scores) to 1; 0.25 by default
    ids         m ids to return instead of positions
    scale       "auto" (any scores) or "log-odds" (scores are log-odds of a hit); "auto" by default, but with
                ``strength`` or ``reward``, which are in units of the scores, these stay as they are
    outcomes    (past scores, past outcomes): the scale is fitted to them
    warn_above  warn with ``ScoresGivenUp`` if the set gives up more than this share of the scores' advantage over
                average candidates
    query, key  (m, d) or (m, H, d): instead of embeddings, those of a trained attention layer
    strength    instead of ``diversity``: the largest penalty, in units of the scores; ``sharpness`` says how similar
                candidates must be (10 halves the weight of a copy at a cosine of 0.93)
    groups      (m,) labels, text or numbers, of which at most ``at_most`` candidates each are chosen; None: no group
    budget_ms   for the search; without it 10 k m sets, at least 2,000, are evaluated, and results are deterministic
    """
    _refuse_mixed(locals())
    labels = {} if groups is None else {"groups": {"groups": groups}}
    limit: dict[str, Any] = {} if at_most is None else {"at_most": {"groups": at_most}}
    most, function = whole_number("k", k), Logistic() if reward is None else reward
    if query is not None and key is not None:
        instance = _attending(scores, query, key, function, labels)
        return _named(ids, instance.m, _searched(instance, most, limit, budget_ms))
    given = real_array("scores", scores, ("m",), np.float64)
    share = share_of_diversity(DIVERSITY if diversity is None else diversity)
    as_given = scale is None and (strength is not None or reward is not None)
    argument = scaled(given, most, "log-odds" if as_given else scale or "auto", outcomes)
    penalty = STRONGEST * share if strength is None else strength
    instance = _competing(argument, embeddings, penalty, sharpness, function, labels)
    if strategy == SETWISE:
        chosen = _searched(instance, most, limit, budget_ms)
    else:
        chosen = rank(instance, most, strategy, diversity=share, **limit).indices
    _warn_of_loss(given, chosen, rank(instance, most, TOP_K.name, **limit).indices, warn_above)
    return _named(ids, len(given), chosen)


def _refuse_mixed(given: dict[str, Any]) -> None:
    """Refuse arguments that contradict each other."""
    has = {name for name, value in given.items() if value is not None}
    if ("embeddings" in has) == ("query" in has) or ("query" in has) != ("key" in has):
        must = "either embeddings alone or query and key together"
        got = " and ".join(sorted(has & {"embeddings", "query", "key"})) or "none of them"
        raise InvalidInput("rerank's arguments", must, got, "pass one of the two")
    if ("groups" in has) != ("at_most" in has):
        raise InvalidInput("groups and at_most", "given together", "one alone", "pass both or neither")
    if given["strategy"] not in STRATEGIES:
        must = f"one of {', '.join(STRATEGIES)}"
        todo = did_you_mean(given["strategy"], STRATEGIES) or "choose one of those"
        raise InvalidInput("strategy", must, repr(given["strategy"]), todo)
    if {"diversity", "strength"} <= has:
        raise InvalidInput("diversity and strength", "one of the two", "both", "leave strength out")
    if {"scale", "outcomes"} <= has:
        raise InvalidInput("scale and outcomes", "one of the two", "both", "leave scale out")
    other = has & {"diversity", "scale", "outcomes", "strength"}
    if "query" in has and (other or given["strategy"] != SETWISE):
        name = next(iter(sorted(other)), "strategy")
        raise InvalidInput(name, "absent with query and key, which state the objective", "given", "leave it out")


def _searched(instance: Instance, k: int, limit: dict[str, Any], budget_ms: float | None) -> NDArray[np.intp]:
    warm_up()
    work: dict[str, Any] = {"budget_ms": budget_ms}
    if budget_ms is None:
        work = {"evaluations": max(LEAST, EFFORT * min(k, instance.m) * instance.m)}
    return rank(instance, k, **limit, **work).indices


def _named(ids: ArrayLike | None, m: int, chosen: NDArray[np.intp]) -> NDArray[Any]:
    """The ids of these positions; the positions if there are no ids."""
    if ids is None:
        return chosen
    names = np.asarray(ids)
    if names.shape != (m,):
        raise InvalidInput("ids", f"{m}, one for each score", f"shape {names.shape}", "align ids with scores")
    if len(set(names.tolist())) < m:
        repeated = next(one for one, count in Counter(names.tolist()).items() if count > 1)
        raise InvalidInput("ids", "distinct", f"{repeated!r} twice", "score each item once")
    return np.asarray(names[chosen])


def _warn_of_loss(scores: Floats, chosen: NDArray[np.intp], best: NDArray[np.intp], warn_above: float) -> None:
    share = given_up(scores, chosen, best)
    if share > real_number("warn_above", warn_above):
        warnings.warn(
            f"rerank gave up {share:.0%} of the scores: the {len(best)} best are {scores[best].mean():.4g} on average, "
            f"the chosen {len(chosen)} are {scores[chosen].mean():.4g}, all candidates {scores.mean():.4g}; "
            "lower diversity (or strength), or raise warn_above if that is intended.",
            ScoresGivenUp,
            stacklevel=3,
        )


def _competing(
    base: Floats, embeddings: Any, strength: float, sharpness: float, reward: Reward, labels: dict[str, Any]
) -> Instance:
    """The instance in which similar candidates compete."""
    m, x = len(base), real_array("embeddings", embeddings, (len(base), "d"), np.float64)
    for name, number in (("strength", strength), ("sharpness", sharpness)):
        if real_number(name, number) < 0:
            raise InvalidInput(name, "at least 0", number, "pass 0 to switch it off")
    unit = unit_rows(x)
    logit = sharpness * (unit @ unit.T - 1)
    np.fill_diagonal(logit, -np.inf)
    instance = Instance(frozen(logit), np.full(m, -float(strength)), reward, base, np.zeros(m), np.zeros(1), **labels)
    instance.embed = lambda: unit
    return instance


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
