"""Portfolios for users with features: the encoder equals the forest, and the sets beat the top k."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from in_process import cluster_of
from setwise.errors import InvalidInput
from setwise.model.feature_encoder import FeatureEncoder
from setwise.preferences.at_least_one import AtLeastOne
from setwise.training.portfolio import PortfolioModel, completed, forest_weights, grow_forest, hits

TREES = 15


def cases(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of six items and three features; items 0, 1, 2 fail together, 3 and 4 too; one feature is often missing."""
    rng = np.random.default_rng(seed)
    features = rng.random((count, 3))
    kinds = rng.random((count, 2)) < np.stack([0.3 + 0.5 * features[:, 0], 0.5 * features[:, 1] + 0.1], axis=1)
    items = [kinds[:, 0]] * 3 + [kinds[:, 1]] * 2 + [rng.random(count) < 0.2]
    outcomes = np.stack([one & (rng.random(count) < 0.95) for one in items], axis=1).astype(float)
    features[rng.random(count) < 0.3, 2] = np.nan
    return outcomes, features


def test_the_encoder_has_the_weights_of_the_forest(tmp_path: Path) -> None:
    outcomes, features = cases(150)
    model = PortfolioModel.fit(outcomes, 2, features, ("a", "b", "c"), trees=TREES)
    x, fill, flagged = completed(features)
    new = cases(20, seed=1)[1]
    missing = np.isnan(new)
    filled = np.concatenate([np.where(missing, fill, new), missing[:, flagged]], axis=1)
    weights, _ = forest_weights(grow_forest(x, outcomes, TREES, 0), x, filled)
    known = AtLeastOne(outcomes, model.redundancy)
    model.save(tmp_path / "model")
    encoder = PortfolioModel.load(tmp_path / "model").encoder
    for weight, row in zip(weights, new, strict=True):
        expected = known.user(weight)
        assert expected.heads.any()
        named = {name: None if one != one else one for name, one in zip("abc", row.tolist(), strict=True)}
        np.testing.assert_allclose(encoder.user(named).heads, expected.heads, atol=1e-12)
        np.testing.assert_allclose(encoder.user(list(named.values())).heads, expected.heads, atol=1e-12)


def test_sets_by_features_beat_the_top_k_and_survive_saving(tmp_path: Path) -> None:
    outcomes, features = cases(400)
    truth, new = cases(150, seed=1)
    model = PortfolioModel.fit(
        outcomes, 2, features, ("a", "b", "c"), ids=[f"solver {i}" for i in range(6)], trees=TREES
    )
    recommender = sw.Recommender(sw.Index.build(model.catalog), features=model.encoder)
    recommender.save(tmp_path / "saved")
    recommender = sw.Recommender.load(tmp_path / "saved")
    asked = [[None if one != one else one for one in row] for row in new.tolist()]
    slates = recommender.recommend_many(features=asked, k=2, certify=False)
    np.testing.assert_array_equal(recommender.recommend(features=asked[0], k=2).indices, slates[0].indices)
    ours = hits(truth, np.array([slate.indices for slate in slates]))
    x, fill, flagged = completed(features)
    missing = np.isnan(new)
    filled = np.concatenate([np.where(missing, fill, new), missing[:, flagged]], axis=1)
    weights, _ = forest_weights(grow_forest(x, outcomes, TREES, 0), x, filled)
    top = hits(truth, np.argsort(-(weights @ outcomes), axis=1)[:, :2])
    assert ours.mean() > top.mean()


def test_without_features_there_is_one_user() -> None:
    outcomes, _ = cases(100)
    model = PortfolioModel.fit(outcomes, 2)
    assert model.encoder.names == ()
    expected = AtLeastOne(outcomes, model.redundancy).user(np.full(100, 0.01))
    np.testing.assert_allclose(model.encoder.user({}).heads, expected.heads, atol=1e-12)


