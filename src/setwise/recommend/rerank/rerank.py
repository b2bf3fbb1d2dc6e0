"""``rerank``: choose the best set from given candidates and scores. One call, arrays or a table in, an order out.

    order = sw.rerank(scores, k=10, embeddings=x)                   similar candidates compete
    order = sw.rerank(scores, k=10, embeddings=x, diversity=0.5)    more variety, at the expense of scores
    order = sw.rerank(scores, k=10, embeddings=x, strategy="mmr")   as other libraries do it
    order = sw.rerank(table, k=10, at_most={"brand": 2})            a table with id, score, vector and attributes
    order = sw.rerank(scores, k=10, query=q, key=k_)                candidates attend to each other by a trained layer

Scores may have any scale: they are mapped to arguments first (``score_scaling.py``). The result is the set S of at most
k candidates of largest F(S) = Σ_{i∈S} f(a_i(S)) that the search finds, with f logistic unless ``reward`` is given.

**By vectors** x_i a candidate has its scaled score t_i, less a penalty for similar candidates in the set:

    a_i(S) = t_i − strength · W_i / (1 + W_i),     W_i = Σ_{j∈S, j≠i} exp( sharpness · (cos(x_i, x_j) − 1) )

W_i counts the copies of i in S: 1 for an exact one, e^−sharpness for one at a right angle. One copy costs half the
strength, many the whole of it; the strength is 4 · ``diversity``. As a simple transformer: the score is the base term,
every candidate has the value −strength, and the sink has weight 1 and value 0 (``ranking/competition.py``). The
strategies ``mmr`` and ``dpp`` take the same scaled scores and diversity (``ranking/mmr.py``, ``ranking/dpp.py``). With
``diversity=0`` every strategy returns the k highest scores.

**By attributes**, where there are no vectors or ``by`` names them, the weight in W_i is the share of the attributes on
which i and j agree. Without ``by`` these are the columns of text that repeat.

**With query and key** of a trained attention layer (scaling by √d included, heads second: (m, H, d)) the scores
s_j are (m,) or (m, H), as everywhere in setwise, and are not scaled:

    a_i(S) = Σ_h Σ_{j∈S} exp(q_i^h · k_j^h) s_j^h / Σ_{j∈S} exp(q_i^h · k_j^h)

For base terms, sinks, classes of rewards and pinned items use ``Instance`` and ``rank``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import milliseconds, real_number
from setwise.errors import InvalidInput, ScoresGivenUp
from setwise.model.competition import LOGISTIC, Competition
from setwise.model.constraints import Constraints
from setwise.model.ids import IdChoice
from setwise.model.likeness import SHARPNESS
from setwise.model.rewards import Reward
from setwise.ranking.mmr import DIVERSITY, share_of_diversity
from setwise.ranking.top_k import best_by
from setwise.recommend.arguments import IGNORE, SLATE_SIZE, SumBound
from setwise.recommend.rerank.alike import likeness_of
from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.attending import attending
from setwise.recommend.rerank.candidates import Candidates
from setwise.recommend.rerank.effects import affected
from setwise.recommend.rerank.learned import STRONGEST, LearnedDiversity
from setwise.recommend.rerank.mixed import refuse_mixed
from setwise.recommend.rerank.numbers import weighted
from setwise.recommend.rerank.rules import Rules
from setwise.recommend.rerank.strategies import SETWISE, Problem, diversified, order_of, searched
from setwise.recommend.score_scaling import scaled

WARN_ABOVE = 0.2  # share of the scores' advantage


def rerank(
    scores: Any,
    k: int = SLATE_SIZE,
    *,
    ids: ArrayLike | None = None,
    embeddings: ArrayLike | None = None,
    attributes: Any = None,
    diversity: float | LearnedDiversity | None = None,
    by: str | Sequence[str] | None = None,
    include: IdChoice = (),
    exclude: IdChoice = (),
    where: Mapping[str, Any] | None = None,
    at_most: Mapping[str, int] | None = None,
    at_least: Mapping[str, Mapping[Any, int]] | None = None,
    exactly: Mapping[str, int] | None = None,
    sum_at_most: Mapping[str, SumBound] | None = None,
    sum_at_least: Mapping[str, SumBound] | None = None,
    weights: str | ArrayLike | Mapping[Any, float] | None = None,
    unknown: str = IGNORE,
    strategy: str = SETWISE,
    scale: str | None = None,
    outcomes: tuple[ArrayLike, ArrayLike] | None = None,
    warn_above: float = WARN_ABOVE,
    effects: Any = None,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    strength: float | None = None,
    sharpness: float = SHARPNESS,
    reward: Reward | None = None,
    budget_ms: float | None = None,
) -> Order:
    """The ids, or positions, of the best set of at most k of m candidates, best first; a smaller one may be best.

    scores      (m,), higher is better, on any scale; {id: score}; or a table or a list of records, with a score
                and perhaps an id, a vector and attributes (``candidates.py``)
    ids         m ids to return instead of positions
    embeddings  (m, d): similar candidates compete
    attributes  columns of m values, by name, for rules and for ``by``
    diversity   from 0 (the k highest scores) to 1; 0.25 by default where there is something to compare; or what
                ``fit_diversity`` learned, which has the scale of the scores too
    by          attributes by which candidates are alike, instead of vectors
    include     ids that the set must contain        exclude   ids that it must not contain
    where       conditions on attributes: a value, a list of values, or a range of numbers
    at_most     the largest number of candidates of one value: {"brand": 2}
    at_least    the smallest number of candidates of a value: {"is_new": {True: 1}}
    exactly     the number of candidates of every value: {"site": 1}
    sum_at_most, sum_at_least  the largest and the smallest sum of a number: {"price": 100}
    weights     what a hit of each candidate is worth, at least 0: an attribute ("margin"), m numbers, or {id: number}
    unknown     ids of ``exclude`` that are no candidates: "ignore" reports them, "error" refuses them
    strategy    "setwise" (the best set of the objective above), "mmr" or "dpp"
    scale       "auto" (any scores) or "log-odds" (scores are log-odds of a hit); "auto" by default, but with
                ``strength``, ``reward`` or ``effects``, which are in units of the scores, these stay as they are
    outcomes    (past scores, past outcomes): the scale is fitted to them
    warn_above  warn with ``ScoresGivenUp`` if the set gives up more than this share of the scores' advantage over
                average candidates
    effects     a model that was trained on slates with outcomes (``SimpleTransformer.load``), instead of diversity: its
                effects of attributes on each other, for candidates that it never saw too; scores are log-odds then
    query, key  (m, d) or (m, H, d): instead of embeddings, those of a trained attention layer
    strength    instead of ``diversity``: the largest penalty, in units of the scores; ``sharpness`` says how similar
                candidates must be (10 halves the weight of a copy at a cosine of 0.93)
    budget_ms   for the search; without it the work depends on k and m alone, and results are deterministic

    The order has ``value``, ``rewards``, ``indices``, ``upper_bound`` and ``gap``; ``notes`` says which candidates were
    left out, or lack something, and why.
    """
    limits: dict[str, Any] = {"at_most": at_most, "at_least": at_least, "exactly": exactly}
    limits |= {"sum_at_most": sum_at_most, "sum_at_least": sum_at_least}
    rules = Rules(k, include, exclude, where, limits, unknown)
    refuse_mixed(embeddings, query, key, strategy, diversity, strength, scale, outcomes, by, effects, weights)
    function = LOGISTIC if reward is None else reward
    problem: Problem
    if query is not None and key is not None:
        listed, problem = attending(scores, query, key, function, ids, attributes)
        constraints = rules.constraints(listed)
        return order_of(listed, problem, constraints, searched(problem, constraints, milliseconds(budget_ms)))
    listed = Candidates.of(scores, ids, embeddings, attributes)
    factor = None
    if weights is not None:
        listed, factor = weighted(listed, weights)
    constraints = rules.constraints(listed)
    if isinstance(diversity, LearnedDiversity):
        strength, sharpness, by = (
            max(diversity.strength if diversity.found else 0.0, 0.0),
            diversity.sharpness,
            diversity.by,
        )
        listed = replace(listed, scores=diversity.slope * listed.scores + diversity.offset)
        diversity = None
    share = share_of_diversity(DIVERSITY if diversity is None else diversity)
    as_given = scale is None and (strength is not None or reward is not None or effects is not None)
    argument = scaled(listed.scores, constraints.k, "log-odds" if as_given else scale or "auto", outcomes)
    if effects is not None:
        problem = affected(effects, listed, argument, factor)
        return order_of(listed, problem, constraints, searched(problem, constraints, milliseconds(budget_ms)))
    penalty = STRONGEST * share if strength is None else _not_negative("strength", strength)
    alike = likeness_of(listed, by, _not_negative("sharpness", sharpness), asked=bool(diversity or strength))
    problem = Competition(argument, alike, penalty, function, factor)
    if strategy == SETWISE:
        chosen = searched(problem, constraints, milliseconds(budget_ms))
    else:
        chosen = diversified(problem, constraints, strategy, share)
    order = order_of(listed, problem, constraints, chosen, sort=strategy == SETWISE)
    if order.given_up > real_number("warn_above", warn_above):
        _warn_of_loss(listed.scores, chosen, constraints, order.given_up)
    return order


def _warn_of_loss(scores: Floats, chosen: Rows, constraints: Constraints, share: float) -> None:
    """Warn that much of the scores is given up; the best are those that the rules allow."""
    best = best_by(constraints, scores)
    warnings.warn(
        f"rerank gave up {share:.0%} of the scores: the {len(best)} best are {scores[best].mean():.4g} on average, "
        f"the chosen {len(chosen)} are {scores[chosen].mean():.4g}, all candidates {scores.mean():.4g}; "
        "lower diversity (or strength), or raise warn_above if that is intended.",
        ScoresGivenUp,
        stacklevel=3,
    )


def _not_negative(name: str, number: float) -> float:
    value = real_number(name, number)
    if value < 0:
        raise InvalidInput(name, "at least 0", number, "pass 0 to switch it off")
    return value
