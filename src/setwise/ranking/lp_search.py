"""Phase Two as the paper's experiments run it: partial solutions, auxiliary problems, linear programs, rounding.

The paper enumerates all combinations X of the ``top`` highest-reward items, its "valid tuples", and for the remaining
items solves a fixed number of auxiliary problems P(X, t), each of which yields a candidate solution; the best is
returned. Here an auxiliary problem is made at a known set Y, complete or partial. With query clusters c
(query_clusters.py), scores shifted to be at least 0, and N_c and D_c the cluster's sums over Y,

    max Σ_i x_i f_i(a_i)    s.t.    b_c·x + z_c ≤ t_c = (1 + σ) D_c        for every cluster c that Y uses, and head,
                                    d_c·x + z_c s_0 ≥ θ_c = N_c            for the same,
                                    Σx ≤ k,  limits of groups,  0 ≤ x ≤ 1,  x = 1 on what is pinned or fixed,

where σ takes the values of a small grid in turn: the discretised t, restricted to where a known set says that solutions
are. A feasible x gives every cluster in use an average of θ_c/t_c or more; a_i is what i itself would see with Y, which
is also defined for clusters not in use. An optimal vertex has at most as many fractional entries as there are rows. It
is rounded down, and the places left empty are filled by the best newcomers under the exact F: this filling is ours, not
the paper's. F of every candidate solution is the judge's, never the surrogate's.

**Which sets Y.** The search opens with greedy and goes on with the combinations X, those nearest to greedy's own first:
X in and the others of the top out, filled up by the best newcomers and then linearised at X; then with the items
beyond the top, one at a time, in order of reward. ``LpSearch`` keeps the candidate solutions found in order of value,
and guesses next where (guesses made there + 1) · (its rank) is smallest: half as often at the second best as at the
best, and so on; opening another X ranks like the second best. Guesses at a candidate solution S: linearised at S
itself; then, in turn, S without one item (for one place there is nothing to linearise: the best newcomer fills it),
linearised at S without two, where the others stay, and at S without several at random, where all may leave. So X may
change from here on: it is where a search starts, not where it must end.

A candidate solution is a set not met before; a guess that leads to a known one costs nothing of the budget. The search
ends early once 20 guesses in a row have led to nothing new, which happens when few sets are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterator, Mapping
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
from setwise.ranking.phase_two.algorithm import phase_two
from setwise.ranking.query_clusters import QueryClusters
from setwise.ranking.ranker import Ranker, Ranking

NOBODY: Rows = np.zeros(0, np.intp)
SOLUTIONS, CLUSTERS, TOP = 100, 64, 2
GRID = (0.1, 0.5)  # σ: how much more attention than it gives to Y a cluster may give to the new set
MOST_TOP = 12  # 2^12 combinations are more than any budget opens
OPENING_RANK = 2  # opening another combination is as urgent as guessing at the second best solution
PATIENCE = 20  # guesses in a row that may lead to nothing new
SLACK = 1e-6  # of a row's largest entry: Y itself must stay feasible when its sums are rounded
NEGLIGIBLE = 1e-8  # entries of a row this small beside its largest are dropped: they only disturb the solver


class Guess(NamedTuple):
    """How to make one candidate solution: fill ``known`` up, or solve an auxiliary problem at it first."""

    known: Rows
    out: Rows = NOBODY  # who must not join
    linear: bool = False
    fixed: bool = False  # whether all of ``known`` must stay in the auxiliary problem, or the pinned items alone


class AuxiliaryPrograms(ABC):
    """Linear programs at known sets. Subclasses say which rows the clusters in use contribute."""

    def __init__(self, instance: Instance, constraints: Constraints, clusters: int) -> None:
        self.instance, self.constraints = instance, constraints
        self.clusters = QueryClusters.of(instance, clusters)
        self._limits = _limit_rows(constraints)
        self._program: LinearProgram | None = None
        self.solved = 0

    @abstractmethod
    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """Rows (R, m) and low sides (R,) of the clusters ``used``, which ``known`` satisfies."""

    def rounded(self, known: PartialSet, kept: Rows, out: Rows) -> Rows | None:
        """An optimal vertex rounded down: the rows at 1. None when there is no vertex."""
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
        except SetwiseError:  # the solver gave up on badly scaled rows; a guess less, nothing rests on it
            self._program = None
            return None
        return None if vertex is None else np.flatnonzero(vertex.x > 1 - INTEGRAL)

    def objective(self, known: PartialSet) -> Floats:
        """f_i(a_i): what each candidate would earn beside ``known``."""
        it, members, everyone = self.instance, known.chosen, np.arange(self.instance.m)
        seen = known.sums.add(it.logit[:, everyone, everyone], it.score).average()
        seen[members] = known.sums.average()[members]
        return np.nan_to_num(evaluate(it.rewards, it.reward_class, seen + it.base), posinf=1e300, neginf=-1e300)


class DenominatorRows(AuxiliaryPrograms):
    """The paper's rows: b_c·x ≤ t_c − z_c and d_c·x ≥ θ_c − z_c s_0, two for each cluster in use and head."""

    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """The grid's values of σ are taken in turn. Sides are sums over Y, so that a heavy sink cancels nothing."""
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
    """Rows of largest entry 1 and their low sides, a little lower; what is negligible is dropped."""
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    rows, low = rows / scale[:, None], low / scale
    return np.where(np.abs(rows) < NEGLIGIBLE, 0.0, rows), low - SLACK * np.maximum(1.0, np.abs(low))


