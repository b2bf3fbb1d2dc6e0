"""Cells: balanced, of one reward class, with radii that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise.retrieval.clusters import clusters, default_cells
from worlds import REWARDS, random_catalog


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 3), st.integers(1, 20), st.booleans())
def test_every_item_has_a_cell_of_its_class_within_the_radii(seed, n, heads, cells, mixed) -> None:
    catalog, _ = random_catalog(seed, n=n, heads=heads, rewards=REWARDS[:3] if mixed else REWARDS[:1])
    partition = clusters(catalog, cells, seed)
    assert partition.cell_of.shape == (n,)
    assert partition.sizes.sum() == n
    np.testing.assert_array_equal(partition.reward_class[partition.cell_of], catalog.reward_class)
    for name in ("query", "key"):
        centre, radius = getattr(partition, f"{name}_centre"), getattr(partition, f"{name}_radius")
        away = np.linalg.norm(getattr(catalog, name).astype(float) - centre[partition.cell_of], axis=2)
        assert (away <= radius[partition.cell_of]).all()


def test_no_cell_is_more_than_twice_the_average() -> None:
    rng = np.random.default_rng(0)
    crowded = np.concatenate([rng.normal(size=(1500, 4)) * 0.01, rng.normal(size=(500, 4)) * 5])
    partition = clusters(sw.Catalog(crowded, crowded, crowded), 20)
    assert partition.sizes.max() <= 200


def test_cells_find_the_groups_that_are_there() -> None:
    rng = np.random.default_rng(1)
    centre = 10 * rng.normal(size=(6, 8))
    group = np.arange(600) % 6
    query = centre[group] + 0.1 * rng.normal(size=(600, 8))
    partition = clusters(sw.Catalog(query, query, query), 6)
    for cell in range(6):
        assert len(set(group[partition.cell_of == cell])) == 1


def test_equal_items_and_more_cells_than_points() -> None:
    same = np.ones((40, 3))
    partition = clusters(sw.Catalog(same, same, same), 7)
    assert partition.sizes.max() <= 12
    assert (partition.query_radius < 1e-5).all()


def test_the_logits_of_two_cells_lie_where_the_radii_say() -> None:
    catalog, _ = random_catalog(3, n=80, heads=2)
    p = clusters(catalog, 6)
    logit = np.einsum("ihd,jhd->hij", catalog.query.astype(float), catalog.key.astype(float))
    middle = np.einsum("ahd,bhd->hab", p.query_centre.astype(float), p.key_centre.astype(float))
    q, k = np.linalg.norm(p.query_centre, axis=2).T, np.linalg.norm(p.key_centre, axis=2).T
    rq, rk = p.query_radius.T.astype(float), p.key_radius.T.astype(float)
    bound = q[:, :, None] * rk[:, None, :] + rq[:, :, None] * k[:, None, :] + rq[:, :, None] * rk[:, None, :]
    cells = p.cell_of
    assert (np.abs(logit - middle[:, cells][:, :, cells]) <= bound[:, cells][:, :, cells] + 1e-6).all()


@pytest.mark.parametrize(("n", "cells"), [(1, 1), (15, 1), (320, 20), (33_528, 256), (10**8, 256)])
def test_the_default_number_of_cells(n: int, cells: int) -> None:
    assert default_cells(n) == cells
