"""Reduction: a catalogue with the k and the pinned rows of the reduced problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.model.catalog import Catalog
from setwise.model.instance import Instance


@dataclass(frozen=True, eq=False)
class Reduction:
    """Maximise F over the sets of at most ``k`` rows of ``catalog`` that contain all ``pinned`` rows.

    Solve it by ``sw.rank(reduction.instance(), reduction.k, include=reduction.pinned)``. The constructions of the paper
    have d_v = 1 and one user, u = 1.
    """

    catalog: Catalog
    k: int
    pinned: NDArray[np.intp]

    @property
    def user(self) -> NDArray[np.float64]:
        """The paper's u = 1: (1,)."""
        return np.ones(1)

    def instance(self) -> Instance:
        """The dense problem on all rows, in their order."""
        return Instance.from_catalog(self.catalog, self.user, np.arange(self.catalog.n_items))
