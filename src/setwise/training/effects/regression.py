"""Penalised logistic regression with an intercept for every item: the convex fit behind all effects.

    logit P(outcome of row r) = offset_r + β_{item(r)} + x_r · θ

Every row has one item, so the Hessian of β is diagonal, and Newton's method eliminates β: with w = p (1 − p),

    (E − Cᵀ D⁻¹ C) dθ = g_θ − Cᵀ D⁻¹ g_β,    D = Σ_r w_r + λ,  C = Σ_r w_r x_r  (by item),   E = Xᵀ W X + Λ.

So an iteration costs rows · columns², however many items there are.

**Shrinkage.** Intercepts and the coefficients of a block (the values of a category, the pairs of two) are draws from a
normal distribution around zero, whose variance is estimated with them (empirical Bayes): after each fit, it is the sum
of the squares of the coefficients over the number of those that the data determine (MacKay, 1992). A prediction is then
not better than what was seen on average, also for the items that come out best; an optimiser picks those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import Block

ITERATIONS, TOLERANCE = 30, 1e-3  # of Newton's method; the largest step in log-odds
ROUNDS = 6  # of empirical Bayes
FIRST_VARIANCE, LEAST_VARIANCE, MOST_VARIANCE = 0.3, 1e-4, 25.0
WIDE = 100.0  # the variance of a coefficient that is not shrunken


@dataclass(frozen=True, eq=False)
class Rows:
    """What was shown, a row each: its item, its outcome, what is known of its logit, and its weight."""

    item: Ints
    outcome: Floats
    offset: Floats
    weight: Floats
    items: int

    def taken(self, rows: Ints) -> Rows:
        """Some of the rows, over the same items."""
        return Rows(self.item[rows], self.outcome[rows], self.offset[rows], self.weight[rows], self.items)


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of all blocks: those of items (n, p), the dense ones of rows and the sparse ones, in this order.

    Columns of items cost nothing by the row: their sums are weighted with the total weight of each item.
    """

    blocks: tuple[Block, ...]
    alone: Floats  # (n, p)
    dense: Floats  # (rows, p)
    sparse: Any  # scipy's csr_matrix (rows, p), of no column where no block is sparse
    indicator: Any  # (n, rows): which rows are of an item

    @classmethod
    def of(cls, rows: Rows, alone: Sequence[Block], blocks: Sequence[Block]) -> Design:
        """The design of blocks whose columns are those of items, and of others."""
        from scipy import sparse

        count = len(rows.item)
        dense = [block for block in blocks if isinstance(block.columns, np.ndarray)]
        thin = [block for block in blocks if not isinstance(block.columns, np.ndarray)]
        columns = sparse.hstack([block.columns for block in thin], "csr") if thin else sparse.csr_matrix((count, 0))
        of_items = np.concatenate([np.empty((rows.items, 0)), *(block.columns for block in alone)], axis=1)
        full = np.concatenate([np.empty((count, 0)), *(block.columns for block in dense)], axis=1)
        return cls((*alone, *dense, *thin), of_items, full, columns, _indicator(rows))

    def taken(self, rows: Rows, numbers: Ints) -> Design:
        """The design of some rows, which are ``rows``."""
        return Design(self.blocks, self.alone, self.dense[numbers], self.sparse[numbers], _indicator(rows))

    @property
    def widths(self) -> list[int]:
        """The number of columns of each block."""
        return [block.columns.shape[1] for block in self.blocks]

    def argument(self, rows: Rows, intercept: Floats, theta: Floats) -> Floats:
        """The logit of every row."""
        first, second = self.alone.shape[1], self.alone.shape[1] + self.dense.shape[1]
        of_items = intercept + self.alone @ theta[:first]
        total = rows.offset + of_items[rows.item]
        if second > first:
            total = total + self.dense @ theta[first:second]
        return np.asarray(total + self.sparse @ theta[second:] if len(theta) > second else total)

    def gradient(self, residual: Floats) -> Floats:
        """Xᵀ r."""
        by_item = self.indicator @ residual
        return np.concatenate([by_item @ self.alone, residual @ self.dense, self.sparse.T @ residual])

    def second_order(self, weight: Floats) -> tuple[Floats, Floats, Floats]:
        """The weight of every item, C, and Xᵀ W X."""
        heavy, thin = weight[:, None] * self.dense, self.sparse.copy()
        thin.data = thin.data * np.repeat(weight, np.diff(thin.indptr))
        by_item = self.indicator @ weight
        of_items, full = by_item[:, None] * self.alone, np.asarray(self.indicator @ heavy)
        sums = (self.indicator @ thin).toarray()
        cross = np.asarray(self.sparse.T @ heavy)
        first, second, third = self.alone.T @ of_items, self.alone.T @ full, self.alone.T @ sums
        gram = np.block(
            [
                [first, second, third],
                [second.T, self.dense.T @ heavy, cross.T],
                [third.T, cross, (self.sparse.T @ thin).toarray()],
            ]
        )
        return by_item, np.concatenate([of_items, full, sums], axis=1), gram


