"""The user side of a two-tower network: a vector of the latest items of a history, in the order they came.

    u = tanh( Σ_j r_j e_j / |r| + l_last + c )        r_j: recency weights (recency.py)
    score_i = u · o_i + b_i

e and o are the vectors of an item in a history and as a candidate; l is a vector of the last item alone, so that the
model can learn which item follows which. The bias b_i is a last column of the item vectors, where u has a 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats, Ints, Mask, Rows
from setwise._validation import real_array, real_number
from setwise.model.recency import recency_weights


@dataclass(frozen=True, eq=False)
class TwoTower:
    """Vectors of the items as candidates (o, b), in a history (e) and as its last item (l), and the constant c."""

    items: Array  # (n, d + 1): the last column is b
    seen: Array  # (n, d)
    last: Array  # (n, d)
    bias: Array  # (d,)
    decay: float = 0.8
    scale: float = 1.0

    __repr__ = short_repr

    def checked(self, n: int) -> TwoTower:
        """The same with its arrays and numbers checked, for a catalogue of ``n`` items."""
        seen = real_array("encoder's two-tower seen", self.seen, (n, "d"), np.float32)
        d = seen.shape[1]
        shapes: dict[str, tuple[int | str, ...]] = {"items": (n, d + 1), "last": (n, d), "bias": (d,)}
        items, last, bias = (
            real_array(f"encoder's two-tower {name}", getattr(self, name), shape, np.float32)
            for name, shape in shapes.items()
        )
        decay, scale = (real_number(f"encoder's two-tower {name}", getattr(self, name)) for name in ("decay", "scale"))
        return TwoTower(items, seen, last, bias, decay, scale)

    def taken(self, rows: Rows) -> TwoTower:
        """The model of these rows of the catalogue only, in this order."""
        return replace(self, items=self.items[rows], seen=self.seen[rows], last=self.last[rows])

    def vectors(self, rows: Ints, filled: Mask) -> Floats:
        """The vectors (B, d + 1) of padded histories (B, T), oldest item first; an empty history has tanh(c)."""
        weight = recency_weights(filled, self.decay)
        weight /= np.maximum(np.linalg.norm(weight, axis=1, keepdims=True), 1e-300)
        total = np.einsum("bt,btd->bd", weight, self.seen[rows].astype(np.float64)) + self.bias
        length = filled.sum(axis=1)
        latest = rows[np.arange(len(rows)), np.maximum(length - 1, 0)]
        total += np.where(length[:, None] > 0, self.last[latest].astype(np.float64), 0.0)
        return self.scale * np.column_stack([np.tanh(total), np.ones(len(rows))])
