"""Fold-in: the vector of a new history in a factorisation of implicit feedback (Hu, Koren and Volinsky 2008).

Alternating least squares gives items y_i (n, d) and weighs an observed pair c times, an unobserved one once. The vector
of a history h with the recency weights r_j is the minimiser of

    Σ_i (u · y_i)² + λ|u|² + Σ_{j∈h} r_j [ c (1 − u · y_j)² − (u · y_j)² ]

that is  (G + Yᵀ D Y) u = Yᵀ e  with G = Σ_i y_i y_iᵀ + λI, Y the rows of the history, D = (c − 1) diag(r) and e = c r.
With Z = Y G⁻¹, computed offline for all items, the d × d solve becomes one of the size of the history:

    u = Zᵀ (I + D Z Yᵀ)⁻¹ e
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats, Ints, Mask, Rows
from setwise._validation import real_array, real_number
from setwise.model.recency import recency_weights


@dataclass(frozen=True, eq=False)
class FoldIn:
    """Item factors y (n, d), their z = G⁻¹ y, the confidence c, the recency decay and a scale of the result."""

    items: Array  # (n, d)
    solved: Array  # (n, d): rows z_i = G⁻¹ y_i
    confidence: float = 10.0
    decay: float = 1.0
    scale: float = 1.0

    __repr__ = short_repr

    @classmethod
    def of(cls, items: Array, confidence: float, regularization: float, decay: float = 1.0) -> FoldIn:
        """From item factors and the settings that they were fitted with."""
        factors = items.astype(np.float64)
        gram = factors.T @ factors + regularization * np.eye(factors.shape[1])
        solved = np.linalg.solve(gram, factors.T).T
        return cls(items, solved.astype(np.float32), confidence, decay)

    def checked(self, n: int) -> FoldIn:
        """The same with its arrays and numbers checked, for a catalogue of ``n`` items."""
        items = real_array("encoder's fold-in items", self.items, (n, "d"), np.float32)
        solved = real_array("encoder's fold-in solved", self.solved, items.shape, np.float32)
        names = ("confidence", "decay", "scale")
        return FoldIn(items, solved, *(real_number(f"encoder's fold-in {one}", getattr(self, one)) for one in names))

    def taken(self, rows: Rows) -> FoldIn:
        """The model of these rows of the catalogue only, in this order."""
        return replace(self, items=self.items[rows], solved=self.solved[rows])

    def vectors(self, rows: Ints, filled: Mask) -> Floats:
        """The vectors (B, d) of padded histories (B, T), oldest item first; zero for an empty history."""
        weight = recency_weights(filled, self.decay)
        factors, solved = (part[rows].astype(np.float64) * filled[..., None] for part in (self.items, self.solved))
        system = (self.confidence - 1) * weight[..., None] * (solved @ factors.transpose(0, 2, 1))
        system += np.eye(rows.shape[1])
        right = np.linalg.solve(system, self.confidence * weight[..., None])
        return self.scale * np.asarray((solved.transpose(0, 2, 1) @ right)[..., 0])
