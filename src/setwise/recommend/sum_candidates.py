"""Candidates and prices for limits on sums over a whole catalogue.

Retrieval ranks items by score whatever their numbers, so a budget may admit few of the items that it returns. With
prices λ_r of the sums (bounds/prices.py) the items of largest

    r_i − γ Σ_r λ_r c_ri

become candidates too, where r_i is the reward alone and γ is 1, or as small or large as another set may need it; and
with them the items of the smallest numbers, so that a feasible set is among the candidates.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Rows
from setwise.bounds.prices import Prices, good_prices, prices_of_worths
from setwise.model.alone import screened_alone
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance, Rowed
from setwise.model.sums import Sums
from setwise.ranking.feasible_set import feasible_rows
from setwise.recommend.query import Query

SCALES = (1.0, 0.5, 2.0)  # γ
PRICED = 256  # candidates by which sums over a catalogue are priced


def within_sums(query: Query, most: int) -> Rows:
    """About ``most`` eligible rows of large reward for their numbers, or of small numbers; ascending."""
    rows = query.eligible.rows
    worth, sums = screened_alone(query.catalog, query.user)[rows], Sums.of(query.sums_of(rows), len(rows))
    pinned = np.isin(rows, query.include).astype(np.float64)
    price = prices_of_worths(worth, np.ones(len(rows), bool), pinned, query.k, sums)
    cost = price @ sums.cost
    chosen = [_largest(worth - scale * cost, most // len(SCALES)) for scale in SCALES]
    for number, least, high in zip(sums.cost, sums.least, sums.high, strict=True):
        chosen += [_largest(-number, query.k)] if np.isfinite(high) else []
        chosen += [_largest(number, query.k)] if least > 0 else []
    for required in query.required:
        inside = np.flatnonzero(np.isin(rows, required.rows))
        chosen += [inside[_largest(-number[inside], 2 * required.least)] for number in sums.cost]
    return np.unique(rows[np.concatenate(chosen)])


def feasible_of_all(query: Query) -> Rows:
    """A set of eligible items that keeps every limit, by integer programming over all of them; empty without one."""
    rows = query.eligible.rows
    pinned = np.searchsorted(rows, query.include)
    constraints = Constraints.of(
        Rowed(query.catalog, rows), query.k, include=pinned, sums=query.sums_of(rows), **query.limits
    )
    worth = screened_alone(query.catalog, query.user)[rows]
    chosen = feasible_rows(worth / max(float(np.abs(worth).max()), 1e-300), constraints)
    return rows[:0] if chosen is None else rows[chosen]


def _largest(measure: Floats, count: int) -> Rows:
    if count >= len(measure):
        return np.arange(len(measure))
    return np.asarray(np.argpartition(-measure, count)[:count])


def catalog_prices(query: Query, members: Rows) -> Prices:
    """Prices of the sums over the catalogue, by what its best candidates add to the set of these rows."""
    rows = np.union1d(np.union1d(within_sums(query, PRICED), members), query.include).astype(np.intp)
    instance = Instance.from_catalog(query.catalog, query.user, rows)
    pinned = np.searchsorted(rows, query.include)
    constraints = Constraints.of(instance, query.k, include=pinned, sums=query.sums_of(rows))
    price = good_prices(instance, constraints, np.searchsorted(rows, members)) * constraints.sums.unit
    cost = np.nan_to_num(np.array([limit.cost for limit in query.sums]))
    low, high = (np.array([getattr(limit, end) for limit in query.sums]) for end in ("low", "high"))
    return Prices.of(price, cost, low, high)
