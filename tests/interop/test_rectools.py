"""RecTools itself: its models, data sets and tables.

RecTools needs numpy 1, setwise needs numpy 2, so pip installs them into one environment only against both packages'
word. ``make test-rectools`` makes such an environment and runs this file there; elsewhere it is skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise import interop

pytest.importorskip("rectools", reason="RecTools is not installed: make test-rectools")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

from implicit.als import AlternatingLeastSquares  # noqa: E402
from implicit.nearest_neighbours import CosineRecommender  # noqa: E402
from rectools.dataset import Dataset  # noqa: E402
from rectools.models import (  # noqa: E402
    ImplicitALSWrapperModel,
    ImplicitItemKNNWrapperModel,
    PureSVDModel,
)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    rows = [
        {"user_id": f"u{user}", "item_id": f"i{item}", "weight": 1.0, "datetime": f"2026-01-{1 + item % 28:02}"}
        for user in range(30)
        for item in range(40)
        if rng.random() < (0.4 if user % 2 == item % 2 else 0.05)
    ]
    return Dataset.construct(pd.DataFrame(rows))


@pytest.mark.parametrize("name", ["als", "svd"])
def test_vector_models(name: str, dataset: Dataset) -> None:
    als = AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model = (ImplicitALSWrapperModel(als) if name == "als" else PureSVDModel(factors=8)).fit(dataset)
    adapted = interop.from_rectools(model, dataset, reward=sw.Linear())
    users = ["u3", "u8"]
    theirs = model.recommend(users, dataset, k=4, filter_viewed=False)
    slates = adapted.recommender().recommend_many(adapted.users(users), k=4)
    ours = interop.slates_to_frame(slates, users, names="rectools")
    for user in users:
        assert set(ours[ours.user_id == user].item_id) == set(theirs[theirs.user_id == user].item_id)
    np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-4, atol=1e-5)


def test_a_table_of_recommendations_is_a_table_of_candidates(dataset: Dataset) -> None:
    model = ImplicitItemKNNWrapperModel(CosineRecommender(K=20, num_threads=1)).fit(dataset)
    users = ["u3", "u8", "u9"]
    theirs = model.recommend(users, dataset, k=10, filter_viewed=True)
    ids = np.asarray(dataset.item_id_map.external_ids).tolist()
    rng = np.random.default_rng(0)
    catalog = sw.Catalog(*(rng.normal(size=(len(ids), 3)) for _ in range(3)), ids=ids)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2, progress=False))
    ours = interop.recommend_frame(recommender, theirs, k=4, names="rectools")
    assert list(ours.columns) == ["user_id", "item_id", "score", "rank"]
    for user in users:
        best = theirs[theirs.user_id == user].nlargest(4, "score").item_id
        assert set(ours[ours.user_id == user].item_id) == set(best)


def test_histories_of_a_dataset(dataset: Dataset) -> None:
    histories = interop.histories_by_user(dataset.get_raw_interactions())
    assert len(histories) == 30
    table = dataset.get_raw_interactions()
    own = table[table.user_id == "u3"].sort_values("datetime", kind="stable")
    assert histories["u3"] == own.item_id.tolist()
