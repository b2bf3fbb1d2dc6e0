"""Penalised logistic regression with an intercept for every item: the convex fit behind all effects.

    logit P(outcome of row r) = offset_r + β_{item(r)} + x_r · θ

Every row has one item, so the Hessian of β is diagonal, and Newton's method eliminates β: with w = p (1 − p),

    (E − Cᵀ D⁻¹ C) dθ = g_θ − Cᵀ D⁻¹ g_β,    D = Σ_r w_r + λ,  C = Σ_r w_r x_r  (by item),   E = Xᵀ W X + Λ.

So an iteration costs rows · columns², however many items there are. D, C and E − Λ are computed again only where a step
is not far smaller than the one before: iterations between cost rows · columns.

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

ITERATIONS, TOLERANCE = 60, 1e-3  # of Newton's method; the largest step in log-odds
ROUGHLY = 1e-2  # the same where predictions alone are wanted
SMALLER = 0.1  # a step that is not so much smaller than the one before needs another curvature
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

    def beside(self, more: Block, weight: Floats) -> tuple[Floats, Floats, Floats]:
        """Of columns Z of another block: their sums by item, Xᵀ W Z and Zᵀ W Z."""
        heavy = _weighted(more.columns, weight)
        sums = _full(self.indicator @ heavy)
        rows = self.alone.T @ sums, _full(heavy.T @ self.dense).T, _full(self.sparse.T @ heavy)
        return sums, np.concatenate(rows), _full(more.columns.T @ heavy)


def _weighted(columns: Any, weight: Floats) -> Any:
    """Rows times their weights, of a dense array or a csr_matrix."""
    if isinstance(columns, np.ndarray):
        return weight[:, None] * columns
    heavy = columns.copy()
    heavy.data = heavy.data * np.repeat(weight, np.diff(heavy.indptr))
    return heavy


def _full(product: Any) -> Floats:
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), np.float64)


@dataclass(frozen=True, eq=False)
class Curvature:
    """The second derivatives of the loss, without the priors."""

    by_item: Floats  # D (n,)
    cross: Floats  # C (n, p)
    gram: Floats  # Xᵀ W X (p, p)

    @classmethod
    def of(cls, design: Design, weight: Floats) -> Curvature:
        """With these weights of the rows."""
        heavy, thin = _weighted(design.dense, weight), _weighted(design.sparse, weight)
        by_item = design.indicator @ weight
        of_items, full = by_item[:, None] * design.alone, np.asarray(design.indicator @ heavy)
        sums = _full(design.indicator @ thin)
        cross = np.asarray(design.sparse.T @ heavy)
        first, second, third = design.alone.T @ of_items, design.alone.T @ full, design.alone.T @ sums
        gram = np.block(
            [
                [first, second, third],
                [second.T, design.dense.T @ heavy, cross.T],
                [third.T, cross, _full(design.sparse.T @ thin)],
            ]
        )
        return cls(by_item, np.concatenate([of_items, full, sums], axis=1), gram)

    @classmethod
    def total(cls, parts: Sequence[Curvature]) -> Curvature:
        """That of all rows of these parts."""
        return cls(*(np.sum(arrays, axis=0) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))

    def without(self, part: Curvature) -> Curvature:
        """That of the other rows."""
        return Curvature(self.by_item - part.by_item, self.cross - part.cross, self.gram - part.gram)


class System:
    """Newton's equations of one curvature and one prior, with the intercepts eliminated."""

    def __init__(self, curvature: Curvature, item_variance: float, price: Floats) -> None:
        from scipy.linalg import cho_factor

        self.cross = curvature.cross
        self.diagonal = curvature.by_item + 1 / item_variance
        self.scaled = curvature.cross / self.diagonal[:, None]
        self.factor = cho_factor(curvature.gram + np.diag(price) - curvature.cross.T @ self.scaled)

    def solve(self, right: Floats) -> Floats:
        """(E − Cᵀ D⁻¹ C)⁻¹ times these columns."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self.factor, right), np.float64)

    def step(self, toward_items: Floats, toward: Floats) -> tuple[Floats, Floats]:
        """Newton's step of the intercepts and of θ along these gradients."""
        step = self.solve(toward - self.scaled.T @ toward_items)
        return (toward_items - self.cross @ step) / self.diagonal, step

    def covariance(self) -> tuple[Floats, Floats]:
        """That of θ, and the standard errors of the intercepts."""
        covariance = self.solve(np.eye(len(self.factor[0])))
        spread = np.einsum("np,np->n", self.scaled @ covariance, self.scaled)
        return covariance, np.sqrt(1 / self.diagonal + spread)


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
    curvature: Curvature | None = None  # near these coefficients

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
            curvature=None,
        )


