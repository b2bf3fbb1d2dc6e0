"""The pipeline of one request: retrieve candidates, rank them, bound every other set, value the answer.

A catalogue without attention is a special case that needs none of this (independent.py).

**Retrieve.** Phase One: retrieve.py. With a budget it returns what there is time to rank (effort.py).

**Rank and bound.** Swap search mostly finds the best set in its first few climbs; the later ones only confirm it. A
bound confirms more. So if a bound is requested, the first ranking makes 1/16 of the evaluations and the bound gets a
quarter of its time. Unless that proves the set optimal, both continue. If the search for the bound finds a better
feasible set, that set is the answer. Where all feasible sets can be evaluated in the bound's time, they are, and there
is nothing else to do (few_sets.py). The bound counts pinned items and the tightest limit; other limits only remove
feasible sets, so it holds for them too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from setwise._types import Rows
from setwise.errors import Infeasible
from setwise.model import objective
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking import Ranker, Ranking
from setwise.ranking.exact import EXACT
from setwise.ranking.exhaustive import EXHAUSTIVE
from setwise.ranking.registry import rank_or_advise, required_limits
from setwise.recommend.bounded_limits import tightest_limit
from setwise.recommend.effort import VALUATIONS, bound_ms, value_ms
from setwise.recommend.few_sets import enumeration_ms
from setwise.recommend.independent import best_independent, is_independent
from setwise.recommend.lower_limits import Variety, with_varied
from setwise.recommend.query import Query
from setwise.recommend.retrieve import Candidates, Snapshot, chosen, retrieve, retrieve_many
from setwise.recommend.slate import CERTIFICATE, Slate, proves
from setwise.retrieval.index_state import Retrieved

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.reader import CatalogReader
    from setwise.bounds.catalog.score_order import Scored
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch


BOUND_MS = 100.0  # for the bound when the query has no budget
RANK_SHARE = 0.4  # of the remaining budget goes to ranking where a bound follows
LAST_SHARE = 0.9  # of the remaining budget goes to the last phase; the rest is for valuing the answer
FIRST_LOOK = 16  # the first ranking makes 1/16 of its evaluations
FIRST_PROOF = 0.25  # of the bound's time passes before ranking continues
MARGIN = 1.3  # a bound is begun if this many times its estimated preparation is left
SHORTEST_MS = 0.5  # a phase gets at least this
INFEASIBLE_TODO = "lower one of them, or leave one out"  # what can be done in Python, on the command line and over HTTP
SCORED_TOGETHER = 4  # queries that share the bound's pass: each keeps the scores of all items in memory


class Best(NamedTuple):
    """The best feasible set known."""

    rows: Rows
    value: float


class Bounded(NamedTuple):
    """The best set known, an upper bound on all others, and whether more search could change either.

    ``left_out`` names what of the request could not be done.
    """

    best: Best
    upper_bound: float
    settled: bool
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """The budget of a request and the milliseconds of its phases."""

    budget_ms: float | None
    began: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time that passes inside to the phase ``name``."""
        start = time.perf_counter()
        yield
        self.timings[name] = self.timings.get(name, 0.0) + 1000 * (time.perf_counter() - start)

    def share(self, share: float, default: float = math.inf, needed_ms: float = 0.0) -> float:
        """A share of the remaining budget without ``needed_ms``, in milliseconds; ``default`` without a budget."""
        if self.budget_ms is None:
            return default
        return max(share * (self.budget_ms - self._passed_ms() - needed_ms), SHORTEST_MS)

    def has(self, needed_ms: float) -> bool:
        """Whether so much of the budget is left."""
        return self.budget_ms is None or self._passed_ms() + needed_ms <= self.budget_ms

    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self.budget_ms is not None and self._passed_ms() >= self.budget_ms

    def resumed(self) -> Clock:
        """The same clock as if only the phases had taken time: waiting for other queries is not charged."""
        return Clock(self.budget_ms, time.perf_counter() - sum(self.timings.values()) / 1000, self.timings)

    def _passed_ms(self) -> float:
        return 1000 * (time.perf_counter() - self.began)


# --- one query, or many ---


