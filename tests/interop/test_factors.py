"""Adapters of factor models, with the real libraries where they are installed."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise import interop
from setwise.errors import InvalidInput, UnknownId

ITEMS, USERS = 40, 30
ITEM_IDS = [f"item {row}" for row in range(ITEMS)]
USER_IDS = [f"user {row}" for row in range(USERS)]


def interactions(seed: int = 0):
    """A sparse matrix of users by items in which two groups of users like two groups of items."""
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    rng = np.random.default_rng(seed)
    likes = rng.random((USERS, ITEMS)) < np.where((np.arange(USERS) % 2)[:, None] == np.arange(ITEMS) % 2, 0.4, 0.05)
    return sparse.csr_matrix(likes.astype(np.float32))


def top(scores: np.ndarray, k: int) -> set[str]:
    return {ITEM_IDS[row] for row in np.argsort(-scores, kind="stable")[:k]}


def test_plain_factors_give_top_k_and_a_proof() -> None:
    rng = np.random.default_rng(0)
    items, users, bias = rng.normal(size=(ITEMS, 5)), rng.normal(size=(USERS, 5)), rng.normal(size=ITEMS)
    for own in (None, bias):
        model = interop.from_factors(items, ITEM_IDS, user_factors=users, user_ids=USER_IDS, item_bias=own)
        recommender = model.recommender()
        slate = recommender.recommend(model.user("user 7"), k=5)
        score = items @ users[7] + (0 if own is None else own)
        assert set(slate.items) == top(score, 5)
        assert slate.proven
        assert slate.value == pytest.approx((1 / (1 + np.exp(-np.sort(score)[-5:]))).sum(), rel=1e-5)
    linear = interop.from_factors(items, user_factors=users, reward=sw.Linear())
    assert linear.recommender().recommend(linear.user(7), k=1).value == pytest.approx(
        (items @ users[7]).max(), rel=1e-5
    )


def test_new_users_need_a_way_to_fold_in() -> None:
    items = np.eye(3)
    with pytest.raises(InvalidInput, match="histories must be for a model that can fold in new users"):
        interop.from_factors(items).user_of([0])
    with pytest.raises(InvalidInput, match="users must be of a model with user factors"):
        interop.from_factors(items).user(0)
    folded = interop.from_factors(
        items, item_bias=[1.0, 2.0, 3.0], fold_in=lambda rows: np.array([items[one].sum(axis=0) for one in rows])
    )
    assert folded.user_of([0, 2]).base.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert folded.users_of([]) == []
    with pytest.raises(UnknownId):
        folded.user_of([7])


def implicit_model(name: str):
    als = pytest.importorskip("implicit.als", reason="implicit is not installed")
    from implicit.bpr import BayesianPersonalizedRanking
    from implicit.lmf import LogisticMatrixFactorization

    model = {
        "als": lambda: als.AlternatingLeastSquares(factors=8, random_state=0, num_threads=1),
        "bpr": lambda: BayesianPersonalizedRanking(factors=8, random_state=0, num_threads=1),
        "lmf": lambda: LogisticMatrixFactorization(factors=8, random_state=0, num_threads=1),
    }[name]()
    model.fit(interactions(), show_progress=False)
    return model


@pytest.mark.parametrize("name", ["als", "bpr", "lmf"])
def test_factorisations_of_implicit_recommend_as_they_do(name: str) -> None:
    model = implicit_model(name)
    adapted = interop.from_implicit(model, ITEM_IDS, USER_IDS)
    recommender, likes = adapted.recommender(), interactions()
    for user in (0, 5, 11):
        rows, scores = model.recommend(user, likes[user], N=5, filter_already_liked_items=True)
        seen = [ITEM_IDS[row] for row in likes[user].indices]
        slate = recommender.recommend(adapted.user(USER_IDS[user]), k=5, exclude=seen)
        assert set(slate.items) == {ITEM_IDS[row] for row in rows}
        np.testing.assert_allclose(slate.rewards, 1 / (1 + np.exp(-np.sort(scores)[::-1])), rtol=1e-4)
        assert slate.proven


def test_als_folds_in_new_users_by_its_own_method() -> None:
    model, likes = implicit_model("als"), interactions(1)
    adapted = interop.from_implicit(model, ITEM_IDS)
    histories = [[ITEM_IDS[row] for row in likes[user].indices] for user in range(3)]
    users = adapted.users_of(histories)
    for user, own in enumerate(users):
        rows, _ = model.recommend(0, likes[user], N=4, recalculate_user=True)
        slate = adapted.recommender().recommend(own, k=4, exclude=histories[user])
        assert set(slate.items) == {ITEM_IDS[row] for row in rows}
    recommender = adapted.recommender()
    for history, own in zip(histories, users, strict=True):
        slate = recommender.recommend(history=history, k=4)
        np.testing.assert_allclose(slate.user.base, own.base, rtol=1e-3, atol=1e-4)
        assert set(slate.items) == set(recommender.recommend(own, k=4, exclude=history).items)
    with pytest.raises(InvalidInput, match="model must be one that folds in new users"):
        interop.from_implicit(implicit_model("bpr"), ITEM_IDS).user_of([ITEM_IDS[0]])


@pytest.mark.filterwarnings("ignore:Method expects CSR input")  # of implicit's own fit
@pytest.mark.parametrize("kind", ["CosineRecommender", "BM25Recommender", "als"])
def test_candidates_of_implicit_become_scores(kind: str) -> None:
    neighbours = pytest.importorskip("implicit.nearest_neighbours", reason="implicit is not installed")
    if kind == "als":
        model = implicit_model("als")
    else:
        model = getattr(neighbours, kind)(K=20, num_threads=1)
        model.fit(interactions(), show_progress=False)
    likes = interactions(2)
    histories = [[ITEM_IDS[row] for row in likes[user].indices] for user in range(4)]
    found = interop.candidate_scores(model, histories, ITEM_IDS, count=12)
    rng = np.random.default_rng(0)
    parts = (rng.normal(size=(ITEMS, 3)) for _ in range(3))
    catalog = sw.Catalog(*parts, reward=sw.Linear(), ids=ITEM_IDS)  # a logistic reward of a BM25 score of 40 is 1
    slates = sw.Recommender(sw.Index.build(catalog, cells=2, progress=False)).recommend_many(scores=found, k=3)
    for user, (scores, slate) in enumerate(zip(found, slates, strict=True)):
        rows, expected = model.recommend(0, likes[user], N=3, **({"recalculate_user": True} if kind == "als" else {}))
        assert not set(scores) & set(histories[user])
        assert set(slate.items) == {ITEM_IDS[row] for row in rows}
        assert [scores[ITEM_IDS[row]] for row in rows] == pytest.approx(expected.tolist(), rel=1e-5)
    assert interop.candidate_scores(model, [], ITEM_IDS) == []


@pytest.mark.parametrize("name", ["bpr", "lmf"])
def test_candidates_need_users_of_histories(name: str) -> None:
    with pytest.raises(InvalidInput, match="model must be one that computes users from histories, such as ALS"):
        interop.candidate_scores(implicit_model(name), [[ITEM_IDS[0]]], ITEM_IDS)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["TruncatedSVD", "NMF"])
def test_decompositions_of_scikit_learn(name: str, kind: str) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    likes = interactions().astype(kind)
    model = getattr(decomposition, name)(n_components=6, random_state=0).fit(likes)
    adapted = interop.from_sklearn(model, ITEM_IDS, reward=sw.Linear())
    history = likes[3].indices
    score = model.transform(likes[3])[0] @ model.components_
    slate = adapted.recommender().recommend(adapted.user_of([ITEM_IDS[row] for row in history]), k=4)
    assert set(slate.items) == top(score, 4)
    assert slate.value == pytest.approx(np.sort(score)[-4:].sum(), rel=1e-4)


def test_models_that_are_not_fitted() -> None:
    class Nothing:
        """A model without factors."""

    for adapter in (interop.from_implicit, interop.from_sklearn):
        with pytest.raises(InvalidInput, match="model must be a fitted one with"):
            adapter(Nothing())
    with pytest.raises(InvalidInput, match="item_factors must be an array of shape"):
        interop.from_factors(np.zeros(3))
    with pytest.raises(InvalidInput, match="model must be one with implicit's recommend"):
        interop.candidate_scores(Nothing(), [[0]], [0, 1])