def fit(
    rows: Rows, design: Design, start: Fit | None = None, learned: str = "all", curvature: Curvature | None = None
) -> Fit:
    """The most likely coefficients; ``curvature`` is that near ``start``, if it is known.

    The variances of the priors that are ``learned`` are those of "all" blocks, of the "new" ones, which ``start`` does
    not have, or of "none": the others are those of ``start``.
    """
    item_variance = start.item_variance if start else FIRST_VARIANCE
    known = dict(zip((block.name for block in start.blocks), start.variances, strict=True)) if start else {}
    variances = tuple(known.get(block.name, FIRST_VARIANCE if block.shrunken else WIDE) for block in design.blocks)
    fixed = set(known) if learned == "new" else set()
    beta, theta = _start(rows, design, start)
    result = _newton(rows, design, item_variance, variances, beta, theta, curvature, errors=learned != "none")
    if learned == "none":
        return result
    new = any(block.shrunken and block.name not in fixed for block in design.blocks)
    for _ in range(ROUNDS if learned == "all" or new else 0):
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
        beta, theta, curvature = result.intercept, result.theta, result.curvature
        result = _newton(rows, design, item_variance, variances, beta, theta, curvature, errors=True)
        if moved < 0.1:
            break
    p = 1 / (1 + np.exp(-result.argument(rows, design)))
    exact = Curvature.of(design, rows.weight * p * (1 - p))
    return _with_errors(design, result.intercept, result.theta, result.item_variance, result.variances, exact)


def prices(design: Design, variances: Sequence[float]) -> Floats:
    """1 over the variance of every coefficient."""
    return np.concatenate([np.full(width, 1 / one) for width, one in zip(design.widths, variances, strict=True)])


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
    beta: Floats,
    theta: Floats,
    curvature: Curvature | None,
    errors: bool,
) -> Fit:
    """Newton's method from (β, θ), with halved steps where a whole one makes the loss larger."""
    price = prices(design, variances)
    system: System | None = None if curvature is None else System(curvature, item_variance, price)
    loss = before = np.inf
    argument = design.argument(rows, beta, theta)
    for _ in range(ITERATIONS):
        p = 1 / (1 + np.exp(-argument))
        if system is None:
            curvature = Curvature.of(design, rows.weight * p * (1 - p))
            system = System(curvature, item_variance, price)
        residual = rows.weight * (rows.outcome - p)
        gradient = design.indicator @ residual - beta / item_variance, design.gradient(residual) - price * theta
        step = system.step(*gradient)
        beta, theta, argument, loss = _moved(rows, design, (beta, theta), step, (item_variance, price), loss)
        size = max(np.abs(part).max(initial=0.0) for part in step)
        if size < (TOLERANCE if errors else ROUGHLY):
            break
        if size > SMALLER * before:
            system = None
        before = size
    if not errors or curvature is None:
        return Fit(design.blocks, beta, theta, np.zeros((0, 0)), np.zeros(0), item_variance, variances)
    return _with_errors(design, beta, theta, item_variance, variances, curvature)


def _with_errors(
    design: Design,
    beta: Floats,
    theta: Floats,
    item_variance: float,
    variances: tuple[float, ...],
    curvature: Curvature,
) -> Fit:
    """The fit of these coefficients."""
    covariance, of_items = System(curvature, item_variance, prices(design, variances)).covariance()
    return Fit(design.blocks, beta, theta, covariance, of_items, item_variance, variances, curvature)


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
) -> tuple[Floats, Floats, Floats, float]:
    """The point after the step, halved until the loss falls, with its logits and its loss."""
    share = 1.0
    while True:
        beta, theta = point[0] + share * step[0], point[1] + share * step[1]
        argument = design.argument(rows, beta, theta)
        after = float(rows.weight @ losses(argument, rows.outcome))
        after += float(beta @ beta) / (2 * prior[0]) + float(prior[1] @ theta**2) / 2
        if after <= loss or share < 1e-4:
            return beta, theta, argument, after
        share /= 2


def errors(covariance: Floats) -> Floats:
    """Standard errors from a covariance."""
    return np.asarray(np.sqrt(np.diag(covariance)))


def losses(argument: Floats, outcome: Floats) -> Floats:
    """−log likelihood of each outcome under its logit."""
    return np.asarray(np.logaddexp(0.0, argument) - outcome * argument)