# --- candidate solutions and where to look for the next ---


@dataclass
class CandidateSolutions:
    """The complete sets met so far, judged: ``values`` of each, ``trace`` the best after each."""

    instance: Instance
    constraints: Constraints
    solutions: int
    best: PartialSet | None = None
    trace: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    met: set[tuple[bytes, bytes]] = field(default_factory=set)
    evaluations: int = 0
    barren: int = 0  # guesses in a row that led to nothing new

    @property
    def wanted(self) -> bool:
        """Whether the budget and the patience allow another one."""
        return len(self.trace) < self.solutions and self.barren < PATIENCE

    def growing(self, rows: Rows, out: Rows) -> PartialSet:
        """The partial set of the pinned items and ``rows``, which nobody of ``out`` may join."""
        available = self.constraints.open.copy()
        available[out] = False
        result = PartialSet.from_pinned(self.instance, replace(self.constraints, open=available))
        for c in np.setdiff1d(rows, self.constraints.pinned):
            result = result.add(c)
        return result

    def extends(self, rows: Rows) -> bool:
        """Whether a feasible set holds all of ``rows``; nobody is held by every set."""
        return not len(rows) or self.constraints.admits(rows)

    def add(self, partial: PartialSet) -> PartialSet | None:
        """Fill ``partial`` up by the best newcomers and judge it; None when that leads to a set met before."""
        found = self._filled(partial) if self._is_new(partial.chosen, partial.constraints.open) else None
        if found is None or not self._is_new(found.chosen, NOBODY):
            self.barren += 1
            return None
        self.barren = 0
        self.best = found if self.best is None else best_set([self.best, found])
        self.trace.append(self.best.value)
        self.values.append(found.value)
        return found

    def _is_new(self, rows: Rows, available: NDArray[Any]) -> bool:
        """Whether these rows, with those who may join them, were not asked about before."""
        before = len(self.met)
        self.met.add((np.sort(rows).tobytes(), available.tobytes()))
        return len(self.met) > before

    def _filled(self, partial: PartialSet) -> PartialSet | None:
        """The best set on the way to a full one, by the increments; the judge is asked about that one alone."""
        passed = [partial, *partial.greedy_extensions(1)]
        self.evaluations += 1 + sum(len(each.ranked) for each in passed)
        sets = [(partial.value, partial)] if len(partial.chosen) else []
        sets += [(float(before.values[0]), after) for before, after in pairwise(passed)]
        return max(sets, key=lambda each: each[0])[1] if sets else None

    def ranking(self) -> Ranking:
        """What was found."""
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
class _Place:
    """Somewhere to guess: around a candidate solution of this value."""

    value: float
    guesses: Iterator[Guess]
    made: int = 0


class LpSearch:
    """Spend the budget of candidate solutions on ``openings`` and on guesses around what they led to."""

    def __init__(self, pool: CandidateSolutions, problems: AuxiliaryPrograms, seed: int) -> None:
        self.pool, self.problems = pool, problems
        self._rng = np.random.default_rng(seed)
        self._places: list[_Place] = []

    def run(self, openings: Iterator[Guess]) -> Ranking:
        """Guess until the budget is spent or nothing is left to guess."""
        opening = _Place(np.inf, openings)
        while self.pool.wanted and (place := self._next(opening)) is not None:
            guess = next(place.guesses, None)
            place.made += 1
            if guess is not None:
                self._try(guess)
            elif place is opening:
                opening.guesses, opening.value = iter(()), -np.inf
            else:
                self._places.remove(place)
        return self.pool.ranking()

    def _next(self, opening: _Place) -> _Place | None:
        """The place where (guesses made + 1) · rank is smallest."""
        ranked = [((place.made + 1) * rank, rank, place) for rank, place in enumerate(self._places, 1)]
        if opening.value > -np.inf:
            ranked.append(((opening.made + 1) * OPENING_RANK, 0, opening))
        return min(ranked, key=lambda entry: entry[:2])[2] if ranked else None

    def _try(self, guess: Guess) -> None:
        known = self.pool.growing(guess.known, guess.out)
        if guess.linear:
            kept = known.chosen if guess.fixed else self.pool.constraints.pinned
            rounded = self.problems.rounded(known, kept, guess.out)
            if rounded is None:
                self.pool.barren += 1
                return
            known = self.pool.growing(rounded, guess.out)
        found = self.pool.add(known)
        if found is not None:
            place = _Place(found.value, _around(found.chosen, self.pool, self._rng))
            insort(self._places, place, key=lambda each: -each.value)


