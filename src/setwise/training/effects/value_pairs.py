"""Value pairs: what an item of one category does to an item of another, Σ_{j∈T} M[v_i, v_j].

M is shrunken (regression.py). The values that are shown least often are one value together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import LEAK, Block, Family, Head, Shown, in_words, sink_of_sums
from setwise.training.effects.features import Label
from setwise.training.effects.regression import errors

MOST_VALUES = 24
TOLD = 5  # pairs in words


@dataclass(frozen=True, eq=False)
class ValuePairs(Family):
    """A coefficient for every ordered pair of values."""

    label: Label
    code: Ints  # of every item, below ``values``; −1 where it is missing
    values: tuple[str, ...]
    most: int

    @classmethod
    def of(cls, label: Label, shown: Shown, most: int) -> ValuePairs:
        """The pairs of the most frequent values."""
        code = label.code
        times = np.bincount(code[shown.item][code[shown.item] >= 0], minlength=int(code.max()) + 1)
        kept = (
            np.argsort(-times, kind="stable")[: MOST_VALUES - 1] if len(times) > MOST_VALUES else np.arange(len(times))
        )
        names = [label.values[value] for value in kept]
        place = np.full(len(times), len(kept))
        place[kept] = np.arange(len(kept))
        if len(kept) < len(times):
            names.append("others")
        return cls(label, np.where(code >= 0, place[code], -1), tuple(names), most)

    @property
    def name(self) -> str:
        return f"{self.label.name} pairs"

    def block(self, shown: Shown) -> Block:
        from scipy import sparse

        width, (slates, k) = len(self.values), shown.rows.shape
        code = np.where(shown.filled, self.code[shown.rows], -1)
        number = np.cumsum(shown.filled.ravel()).reshape(slates, k) - 1
        rows, columns = [], []
        for place in range(k):
            for other in range(k):
                both = (code[:, place] >= 0) & (code[:, other] >= 0) & (place != other)
                rows.append(number[both, place])
                columns.append(code[both, place] * width + code[both, other])
        row, column = np.concatenate(rows), np.concatenate(columns)
        return Block(self.name, sparse.csr_matrix((np.ones(len(row)), (row, column)), (len(shown.item), width**2)))

    def heads(self, theta: Floats) -> Sequence[Head]:
        width = len(self.values)
        table = theta.reshape(width, width)
        missing = self.code < 0
        key = np.where(missing[:, None], 0.0, np.eye(width)[self.code])
        heads = []
        for sign in (1.0, -1.0):
            part = np.maximum(sign * table, 0.0)
            if not part.any():
                continue
            sink = sink_of_sums(float(part.max()) * self.most)
            query = np.log(np.maximum(part, np.exp(-LEAK)))[self.code]
            query[missing] = -LEAK
            heads.append(
                Head(
                    np.column_stack([query, np.full(len(query), -LEAK)]),
                    np.column_stack([key, missing.astype(float)]),
                    np.full(len(query), sign * np.exp(sink)),
                    sink,
                )
            )
        return heads

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        width, error = len(self.values), errors(covariance)
        sure = np.flatnonzero(np.abs(theta) > 2 * error)
        largest = sure[np.argsort(-np.abs(theta[sure]))][:TOLD]
        lines = [
            f"{self.label.name} {self.values[at % width]} beside {self.values[at // width]}: "
            f"{in_words(theta[at], error[at] ** 2)} for the latter"
            for at in largest
        ]
        return [*lines, f"and {len(sure) - TOLD} more such pairs"] if len(sure) > TOLD else lines
