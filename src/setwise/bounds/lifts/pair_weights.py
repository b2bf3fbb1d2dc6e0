"""PairWeights: the attention of every item on every other, kept in memory for catalogues that are small enough.

They do not depend on a user. Row i holds e^(l_ij − l_ii) in single precision, so that its own weight is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Array, Floats, Floats32, Rows
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic

MOST_PAIRS = 40_000_000  # items² · heads: 160 MB
WIDEST = 60.0  # logits that differ by more from an item's own have no weights in single precision
LOOSE = 1.0  # the largest weights of a row may add up to this share of those on itself and the sink, on average
_OTHERS = 9  # weights that are compared with it
COUNTED = 32  # the largest weights of a row whose sums are kept
_LOGITS = 1 << 21  # logits computed at a time


@dataclass(frozen=True, eq=False)
class PairWeights:
    """The weights of all pairs of items, in the order of the rows passed."""

    weight: Floats32  # (n, H, n): of item i on item j in each head; 0 on itself
    sink: Floats  # (n, H): of item i on the sink
    largest: Floats  # (n, H, COUNTED + 1): upper bounds on the sum of the 0, 1, … largest weights of the row

    @classmethod
    def of(cls, catalog: Catalog, rows: Rows) -> PairWeights | None:
        """The weights; None where they have no use.

        That is with one head, no sink, too many pairs, rewards that are not logistic, very sharp attention, or items
        that attend to others more than to themselves and the sink: sums of attention then vary too much.
        """
        n, heads, _ = catalog.query.shape
        logistic = all(isinstance(reward, Logistic) for reward in catalog.rewards)
        if heads == 1 or n < 2 or n * n * heads > MOST_PAIRS or not logistic or catalog.sink is None:
            return None
        query, key = (np.asarray(array[rows], np.float64) for array in (catalog.query, catalog.key))
        own = np.einsum("ihd,ihd->ih", query, key)
        sink = np.einsum("ihd,hd->ih", query, np.asarray(catalog.sink.key, np.float64)) - own
        if not np.abs(sink).max() <= WIDEST:
            return None
        weight, largest = np.empty((n, heads, n), np.float32), np.zeros((n, heads, COUNTED + 1))
        size, by_head = max(1, _LOGITS // n), np.ascontiguousarray(np.moveaxis(key, 0, -1))
        for start in range(0, n, size):
            part = slice(start, start + size)
            for h in range(heads):
                logit = query[part, h] @ by_head[h] - own[part, h, None]
                if not np.abs(logit).max() <= WIDEST:
                    return None
                weight[part, h] = np.exp(logit)
                inside = np.arange(start, min(start + size, n))
                weight[inside, h, inside] = 0.0
                largest[part, h, 1:] = _largest_sums(weight[part, h])
        found = cls(weight, np.exp(sink), largest)
        return found if float((largest[:, :, _OTHERS] / (1.0 + found.sink)).mean()) <= LOOSE else None


def _largest_sums(weight: Array) -> Floats:
    """Upper bounds on the sums of the 1, 2, … largest weights of each row: (rows, COUNTED)."""
    rows, n = weight.shape
    count = min(COUNTED, n)
    best = np.zeros((rows, COUNTED))
    best[:, :count] = -np.sort(-np.partition(weight, n - count, axis=1)[:, n - count :], axis=1)
    return np.asarray(np.cumsum(best, axis=1) * (1 + 1e-6))
