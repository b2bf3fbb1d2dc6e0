"""The convex fit: Newton's method with eliminated intercepts against a general optimiser, and its shrinkage."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from setwise.training.effects.columns import Block
from setwise.training.effects.regression import Design, Rows, fit, losses

ITEMS, COUNT = 7, 400


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    item = rng.integers(ITEMS, size=COUNT)
    dense = rng.normal(size=(COUNT, 2))
    thin = sparse.random(COUNT, 4, 0.3, "csr", rng=rng)
    of_items = rng.normal(size=(ITEMS, 2))
    logit = 0.5 * dense[:, 0] - dense[:, 1] + thin @ [1, 0, -1, 2] + of_items[item] @ [1, 0.5]
    outcome = (rng.random(COUNT) < 1 / (1 + np.exp(-logit))).astype(float)
    rows = Rows(item, outcome, rng.normal(size=COUNT) * 0.1, rng.random(COUNT) + 0.5, ITEMS)
    return rows, Design.of(
        rows, [Block("items", of_items)], [Block("thin", thin), Block("dense", dense, shrunken=False)]
    )


def penalised(point, rows, design, result):
    intercept, theta = point[:ITEMS], point[ITEMS:]
    price = np.repeat(1 / np.array(result.variances), design.widths)
    total = rows.weight @ losses(design.argument(rows, intercept, theta), rows.outcome)
    return total + (intercept @ intercept / result.item_variance + price @ theta**2) / 2


def test_is_the_minimum_of_the_penalised_loss(problem):
    rows, design = problem
    result = fit(rows, design)
    start = np.zeros(ITEMS + sum(design.widths))
    found = minimize(penalised, start, (rows, design, result), options={"gtol": 1e-8}).x
    np.testing.assert_allclose(np.concatenate([result.intercept, result.theta]), found, atol=1e-3)


def test_errors_are_those_of_the_whole_hessian(problem):
    rows, design = problem
    result = fit(rows, design)
    x = np.column_stack([np.eye(ITEMS)[rows.item], design.alone[rows.item], design.dense, design.sparse.toarray()])
    p = 1 / (1 + np.exp(-result.argument(rows, design)))
    price = np.concatenate(
        [np.full(ITEMS, 1 / result.item_variance), np.repeat(1 / np.array(result.variances), design.widths)]
    )
    covariance = np.linalg.inv((x * (rows.weight * p * (1 - p))[:, None]).T @ x + np.diag(price))
    np.testing.assert_allclose(result.covariance, covariance[ITEMS:, ITEMS:], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(result.intercept_error**2, np.diag(covariance)[:ITEMS], rtol=1e-3)
    theta, part = result.of("dense")
    np.testing.assert_array_equal(theta, result.theta[2:4])
    np.testing.assert_array_equal(part, result.covariance[2:4, 2:4])


def test_noise_is_shrunken_and_signal_is_not():
    rng = np.random.default_rng(1)
    item = rng.integers(200, size=20_000)
    worth = rng.normal(size=200)
    noise = rng.normal(size=(20_000, 30))
    outcome = (rng.random(20_000) < 1 / (1 + np.exp(-worth[item]))).astype(float)
    rows = Rows(item, outcome, np.zeros(20_000), np.ones(20_000), 200)
    result = fit(rows, Design.of(rows, [Block("all", np.ones((200, 1)), False)], [Block("noise", noise)]))
    assert np.abs(result.of("noise")[0]).max() < 0.03  # their standard errors are 0.017 without shrinkage
    assert 0.7 < result.item_variance < 1.4
    assert np.corrcoef(result.intercept, worth)[0, 1] > 0.95
