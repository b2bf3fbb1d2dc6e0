"""Histories of an index that gained or lost items since its encoder was trained: scores stay with their items."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.base_terms import BaseTerms
from setwise.model.encoder import Encoder
from setwise.model.neighbours import Neighbours

N = 12
POPULAR = np.linspace(2.0, -2.0, N)


def catalog(ids: list[str]) -> sw.Catalog:
    zeros = np.zeros((len(ids), 1, 1))
    return sw.Catalog(zeros, zeros, zeros, sw.Logistic(), ids=ids)


def recommender() -> sw.Recommender:
    """After item i comes item i + 1, then i + 2; the first items are popular."""
    after = np.minimum(np.arange(N)[:, None] + [1, 2], N - 1)
    related = Neighbours(2 * np.arange(N + 1), after.ravel().astype(np.int32), np.tile([3.0, 1.0], N))
    terms = BaseTerms(neighbours=(related,), new_user=POPULAR)
    encoder = Encoder(np.zeros((N, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1)), base_terms=terms)
    index = sw.Index.build(catalog([f"i{row}" for row in range(N)]), cells=2, progress=False)
    return sw.Recommender(index, encoder=encoder)


def test_added_items_move_no_score() -> None:
    one = recommender()
    one.index.add(catalog(["new"]))
    slate = one.recommend(history=["i4", "new"], k=2)
    assert slate.items.tolist() == ["i5", "i6"]
    assert slate.value == pytest.approx(sw.Logistic().value(np.array([3.0, 1.0])).sum())
    newest = one.recommend(history=[], k=N + 1)
    assert newest.items[0] == "i0"
    reward = dict(zip(newest.items.tolist(), newest.rewards, strict=True))
    assert reward["new"] == pytest.approx(reward[f"i{N - 1}"])  # as rare as the rarest


@pytest.mark.parametrize("compacted", [False, True])
def test_removed_items_move_no_score(compacted: bool) -> None:
    one = recommender()
    one.index.remove(["i0", "i5"])
    if compacted:
        one.index.compact()
    assert one.recommend(history=["i4"], k=1).items.tolist() == ["i6"]
    slate = one.recommend(history=[], k=2)
    assert slate.items.tolist() == ["i1", "i2"]
    assert slate.value == pytest.approx(sw.Logistic().value(POPULAR[[1, 2]]).sum(), rel=1e-6)
    many = one.recommend_many(histories=[["i4"], []], k=1)
    assert [each.items.tolist() for each in many] == [["i6"], ["i1"]]


def test_a_saved_recommender_has_the_items_that_are_left(tmp_path) -> None:
    one = recommender()
    one.index.remove(["i5"])
    one.save(tmp_path / "shop")
    again = sw.Recommender.load(tmp_path / "shop")
    for history in (["i4"], []):
        assert (
            again.recommend(history=history, k=3).items.tolist() == one.recommend(history=history, k=3).items.tolist()
        )
    one.index.add(catalog(["new"]))
    with pytest.raises(InvalidInput, match="items added since"):
        one.save(tmp_path / "shop")