def _indicator(rows: Rows) -> Any:
    from scipy import sparse

    count = len(rows.item)
    return sparse.csr_matrix((np.ones(count), (rows.item, np.arange(count))), (rows.items, count))


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients of the items and of the blocks, with their standard errors and the variances of their priors."""

    blocks: tuple[Block, ...]
    intercept: Floats
    theta: Floats
    covariance: Floats  # of θ
    intercept_error: Floats
    item_variance: float
    variances: tuple[float, ...]  # of the blocks

    def argument(self, rows: Rows, design: Design) -> Floats:
        """The logit of each row."""
        return design.argument(rows, self.intercept, self.theta)

    def of(self, name: str) -> tuple[Floats, Floats]:
        """The coefficients of one block, and their covariance."""
        start = 0
        for block in self.blocks:
            part = slice(start, start := start + block.columns.shape[1])
            if block.name == name:
                return self.theta[part], self.covariance[part, part]
        raise KeyError(name)

    def joined(self, block: Block, theta: Floats, covariance: Floats) -> Fit:
        """With one more block, whose coefficients are those of another fit."""
        zeros = np.zeros((len(self.theta), len(theta)))
        return replace(
            self,
            blocks=(*self.blocks, block),
            theta=np.append(self.theta, theta),
            covariance=np.block([[self.covariance, zeros], [zeros.T, covariance]]),
            variances=(*self.variances, WIDE),
        )


def fit(rows: Rows, design: Design, start: Fit | None = None, learned: str = "all") -> Fit:
    """The most likely coefficients.

    The variances of the priors that are ``learned`` are those of "all" blocks, of the "new" ones, which ``start`` does
    not have, or of "none": the others are those of ``start``.
    """
    item_variance = start.item_variance if start else FIRST_VARIANCE
    known = dict(zip((block.name for block in start.blocks), start.variances, strict=True)) if start else {}
    variances = tuple(known.get(block.name, FIRST_VARIANCE if block.shrunken else WIDE) for block in design.blocks)
    fixed = set(known) if learned == "new" else set()
    result = _newton(rows, design, item_variance, variances, start, errors=learned != "none")
    if learned == "none" or (learned == "new" and not any(b.shrunken and b.name not in fixed for b in design.blocks)):
        return result
    for _ in range(ROUNDS):
        item_variance, variances = _learned(rows, result)
        if learned == "new":
            item_variance = result.item_variance
            variances = tuple(
                old if block.name in fixed else new
                for block, new, old in zip(design.blocks, variances, result.variances, strict=True)
            )
        moved = abs(np.log(item_variance / result.item_variance)) + sum(
            abs(np.log(new / old)) for new, old in zip(variances, result.variances, strict=True)
        )
        result = _newton(rows, design, item_variance, variances, result)
        if moved < 0.1:
            break
    return result


@dataclass(frozen=True)
class Score:
    """Whether further columns would lower the loss, from one step of Newton's method."""

    statistic: float  # about χ² of so many columns where they have no effect
    errors: Floats  # of their coefficients

    @property
    def excess(self) -> float:
        """The statistic above what noise gives on average."""
        return self.statistic - len(self.errors)

    @property
    def promising(self) -> bool:
        """Whether the statistic is more than two standard deviations above what noise gives."""
        return bool(self.excess > 2 * np.sqrt(2 * len(self.errors)))


def score(rows: Rows, result: Fit, base: Sequence[Block], blocks: Sequence[Block], more: Block) -> Score:
    """The score test of one more block beside those of ``result``."""
    design = Design.of(rows, base, [*blocks, more])
    intercept, theta = _start(rows, design, result)
    p = 1 / (1 + np.exp(-design.argument(rows, intercept, theta)))
    by_item, cross, gram = design.second_order(rows.weight * p * (1 - p))
    known = dict(zip((block.name for block in result.blocks), result.variances, strict=True))
    prices = [
        np.full(width, 1 / known.get(block.name, WIDE))
        for block, width in zip(design.blocks, design.widths, strict=True)
    ]
    schur = gram + np.diag(np.concatenate(prices)) - cross.T @ (cross / (by_item + 1 / result.item_variance)[:, None])
    new = np.concatenate(
        [np.full(width, block is more) for block, width in zip(design.blocks, design.widths, strict=True)]
    )
    toward = np.where(new, design.gradient(rows.weight * (rows.outcome - p)), 0.0)
    covariance = np.linalg.inv(schur)
    return Score(float(toward @ covariance @ toward), np.sqrt(np.diag(covariance))[new])