def run(query: Query, snapshot: Snapshot, began: float | None = None) -> Slate:
    """The best slate found for the query; its budget counts from ``began``, now unless given."""
    clock = Clock(query.budget_ms, time.perf_counter() if began is None else began)
    if is_independent(query):
        return _independent(query, clock)
    if snapshot.device is not None and snapshot.device.answers(query):
        return snapshot.device.run([query])[0]
    with clock.phase("retrieve"):
        candidates = retrieve(query, snapshot)
    return answer(query, snapshot, candidates, clock)


def run_many(queries: Sequence[Query], snapshot: Snapshot, threads: int) -> list[Slate]:
    """``run`` for queries with one k, one ranker and one filter.

    They share one retrieval pass and, a few at a time, the bound's pass over the scores. Each is charged its share.
    """
    known = {number: run(query, snapshot) for number, query in enumerate(queries) if is_independent(query)}
    if snapshot.device is not None:
        there = [at for at, query in enumerate(queries) if at not in known and snapshot.device.answers(query)]
        known |= dict(zip(there, snapshot.device.run([queries[at] for at in there]), strict=True)) if there else {}
    if known:
        others = iter(run_many([one for at, one in enumerate(queries) if at not in known], snapshot, threads))
        return [known[at] if at in known else next(others) for at in range(len(queries))]
    clocks = [Clock(query.budget_ms) for query in queries]
    start = time.perf_counter()
    found = retrieve_many(queries, snapshot)
    share_ms = 1000 * (time.perf_counter() - start) / max(len(queries), 1)
    for clock in clocks:
        clock.timings["retrieve"] = share_ms
    every = list(zip(queries, found, clocks, strict=True))
    parts = [every[start : start + SCORED_TOGETHER] for start in range(0, len(every), SCORED_TOGETHER)]
    if threads == 1:  # in the caller's own thread
        return [slate for part in parts for slate in _answer_some(part, snapshot)]
    with ThreadPoolExecutor(threads) as pool:
        return [slate for some in pool.map(lambda part: _answer_some(part, snapshot), parts) for slate in some]


def _independent(query: Query, clock: Clock) -> Slate:
    """The slate of a query whose items do not interact: its value is the bound."""
    clock.timings["retrieve"] = clock.timings["certify"] = 0.0
    with clock.phase("rank"):
        rows = best_independent(query)
    return valued(query, Best(rows, math.nan), -math.inf if query.certify else math.inf, clock)


def _answer_some(every: Sequence[tuple[Query, Candidates | Retrieved, Clock]], snapshot: Snapshot) -> list[Slate]:
    part: list[tuple[Query, Candidates, Clock]] = []
    for query, found, clock in every:
        with clock.phase("retrieve"):
            part.append((query, chosen(query, found, snapshot), clock))
    scored = _score_together(part, snapshot)
    return [
        answer(query, snapshot, candidates, clock.resumed(), items)
        for (query, candidates, clock), items in zip(part, scored, strict=True)
    ]


def _score_together(part: Sequence[tuple[Query, Candidates, Clock]], snapshot: Snapshot) -> list[Scored | None]:
    """The scores of all items that bounds read, in one pass; None where the bound needs none."""
    needed = [query.certify and snapshot.can_bound and not candidates.complete for query, candidates, _ in part]
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.user_scores import scores

    if not isinstance(snapshot.cell_bounds, CellBounds) or not any(needed):
        return [None] * len(part)

    start = time.perf_counter()
    asking = [each for each, wanted in zip(part, needed, strict=True) if wanted]
    users, eligible = [query.user for query, *_ in asking], [query.eligible for query, *_ in asking]
    found = iter(scores(snapshot.cell_bounds, users, eligible))
    for *_, clock in asking:
        clock.timings["certify"] = 1000 * (time.perf_counter() - start) / len(asking)
    return [next(found) if wanted else None for wanted in needed]


def answer(
    query: Query, snapshot: Snapshot, candidates: Candidates, clock: Clock, scored: Scored | None = None
) -> Slate:
    """Rank the candidates, bound all feasible sets where that is wanted, and value the best set found."""
    bounded = ranked_and_bounded(query, snapshot, candidates, clock, scored)
    return valued(query, bounded.best, bounded.upper_bound, clock, bounded.left_out)


