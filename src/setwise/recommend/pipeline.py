"""The pipeline of a request: choose candidates, rank them, bound every other set, value the answer.

A catalogue without attention is a special case that needs none of this (independent.py). Python, HTTP, the command line
and batches come here through ``run_many``, a cluster's front through ``independent`` and ``answer``: the steps are the
same, and what differs is who holds the rows. This process holds all of them, the shards of a cluster bring the
candidates (cluster/rounds.py), and a device chooses and ranks for many queries at once (device_pipeline.py).

**Choose.** Phase One: retrieve.py. With a budget it returns what there is time to rank (effort.py).

**Rank and bound.** Swap search mostly finds the best set in its first few climbs; the later ones only confirm it. A
bound confirms more. So if a bound is requested, the first ranking makes 1/16 of the evaluations and the bound gets a
quarter of its time. Unless that proves the set optimal, both continue. If the search for the bound finds a better
feasible set, that set is the answer. Where all feasible sets can be evaluated in the bound's time, they are, and there
is nothing else to do (few_sets.py). The bound counts pinned items and the tightest limit; other limits only remove
feasible sets, so it holds for them too.

**Value.** Rewards and value are computed again by the reference objective (valuation.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise.errors import Infeasible
from setwise.model import objective
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking import Ranker, Ranking
from setwise.ranking.exact import EXACT
from setwise.ranking.exhaustive import EXHAUSTIVE
from setwise.ranking.registry import rank_or_advise, required_limits
from setwise.recommend.catalog_bounds import PRICING_SHARE, Best, Bounded, bound_catalog, catalog_search
from setwise.recommend.clock import BOUND_MS, Clock
from setwise.recommend.effort import VALUATIONS, bound_ms, value_ms
from setwise.recommend.few_sets import enumeration_ms
from setwise.recommend.independent import best_independent, is_independent
from setwise.recommend.query import Query
from setwise.recommend.retrieve import Candidates, Choice, Snapshot, chosen, retrieve_many
from setwise.recommend.slate import CERTIFICATE, Slate
from setwise.recommend.valuation import valued, valued_many
from setwise.retrieval.index_state import Retrieved

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.reader import CatalogReader
    from setwise.bounds.catalog.score_order import Scored
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
    from setwise.recommend.device_pipeline import DeviceRequests


RANK_SHARE = 0.4  # of the remaining budget goes to ranking where a bound follows
LAST_SHARE = 0.9  # of the remaining budget goes to the last phase; the rest is for valuing the answer
FIRST_LOOK = 16  # the first ranking makes 1/16 of its evaluations
FIRST_PROOF = 0.25  # of the bound's time passes before ranking continues
MARGIN = 1.3  # a bound is begun if this many times its estimated preparation is left
INFEASIBLE_TODO = "lower one of them, or leave one out"  # what can be done in Python, on the command line and over HTTP
SCORED_TOGETHER = 4  # queries that share the bound's pass: each keeps the scores of all items in memory


# --- queries, by who holds their rows ---


def run(query: Query, snapshot: Snapshot, began: float | None = None) -> Slate:
    """The best slate found for the query; its budget counts from ``began``, now unless given."""
    return run_many([query], snapshot, 1, began)[0]


def run_many(queries: Sequence[Query], snapshot: Snapshot, threads: int, began: float | None = None) -> list[Slate]:
    """``run`` for queries with one k, one ranker and one filter.

    They share one retrieval pass and, a few at a time, the bound's pass over the scores. Each is charged its share.
    """
    start = time.perf_counter() if began is None else began
    clocks = [Clock(query.budget_ms, start) for query in queries]
    slates = {
        number: independent(query, clock)
        for number, (query, clock) in enumerate(zip(queries, clocks, strict=True))
        if is_independent(query)
    }
    device = snapshot.device
    by_device, by_processor = list[int](), list[int]()
    for number, query in enumerate(queries):
        if number not in slates:
            (by_device if device is not None and device.answers(query) else by_processor).append(number)
    if device is not None and by_device:
        arguments = [queries[number] for number in by_device], snapshot, [clocks[number] for number in by_device]
        slates |= zip(by_device, _on_device(device, *arguments), strict=True)
    if by_processor:
        arguments = [queries[number] for number in by_processor], snapshot, [clocks[number] for number in by_processor]
        slates |= zip(by_processor, _in_this_process(*arguments, threads), strict=True)
    return [slates[number] for number in range(len(queries))]


def independent(query: Query, clock: Clock) -> Slate:
    """The slate of a query whose items do not interact: its value is the bound."""
    clock.timings.setdefault("retrieve", 0.0)
    clock.timings["certify"] = 0.0
    with clock.phase("rank"):
        rows = best_independent(query)
    return valued(query, rows, -math.inf if query.certify else math.inf, clock.timings)


def _on_device(
    device: DeviceRequests, queries: Sequence[Query], snapshot: Snapshot, clocks: Sequence[Clock]
) -> list[Slate]:
    """Candidates and ranking on the device; bounds over cells here, where the catalogue has cells; values together."""
    rows, filled, phases = device.ranked(queries)
    if snapshot.cell_bounds is None or not any(query.certify for query in queries):
        start = time.perf_counter()
        upper = [device.upper(query) if query.certify else math.inf for query in queries]
        phases["certify"] = 1000 * (time.perf_counter() - start) / len(queries)
        return valued_many(queries, rows, filled, upper, phases)
    slates = []
    for query, clock, places, used in zip(queries, clocks, rows, filled, strict=True):
        clock.timings.update(phases)
        resumed, members = clock.resumed(), np.sort(places[used])
        best = Best(members, objective.set_value(query.catalog, query.user, members))
        waiting = query.certify and not snapshot.can_bound
        bounded = Bounded(best, math.inf, True, (CERTIFICATE,) if waiting else ())
        with resumed.phase("certify"):
            if query.certify and not waiting:
                bounded, _ = _begun_bound(query, snapshot.cell_bounds, best, resumed, (LAST_SHARE, BOUND_MS))
        slates.append(valued(query, bounded.best.rows, bounded.upper_bound, resumed.timings, bounded.left_out))
    return slates


def _in_this_process(
    queries: Sequence[Query], snapshot: Snapshot, clocks: Sequence[Clock], threads: int
) -> list[Slate]:
    start = time.perf_counter()
    passes = retrieve_many(queries, snapshot)
    share_ms = 1000 * (time.perf_counter() - start) / len(queries)
    for clock in clocks:
        clock.timings["retrieve"] = share_ms
    members = list(zip(queries, passes, clocks, strict=True))
    groups = [members[start : start + SCORED_TOGETHER] for start in range(0, len(members), SCORED_TOGETHER)]
    if threads == 1:  # in the caller's own thread
        return [slate for group in groups for slate in _answers(group, snapshot)]
    with ThreadPoolExecutor(threads) as pool:
        return [slate for slates in pool.map(lambda group: _answers(group, snapshot), groups) for slate in slates]


def _answers(group: Sequence[tuple[Query, Candidates | Retrieved, Clock]], snapshot: Snapshot) -> list[Slate]:
    """The slates of a few queries; no query is charged for the time in which it waits for the others."""
    choices: list[Choice] = []
    for query, retrieved, clock in group:
        with clock.phase("retrieve"):
            choices.append(Choice(query, snapshot, chosen(query, retrieved, snapshot)))
    clocks = [clock for *_, clock in group]
    if len(group) == 1:
        return [answer(choices[0], clocks[0])]
    scored = _score_together(choices, clocks)
    return [
        answer(choice, clock.resumed(), scores) for choice, clock, scores in zip(choices, clocks, scored, strict=True)
    ]


def _score_together(choices: Sequence[Choice], clocks: Sequence[Clock]) -> list[Scored | None]:
    """The scores of all items that bounds read, in one pass; None where the bound needs none."""
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.user_scores import scores

    snapshot = choices[0].snapshot
    wanted = [
        number
        for number, choice in enumerate(choices)
        if choice.query.certify and snapshot.can_bound and not choice.candidates.complete
    ]
    if not isinstance(snapshot.cell_bounds, CellBounds) or not wanted:
        return [None] * len(choices)
    start = time.perf_counter()
    queries = [choices[number].query for number in wanted]
    of_items = scores(snapshot.cell_bounds, [query.user for query in queries], [query.eligible for query in queries])
    for number in wanted:
        clocks[number].timings["certify"] = 1000 * (time.perf_counter() - start) / len(wanted)
    scored = dict(zip(wanted, of_items, strict=True))
    return [scored.get(number) for number in range(len(choices))]


# --- the steps of one query: rank, bound, value ---


def answer(choice: Choice, clock: Clock, scored: Scored | None = None) -> Slate:
    """Rank the candidates, bound all feasible sets where that is wanted, and value the best set found.

    If the candidates hold no feasible set, items of other values of the limited attributes join them.
    """
    try:
        bounded = _ranked_and_bounded(choice, clock, scored)
    except Infeasible:
        varied = choice.varied()
        if varied is None:
            raise
        choice = varied
        bounded = _ranked_and_bounded(choice, clock, scored)
    query, rows = choice.settled(bounded.best.rows)
    return valued(query, rows, bounded.upper_bound, clock.timings, bounded.left_out, bounded.prices)


def _ranked_and_bounded(choice: Choice, clock: Clock, scored: Scored | None) -> Bounded:
    """The best set found among the candidates or by the bound, and the bound where one is wanted."""
    query, snapshot, candidates = choice.query, choice.snapshot, choice.candidates
    if not snapshot.effort(query).candidates:
        return _unranked(choice, clock)
    with clock.phase("rank"):
        instance = Instance.from_catalog(query.catalog, query.user, candidates.rows)
    waiting = query.certify and not snapshot.can_bound
    if not query.certify or waiting or (snapshot.cell_bounds is None and not candidates.complete):
        with clock.phase("rank"):
            best = _ranked(query, instance, clock, LAST_SHARE)
        clock.timings.setdefault("certify", 0.0)
        return Bounded(best, math.inf, True, (CERTIFICATE,) if waiting else ())
    if candidates.complete:
        return _bounded_among_candidates(query, instance, clock)
    assert snapshot.cell_bounds is not None
    return _in_turns(query, snapshot, instance, snapshot.cell_bounds, clock, scored)


def _unranked(choice: Choice, clock: Clock) -> Bounded:
    """The set of candidates that there is no time to rank, with the bound that takes no time."""
    query, cells = choice.query, choice.snapshot.cell_bounds
    clock.timings.setdefault("rank", 0.0)
    clock.timings.setdefault("certify", 0.0)
    bound = _bound_by_norms(query, cells) if query.certify and cells is not None else math.inf
    return Bounded(Best(choice.candidates.rows, math.nan), bound, True)


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
    timed = query.sums and divisor == 1 and math.isfinite(budget_ms)  # sets within sums are harder to find
    if (
        ranker.default_evaluations is not None and not timed
    ):  # capped even with a budget: unused budget goes to the bound
        options["evaluations"] = ranker.default_evaluations(instance.m, query.k) // divisor
    pinned = np.searchsorted(instance.candidates, query.include)
    uncounted = np.searchsorted(instance.candidates, query.uncounted)
    sums = query.sums_of(instance.candidates)
    constrained: dict[str, Any] = {"include": pinned, "sums": sums, "uncounted": uncounted, **limits}
    return rank_or_advise(instance, query.k, ranker.name, INFEASIBLE_TODO, **constrained, **options)


def _bounded_among_candidates(query: Query, instance: Instance, clock: Clock) -> Bounded:
    """All eligible items are candidates: evaluate all feasible sets where they are few, or else rank and bound."""
    pinned, limits = np.searchsorted(instance.candidates, query.include), dict[str, Any](query.limits)
    sums, uncounted = query.sums_of(instance.candidates), np.searchsorted(instance.candidates, query.uncounted)
    constraints = Constraints.of(instance, query.k, include=pinned, sums=sums, uncounted=uncounted, **limits)
    if enumeration_ms(instance, constraints) <= clock.share(LAST_SHARE, BOUND_MS):
        return _best_of_all(query, instance, clock)
    with clock.phase("rank"):
        best = _ranked(query, instance, clock, RANK_SHARE, needed_ms=2 * value_ms(query.catalog.heads, query.k))
    with clock.phase("certify"):
        return bound_candidates(query, instance, best, clock)


def _in_turns(
    query: Query,
    snapshot: Snapshot,
    instance: Instance,
    cells: CellBounds | CatalogReader,
    clock: Clock,
    scored: Scored | None,
) -> Bounded:
    """Rank and bound over the whole catalogue, in turns; see the module's docstring."""
    in_turns = query.ranker.takes_evaluations and snapshot.effort(query).in_turns
    with clock.phase("rank"):
        best = _ranked(query, instance, clock, RANK_SHARE, FIRST_LOOK if in_turns else 1, _preparation_ms(query, cells))
    with clock.phase("certify"):
        share = (FIRST_PROOF, FIRST_PROOF * BOUND_MS) if in_turns else (LAST_SHARE, BOUND_MS)
        bounded, search = _begun_bound(query, cells, best, clock, share, scored)
    if search is None or not in_turns or bounded.settled:
        return bounded
    with clock.phase("rank"):
        if not clock.is_over():  # from the start again: the same sets come in the same order, then more
            second = _ranked(query, instance, clock, RANK_SHARE)
            if second.value > bounded.best.value:
                bounded = bounded._replace(best=second)
    with clock.phase("certify"):
        if not clock.is_over():
            search.offer(bounded.best.value, bounded.best.rows)
            budget_ms = clock.share(LAST_SHARE, (1 - FIRST_PROOF) * BOUND_MS)
            bounded = bound_catalog(query, search, bounded.best, budget_ms)
    return bounded