def _learned(rows: Rows, result: Fit) -> tuple[float, tuple[float, ...]]:
    """The variances of the priors for which these coefficients are the most likely."""
    shown = np.bincount(rows.item, minlength=rows.items) > 0
    variances, start, error = [], 0, errors(result.covariance)
    for block, variance in zip(result.blocks, result.variances, strict=True):
        part = slice(start, start := start + block.columns.shape[1])
        if block.shrunken:
            variance = _most_likely(result.theta[part], error[part], variance)
        variances.append(variance)
    of_items = _most_likely(result.intercept[shown], result.intercept_error[shown], result.item_variance)
    return of_items, tuple(variances)


def _most_likely(coefficient: Floats, error: Floats, variance: float) -> float:
    """MacKay's step: the squares of the coefficients over the number of those that the data determine."""
    determined = max(float(np.sum(1 - np.minimum(error**2 / variance, 1.0))), 0.01)
    return min(max(float(np.sum(coefficient**2)) / determined, LEAST_VARIANCE), MOST_VARIANCE)


def _newton(
    rows: Rows,
    design: Design,
    item_variance: float,
    variances: tuple[float, ...],
    start: Fit | None,
    errors: bool = True,
) -> Fit:
    """Newton's method, with halved steps where a whole one makes the loss larger."""
    price = np.concatenate([np.full(width, 1 / one) for width, one in zip(design.widths, variances, strict=True)])
    beta, theta = _start(rows, design, start)
    loss = np.inf
    for _ in range(ITERATIONS):
        argument = design.argument(rows, beta, theta)
        p = 1 / (1 + np.exp(-argument))
        residual, weight = rows.weight * (rows.outcome - p), rows.weight * p * (1 - p)
        by_item, cross, gram = design.second_order(weight)
        diagonal = by_item + 1 / item_variance
        scaled = cross / diagonal[:, None]
        schur = gram + np.diag(price) - cross.T @ scaled
        toward_items = design.indicator @ residual - beta / item_variance
        toward = design.gradient(residual) - price * theta
        step = np.linalg.solve(schur, toward - scaled.T @ toward_items)
        step_items = (toward_items - cross @ step) / diagonal
        beta, theta, loss = _moved(rows, design, (beta, theta), (step_items, step), (item_variance, price), loss)
        if max(np.abs(step).max(initial=0.0), np.abs(step_items).max(initial=0.0)) < TOLERANCE:
            break
    covariance = np.asarray(np.linalg.inv(schur) if errors else np.zeros_like(schur), np.float64)
    spread = np.einsum("np,np->n", scaled @ covariance, scaled)
    return Fit(
        design.blocks,
        beta,
        theta,
        covariance,
        np.sqrt(1 / diagonal + spread),
        item_variance,
        variances,
    )


def _start(rows: Rows, design: Design, start: Fit | None) -> tuple[Floats, Floats]:
    theta = np.zeros(sum(design.widths))
    if start is None:
        return np.zeros(rows.items), theta
    place = 0
    names = {block.name for block in start.blocks}
    for block, width in zip(design.blocks, design.widths, strict=True):
        if block.name in names:
            theta[place : place + width] = start.of(block.name)[0]
        place += width
    return start.intercept.copy(), theta


def _moved(
    rows: Rows,
    design: Design,
    point: tuple[Floats, Floats],
    step: tuple[Floats, Floats],
    prior: tuple[float, Floats],
    loss: float,
) -> tuple[Floats, Floats, float]:
    """The point after the step, halved until the loss falls."""
    share = 1.0
    while True:
        beta, theta = point[0] + share * step[0], point[1] + share * step[1]
        argument = design.argument(rows, beta, theta)
        after = float(rows.weight @ losses(argument, rows.outcome))
        after += float(beta @ beta) / (2 * prior[0]) + float(prior[1] @ theta**2) / 2
        if after <= loss or share < 1e-4:
            return beta, theta, after
        share /= 2


def errors(covariance: Floats) -> Floats:
    """Standard errors from a covariance."""
    return np.asarray(np.sqrt(np.diag(covariance)))


def losses(argument: Floats, outcome: Floats) -> Floats:
    """−log likelihood of each outcome under its logit."""
    return np.asarray(np.logaddexp(0.0, argument) - outcome * argument)
