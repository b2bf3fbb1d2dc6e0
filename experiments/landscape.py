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
# hydropathy (Kyte and Doolittle, 1982), volume in cubic ångström (Zamyatnin, 1972), charge at pH 7, aromatic ring,
# branched at the second carbon, ring that bends the chain
PROPERTIES = (
    (1.8, 2.5, -3.5, -3.5, 2.8, -0.4, -3.2, 4.5, -3.9, 3.8, 1.9, -3.5, -1.6, -3.5, -4.5, -0.8, -0.7, 4.2, -0.9, -1.3),
    (88.6, 108.5, 111.1, 138.4, 189.9, 60.1, 153.2, 166.7, 168.6, 166.7, 162.9, 114.1, 112.7, 143.8, 173.4, 89.0, 116.1,
     140.0, 227.8, 193.6),
    (0, 0, -1, -1, 0, 0, 0.3, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 1, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1),
    (0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0),
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
)  # fmt: skip
FILE = "sets/gb1_fourfold/gb1_variants.csv.gz"
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Landscape:
    """``choices`` items at each site; ``outcome`` of every set in lexicographic order, NaN if unmeasured.

    ``properties`` (choices, p) say which choices are alike.
    """

    sites: int
    choices: int
    outcome: Floats
    properties: Floats

    @cached_property
    def sets(self) -> Rows:
        """Every set, one item a site: (choices^sites, sites)."""
        places = np.unravel_index(np.arange(self.choices**self.sites), (self.choices,) * self.sites)
        return np.stack(places, axis=1) + self.choices * np.arange(self.sites)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.sites * self.choices

    @property
    def features(self) -> Floats:
        """The properties of each item."""
        return np.tile(self.properties, (self.sites, 1))

    @cached_property
    def site_of(self) -> Rows:
        """The site of each item."""
        return np.arange(self.n_items) // self.choices

    @cached_property
    def measured(self) -> Rows:
        """The sets with an outcome."""
        return np.flatnonzero(np.isfinite(self.outcome))

    @cached_property
    def item_columns(self) -> scipy.sparse.csr_matrix:
        """One column an item."""
        return _indicators(self.sets, self.n_items)

    @cached_property
    def pair_columns(self) -> scipy.sparse.csr_matrix:
        """One column an item, and one a pair of items of two sites."""
        columns, width = [self.sets], self.n_items
        local = self.sets - self.choices * np.arange(self.sites)
        for a in range(self.sites):
            for b in range(a):
                columns.append((width + self.choices * local[:, a] + local[:, b])[:, None])
                width += self.choices**2
        return _indicators(np.concatenate(columns, axis=1), width)

    def best_unseen(self, values: Floats, seen: Rows, count: int, most: int | None = None) -> tuple[Rows, int]:
        """The ``count`` measured sets of the largest values outside ``seen``, and the unmeasured ones skipped.

        With ``most``, no item is in more of them.
        """
        order = values.astype(np.float64)
        order[seen] = -np.inf
        chosen: list[int] = []
        skipped, uses = 0, np.zeros(self.n_items, np.int64)
        for row in np.argsort(-order, kind="stable"):
            if most is not None and (uses[self.sets[row]] >= most).any():
                continue
            if np.isfinite(self.outcome[row]):
                chosen.append(int(row))
                uses[self.sets[row]] += 1
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
    return Landscape(4, 20, outcome, np.array(PROPERTIES).T)


def simulated(seed: int, sites: int = 3, choices: int = 6) -> Landscape:
    """Additive and pairwise effects on a log scale, a floor, and a tenth of the sets unmeasured."""
    rng = np.random.default_rng(seed)
    land = Landscape(sites, choices, np.zeros(choices**sites), rng.normal(size=(choices, 2)))
    single, pair = rng.normal(size=land.n_items), rng.normal(size=(land.n_items, land.n_items))
    score = single[land.sets].sum(axis=1)
    for a in range(sites):
        for b in range(a):
            score += pair[land.sets[:, a], land.sets[:, b]]
    outcome = np.exp(score - 3)
    outcome[rng.random(len(outcome)) < 0.1] = np.nan
    return Landscape(sites, choices, outcome, land.properties)


def ridge_values(
    land: Landscape, seen: Rows, target: Floats, pairs: bool, penalty: float, weight: Floats | None = None
) -> Floats:
    """The values of all sets by ridge regression on items and, with ``pairs``, on pairs of items.

    ``weight`` W says how much the error of each set counts. In the dual form (K + penalty W⁻¹) α = y − mean with
    K = X Xᵀ when there are fewer sets than columns.
    """
    features = land.pair_columns if pairs else land.item_columns
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


def _indicators(index: Rows, width: int) -> scipy.sparse.csr_matrix:
    """Rows of zeros, with ones in the columns ``index``."""
    starts = np.arange(0, index.size + 1, index.shape[1])
    return scipy.sparse.csr_matrix((np.ones(index.size), index.ravel(), starts), (len(index), width))
