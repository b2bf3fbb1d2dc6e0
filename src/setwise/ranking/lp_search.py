"""LP search: our own search with the parts of the paper's Phase Two: partial solutions, linear programs, rounding.

The paper solves auxiliary problems P(X, t) for a grid of denominators t (paper.py runs that). Here an auxiliary problem
is defined by a known set Y, complete or partial. With query clusters c
(query_clusters.py), scores shifted to be at least 0, and N_c and D_c the cluster's sums over Y, it is

    max Σ_i x_i f_i(a_i)    s.t.    b_c·x + z_c ≤ t_c = (1 + σ) D_c        for every cluster c that Y uses, and head,
                                    d_c·x + z_c s_0 ≥ θ_c = N_c            for the same,
                                    Σx ≤ k,  limits of groups,  0 ≤ x ≤ 1,  x = 1 on what is pinned or fixed,

where σ takes the values of a small grid in turn: the discretised t, restricted to the neighbourhood of a known set. For
a feasible x the average of every cluster in use is at least θ_c/t_c. In the objective a_i is the average of i itself
over Y ∪ {i}, which is also defined for clusters not in use. An optimal vertex has at most as many fractional entries as
there are rows. It is rounded down, and the remaining places are filled greedily under the exact F. F of every candidate
solution is the reference objective's, never the surrogate's.

**Which sets Y.** The search starts with greedy and with greedy from each of the items of highest reward in turn (the
tuples (j, 1, …, 1) of beam search). It continues with the combinations X of the ``top`` items of highest reward, those
nearest to greedy's own first: X fixed and the rest of the top excluded, filled up greedily, then linearised at X; then
with linear programs at single items. ``LpSearch`` sorts the candidate solutions by value and makes the next guess where
(guesses made there + 1) · (its rank) is smallest: half as often around the second best as around the best, and so on;
another X ranks like the second best. Guesses around a candidate solution S: linearised at S itself; then, in turn, S
without one item (one place needs no linear program: the best candidate fills it), linearised at S without two items,
where the others are fixed, and linearised at S without several random items, where no item is fixed. So the final set
need not contain the X from which the search started.

A candidate solution is a set that is not known yet; a guess that leads to a known set does not count. The search ends
early after 20 such guesses in a row, which happens when few sets are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.errors import InvalidInput, SetwiseError
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.ranking.linear_program import INTEGRAL, LinearProgram
from setwise.ranking.partial_set import PartialSet, best_set
from setwise.ranking.query_clusters import QueryClusters
from setwise.ranking.ranker import Ranker, Ranking

NO_ROWS: Rows = np.zeros(0, np.intp)
SOLUTIONS, CLUSTERS, TOP = 100, 64, 2
GRID = (0.1, 0.5)  # σ: by how much the attention of a cluster to the new set may exceed that to Y
MAX_TOP = 12  # 2^12 combinations are more than any budget opens
OPENING_RANK = 2  # another combination has the priority of a guess around the second best solution
MAX_UNPRODUCTIVE = 20  # guesses in a row that may lead to known sets
SLACK = 1e-6  # of a row's largest entry: Y itself must stay feasible when its sums are rounded
NEGLIGIBLE = 1e-8  # relative to a row's largest entry; smaller entries are dropped, as they destabilise the solver


class Guess(NamedTuple):
    """How to make one candidate solution: fill ``known`` up, or first solve the auxiliary problem at it."""

    known: Rows
    out: Rows = NO_ROWS  # candidates that must not be added
    linear: bool = False  # whether to solve the auxiliary problem
    fixed: bool = False  # whether the auxiliary problem fixes all of ``known``, or the pinned items alone


class AuxiliaryPrograms(ABC):
    """Linear programs at known sets. Subclasses define the rows of the clusters in use."""

    def __init__(self, instance: Instance, constraints: Constraints, clusters: int) -> None:
        self.instance, self.constraints = instance, constraints
        self.clusters = QueryClusters.of(instance, clusters)
        self._limits = _limit_rows(constraints)
        self._program: LinearProgram | None = None
        self.solved = 0

    @abstractmethod
    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """Rows (R, m) and low sides (R,) of the clusters ``used``, which ``known`` satisfies."""

    def round_vertex(self, known: PartialSet, kept: Rows, out: Rows) -> Rows | None:
        """An optimal vertex rounded down: the candidates at 1; None when the program is infeasible or not solved."""
        rows, low = _normalised(*self.rows(self.clusters.used_by(known.chosen), known.chosen))
        rows, low = np.vstack([self._limits[0], rows]), np.concatenate([np.full(len(self._limits[0]), -np.inf), low])
        high = np.concatenate([self._limits[1], np.full(len(rows) - len(self._limits[1]), np.inf)])
        lower, upper = np.zeros(self.instance.m), self.constraints.open.astype(np.float64)
        upper[out] = 0.0
        lower[kept] = upper[kept] = 1.0
        self.solved += 1
        try:
            self._program = self._program or LinearProgram(rows, low, high)
            vertex = self._program.maximise(
                self.objective(known), rows=rows, low=low, high=high, lower=lower, upper=upper
            )
        except InvalidInput:
            raise
        except SetwiseError:  # badly scaled rows defeated the solver: skip this guess
            self._program = None
            return None
        return None if vertex is None else np.flatnonzero(vertex.x > 1 - INTEGRAL)

    def objective(self, known: PartialSet) -> Floats:
        """f_i(a_i): the reward of each candidate beside ``known``."""
        it, members, every = self.instance, known.chosen, np.arange(self.instance.m)
        average = known.sums.add(it.logit[:, every, every], it.score).average()
        average[members] = known.sums.average()[members]
        return np.nan_to_num(evaluate(it.rewards, it.reward_class, average + it.base), posinf=1e300, neginf=-1e300)


class DenominatorRows(AuxiliaryPrograms):
    """The paper's rows: b_c·x ≤ t_c − z_c and d_c·x ≥ θ_c − z_c s_0, two for each cluster in use and head."""

    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """σ runs through the grid. The sides are sums over Y without the sink, so that a heavy sink cancels nothing."""
        slack = GRID[self.solved % len(GRID)]
        it, weight = self.clusters, self.clusters.weight[:, used]
        least = np.minimum(it.score.min(axis=1), it.sink_score)[:, None, None]
        value = weight * (it.score[:, None, :] - least)
        room = (1 + slack) * weight[:, :, known].sum(axis=2) + slack * it.sink_weight[:, used]
        rows = np.concatenate([-weight, value]).reshape(-1, weight.shape[2])
        return rows, np.concatenate([-room, value[:, :, known].sum(axis=2)]).ravel()


