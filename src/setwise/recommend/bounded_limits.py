"""The limit of a query that bounds over the whole catalogue count: at most so many items of each label.

``at_most`` and ``exactly`` are such limits. A lower limit is one too: a set of at most k items of which n or more are
in a group has at most k − n items outside of it. Of all limits of a query, the bound counts the one that allows the
fewest items; every feasible set keeps it, so the bound holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from setwise.recommend.query import Query

if TYPE_CHECKING:
    from setwise.bounds.catalog.reader import GroupLimit


def tightest_limit(query: Query) -> GroupLimit | None:
    """The limit that allows the fewest items of a label, one at least; None if no limit allows fewer than k."""
    limits = [limit for limit in _limits(query) if 1 <= limit.most < query.k]
    return min(limits, key=lambda limit: limit.most) if limits else None


def _limits(query: Query) -> Iterator[GroupLimit]:
    from setwise.bounds.catalog.reader import GroupLimit

    n = len(query.catalog)
    for attribute, most in query.upper_limits.items():
        labels = query.catalog.attributes.labels(attribute, np.arange(n))
        labels[query.uncounted] = -1
        yield GroupLimit(labels, most, attribute)
    for required in query.required:
        outside = np.zeros(n, np.int64)
        outside[required.rows] = -1
        outside[query.uncounted] = -1
        yield GroupLimit(
            outside, query.k - len(query.uncounted) - required.least, required.attribute, (required.value,)
        )
