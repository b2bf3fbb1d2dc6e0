"""Cells: balanced, of one reward class, with radii that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput
from setwise.retrieval import clusters as module
from setwise.retrieval import kmeans
from setwise.retrieval import partition as partition_module
from setwise.retrieval.clusters import clusters, default_cells, nearest_cells
from setwise.retrieval.partition import Partition
from worlds import REWARDS, random_catalog


@examples(40)
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


@pytest.mark.parametrize(
    ("query_scale", "key_scale"),
    [(1, 1), (1e-25, 1e-25), (1e-13, 1e-13), (1e9, 1e9), (1e12, 1e12), (1e12, 1e-25), (1, 1e-13)],
)
def test_cells_find_the_groups_that_are_there(query_scale: float, key_scale: float) -> None:
    rng = np.random.default_rng(1)
    group = np.arange(600) % 6
    query, key = (10 * rng.normal(size=(6, 8))[group] + 0.1 * rng.normal(size=(600, 8)) for _ in range(2))
    catalog = sw.Catalog(query_scale * query, key_scale * key, query)
    partition = clusters(catalog, 6)
    for cell in range(6):
        assert len(set(group[partition.cell_of == cell])) == 1
    np.testing.assert_array_equal(nearest_cells(catalog, np.arange(600), partition), partition.cell_of)


def test_equal_items_and_more_cells_than_points() -> None:
    same = np.ones((40, 3))
    partition = clusters(sw.Catalog(same, same, same), 7)
    assert partition.sizes.max() <= 12
    assert (partition.query_radius < 1e-5).all()


def test_an_item_far_beyond_the_typical_norm_spoils_no_distance() -> None:
    rng = np.random.default_rng(0)
    query = rng.normal(size=(20_001, 4))
    query[1] *= 1e25  # not among those that the units are measured on
    partition = clusters(sw.Catalog(query, query, query), 50)
    assert partition.sizes.max() <= 802
    assert np.isfinite(partition.query_unit).all()


@pytest.mark.parametrize("equal", [True, False])
def test_no_matrix_of_distances_is_large(equal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are there many of them, when all items coincide and each cell is filled in turn."""
    rng = np.random.default_rng(0)
    points = np.ones((5000, 4)) if equal else rng.normal(size=(5000, 4)) ** 5
    catalog, largest, made = sw.Catalog(points, points, points), 1 << 14, []
    plain = kmeans.squared_distances

    def watched(points, centres):
        made.append(len(points) * len(centres))
        return plain(points, centres)

    monkeypatch.setattr(kmeans, "_DISTANCES", largest)
    for each in (kmeans, module):
        monkeypatch.setattr(each, "squared_distances", watched)
    monkeypatch.setattr(module, "_ITERATIONS", 2)
    partition = clusters(catalog, 100)
    assert partition.sizes.max() <= 100
    nearest_cells(catalog, np.arange(5000), partition)
    assert max(made) <= largest
    assert sum(made) <= (2 + 1 + 1 + 1 + 1) * 5000 * 100  # Lloyd twice, k-means++, all items, those left over, nearest


def test_new_items_go_to_the_nearest_cell_of_their_class_in_units_of_logits() -> None:
    rng = np.random.default_rng(0)
    query, key = 100 * rng.normal(size=(400, 2, 3)), 1e-3 * rng.normal(size=(400, 2, 3))
    reward_class = np.arange(400) % 2
    catalog = sw.Catalog(query, key, query, reward=([sw.Linear(), sw.Logistic()], reward_class))
    partition = clusters(catalog, 30)
    rows = rng.permutation(400)[:150]
    got = nearest_cells(catalog, rows, partition)
    assert got.shape == (150,)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(partition.reward_class[got], reward_class[rows])
    norm = [np.sqrt((part.astype(float) ** 2).sum(axis=2).mean(axis=0))[:, None] for part in (query, key)]
    for row, cell in zip(rows, got, strict=True):
        away = ((query[row] - partition.query_centre) * norm[1]) ** 2 + (
            (key[row] - partition.key_centre) * norm[0]
        ) ** 2
        away = np.where(partition.reward_class == reward_class[row], away.sum(axis=(1, 2)), np.inf)
        assert away[cell] <= away.min() * 1.0001


