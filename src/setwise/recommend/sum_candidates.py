"""Candidates and prices for limits on sums over a whole catalogue.

Retrieval ranks items by score whatever their numbers, so a budget may admit few of the items that it returns. With
prices λ_r of the sums (bounds/prices.py) the items of largest

    r_i − γ Σ_r λ_r c_ri

become candidates too, where r_i is the reward alone and γ is 1, or as small or large as another set may need it; and
with them the items of the smallest numbers, so that a feasible set is among the candidates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from setwise._types import Floats, Rows
from setwise.bounds.prices import Prices, good_prices, prices_of_worths
from setwise.model.alone import screened_alone
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance, Rowed
from setwise.ranking.feasible_set import feasible_rows
from setwise.recommend.lower_limits import item_scores
from setwise.recommend.query import Query
from setwise.retrieval.partners import pair_values

if TYPE_CHECKING:
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch

SCALES = (1.0, 0.5, 2.0)  # γ
PRICED = 256  # candidates by which sums over a catalogue are priced
TRIES = 5  # of prices
STEP, NEAR = 1.3, 1.02  # between prices that are tried, and the ratio at which no more are

_worths: WeakKeyDictionary[Query, tuple[Floats, Floats]] = WeakKeyDictionary()


def within_sums(query: Query, most: int) -> Rows:
    """About ``most`` eligible rows of large reward for their numbers, or of small numbers; ascending."""
    rows, sums = query.eligible.rows, query.eligible_sums
    worth, price = worths_within(query)
    cost = price @ sums.cost
    chosen = [_largest(worth - scale * cost, most // len(SCALES)) for scale in SCALES]
    for number, least, high in zip(sums.cost, sums.least, sums.high, strict=True):
        chosen += [_largest(-number, query.k)] if np.isfinite(high) else []
        chosen += [_largest(number, query.k)] if least > 0 else []
    for required in query.required:
        inside = np.flatnonzero(np.isin(rows, required.rows))
        chosen += [inside[_largest(-number[inside], 2 * required.least)] for number in sums.cost]
    return np.unique(rows[np.concatenate(chosen)])


def worths_within(query: Query) -> tuple[Floats, Floats]:
    """What each eligible item is worth alone or beside the anchor, whichever is more, and prices of sums by that.

    The anchor is the eligible item of highest score that the sums admit: what it lends makes other items worth their
    numbers. They are computed once a query.
    """
    known = _worths.get(query)
    if known is None:
        known = _worths[query] = _computed_worths(query)
    return known


def _computed_worths(query: Query) -> tuple[Floats, Floats]:
    rows, sums = query.eligible.rows, query.eligible_sums
    alone = screened_alone(query.catalog, query.user)[rows]
    worth = alone
    if query.catalog.attends and len(rows) > 1 and query.k > 1:
        score = np.where(sums.fitting(np.zeros(0, np.intp)), item_scores(query.catalog, query.user, rows), -np.inf)
        anchor = int(np.argmax(score))
        others = np.delete(np.arange(len(rows)), anchor)
        pairs = pair_values(query.catalog, query.user, int(rows[anchor]), rows[others])
        worth = alone.copy()
        worth[others] = np.maximum(alone[others], np.nan_to_num(pairs, posinf=1e30, neginf=-1e30) - alone[anchor])
    pinned = np.isin(rows, query.include).astype(np.float64)
    return worth, prices_of_worths(worth, np.ones(len(rows), bool), pinned, query.k, sums)


def feasible_of_all(query: Query) -> Rows:
    """A set of eligible items that keeps every limit, by integer programming over all of them; empty without one."""
    rows = query.eligible.rows
    pinned = np.searchsorted(rows, query.include)
    constraints = Constraints.of(
        Rowed(query.catalog, rows), query.k, include=pinned, sums=query.sums_of(rows), **dict[str, Any](query.limits)
    )
    worth = screened_alone(query.catalog, query.user)[rows]
    chosen = feasible_rows(worth / max(float(np.abs(worth).max()), 1e-300), constraints)
    return rows[:0] if chosen is None else rows[chosen]


def _largest(measure: Floats, count: int) -> Rows:
    if count >= len(measure):
        return np.arange(len(measure))
    return np.asarray(np.argpartition(-measure, count)[:count])


def catalog_prices(query: Query, members: Rows, scale: float = 1.0) -> Prices:
    """Prices of the sums over the catalogue, by what candidates add to the set of these rows, times ``scale``."""
    rows = np.union1d(np.union1d(within_sums(query, PRICED), members), query.include).astype(np.intp)
    instance = Instance.from_catalog(query.catalog, query.user, rows)
    pinned = np.searchsorted(rows, query.include)
    constraints = Constraints.of(instance, query.k, include=pinned, sums=query.sums_of(rows))
    return _over_catalog(
        query, good_prices(instance, constraints, np.searchsorted(rows, members)) * constraints.sums.unit
    )


def _over_catalog(query: Query, price: Floats) -> Prices:
    cost = np.nan_to_num(np.array([limit.cost for limit in query.sums]))
    low, high = (np.array([getattr(limit, end) for limit in query.sums]) for end in ("low", "high"))
    return Prices.of(price, cost, low, high)


def priced_search(
    query: Query, members: Rows, search_at: Callable[[Prices], WholeCatalogSearch], seconds: float
) -> WholeCatalogSearch:
    """The search at the prices with the smallest bound, of those that were tried for so many seconds.

    The set that counts most at some prices says whether they are too low: it then costs more than the limits. So the
    scale of the first prices is bisected, as the bound is a convex function of it.
    """
    began, first = time.perf_counter(), catalog_prices(query, members)
    low, high, scale = 0.0, math.inf, 1.0
    best, least = search_at(first), math.inf
    tried = best
    while True:
        tried.run(1000 * seconds / TRIES)
        bound = tried.found().upper_bound
        if bound < least:
            best, least = tried, bound
        rows = tried.counted_most
        low, high = (scale, high) if _is_beyond(query, first, members if rows is None else rows) else (low, scale)
        scale = STEP * low if high == math.inf else high / STEP if low == 0.0 else math.sqrt(low * high)
        if time.perf_counter() - began > seconds or not first.price.any() or high < NEAR * low:
            return best
        tried = search_at(_over_catalog(query, scale * first.price))


def _is_beyond(query: Query, prices: Prices, rows: Rows) -> bool:
    """Whether a set costs more at these prices than the limits do."""
    return float(-prices.offset[rows].sum()) > prices.constant * (1 + 1e-12)
