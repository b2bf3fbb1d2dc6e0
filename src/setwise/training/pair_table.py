"""What each item does to each other, one number for every ordered pair: interactions of a small catalogue.

    a_i(S) = (1 + α) a⁰_i + c_i + Σ_{j∈S, j≠i} H_ij

a⁰ is the argument of the pointwise model, for the user at hand. α, c and H minimise the log loss of the outcomes plus
λ Σ H_ij² + (λ/3) Σ c_i², a convex problem, with the λ of ``PENALTIES`` that has the smallest loss on the validation
slates. A catalogue of n items has n² such numbers, so this is for few items and many slates; attention, whose
parameters are shared by similar items, is for all others.

**Few pairs matter.** H_ij is known with a standard error of about (Σ p (1 − p))^−½, over the times that i was shown
with j and liked with probability p. Each of ``THRESHOLDS`` sets the effects of fewer standard errors than that to zero
and fits the others again, with ``RELAXED`` of the penalty; the one with the smallest loss on the validation slates is
kept. In the restaurant (datasets/restaurant.py, 30,000 slates, seed 0) this raises the correlation with the true H
from 0.916 to 0.973, and bounds are tighter without small effects.

``model/attention_sum.py`` constructs the simple transformer that computes the sum over H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._progress import Progress
from setwise._types import Floats, Ints
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.attention_sum import AttentionSum
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from setwise.training.base.session_matrix import scipy_for
from setwise.training.slate_model import SlateModel

MOST_ITEMS = 256  # of a catalogue with such a table: its queries and keys have as many dimensions
PENALTIES = (30.0, 10.0, 3.0, 1.0)  # from the largest, each from the solution of the one before
OWN = 1 / 3  # the penalty of c, relative to that of H
THRESHOLDS, RELAXED = (2.0, 3.0), 0.3
PURPOSE = "fitting pairs of items"
ITERATIONS, COARSE, FINE = 100, 1e-6, 1e-9  # where the choice of the penalty and the last fits end: loss, relative
SET, ERROR = 32, 1e-6  # the sums over H are right within ERROR for sets of at most so many items


def fit_pair_table(
    pointwise: SlateModel, slates: Slates, validation: Slates, progress: bool | None = None
) -> SlateModel:
    """The pointwise model with the pairs learned from ``slates``."""
    n = len(pointwise.catalog())
    data, held = (_Outcomes.of(pointwise, part, n) for part in (slates, validation))
    columns = np.arange(n + n * n)
    point, tried = np.zeros(1 + n + n * n), []
    with Progress("learning a table of pairs", len(PENALTIES) + len(THRESHOLDS), progress) as bar:
        for penalty in PENALTIES:
            point = data.minimised(point, columns, penalty, penalty, COARSE)
            tried.append((held.loss(point), penalty, point))
            bar.advance(1, f"penalty {penalty:g}")
        _, penalty, dense = min(tried, key=lambda result: result[0])
        for threshold in THRESHOLDS:
            kept = np.abs(dense[1:]) > threshold * data.errors(dense)
            kept[:n] = True
            point = data.minimised(dense, np.flatnonzero(kept), penalty, RELAXED * penalty, FINE)
            tried.append((held.loss(point), penalty, point))
            bar.advance(1, f"effects above {threshold:g} errors")
    return _as_model(pointwise, min(tried, key=lambda result: result[0])[2])


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Rows are the items shown: columns of the items and the pairs, a⁰ and the outcome. A point is (α, c, H)."""

    x: Any  # sparse (N, n + n²)
    alone: Floats
    outcome: Floats
    n: int

    @classmethod
    def of(cls, pointwise: SlateModel, slates: Slates, n: int) -> _Outcomes:
        alone = pointwise.arguments(slates.history, slates.shown)
        return cls(_features(slates.shown, n), alone, np.asarray(slates.outcome, np.float64), n)

    def arguments(self, point: Floats) -> Floats:
        return np.asarray((1 + point[0]) * self.alone + self.x @ point[1:])

    def loss(self, point: Floats) -> float:
        return float(_losses(self.arguments(point), self.outcome).mean())

    def errors(self, point: Floats) -> Floats:
        """About the standard errors of c and H; infinite for a pair that was never shown."""
        p = _logistic(self.arguments(point))
        with np.errstate(divide="ignore"):
            return np.asarray((self.x.T @ (p * (1 - p))) ** -0.5)

    def minimised(self, start: Floats, columns: Ints, penalty: float, of_pairs: float, tolerance: float) -> Floats:
        """The point with the smallest penalised loss whose other columns are 0."""
        x = self.x if len(columns) == self.x.shape[1] else self.x[:, columns]
        price = np.append(0.0, np.where(columns < self.n, OWN * penalty, of_pairs))
        turned = x.T.tocsr()

        def objective(point: Floats) -> tuple[float, Floats]:
            argument = (1 + point[0]) * self.alone + x @ point[1:]
            slope = _logistic(argument) - self.outcome
            total = _losses(argument, self.outcome).sum() + (price * point**2).sum()
            return float(total), np.append(slope @ self.alone, turned @ slope) + 2 * price * point

        options = {"maxiter": ITERATIONS, "ftol": tolerance}
        first = np.append(start[0], start[1:][columns])
        best = scipy_for(PURPOSE).optimize.minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x
        point = np.zeros(len(start))
        point[0], point[1 + columns] = best[0], best[1:]
        return point


def _features(shown: Ragged, n: int) -> Any:
    """Rows are the items shown; a row has a 1 in the column of its item, and in that of its pair with each other."""
    sparse = scipy_for(PURPOSE).sparse
    rows, filled = shown.padded(max(1, int(shown.lengths.max(initial=0))))
    number = np.cumsum(filled.ravel()).reshape(filled.shape) - 1  # of an item shown, in the order of shown.values
    entries = [(number[filled], rows[filled])]
    for place in range(rows.shape[1]):
        for other in range(rows.shape[1]):
            both = filled[:, place] & filled[:, other]
            if place != other:
                entries.append((number[both, place], n + n * rows[both, place] + rows[both, other]))
    row, column = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.csr_matrix((np.ones(len(row)), (row, column)), (int(filled.sum()), n + n * n))


def _losses(argument: Floats, outcome: Floats) -> Floats:
    """−log of the probability σ(a) of an outcome 1, or of 1 − σ(a) for 0; linear between."""
    return np.asarray(np.logaddexp(0.0, argument) - outcome * argument)


def _logistic(argument: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-argument)))


def _as_model(pointwise: SlateModel, point: Floats) -> SlateModel:
    """The model with two heads for H; α scales the base, and c is one more column of it."""
    catalog, encoder = pointwise.catalog(), pointwise.encoder
    n, dim = encoder.items.shape
    if catalog.base is None or encoder.base_weight is None or encoder.base_bias is None:
        raise InvalidInput("pointwise", "a model with a base term", "one without", "train with base=True")
    base = np.column_stack([(1 + point[0]) * catalog.base, point[1 : 1 + n]])
    sums = AttentionSum.within(point[1 + n :].reshape(n, n), min(SET, n), ERROR)
    made = sums.catalog(base, catalog.rewards[0], catalog.ids, dict(catalog.attributes.items()))
    users = Encoder(
        encoder.items,
        np.zeros((2, 1, dim)),
        np.ones((2, 1)),
        np.vstack([encoder.base_weight, np.zeros((1, dim))]),
        np.append(encoder.base_bias, 1.0),
        encoder.attend,
        encoder.project,
    )
    return SlateModel(made, users, pointwise.summary)
