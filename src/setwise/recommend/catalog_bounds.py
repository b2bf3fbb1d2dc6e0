"""The search for a bound over the whole catalogue, as the pipeline and continued proofs run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from setwise._types import Floats, Rows
from setwise.recommend.bounded_limits import tightest_limit
from setwise.recommend.query import Query
from setwise.recommend.sum_candidates import priced_search

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.reader import CatalogReader
    from setwise.bounds.catalog.score_order import Scored
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
    from setwise.bounds.prices import Prices

PRICING_SHARE, PRICING_S = 0.4, 0.05  # of a bound's time, and seconds, to find prices of sums


class Best(NamedTuple):
    """The best feasible set known."""

    rows: Rows
    value: float


class Bounded(NamedTuple):
    """The best set known, and an upper bound on all others.

    ``settled`` says that no more search follows; ``left_out`` names what of the request could not be done.
    """

    best: Best
    upper_bound: float
    settled: bool
    left_out: tuple[str, ...] = ()
    prices: Floats | None = None  # of limited sums, with which the bound was found


def catalog_search(
    query: Query,
    cells: CellBounds | CatalogReader,
    best: Best,
    scored: Scored | None = None,
    seconds: float = PRICING_S,
) -> WholeCatalogSearch:
    """The search for a bound over the whole catalogue, which starts from the best set known.

    Where sums are limited, prices are sought for ``seconds``: those with the smallest bound at the root.
    """
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch

    def search_at(prices: Prices | None) -> WholeCatalogSearch:
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
            prices=prices,
            admits=query.admits if prices is not None else None,
        )

    return priced_search(query, best.rows, search_at, seconds) if query.sums else search_at(None)


def bound_catalog(query: Query, search: WholeCatalogSearch, best: Best, budget_ms: float) -> Bounded:
    """Continue the search over the whole catalogue.

    The search may ignore pins and limits, so a set that it finds is used only if it keeps them.
    """
    search.run(budget_ms)
    bound = search.found()
    if bound.better is not None and query.admits(bound.better):
        best = Best(bound.better, bound.value)
    settled, prices = search.finished and bound.value <= best.value, search.prices
    return Bounded(best, bound.upper_bound, settled, prices=None if prices is None else prices.price)