def ranked_and_bounded(
    query: Query, snapshot: Snapshot, candidates: Candidates, clock: Clock, scored: Scored | None = None
) -> Bounded:
    """The best set found among the candidates or by the bound, and the bound where one is wanted.

    If the candidates hold no feasible set, items of other values of the limited attributes join them.
    """
    try:
        return _of_candidates(query, snapshot, candidates, clock, scored)
    except Infeasible:
        variety = Variety.of(query.limits, query.required, len(query.include), snapshot.most_candidates)
        rows = with_varied(candidates.rows, query.required, query.catalog, query.user, variety)
        if candidates.complete or len(rows) == len(candidates.rows):
            raise
    return _of_candidates(query, snapshot, Candidates(rows, False), clock, scored)


def _of_candidates(
    query: Query, snapshot: Snapshot, candidates: Candidates, clock: Clock, scored: Scored | None
) -> Bounded:
    if not snapshot.effort(query).candidates:
        return _unranked(query, snapshot, candidates, clock)
    with clock.phase("rank"):
        instance = Instance.from_catalog(query.catalog, query.user, candidates.rows)
    waiting = query.certify and not snapshot.can_bound
    if not query.certify or waiting or (snapshot.cell_bounds is None and not candidates.complete):
        with clock.phase("rank"):
            best = _ranked(query, instance, clock, LAST_SHARE)
        clock.timings.setdefault("certify", 0.0)
        return Bounded(best, math.inf, True, (CERTIFICATE,) if waiting else ())
    return _rank_and_bound(query, snapshot, candidates, instance, clock, scored)


def _unranked(query: Query, snapshot: Snapshot, candidates: Candidates, clock: Clock) -> Bounded:
    """The set of candidates that there is no time to rank, with the bound that takes no time."""
    clock.timings.setdefault("rank", 0.0)
    clock.timings.setdefault("certify", 0.0)
    bound = math.inf
    if query.certify and snapshot.cell_bounds is not None:
        from setwise.bounds.catalog.norm_bound import norm_bound

        bound = norm_bound(snapshot.cell_bounds, query.user, query.k)
    return Bounded(Best(candidates.rows, math.nan), bound, True)


# --- Phase Two and the bound ---


def _ranked(
    query: Query, instance: Instance, clock: Clock, share: float, divisor: int = 1, needed_ms: float = 0.0
) -> Best:
    """The ranker's set; default evaluations are divided by ``divisor``.

    It gets a share of the budget that remains when ``needed_ms`` are set aside.
    """
    budget_ms = clock.share(share, needed_ms=needed_ms + VALUATIONS * value_ms(query.catalog.heads, query.k))
    ranking = _rank(query, instance, query.ranker, budget_ms, query.limits, divisor)
    return Best(instance.candidates[ranking.indices], ranking.value)


def _rank(
    query: Query, instance: Instance, ranker: Ranker, budget_ms: float, limits: Mapping[str, Any], divisor: int = 1
) -> Ranking:
    options: dict[str, Any] = {}
    if ranker.takes_budget and math.isfinite(budget_ms):
        options["budget_ms"] = budget_ms
    if ranker.default_evaluations is not None:  # capped even with a budget: unused budget goes to the bound
        options["evaluations"] = ranker.default_evaluations(instance.m, query.k) // divisor
    pinned = np.searchsorted(instance.candidates, query.include)
    return rank_or_advise(instance, query.k, ranker.name, INFEASIBLE_TODO, include=pinned, **limits, **options)