def _limit_rows(constraints: Constraints) -> tuple[Floats, Floats]:
    """Σx ≤ k, and a row for every label that could exceed its limit, with their high sides."""
    rows, high = [np.ones(constraints.labels.shape[1])], [float(constraints.k)]
    for labels, limit in zip(constraints.labels, constraints.limits, strict=True):
        held = np.bincount(labels[(labels >= 0) & constraints.open], minlength=1)
        for label in np.flatnonzero(held > limit):
            rows.append((labels == label).astype(np.float64))
            high.append(float(limit))
    return np.array(rows), np.array(high)


def _normalised(rows: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Rows of largest entry 1 without negligible entries, and their low sides, relaxed by ``SLACK``."""
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    rows, low = rows / scale[:, None], low / scale
    return np.where(np.abs(rows) < NEGLIGIBLE, 0.0, rows), low - SLACK * np.maximum(1.0, np.abs(low))


# --- candidate solutions and where to look for the next ---


@dataclass
class CandidateSolutions:
    """The complete sets found so far: ``values`` of each, ``trace`` the best value after each."""

    instance: Instance
    constraints: Constraints
    solutions: int
    best: PartialSet | None = None
    trace: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    known: set[tuple[bytes, bytes]] = field(default_factory=set)
    evaluations: int = 0
    unproductive: int = 0  # guesses in a row that led to known sets

    @property
    def may_continue(self) -> bool:
        """Whether the budget is left and the last guesses were not all unproductive."""
        return len(self.trace) < self.solutions and self.unproductive < MAX_UNPRODUCTIVE

    def partial_set(self, rows: Rows, out: Rows) -> PartialSet:
        """The partial set of the pinned items and ``rows``, to which no candidate of ``out`` may be added."""
        available = self.constraints.open.copy()
        available[out] = False
        result = PartialSet.from_pinned(self.instance, replace(self.constraints, open=available))
        for c in np.setdiff1d(rows, self.constraints.pinned):
            result = result.add(c)
        return result

    def is_feasible(self, rows: Rows) -> bool:
        """Whether ``rows`` are feasible; no rows at all are a valid start."""
        return not len(rows) or self.constraints.admits(rows)

    def add(self, partial: PartialSet) -> PartialSet | None:
        """Fill ``partial`` up greedily and value it; None when the result is known already."""
        found = self._best_extension(partial) if self._is_new(partial.chosen, partial.constraints.open) else None
        if found is None or not self._is_new(found.chosen, NO_ROWS):
            self.unproductive += 1
            return None
        self.unproductive = 0
        self.best = found if self.best is None else best_set([self.best, found])
        self.trace.append(self.best.value)
        self.values.append(found.value)
        return found

    def _is_new(self, rows: Rows, available: NDArray[Any]) -> bool:
        """Whether these rows, with these available candidates, are not known yet; they are afterwards."""
        before = len(self.known)
        self.known.add((np.sort(rows).tobytes(), available.tobytes()))
        return len(self.known) > before

    def _best_extension(self, partial: PartialSet) -> PartialSet | None:
        """The best greedy extension by the increments; only the result is valued by the reference objective."""
        path = [partial, *partial.greedy_extensions(1)]
        self.evaluations += 1 + sum(len(each.ranked) for each in path)
        sets = [(partial.value, partial)] if len(partial.chosen) else []
        sets += [(float(before.values[0]), after) for before, after in pairwise(path)]
        return max(sets, key=lambda each: each[0])[1] if sets else None

    def ranking(self) -> Ranking:
        """The best candidate solution as a Ranking."""
        if self.best is None:
            raise SetwiseError("no candidate solution was made; this is a defect of setwise, please report it.")
        return Ranking(
            self.best.chosen,
            self.best.value,
            evaluations=self.evaluations,
            trace=np.array(self.trace),
            solutions=np.array(self.values),
        )


@dataclass(eq=False)
class _Neighbourhood:
    """The guesses around a candidate solution of this value."""

    value: float
    guesses: Iterator[Guess]
    made: int = 0


class LpSearch:
    """Spend the budget of candidate solutions on ``openings`` and on guesses around the solutions found."""

    def __init__(self, pool: CandidateSolutions, programs: AuxiliaryPrograms, seed: int) -> None:
        self.pool, self.programs = pool, programs
        self._rng = np.random.default_rng(seed)
        self._neighbourhoods: list[_Neighbourhood] = []

    def run(self, openings: Iterator[Guess]) -> Ranking:
        """Make guesses until the budget is spent or no guess is left."""
        opening = _Neighbourhood(np.inf, openings)
        while self.pool.may_continue and (place := self._next(opening)) is not None:
            guess = next(place.guesses, None)
            place.made += 1
            if guess is not None:
                self._try(guess)
            elif place is opening:
                opening.guesses, opening.value = iter(()), -np.inf
            else:
                self._neighbourhoods.remove(place)
        return self.pool.ranking()

    def _next(self, opening: _Neighbourhood) -> _Neighbourhood | None:
        """The neighbourhood where (guesses made + 1) · rank is smallest."""
        ranked = [((place.made + 1) * rank, rank, place) for rank, place in enumerate(self._neighbourhoods, 1)]
        if opening.value > -np.inf:
            ranked.append(((opening.made + 1) * OPENING_RANK, 0, opening))
        return min(ranked, key=lambda entry: entry[:2])[2] if ranked else None

    def _try(self, guess: Guess) -> None:
        known = self.pool.partial_set(guess.known, guess.out)
        if guess.linear:
            kept = known.chosen if guess.fixed else self.pool.constraints.pinned
            rounded = self.programs.round_vertex(known, kept, guess.out)
            if rounded is None:
                self.pool.unproductive += 1
                return
            known = self.pool.partial_set(rounded, guess.out)
        found = self.pool.add(known)
        if found is not None:
            place = _Neighbourhood(found.value, _guesses_around(found.chosen, self.pool, self._rng))
            insort(self._neighbourhoods, place, key=lambda each: -each.value)


def _guesses_around(found: Rows, pool: CandidateSolutions, rng: np.random.Generator) -> Iterator[Guess]:
    """Guesses around a candidate solution: as it is, without one item, without two, without several."""
    yield Guess(found, linear=True)
    free = _by_value_without(pool, found)
    ones, twos, more = iter(free[:, None]), _pairs(free, rng), True
    while more:
        more = len(free) > 3
        for one in islice(ones, 2):
            more = True
            yield Guess(np.setdiff1d(found, one), one)
        for two in islice(twos, 1):
            more = True
            yield Guess(np.setdiff1d(found, two), two, linear=True, fixed=True)
        if len(free) > 3:
            several = rng.choice(free, rng.integers(3, max(3, len(free) // 2) + 1), replace=False)
            yield Guess(np.setdiff1d(found, several), several, linear=True)


def _by_value_without(pool: CandidateSolutions, found: Rows) -> Rows:
    """The members that are not pinned, in order of the value that ``found`` has without each."""
    free = np.setdiff1d(found, pool.constraints.pinned)
    if len(found) < 2:
        return free
    pool.evaluations += len(free)
    left = np.array([pool.instance.value(np.setdiff1d(found, [c])) for c in free])
    return free[np.argsort(-np.nan_to_num(left, nan=-np.inf, posinf=np.inf, neginf=-np.inf), kind="stable")]


def _pairs(free: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    """All pairs, roughly in the order of ``free``, with random perturbation."""
    one, other = np.triu_indices(len(free), 1)
    order = np.argsort(one + other + 3 * rng.random(len(one)), kind="stable")
    return (free[[one[at], other[at]]] for at in order)


# --- the ranker ---


def lp_search(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int = SOLUTIONS,
    top: int = TOP,
    clusters: int = CLUSTERS,
    seed: int = 0,
) -> Ranking:
    """The best of ``solutions`` candidate solutions, from all combinations of the ``top`` items and around the best.

    ``clusters`` is the number of query clusters.
    """
    programs = DenominatorRows(instance, constraints, whole_number("clusters", clusters))
    pool = CandidateSolutions(instance, constraints, whole_number("solutions", solutions))
    if whole_number("top", top) > MAX_TOP:
        raise InvalidInput("top", f"at most {MAX_TOP}", top, "lower it: all its combinations are tried")
    return LpSearch(pool, programs, whole_number("seed", seed, least=0)).run(_combinations(pool, top))


def _combinations(pool: CandidateSolutions, count: int) -> Iterator[Guess]:
    """Greedy, greedy from single items, the combinations X nearest to greedy's first, programs at single items."""
    start = pool.partial_set(NO_ROWS, NO_ROWS)
    yield Guess(start.chosen)
    if len(start.chosen) >= pool.constraints.k:
        return
    ranked = _highest_reward(pool)
    yield from (Guess(np.append(start.chosen, item)) for item in ranked[: pool.solutions // 4])
    top = ranked[:count]
    included = np.array(list(product((True, False), repeat=len(top))), bool)
    distance = (included != np.isin(top, best_set([start, *start.greedy_extensions(1)]).chosen)).sum(axis=1)
    for chosen in included[np.argsort(distance, kind="stable")]:
        kept, out = np.append(start.chosen, top[chosen]), top[~chosen]
        if len(top) and pool.is_feasible(kept):
            yield Guess(kept, out)
            yield Guess(kept, out, linear=True, fixed=True)
    yield from (Guess(np.append(start.chosen, item), linear=True, fixed=True) for item in ranked[count:])


def _highest_reward(pool: CandidateSolutions) -> Rows:
    """The candidates that may be added, in order of their reward alone."""
    it, every = pool.instance, np.arange(pool.instance.m)
    alone = PartialSet.from_pinned(it, replace(pool.constraints, pinned=NO_ROWS)).sums
    average = alone.add(it.logit[:, every, every], it.score).average() + it.base
    reward = evaluate(it.rewards, it.reward_class, average)
    free = np.flatnonzero(pool.constraints.joinable(pool.constraints.pinned))
    return free[np.argsort(-reward[free], kind="stable")]


LP_SEARCH = Ranker("lp_search", lp_search, "LP search")
