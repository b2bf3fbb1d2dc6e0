"""How the set of a list is found: the search for the best one, MMR or DPP; and its order and bound."""

from __future__ import annotations

from functools import partial

import numpy as np

from setwise._types import Rows
from setwise.bounds import competition
from setwise.bounds.candidates.upper_bound import bounded
from setwise.errors import Infeasible
from setwise.model.competition import Competition
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import Logistic
from setwise.ranking import warm_up
from setwise.ranking.competition_search import search
from setwise.ranking.dpp import DPP, most_determinant
from setwise.ranking.feasible_set import feasible_set
from setwise.ranking.mmr import MMR, most_marginal, relevance_of
from setwise.ranking.swap import swap
from setwise.ranking.top_k import best_by
from setwise.recommend.rerank.answer import Answer, Order
from setwise.recommend.rerank.candidates import Candidates
from setwise.recommend.score_scaling import given_up

SETWISE = "setwise"
STRATEGIES = (SETWISE, MMR.name, DPP.name)
LEAST = 2_000  # sets evaluated by ``swap`` without a budget, at least: a millisecond or two
EFFORT = 10  # times k · m sets are evaluated without a budget; greedy search and all swaps take k · m each


Problem = Competition | Instance  # a list as an objective


def searched(problem: Problem, constraints: Constraints, budget_ms: float | None) -> Rows:
    """The best set that the search finds."""
    found = _searched(problem, constraints, budget_ms)
    if constraints.meets_minimums(found):
        return found
    chosen = feasible_set(problem, constraints)
    if chosen is None:
        must, todo = "possible together with the other limits", "lower one of them"
        raise Infeasible("at_least, exactly, sum_at_least", must, "no feasible set found", todo)
    return chosen


def _searched(problem: Problem, constraints: Constraints, budget_ms: float | None) -> Rows:
    if isinstance(problem, Competition) and isinstance(problem.reward, Logistic):
        return search(problem, constraints, budget_ms)
    instance = problem if isinstance(problem, Instance) else problem.instance()
    if budget_ms is not None:
        warm_up()
        return swap(instance, constraints, budget_ms=budget_ms).indices
    return swap(
        instance, constraints, evaluations=max(LEAST, EFFORT * min(constraints.k, problem.m) * problem.m)
    ).indices


def diversified(problem: Competition, constraints: Constraints, strategy: str, share: float) -> Rows:
    """The set of MMR or DPP; of the search, where that does not keep the lower limits."""
    choose = most_marginal if strategy == MMR.name else most_determinant
    chosen = choose(relevance_of(problem.alone), problem.likeness.unit(), constraints, share)
    if constraints.meets_minimums(chosen):
        return chosen
    return searched(problem, constraints, None)


def order_of(
    candidates: Candidates, problem: Problem, constraints: Constraints, chosen: Rows, sort: bool = True
) -> Order:
    """The order of these candidates; if ``sort``, by their rewards in the set, else as they are."""
    share = given_up(candidates.scores, chosen, best_by(constraints, candidates.scores))
    answer = Answer(candidates, chosen, share, problem.rewards_of, partial(upper_bound, problem, constraints))
    if sort:
        rewards = problem.rewards_of(chosen)
        best_first = np.lexsort((chosen, -rewards))
        answer.chosen, answer.__dict__["rewards"] = chosen[best_first], rewards[best_first]
    return Order.of(answer)


def upper_bound(problem: Problem, constraints: Constraints, value: float) -> float:
    """A bound on the value of every set that keeps the rules; ``value`` is that of a known one."""
    if isinstance(problem, Competition) and isinstance(problem.reward, Logistic):
        return competition.upper_bound(problem, constraints, value)
    instance = problem if isinstance(problem, Instance) else problem.instance()
    return bounded(instance, constraints)