def _rank_and_bound(
    query: Query,
    snapshot: Snapshot,
    candidates: Candidates,
    instance: Instance,
    clock: Clock,
    scored: Scored | None,
) -> Bounded:
    """Rank and bound in turns; see the module's docstring."""
    cells = snapshot.cell_bounds
    if candidates.complete and _has_few_sets(query, instance, clock):
        return _best_of_all(query, instance, clock)
    in_turns = query.ranker.takes_evaluations and not candidates.complete and snapshot.effort(query).in_turns
    before = 2 * value_ms(query.catalog.heads, query.k)
    if cells is not None and not candidates.complete:
        before += bound_ms(cells.catalog, query.k, cells.n_cells)
    with clock.phase("rank"):
        best = _ranked(query, instance, clock, RANK_SHARE, FIRST_LOOK if in_turns else 1, before)
    with clock.phase("certify"):
        if candidates.complete:
            return bound_candidates(query, instance, best, clock)
        assert cells is not None
        from setwise.bounds.catalog.norm_bound import norm_bound

        if not clock.has(MARGIN * before):
            return Bounded(best, norm_bound(cells, query.user, query.k), True)
        search = catalog_search(query, cells, best, scored)
        share, default = (FIRST_PROOF, FIRST_PROOF * BOUND_MS) if in_turns else (LAST_SHARE, BOUND_MS)
        bounded = bound_catalog(query, search, best, clock.share(share, default))
    if not in_turns or bounded.settled:
        return bounded
    with clock.phase("rank"):
        if not clock.is_over():  # from the start again: the same sets come in the same order, then more
            again = _ranked(query, instance, clock, RANK_SHARE)
            if again.value > bounded.best.value:
                bounded = bounded._replace(best=again)
    with clock.phase("certify"):
        if not clock.is_over():
            search.offer(bounded.best.value, bounded.best.rows)
            budget_ms = clock.share(LAST_SHARE, (1 - FIRST_PROOF) * BOUND_MS)
            bounded = bound_catalog(query, search, bounded.best, budget_ms)
    return bounded


def _has_few_sets(query: Query, instance: Instance, clock: Clock) -> bool:
    """Whether all feasible sets can be evaluated in the time of the bound; all eligible items are candidates."""
    pinned, limits = np.searchsorted(instance.candidates, query.include), dict[str, Any](query.limits)
    constraints = Constraints.of(instance, query.k, include=pinned, **limits)
    return enumeration_ms(instance, constraints) <= clock.share(LAST_SHARE, BOUND_MS)


def _best_of_all(query: Query, instance: Instance, clock: Clock) -> Bounded:
    """The best of all feasible sets, which leaves nothing to bound."""
    required_limits(query.ranker, query.limits)  # the answer to a request does not depend on the shortcut
    clock.timings.setdefault("certify", 0.0)
    with clock.phase("rank"):
        every = _rank(query, instance, EXHAUSTIVE, math.inf, query.limits)
    return Bounded(Best(instance.candidates[every.indices], every.value), every.upper_bound, True)


def bound_candidates(query: Query, instance: Instance, best: Best, clock: Clock) -> Bounded:
    """All eligible items are candidates: branch and bound on the instance, with pins and limits from above.

    It knows only upper limits on every value, so a set that it finds is used only if it keeps the others.
    """
    exact = _rank(query, instance, EXACT, clock.share(LAST_SHARE, BOUND_MS), {"at_most": query.upper_limits})
    if exact.value > best.value and query.keeps_limits(instance.candidates[exact.indices]):
        best = Best(instance.candidates[exact.indices], exact.value)
    return Bounded(best, exact.upper_bound, True)


def catalog_search(
    query: Query, cells: CellBounds | CatalogReader, best: Best, scored: Scored | None = None
) -> WholeCatalogSearch:
    """The search for a bound over the whole catalogue, where this set is known."""
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch

    return WholeCatalogSearch(
        cells,
        query.user,
        query.k,
        best.value,
        eligible=query.eligible,
        scored=scored,
        pinned=query.include,
        limit=tightest_limit(query),
        near=best.rows,
    )


def bound_catalog(query: Query, search: WholeCatalogSearch, best: Best, budget_ms: float) -> Bounded:
    """Continue the search over the whole catalogue.

    The search may ignore pins and limits, so a set that it finds is used only if it keeps them.
    """
    search.run(budget_ms)
    found = search.found()
    if found.better is not None and query.admits(found.better):
        best = Best(found.better, found.value)
    return Bounded(best, found.upper_bound, search.finished and found.value <= best.value)


# --- the answer ---


def valued(query: Query, best: Best, upper_bound: float, clock: Clock, left_out: tuple[str, ...] = ()) -> Slate:
    """The slate, ordered by reward, with its value recomputed by the reference objective."""
    rewards = objective.item_rewards(query.catalog, query.user, best.rows)
    order = np.lexsort((best.rows, -rewards))
    rows, rewards = best.rows[order], rewards[order]
    value = float(rewards.sum())
    bound = max(upper_bound, value)
    return Slate(
        query=query,
        indices=rows,
        value=value,
        rewards=rewards,
        upper_bound=bound,
        proven=proves(query, rows, rewards, bound),
        timings=dict(clock.timings),
        left_out=left_out,
    )
