"""Measures of slates for held-out sessions, as recommenders are usually compared by.

For a slate of ranks r = 1 … k, with hit_r ∈ {0, 1} and T target items of its session:

    NDCG        Σ_r hit_r / log₂(r + 1), divided by its largest value, that of min(k, T) hits at the first ranks
    MAP         Σ_r hit_r · (hits up to r) / r, divided by min(k, T)
    coverage    the share of the catalogue's items that some slate shows
    novelty     the mean over items shown of −log₂ p_i, with p_i the share of sessions whose history has the item
    similarity  the mean cosine between two items of a slate (intra-list similarity), by the catalogue's embeddings

All are means over slates except coverage.
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats
from setwise.datasets.splits import HistorySplit
from setwise.model.catalog import Catalog
from setwise.model.instance import unit_rows
from setwise.model.ragged import Ragged

PERIODS = 4  # of sessions in the order of time
# Names in reports -> headings in tables: of hits, and of what is shown.
HITS = {"observed": "observed", "error": "±", "any_hit": "any hit", "ndcg": "NDCG", "map": "MAP"}
VARIETY = {"coverage": "coverage", "novelty": "novelty", "similarity": "similarity within slates"}


def quality(shown: Ragged, split: HistorySplit, k: int, catalog: Catalog) -> dict[str, float]:
    """Hits per slate with their standard error, the share of slates with a hit, and the measures above."""
    hit = split.outcomes(shown).astype(np.float64)
    owner, count = shown.owner, len(shown)
    hits = np.bincount(owner, weights=hit, minlength=count)
    rank = np.arange(len(shown.values)) - shown.offsets[owner]
    discount, most = 1 / np.log2(np.arange(k) + 2), np.minimum(k, split.targets.lengths)
    gain = np.bincount(owner, weights=hit * discount[rank], minlength=count)
    so_far = np.cumsum(hit) - np.repeat(np.r_[0.0, np.cumsum(hits)[:-1]], shown.lengths)
    precision = np.bincount(owner, weights=hit * so_far / (rank + 1), minlength=count)
    return {
        "observed": float(hits.mean()),
        "error": float(hits.std() / math.sqrt(count)),
        "any_hit": float((hits > 0).mean()),
        "ndcg": float((gain / np.cumsum(discount)[most - 1]).mean()),
        "map": float((precision / most).mean()),
        "coverage": len(np.unique(shown.values)) / split.sessions.n_items,
        "novelty": _novelty(shown, split),
        "similarity": _similarity(shown, catalog),
    }


def by_time(shown: Ragged, split: HistorySplit, k: int, catalog: Catalog) -> list[dict[str, float]]:
    """The same for the sessions of each of PERIODS parts of equal size, in the order of the split, which is of time."""
    parts = [rows for rows in np.array_split(np.arange(len(split)), PERIODS) if len(rows)]
    return [{"sessions": len(rows)} | quality(shown.taken(rows), split.taken(rows), k, catalog) for rows in parts]


def _novelty(shown: Ragged, split: HistorySplit) -> float:
    """The mean of −log₂ p_i; half a session is added, so that an item of no history has a finite novelty."""
    pairs = np.unique(split.history.owner * split.sessions.n_items + split.history.values)
    seen = np.bincount(pairs % split.sessions.n_items, minlength=split.sessions.n_items)
    information: Floats = -np.log2((seen + 0.5) / (len(split) + 1))
    return float(information[shown.values].mean()) if len(shown.values) else 0.0


def _similarity(shown: Ragged, catalog: Catalog) -> float:
    """The mean cosine of pairs, over slates of two items or more; 0 if there are none."""
    means = []
    for rows in shown:
        if len(rows) > 1:
            unit = unit_rows(catalog.embeddings(rows))
            cosine = unit @ unit.T
            means.append((cosine.sum() - np.trace(cosine)) / (len(rows) * (len(rows) - 1)))
    return float(np.mean(means)) if means else 0.0