def _preparation_ms(query: Query, cells: CellBounds | CatalogReader) -> float:
    """About how long a bound takes beside its search: to prepare it, and to value the sets that it finds."""
    return 2 * value_ms(query.catalog.heads, query.k) + bound_ms(cells.catalog, query.k, cells.n_cells)


def _bound_by_norms(query: Query, cells: CellBounds | CatalogReader) -> float:
    """The bound that takes no time."""
    from setwise.bounds.catalog.norm_bound import norm_bound

    return norm_bound(cells, query.user, query.k)


def _begun_bound(
    query: Query,
    cells: CellBounds | CatalogReader,
    best: Best,
    clock: Clock,
    share: tuple[float, float],
    scored: Scored | None = None,
) -> tuple[Bounded, WholeCatalogSearch | None]:
    """The bound after a share of the time that is left, and its search; the bound by norms where that is too little."""
    if not clock.has(MARGIN * _preparation_ms(query, cells)):
        return Bounded(best, _bound_by_norms(query, cells), True), None
    began, milliseconds = time.perf_counter(), clock.share(*share)
    search = catalog_search(query, cells, best, scored, PRICING_SHARE * milliseconds / 1000)
    spent = 1000 * (time.perf_counter() - began) if query.sums else 0.0
    return bound_catalog(query, search, best, max(milliseconds - spent, 0.0)), search


def _best_of_all(query: Query, instance: Instance, clock: Clock) -> Bounded:
    """The best of all feasible sets, which leaves nothing to bound."""
    required_limits(query.ranker, query.limits)  # the answer to a request does not depend on the shortcut
    clock.timings.setdefault("certify", 0.0)
    with clock.phase("rank"):
        ranking = _rank(query, instance, EXHAUSTIVE, math.inf, query.limits)
    return Bounded(Best(instance.candidates[ranking.indices], ranking.value), ranking.upper_bound, True)


def bound_candidates(query: Query, instance: Instance, best: Best, clock: Clock) -> Bounded:
    """All eligible items are candidates: branch and bound on the instance, with pins and limits from above.

    It knows only upper limits on every value, so a set that it finds is used only if it keeps the others.
    """
    exact = _rank(query, instance, EXACT, clock.share(LAST_SHARE, BOUND_MS), {"at_most": query.upper_limits})
    if exact.value > best.value and query.keeps_limits(instance.candidates[exact.indices]):
        best = Best(instance.candidates[exact.indices], exact.value)
    return Bounded(best, exact.upper_bound, True)
