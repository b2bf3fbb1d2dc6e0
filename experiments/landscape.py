"""A measured landscape: every set with one choice at each site, and the outcomes of those that were measured.

GB1 (Wu and others, 2016): four sites of a protein, twenty amino acids each, 80 items in all; a set is one amino acid a
site, its outcome the fitness (wild type 1). ``simulated`` makes a smaller landscape of the same kind for tests.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
FILE = "sets/gb1_fourfold/gb1_variants.csv.gz"
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Landscape:
    """``choices`` items at each site; ``outcome`` of every set in lexicographic order, NaN if unmeasured."""

    sites: int
    choices: int
    outcome: Floats

    @cached_property
    def sets(self) -> Rows:
        """Every set, one item a site: (choices^sites, sites)."""
        places = np.unravel_index(np.arange(self.choices**self.sites), (self.choices,) * self.sites)
        return np.stack(places, axis=1) + self.choices * np.arange(self.sites)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.sites * self.choices

    @cached_property
    def site_of(self) -> Rows:
        """The site of each item."""
        return np.arange(self.n_items) // self.choices

    @cached_property
    def measured(self) -> Rows:
        """The sets with an outcome."""
        return np.flatnonzero(np.isfinite(self.outcome))

    def best_unseen(self, values: Floats, seen: Rows, count: int) -> tuple[Rows, int]:
        """The ``count`` measured sets of the largest values outside ``seen``, and the unmeasured ones skipped."""
        order = values.astype(np.float64)
        order[seen] = -np.inf
        chosen: list[int] = []
        skipped = 0
        for row in np.argsort(-order, kind="stable"):
            if np.isfinite(self.outcome[row]):
                chosen.append(int(row))
                if len(chosen) == count:
                    break
            else:
                skipped += 1
        return np.array(chosen), skipped


def gb1(data: Path) -> Landscape:
    """The measured variants of GB1."""
    outcome = np.full(20**4, np.nan)
    with gzip.open(data / FILE, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            number = 0
            for letter in row["variant"]:
                number = 20 * number + AMINO_ACIDS.index(letter)
            outcome[number] = float(row["fitness"])
    return Landscape(4, 20, outcome)


def simulated(seed: int, sites: int = 3, choices: int = 6) -> Landscape:
    """Additive and pairwise effects on a log scale, a floor, and a tenth of the sets unmeasured."""
    rng = np.random.default_rng(seed)
    land = Landscape(sites, choices, np.zeros(choices**sites))
    single, pair = rng.normal(size=land.n_items), rng.normal(size=(land.n_items, land.n_items))
    score = single[land.sets].sum(axis=1)
    for a in range(sites):
        for b in range(a):
            score += pair[land.sets[:, a], land.sets[:, b]]
    outcome = np.exp(score - 3)
    outcome[rng.random(len(outcome)) < 0.1] = np.nan
    return Landscape(sites, choices, outcome)


def ridge_values(
    land: Landscape, seen: Rows, target: Floats, pairs: bool, penalty: float, weight: Floats | None = None
) -> Floats:
    """The values of all sets by ridge regression on items and, with ``pairs``, on pairs of items.

    ``weight`` W says how much the error of each set counts. In the dual form (K + penalty W⁻¹) α = y − mean with
    K = X Xᵀ when there are fewer sets than columns.
    """
    features = _features(land, pairs)
    counts = np.ones(len(seen)) if weight is None else weight
    x, mean = features[seen], np.average(target, weights=counts)
    if len(seen) < features.shape[1]:
        kernel = (x @ x.T).toarray()
        kernel[np.diag_indices_from(kernel)] += penalty / counts
        effect = x.T @ scipy.linalg.solve(kernel, target - mean, assume_a="pos")
    else:
        gram = (x.T @ x.multiply(counts[:, None])).toarray()
        gram[np.diag_indices_from(gram)] += penalty
        effect = scipy.linalg.solve(gram, x.T @ (counts * (target - mean)), assume_a="pos")
    return np.asarray(mean + features @ effect)


def _features(land: Landscape, pairs: bool) -> scipy.sparse.csr_matrix:
    """One column an item and, with ``pairs``, one a pair of items of two sites."""
    columns, width = [land.sets], land.n_items
    if pairs:
        local = land.sets - land.choices * np.arange(land.sites)
        for a in range(land.sites):
            for b in range(a):
                columns.append((width + land.choices * local[:, a] + local[:, b])[:, None])
                width += land.choices**2
    index = np.concatenate(columns, axis=1)
    starts = np.arange(0, index.size + 1, index.shape[1])
    return scipy.sparse.csr_matrix((np.ones(index.size), index.ravel(), starts), (len(index), width))
