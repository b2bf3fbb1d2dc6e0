"""Histories with ids that the catalogue does not have: ignored and reported, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import setwise as sw
from in_process import cluster_of
from saved_songs import model
from setwise.errors import InvalidInput, UnknownId


@pytest.fixture(scope="module")
def recommender() -> sw.Recommender:
    return sw.Recommender.from_model(model(), cells=4, certify=False)


def test_unknown_ids_have_no_influence_and_are_reported(recommender: sw.Recommender) -> None:
    slate = recommender.recommend(history=["gone", "s1", "s2", "gone too"], k=3)
    plain = recommender.recommend(history=["s1", "s2"], k=3)
    assert slate.ignored == ["gone", "gone too"]
    assert plain.ignored == []
    assert slate.items.tolist() == plain.items.tolist()
    assert slate.to_dict()["ignored"] == ["gone", "gone too"]
    many = recommender.recommend_many(histories=[["gone"], ["s1"]], k=3)
    assert [one.ignored for one in many] == [["gone"], []]


def test_a_history_of_unknown_ids_is_a_newcomer(recommender: sw.Recommender) -> None:
    newcomer = recommender.recommend(history=[], k=3)
    assert recommender.recommend(history=["gone"], k=3).items.tolist() == newcomer.items.tolist()


def test_unknown_ids_are_refused_on_request(recommender: sw.Recommender) -> None:
    with pytest.raises(UnknownId, match="got 'gone'"):
        recommender.recommend(history=["s1", "gone"], k=3, unknown="error")
    with pytest.raises(UnknownId):
        recommender.recommend_many(histories=[["gone"]], k=3, unknown="error")
    with pytest.raises(InvalidInput, match="unknown must be 'ignore' or 'error', got 'skip'"):
        recommender.recommend(history=["s1"], k=3, unknown="skip")


@pytest.mark.parametrize("wrong", [1, None, 2.0, True])
def test_ids_of_another_type_are_a_mistake(recommender: sw.Recommender, wrong: object) -> None:
    with pytest.raises(UnknownId):
        recommender.recommend(history=["s1", wrong], k=3)


def test_a_removed_item_is_unknown_before_and_after_compaction(recommender: sw.Recommender, tmp_path: Path) -> None:
    index = sw.Index.build(model().catalog(), cells=4)
    rec = sw.Recommender(index, encoder=recommender.encoder, certify=False)
    rec.index.remove(["s1"])
    rec.save(tmp_path / "saved")
    changed = [rec, sw.Recommender.load(tmp_path / "saved", certify=False)]
    front, _ = cluster_of(recommender, tmp_path / "cluster", 2)
    front.remove(["s1"])
    expected = rec.recommend(history=["s2"], k=3)
    for number in range(3):
        if number == 2:
            rec.index.compact()
        for one in (*changed, front):
            slate = one.recommend(history=["gone", "s1", "s2"], k=3, certify=False)
            assert slate.items.tolist() == expected.items.tolist()
            assert slate.ignored == ["gone", "s1"]
            with pytest.raises(UnknownId, match=r"an id of history must be one of the .*, got 's1'"):
                one.recommend(history=["s2", "s1"], k=3, unknown="error")
        many = rec.recommend_many(histories=[["s1"], ["s1", "s2"]], k=3)
        assert [one.ignored for one in many] == [["s1"], ["s1"]]
        assert many[0].items.tolist() == rec.recommend(history=[], k=3).items.tolist()


def test_a_slate_prints_and_becomes_a_table(recommender: sw.Recommender) -> None:
    slate = recommender.recommend(history=["s1", "gone"], k=3)
    assert repr(slate).startswith(f"Slate(items={slate.items.tolist()}, value=")
    assert repr(slate).endswith("ignored=['gone'])")
    certified = sw.Recommender.from_model(model(), cells=4).recommend(history=["s1"], k=3, budget_ms=200)
    assert ("proven optimal" in repr(certified)) == certified.proven
    frame = slate.to_frame()
    assert frame["id"].tolist() == list(slate) == slate.items.tolist()
    assert frame["rank"].tolist() == [1, 2, 3]
    assert frame["reward"].sum() == pytest.approx(slate.value)
    assert set(frame.columns) == {"rank", "id", "reward", *slate.catalog.attributes}
