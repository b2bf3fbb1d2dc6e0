"""Effort: how much a request with a budget can afford, from estimates of what each phase takes.

Every phase reads the clock, but none can stop before its arrays are made: m candidates need m² weights a head, a bound
needs a pass over all n items, and a slate of k items is valued from k² weights a head. So with a small budget there
are fewer candidates, the retrieval is a single pass, and the bound is left out. Without a budget all is done in full.

The constants were fitted to processor times on trained catalogues of 33,528 items (docs/evidence/performance.md).
A slower machine exceeds small budgets; the estimates are for keeping budgets, not for measuring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from setwise.model.catalog import Catalog
from setwise.ranking import DEFAULT
from setwise.recommend.query import Query

WEIGHT_MS = 25e-6  # one weight of the instance, in all arrays that ranking makes of it
VALUE_MS = 30e-6  # one weight of a slate that is valued
ROW_MS = 1.6e-3  # one retrieved row
NUMBER_MS = 0.25e-6  # one number of a vector in a pass by each head alone
PARTNER_MS = 0.8e-3  # one row of the reserve, of which the best partners of the anchor are chosen
FIXED_MS = 3.0  # everything that does not depend on sizes
RANK_SHARE, ROWS_SHARE, PARTNERS_SHARE = 0.3, 0.1, 0.15  # of the budget that these may take
TURN_SHARE = 0.1  # ranking is done in two turns if its arrays take less than this share of the budget
VALUATIONS = 4  # of the best set, while ranking
RESERVE = 9  # the reserve has 9 k items of every cell,
LARGEST_RESERVE = 6_400  # but at most so many in all, divided by the number of heads
PER_HEAD = 2  # items of each cell by every head alone, when there are several heads
PARTNERS = 0.25  # share of the candidates that are best partners of the anchor
SMALLEST = 32  # candidates: fewer save no time


@dataclass(frozen=True)
class Effort:
    """What a request can afford.

    candidates     the most candidates that are ranked; 0: too few, the k items of highest score are the answer
    per_cell       items retrieved from each cell
    with_partners  whether items are also retrieved by each head alone, and as best partners of the anchor
    in_turns       whether ranking and bounding are done in turns
    """

    candidates: int
    per_cell: int
    with_partners: bool
    in_turns: bool

    @classmethod
    def of(cls, query: Query, most: int, cells: int) -> Effort:
        """The effort for a query that may rank ``most`` candidates from so many cells."""
        budget, catalog, k = query.budget_ms, query.catalog, query.k
        if budget is None:
            return cls(most, k, True, True)
        budget = max(budget - FIXED_MS, 0.0)
        partners = PARTNER_MS * cells * reserve_per_cell(k, catalog.heads, cells)
        partners += NUMBER_MS * _numbers(catalog) * catalog.heads if catalog.heads > 1 else 0.0
        candidates = affordable_candidates(query, most)
        return cls(
            candidates,
            min(k, max(int(ROWS_SHARE * budget / ROW_MS / cells), -(-2 * k // cells))),
            partners <= PARTNERS_SHARE * budget,
            rank_ms(catalog.heads, max(candidates, k), k) <= TURN_SHARE * budget,
        )


def affordable_candidates(query: Query, most: int) -> int:
    """The candidates whose arrays take at most ``RANK_SHARE`` of the budget, but enough for k; 0 if k is too many."""
    heads, k = query.catalog.heads, query.k
    if query.budget_ms is None:
        return most
    budget = max(query.budget_ms - FIXED_MS, 0.0)
    able = math.isqrt(int(RANK_SHARE * budget / (WEIGHT_MS * heads)))
    able = max(min(able, most), min(SMALLEST, most))
    if able >= 2 * k or query.is_limited or query.ranker is not DEFAULT:
        return max(able, min(k, most))
    able = min(max(able, 2 * k), max(most, k))
    return able if rank_ms(heads, able, k) + value_ms(heads, k) <= 2 * RANK_SHARE * budget else 0


def reserve_per_cell(k: int, heads: int, cells: int) -> int:
    """How many more items of each cell are valued beside the anchor."""
    return min(RESERVE * k, LARGEST_RESERVE // (heads * cells))


def rank_ms(heads: int, m: int, k: int) -> float:
    """About how long ranking takes before and after its search."""
    return WEIGHT_MS * heads * m * m + VALUATIONS * value_ms(heads, k)


def value_ms(heads: int, k: int) -> float:
    """About how long it takes to value a slate."""
    return VALUE_MS * heads * k * k


def bound_ms(catalog: Catalog, k: int, cells: int) -> float:
    """About how long a bound over the whole catalogue takes before its search."""
    n, heads = len(catalog), catalog.heads
    return 1e-6 * n * (60 + 20 * heads) + 7e-8 * (1 + heads) * k * k * cells + NUMBER_MS * _numbers(catalog)


def _numbers(catalog: Catalog) -> int:
    """The numbers of all values and base terms."""
    base = 0 if catalog.base is None else catalog.base.shape[1]
    return int(len(catalog) * (catalog.value.shape[1] * catalog.value.shape[2] + base))
