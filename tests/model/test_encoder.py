"""From histories to users: pooling, checks, and new users."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.errors import InvalidInput
from setwise.model.encoder import HISTORY, Encoder
from setwise.model.ragged import Ragged
from worlds import random_catalog

N, HEADS, D, DIM = 12, 2, 3, 4


def encoder(seed: int = 0, base: bool = True, **changes) -> Encoder:
    rng = np.random.default_rng(seed)
    parts = {
        "items": rng.normal(size=(N, DIM)),
        "heads_weight": rng.normal(size=(HEADS, D, DIM)),
        "heads_bias": rng.normal(size=(HEADS, D)),
        "base_weight": rng.normal(size=(2, DIM)) if base else None,
        "base_bias": rng.normal(size=2) if base else None,
    }
    return Encoder(**{**parts, **changes})


def fitted(base: bool = True, **changes) -> Encoder:
    catalog, _ = random_catalog(0, n=N, heads=HEADS, d=D, base=base)
    return encoder(base=base, **changes).fitted_to(catalog)


PROJECT = np.random.default_rng(9).normal(size=(DIM, DIM + 1))


@pytest.mark.parametrize("project", [None, PROJECT])
@pytest.mark.parametrize("attend", [None, np.array([1.0, -2.0, 0.5, 3.0])])
def test_the_definition(project: np.ndarray | None, attend: np.ndarray | None) -> None:
    one = fitted(project=project, attend=attend)
    lists = [[3, 5, 3], [7], list(range(N))]
    users = one.users(Ragged.of(lists))
    heads, base = users.heads, users.base
    for row, history in enumerate(lists):
        x = one.items[history].astype(float)
        weight = np.ones(len(x)) if attend is None else np.exp(x @ attend)
        read = (weight / weight.sum()) @ x
        if project is not None:
            read = project @ np.append(read, 1)
            read /= np.linalg.norm(read)
        np.testing.assert_allclose(heads[row], one.heads_weight @ read + one.heads_bias, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(base[row], one.base_weight @ read + one.base_bias, rtol=1e-5, atol=1e-5)


def test_a_user_is_constant_where_no_part_reads_the_history() -> None:
    heads, base = np.zeros((HEADS, D, DIM)), np.zeros((2, DIM))
    assert fitted(heads_weight=heads, base_weight=base).is_constant
    assert fitted(base=False, heads_weight=heads).is_constant
    assert not fitted(heads_weight=heads).is_constant
    assert not fitted(base_weight=base).is_constant


@pytest.mark.parametrize("changes", [{}, {"project": np.eye(DIM, DIM + 1)}, {"attend": np.full(DIM, 900.0)}])
def test_a_newcomer_is_the_bias(changes) -> None:
    one = fitted(**changes)
    users = one.users(Ragged.of([[], [1]]))
    heads, base = users.heads, users.base
    np.testing.assert_allclose(heads[0], one.heads_bias)
    np.testing.assert_allclose(base[0], one.base_bias)
    assert np.isfinite(heads).all()


def test_nobody_and_no_base() -> None:
    one = fitted(base=False)
    users = one.users(Ragged.of([]))
    assert users.heads.shape == (0, HEADS, D)
    assert users.base is None


def test_only_the_latest_count() -> None:
    one, history = fitted(), np.random.default_rng(0).integers(N, size=3 * HISTORY)
    whole, latest = (one.users(Ragged.of([part])) for part in (history, history[-HISTORY:]))
    np.testing.assert_array_equal(whole.heads, latest.heads)


def test_more_histories_than_are_read_together() -> None:
    one, rng = fitted(), np.random.default_rng(0)
    lists = [rng.integers(N, size=rng.integers(0, 4)) for _ in range(9000)]
    users = one.users(Ragged.of(lists))
    heads, base = users.heads, users.base
    for row in (0, 4095, 4096, 8999):
        alone = one.users(Ragged.of([lists[row]]))
        np.testing.assert_allclose(heads[row], alone.heads[0], rtol=1e-12)
        np.testing.assert_allclose(base[row], alone.base[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"items": np.zeros((N + 1, DIM))}, "encoder's items must be"),
        ({"items": np.zeros(N)}, "encoder's items must be"),
        ({"items": np.full((N, DIM), np.nan)}, "encoder's items must be finite"),
        ({"heads_weight": np.zeros((HEADS, D, DIM + 1))}, "encoder's heads_weight must be"),
        ({"heads_bias": np.zeros((HEADS + 1, D))}, "encoder's heads_bias must be"),
        ({"base_weight": np.zeros((3, DIM))}, "encoder's base_weight must be"),
        ({"base_bias": np.zeros(3)}, "encoder's base_bias must be"),
        ({"base_bias": None}, "encoder's base_bias must be given if and only if the catalogue has a base"),
        ({"attend": np.zeros(DIM + 1)}, "encoder's attend must be"),
        ({"project": np.zeros((DIM, DIM))}, "encoder's project must be"),
        ({"items": [["a"] * DIM] * N}, "encoder's items must be an array of real numbers"),
    ],
)
def test_arrays_are_checked_against_the_catalogue(changes, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        fitted(**changes)


def test_a_base_without_one_in_the_catalogue() -> None:
    catalog, _ = random_catalog(0, n=N, heads=HEADS, d=D, base=False)
    with pytest.raises(InvalidInput, match="given if and only if the catalogue has a base"):
        encoder(base=True).fitted_to(catalog)


def test_arrays_are_closed_to_writing() -> None:
    one = fitted()
    with pytest.raises(ValueError, match="read-only"):
        one.items[0] = 1
    assert set(one.packed()) == {"items", "heads_weight", "heads_bias", "base_weight", "base_bias"}