def test_new_items_of_a_reward_without_cells() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 3))
    catalog = sw.Catalog(points, points, points, reward=([sw.Linear(), sw.Logistic()], np.arange(40) // 30))
    first = catalog.taken(np.arange(30))
    with pytest.raises(
        InvalidInput, match="the new items' reward must be one that the index has cells for, got another"
    ):
        nearest_cells(catalog, np.arange(25, 35), clusters(first, 4))


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


@pytest.mark.parametrize("cells", [[0, 1, 2, 3], [0, 1, -1, 2], [0.0, 1.0, 2.0, 0.0]], ids=["high", "negative", "real"])
def test_cells_out_of_range_are_refused(cells: list) -> None:
    catalog, _ = random_catalog(1, n=4)
    with pytest.raises(InvalidInput, match="cell_of must be whole numbers from 0 to 2"):
        Partition.of(catalog, cells, 3)
    assert Partition.of(catalog, [0, 1, 2, 2], 3).n_cells == 3


def test_a_partition_fits_its_own_catalogue_only() -> None:
    catalog, _ = random_catalog(2, n=6, rewards=REWARDS[:2])
    cells = np.where(catalog.reward_class == 0, 0, 1)
    made = Partition.of(catalog, cells, 2)
    assert made.fits(catalog)
    assert not made.taken(np.arange(5)).fits(catalog)
    swapped = sw.Catalog(catalog.query, catalog.key, catalog.value, (list(catalog.rewards), 1 - catalog.reward_class))
    assert not made.fits(swapped)
    wider = np.concatenate([catalog.query, catalog.query], axis=2)
    assert not made.fits(sw.Catalog(wider, wider, catalog.value, (list(catalog.rewards), catalog.reward_class)))


def test_the_centre_of_a_cell_is_the_mean() -> None:
    catalog, _ = random_catalog(3, n=5)
    made = Partition.of(catalog, [0, 0, 0, 2, 3], 4)
    np.testing.assert_allclose(made.query_centre[0], catalog.query[:3].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(made.key_centre[2:], catalog.key[3:], rtol=1e-6)
    assert (made.query_centre[1] == 0).all()
    assert made.query_radius[1].max() < 1e-30


def test_a_partition_fits_if_every_cell_has_the_class_of_its_items() -> None:
    catalog, _ = random_catalog(2, n=4, rewards=REWARDS[:2])
    parts = (catalog.query, catalog.key, catalog.value)
    made = Partition.of(sw.Catalog(*parts, (REWARDS[:2], [0, 1, 0, 1])), [0, 1, 0, 2], 3)
    assert made.fits(sw.Catalog(*parts, (REWARDS[:2], [0, 1, 0, 1])))
    assert not made.fits(sw.Catalog(*parts, (REWARDS[:2], [0, 1, 0, 0])))
    assert made.reward_class.tolist() == [0, 1, 1]


def test_cells_of_several_classes_are_refused() -> None:
    catalog, _ = random_catalog(2, n=4)
    mixed = sw.Catalog(catalog.query, catalog.key, catalog.value, (REWARDS[:2], [0, 1, 0, 1]))
    with pytest.raises(InvalidInput, match="cell_of must be cells of one reward class each, got a mixture"):
        Partition.of(mixed, [0, 1, 0, 0], 2)
    assert Partition.of(mixed, [0, 1, 0, 1], 3).reward_class.tolist() == [0, 1, -1]


def test_units_are_kept_and_one_unless_given() -> None:
    catalog, _ = random_catalog(3, n=5, heads=2)
    units = np.array([2, 3], np.float32), np.array([4, 5], np.float32)
    given, plain = Partition.of(catalog, [0] * 5, 1, *units), Partition.of(catalog, [0] * 5, 1)
    assert (given.query_unit.tolist(), given.key_unit.tolist()) == ([2, 3], [4, 5])
    assert plain.query_unit.tolist() == plain.key_unit.tolist() == [1, 1]


def test_cells_are_measured_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, _ = random_catalog(4, n=9, heads=2)
    cells = [0, 1, 0, 1, 1, 2, 2, 0, 1]
    whole = Partition.of(catalog, cells, 3)
    monkeypatch.setattr(partition_module, "_CHUNK", 2)
    pieces = Partition.of(catalog, cells, 3)
    for name in ("query_centre", "key_centre", "query_radius", "key_radius"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-6)


def test_radii_grow_with_added_items_and_centres_stay() -> None:
    rng = np.random.default_rng(5)
    query, key = (rng.normal(size=(8, 2, 3)) * ([[[1]]] * 6 + [[[9]]] * 2) for _ in range(2))
    catalog = sw.Catalog(query, key, query)
    first = Partition.of(catalog.taken(range(6)), [0, 0, 1, 1, 1, 0], 2)
    grown = first.grown(catalog, np.array([1, 1], np.int32))
    assert grown.cell_of.tolist() == [0, 0, 1, 1, 1, 0, 1, 1]
    for name, vectors in (("query", catalog.query), ("key", catalog.key)):
        centre, radius = getattr(grown, f"{name}_centre"), getattr(grown, f"{name}_radius")
        np.testing.assert_array_equal(centre, getattr(first, f"{name}_centre"))
        away = np.linalg.norm(vectors.astype(float) - centre[grown.cell_of], axis=2)
        largest = [away[grown.cell_of == cell].max(axis=0) for cell in range(2)]
        np.testing.assert_allclose(radius, largest, rtol=1e-6)
        assert (radius >= largest).all()


def saved_cells() -> tuple[sw.Catalog, dict[str, np.ndarray]]:
    """A catalogue of two classes and heads, and the arrays of its cells."""
    catalog, _ = random_catalog(6, n=6, heads=2)
    mixed = sw.Catalog(catalog.query, catalog.key, catalog.value, (REWARDS[:2], [0, 1, 0, 1, 0, 1]))
    return mixed, dict(vars(Partition.of(mixed, [0, 1, 2, 1, 0, 1], 3)))


def test_a_saved_partition_is_opened() -> None:
    catalog, arrays = saved_cells()
    opened = Partition.opened(arrays, catalog)
    for name, array in arrays.items():
        np.testing.assert_array_equal(getattr(opened, name), array)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cell_of", lambda cells: cells - 1),
        ("cell_of", lambda cells: cells + 1),
        ("cell_of", lambda cells: cells[:-1]),
        ("cell_of", lambda cells: cells.astype(np.int64)),
        ("query_radius", lambda radius: -radius),
        ("key_radius", lambda radius: radius * np.float32(np.nan)),
        ("query_centre", lambda centre: np.full_like(centre, np.inf)),
        ("key_centre", lambda centre: centre[:, :, :-1]),
        ("query_unit", lambda unit: unit * np.float32(np.nan)),
        ("key_unit", lambda unit: unit[:-1]),
    ],
)
def test_arrays_that_are_no_partition_are_refused(name: str, change) -> None:
    catalog, arrays = saved_cells()
    with pytest.raises(InvalidInput, match=f"array '{name}' must be"):
        Partition.opened(arrays | {name: change(arrays[name])}, catalog)


def test_the_cells_of_another_catalogue_are_refused() -> None:
    catalog, arrays = saved_cells()
    with pytest.raises(InvalidInput, match="cells must be those of this catalogue, got others"):
        Partition.opened(arrays | {"cell_of": np.array([0, 1, 2, 1, 0, 0], np.int32)}, catalog)


def test_units_make_the_typical_point_one_long() -> None:
    """The root mean square of the norms is 1, and an error of queries weighs as one of keys, head by head."""
    rng = np.random.default_rng(7)
    query, key = rng.normal(size=(300, 2, 4)) * [[[30], [0.1]]], rng.normal(size=(300, 2, 4)) * [[[0.2], [5]]]
    made = clusters(sw.Catalog(query, key, query), 5)
    squares = [(vectors**2).sum(axis=2).mean(axis=0) for vectors in (query, key)]
    assert squares[0] @ made.query_unit**2 + squares[1] @ made.key_unit**2 == pytest.approx(1, rel=1e-5)
    ratio = np.sqrt(squares[1] / squares[0])
    np.testing.assert_allclose(made.query_unit / made.key_unit, ratio, rtol=1e-5)
    unit_of = np.sqrt(squares[1])  # queries of every head are multiplied by their keys' norm
    np.testing.assert_allclose(made.query_unit / made.query_unit[0], unit_of / unit_of[0], rtol=1e-5)
