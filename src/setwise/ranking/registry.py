"""The rankers by name, and ``rank``: check the arguments, run a ranker, recompute its value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._validation import available_cores, did_you_mean, listed, whole_number
from setwise.errors import Infeasible, InvalidInput, SetwiseError
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.limits import LIMITS
from setwise.model.sums import SUMS, SumLimit
from setwise.ranking.beam import BEAM
from setwise.ranking.dpp import DPP
from setwise.ranking.exact import EXACT
from setwise.ranking.exhaustive import EXHAUSTIVE
from setwise.ranking.feasible_set import feasible_set
from setwise.ranking.greedy import GREEDY
from setwise.ranking.knn import KNN
from setwise.ranking.mmr import MMR
from setwise.ranking.paper import PAPER
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.swap import SWAP
from setwise.ranking.top_k import TOP_K

RANKERS: dict[str, Ranker] = {
    ranker.name: ranker for ranker in (TOP_K, KNN, MMR, DPP, GREEDY, BEAM, PAPER, SWAP, EXACT, EXHAUSTIVE)
}
DEFAULT = SWAP
FEW_EVALUATIONS = 2_000  # of swap search, where a ranker finds no set that meets all lower limits


def ranker_named(name: object) -> Ranker:
    """The ranker of this name."""
    if not isinstance(name, str) or name not in RANKERS:
        todo = did_you_mean(name, RANKERS) or "choose one of those"
        raise InvalidInput("ranker", f"one of {', '.join(sorted(RANKERS))}", repr(name), todo)
    return RANKERS[name]


def required_limits(ranker: Ranker, limits: Mapping[str, Any]) -> list[str]:
    """The names of the limits from below that are stated; a ranker that does not honour them is refused."""
    lower = [name for name, stated in limits.items() if stated and LIMITS[name].lower]
    if lower and not ranker.lower_limits:
        able = ", ".join(each.name for each in RANKERS.values() if each.lower_limits)
        raise InvalidInput("ranker", f"one that honours {lower[0]} ({able})", repr(ranker.name), "choose one of those")
    return lower


def rank(
    instance: Instance,
    k: int | None,
    ranker: str = DEFAULT.name,
    *,
    exclude: ArrayLike = (),
    include: ArrayLike = (),
    **options: Any,
) -> Ranking:
    """The best set of at most k candidates that ``ranker`` finds.

    ``exclude`` and ``include`` are positions among the instance's candidates. The options are the limits of
    ``setwise.model.limits`` and the ranker's own: ``at_most={"artist": 2}`` allows at most two items of one artist,
    ``at_least={"genre": {"jazz": 2}}`` requires two of jazz, ``exactly={"site": 1}`` one of every site, and
    ``sum_at_most={"price": 100}`` a sum within 100; ``k=None`` leaves the size to the sums. The set has fewer than k
    items when there are fewer candidates, or when a smaller set has a larger value.
    """
    todo = "lower one of them, or use the ranker 'exhaustive' on few candidates"
    return rank_or_advise(instance, k, ranker, todo, exclude=exclude, include=include, **options)


def rank_or_advise(
    instance: Instance,
    k: int | None,
    ranker: str,
    todo: str,
    *,
    exclude: ArrayLike = (),
    include: ArrayLike = (),
    sums: Sequence[SumLimit] = (),
    uncounted: ArrayLike = (),
    **options: Any,
) -> Ranking:
    """``rank`` for a caller with its own advice about limits with which no set was found."""
    if not isinstance(instance, Instance):
        raise InvalidInput("instance", "a setwise.Instance", type(instance).__name__, "use Instance.from_catalog")
    chosen = ranker_named(ranker)
    limits = {name: options.pop(name) for name in (*LIMITS, *SUMS) if name in options}
    for option in options:
        if option not in chosen.options:
            known, todo = ", ".join(chosen.options) or "none", did_you_mean(option, chosen.options) or "drop it"
            raise InvalidInput(f"options of '{ranker}'", f"among: {known}", repr(option), todo)
    lower = required_limits(chosen, {name: stated for name, stated in limits.items() if name in LIMITS})
    constraints = Constraints.of(instance, k, exclude, include, sums, uncounted, **limits)
    lower += ["sum_at_least"] if np.isfinite(constraints.sums.least).any() else []
    ranking = _best_first(instance, _in_catalogue_order(chosen.search, instance, constraints, options))
    if not constraints.meets_minimums(ranking.indices):
        ranking = _meeting_minimums(instance, constraints, ranking)
    if not constraints.meets_minimums(ranking.indices):
        raise Infeasible(lower[0], "possible together with the other limits", "no feasible set found", todo)
    if not constraints.admits(ranking.indices):
        raise SetwiseError(f"the ranker '{ranker}' broke a constraint; this is a defect of setwise, please report it.")
    return ranking


def rank_many(
    instances: Sequence[Instance],
    k: int,
    ranker: str = DEFAULT.name,
    *,
    threads: int | None = None,
    **options: Any,
) -> list[Ranking]:
    """``rank`` for many instances, for example one per user, on ``threads`` threads (default: all cores).

    The compiled rankers release the interpreter lock. One thread ranks one instance, so that the results do not depend
    on the number of threads.
    """
    checked = listed("instances", instances, "instances")
    workers = whole_number("threads", threads) if threads is not None else available_cores()
    first = [rank(instance, k, ranker, **options) for instance in checked[:1]]  # compiles what the ranker needs
    with ThreadPoolExecutor(workers) as pool:
        return first + list(pool.map(lambda instance: rank(instance, k, ranker, **options), checked[1:]))


@functools.cache
def warm_up() -> None:
    """Load (or, the first time on a machine, compile) the kernels of ``swap``, for a call with a budget."""
    rank(Instance(np.zeros((3, 3)), [3.0, 2.0, 1.0]), 2, SWAP.name, evaluations=1)


def _in_catalogue_order(
    function: Callable[..., Ranking], instance: Instance, constraints: Constraints, options: Mapping[str, Any]
) -> Ranking:
    """Run the ranker on the candidates sorted by catalogue row, so that the result does not depend on their order.

    That order would otherwise decide ties and the rounding of sums.
    """
    place = np.zeros(instance.m, np.intp) if instance.positions is None else instance.positions
    order = np.lexsort((place, instance.candidates))
    if (order == np.arange(instance.m)).all():
        return function(instance, constraints, **options)
    where = np.empty_like(order)
    where[order] = np.arange(instance.m)
    sorted_constraints = replace(
        constraints,
        open=constraints.open[order],
        pinned=where[constraints.pinned],
        labels=constraints.labels[:, order],
        sums=constraints.sums.taken(order),
    )
    ranking = function(instance.permuted(order), sorted_constraints, **options)
    return replace(ranking, indices=order[ranking.indices])


def _meeting_minimums(instance: Instance, constraints: Constraints, ranking: Ranking) -> Ranking:
    """A set that meets the lower limits where the set of a ranker does not; that set, if none is found.

    Rankers that add items one by one never take one back, and swap search changes few at a time.
    """
    short = {"evaluations": FEW_EVALUATIONS}
    found = _best_first(instance, _in_catalogue_order(DEFAULT.search, instance, constraints, short))
    if constraints.meets_minimums(found.indices):
        return found
    chosen = feasible_set(instance, constraints)
    return ranking if chosen is None else _best_first(instance, Ranking(chosen, 0.0))


def _best_first(instance: Instance, ranking: Ranking) -> Ranking:
    """Order the set by reward (by place in an ordered slate) and recompute the value."""
    chosen = ranking.indices[np.argsort(instance.candidates[ranking.indices], kind="stable")]  # sums round by order
    rewards = instance.rewards_of(chosen)
    weight = -rewards if instance.positions is None else instance.positions[chosen]
    order = np.lexsort((instance.candidates[chosen], weight))
    value = float(rewards[order].sum())
    # The value of the same set may round upwards in another order; the bound must not be below the value.
    return replace(ranking, indices=chosen[order], value=value, upper_bound=max(ranking.upper_bound, value))