def _around(found: Rows, pool: CandidateSolutions, rng: np.random.Generator) -> Iterator[Guess]:
    """Guesses at a candidate solution: as it is, without one, without two, without several."""
    yield Guess(found, linear=True)
    free = _least_missed_first(pool, found)
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


def _least_missed_first(pool: CandidateSolutions, found: Rows) -> Rows:
    """The members that are not pinned, in order of the value that ``found`` has without each."""
    free = np.setdiff1d(found, pool.constraints.pinned)
    if len(found) < 2:
        return free
    pool.evaluations += len(free)
    left = np.array([pool.instance.value(np.setdiff1d(found, [c])) for c in free])
    return free[np.argsort(-np.nan_to_num(left, nan=-np.inf, posinf=np.inf, neginf=-np.inf), kind="stable")]


def _pairs(free: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    """All pairs, those of little missed items first, but not strictly."""
    one, other = np.triu_indices(len(free), 1)
    order = np.argsort(one + other + 3 * rng.random(len(one)), kind="stable")
    return (free[[one[at], other[at]]] for at in order)


# --- the ranker ---


def paper(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int | None = None,
    top: int | None = None,
    clusters: int | None = None,
    seed: int | None = None,
    literal: bool = False,
    epsilon: float | None = None,
    rank: int | None = None,
    lam: int | None = None,
    lam_prime: int | None = None,
) -> Ranking:
    """The best of ``solutions`` (100) candidate solutions over all combinations of the ``top`` (2) items.

    ``clusters`` (64) is how many query clusters tell rows apart. ``literal`` runs the algorithm of the proofs instead,
    with ``epsilon``, ``rank``, λ and λ' (``lam``, ``lam_prime``) as ``phase_two`` has them: for small instances.
    """
    ours = {"solutions": solutions, "top": top, "clusters": clusters, "seed": seed}
    theirs = {"epsilon": epsilon, "rank": rank, "lam": lam, "lam_prime": lam_prime}
    if not isinstance(literal, bool):
        raise InvalidInput("literal", "True or False", repr(literal), "pass one of the two")
    _refuse(ours if literal else theirs, literal)
    if literal:
        given: dict[str, Any] = {name: option for name, option in theirs.items() if option is not None}
        found = phase_two(instance, constraints, **given)
        return Ranking(found.indices, found.value, evaluations=found.evaluations)
    problems = DenominatorRows(instance, constraints, _option("clusters", clusters, CLUSTERS))
    pool = CandidateSolutions(instance, constraints, _option("solutions", solutions, SOLUTIONS))
    best = _option("top", top, TOP)
    if best > MOST_TOP:
        raise InvalidInput("top", f"at most {MOST_TOP}", best, "lower it: its combinations are all opened")
    return LpSearch(pool, problems, _option("seed", seed, 0, least=0)).run(_combinations(pool, best))


def _option(name: str, given: int | None, default: int, least: int = 1) -> int:
    return default if given is None else whole_number(name, given, least)


def _refuse(options: Mapping[str, float | None], literal: bool) -> None:
    for name, given in options.items():
        if given is not None:
            must = f"absent with literal={literal}"
            raise InvalidInput(name, must, repr(given), f"drop it or pass literal={not literal}")


def _combinations(pool: CandidateSolutions, count: int) -> Iterator[Guess]:
    """Greedy; combinations X of the top items, nearest to greedy's first; the others: filled up, then linearised."""
    start = pool.growing(NOBODY, NOBODY)
    yield Guess(start.chosen)
    ranked = _highest_reward(pool)
    top = ranked[:count]
    included = np.array(list(product((True, False), repeat=len(top))))
    distance = (included != np.isin(top, best_set([start, *start.greedy_extensions(1)]).chosen)).sum(axis=1)
    for chosen in included[np.argsort(distance, kind="stable")]:
        kept, out = np.append(start.chosen, top[chosen]), top[~chosen]
        if len(top) and pool.extends(kept):
            yield Guess(kept, out)
            yield Guess(kept, out, linear=True, fixed=True)
    for t in ranked[count:] if len(start.chosen) < pool.constraints.k else NOBODY:
        yield Guess(np.append(start.chosen, t))
        yield Guess(np.append(start.chosen, t), linear=True, fixed=True)


def _highest_reward(pool: CandidateSolutions) -> Rows:
    """The candidates that may be chosen, in order of their reward on their own."""
    it, everyone = pool.instance, np.arange(pool.instance.m)
    alone = PartialSet.from_pinned(it, replace(pool.constraints, pinned=NOBODY)).sums
    seen = alone.add(it.logit[:, everyone, everyone], it.score).average() + it.base
    reward = evaluate(it.rewards, it.reward_class, seen)
    free = np.flatnonzero(pool.constraints.joinable(pool.constraints.pinned))
    return free[np.argsort(-reward[free], kind="stable")]


PAPER = Ranker("paper", paper, "Phase Two")