def test_values_are_those_of_the_formula_for_sets_of_any_size(tmp_path: Path) -> None:
    outcomes, features = cases(120)
    model = PortfolioModel.fit(outcomes, 3, features, ("a", "b", "c"), trees=TREES)
    known, (x, _, flagged) = AtLeastOne(outcomes, model.redundancy), completed(features)
    grown = grow_forest(x, outcomes, TREES, 0)
    recommender = sw.Recommender(sw.Index.build(model.catalog), features=model.encoder)
    recommender.save(tmp_path / "saved")
    front, _ = cluster_of(recommender, tmp_path / "cluster", 2)
    for row in cases(5, seed=1)[1]:
        row[2] = 0.5
        weights = forest_weights(grown, x, np.concatenate([row, np.zeros(len(flagged))])[None, :])[0][0]
        for k in (1, 2, 3, 5, 10):  # of six items
            for one in (recommender, sw.Recommender.load(tmp_path / "saved"), front):
                slate = one.recommend(features=row.tolist(), k=k)
                assert len(slate.indices) == min(k, 6)
                rows = model.catalog.rows_of(slate.items.tolist())
                assert slate.value == pytest.approx(known.value(weights, rows), rel=1e-9)
            (many,) = recommender.recommend_many(features=[row.tolist()], k=k)
            assert many.value == pytest.approx(known.value(weights, many.indices), rel=1e-9)


def test_sets_are_worth_nothing_where_all_items_failed_on_all_similar_cases() -> None:
    size, outcomes = np.arange(200.0), np.zeros((200, 3))
    outcomes[:100, 0] = outcomes[:40, 1] = 1.0  # nothing succeeds above
    model = PortfolioModel.fit(outcomes, 1, size[:, None], ["size"], trees=TREES)
    recommender = sw.Recommender(sw.Index.build(model.catalog), features=model.encoder)
    slates = [recommender.recommend(features={"size": one}, k=1) for one in (10, 60, 150, 190)]
    assert [slate.value for slate in slates] == pytest.approx([1.0, 1.0, 0.0, 0.0], abs=1e-6)
    assert slates[-1].items.tolist() == [0], "the best one of all cases"
    assert all(slate.proven and slate.upper_bound == pytest.approx(slate.value, abs=1e-12) for slate in slates)


def test_features_that_are_refused() -> None:
    outcomes, features = cases(60)
    model = PortfolioModel.fit(outcomes, 2, features, ("a", "b", "c"), trees=3)
    rec = sw.Recommender(sw.Index.build(model.catalog), features=model.encoder)
    for given, sentence in (
        ({"d": 1.0}, "among 3 features"),
        ([1.0], "by name or in this order, got 1 numbers"),
        ("a=1", "got a text"),
        ({"a": "high"}, r"features\['a'\] must be a finite number"),
        ({"a": float("inf")}, "finite"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            rec.recommend(features=given)
    with pytest.raises(InvalidInput, match=r"exactly one of history, user, features, .*, got history and features"):
        rec.recommend(features={}, history=[])
    plain = sw.Recommender(sw.Index.build(model.catalog))
    with pytest.raises(InvalidInput, match="no encoder for them"):
        plain.recommend(features={"a": 1.0})
    rng = np.random.default_rng(0)
    other = sw.Index.build(sw.Catalog(*(rng.normal(size=(30, 3)) for _ in range(3))))
    with pytest.raises(InvalidInput, match="features must be for heads of shape"):
        sw.Recommender(other, features=model.encoder)
    with pytest.raises(InvalidInput, match="features must be of shape"):
        PortfolioModel.fit(outcomes, 2, features, ("a", "b"))
    assert isinstance(rec.features, FeatureEncoder)


@pytest.mark.parametrize("cell", [10**400, float("inf"), True, "1"], ids=["no float", "infinite", "truth", "text"])
def test_a_feature_that_is_no_finite_number_is_refused(cell: object) -> None:
    outcomes, features = cases(60)
    encoder = PortfolioModel.fit(outcomes, 2, features, ("a", "b", "c"), trees=TREES).encoder
    with pytest.raises(InvalidInput, match=r"features\['b'\] must be a finite number, or None"):
        encoder.user({"b": cell})
