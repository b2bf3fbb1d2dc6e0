"""Rewards alone: those of slates of one by the reference objective, and the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.model import alone
from setwise.model.added_scores import AddedScores
from setwise.model.alone import best_alone, rewards_alone, self_weight
from worlds import REWARDS, random_catalog

worlds = st.builds(
    lambda seed, heads, base, sink, mixed: random_catalog(
        seed, n=150, heads=heads, base=base, sink=sink, sharpness=3.0, rewards=REWARDS if mixed else REWARDS[:1]
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@examples(20)
@given(world=worlds, most=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_as_slates_of_one(world, most: int, seed: int) -> None:
    catalog, user = world
    rows = np.sort(np.random.default_rng(seed).permutation(150)[:120])
    expected = np.array([sw.set_value(catalog, user, [row]) for row in rows])
    np.testing.assert_allclose(rewards_alone(catalog, user, rows), expected, rtol=1e-9, atol=1e-12)
    instance = sw.Instance.from_catalog(catalog, user, rows)
    np.testing.assert_allclose(instance.alone, expected, rtol=1e-9, atol=1e-12)
    best = best_alone(catalog, user, rows, most)
    chosen = expected[np.searchsorted(rows, best)]
    np.testing.assert_allclose(np.sort(chosen), np.sort(expected)[-most:], rtol=1e-6, atol=1e-7)


def test_added_scores_count() -> None:
    catalog, user = random_catalog(3, n=150)
    added = sw.User(user.heads, user.base, AddedScores.dense(np.linspace(0, 50, 150)))
    assert (
        best_alone(catalog, added, np.arange(150), 2).tolist() != best_alone(catalog, user, np.arange(150), 2).tolist()
    )


def test_an_item_that_attends_to_nothing_has_its_base_alone() -> None:
    logit = np.full((2, 2), -np.inf)
    instance = sw.Instance(logit, [5.0, 6.0], sw.Linear(), base=[1.0, 2.0])
    assert instance.alone.tolist() == pytest.approx([1.0, 2.0])
    assert instance.alone.tolist() == pytest.approx([instance.value([0]), instance.value([1])])


def test_screening_counts_the_sink() -> None:
    """Many items, few wanted: those that attend to a sink of high score are the best, whatever their own scores are."""
    rng = np.random.default_rng(8)
    query, value = rng.normal(size=(400, 1)) * 4, rng.normal(size=(400, 1))
    catalog = sw.Catalog(query, np.zeros((400, 1)), value, sw.Linear(), sink=sw.Sink([[1.0]], [[10.0]]))
    user = sw.User(np.ones((1, 1)))
    expected = np.array([sw.set_value(catalog, user, [row]) for row in range(400)])
    best = best_alone(catalog, user, np.arange(400), 5)
    np.testing.assert_allclose(np.sort(expected[best]), np.sort(expected)[-5:], rtol=1e-6)


@pytest.mark.parametrize("part", ["base", "scores", "rewards"])
@pytest.mark.parametrize("most", [5, 100])
def test_screening_counts_every_part(part: str, most: int) -> None:
    """Many items: by their values the best are the worst, and one other part makes up for it."""
    place = np.random.default_rng(3).permutation(400)
    best = place >= 400 - most
    zero, value, user = np.zeros((400, 1)), -place[:, None] / 1000, sw.User(np.ones((1, 1)))
    catalog = sw.Catalog(zero, zero, value, sw.Linear())
    if part == "base":
        catalog, user = sw.Catalog(zero, zero, value, sw.Linear(), place[:, None]), sw.User(np.ones((1, 1)), np.ones(1))
    elif part == "scores":
        user = sw.User(np.ones((1, 1)), scores=AddedScores.dense(place.astype(float)))
    else:
        catalog = sw.Catalog(zero, zero, value, ([sw.Linear(), sw.Linear(bias=9.0)], best.astype(int)))
    assert best_alone(catalog, user, np.arange(400), most).tolist() == np.flatnonzero(best).tolist()


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_about_as_many_rows_as_are_screened(more: int) -> None:
    catalog, user = random_catalog(4, n=150)
    rows, most = np.arange(150), 150 - alone._MARGIN + more
    expected = np.sort(np.argsort(-rewards_alone(catalog, user, rows))[:most])
    assert best_alone(catalog, user, rows, most).tolist() == expected.tolist()


def test_few_rows_and_ties() -> None:
    same = np.ones((10, 1))
    catalog, rows = sw.Catalog(same, same, same), np.array([7, 3, 9])
    assert best_alone(catalog, sw.User(np.ones((1, 1))), rows, 2).tolist() == [3, 7]
    assert best_alone(catalog, sw.User(np.ones((1, 1))), rows, 5).tolist() == [3, 7, 9]


@pytest.mark.parametrize("sink", [False, True])
def test_the_weight_of_an_item_alone_is_its_attention(sink: bool) -> None:
    catalog, _ = random_catalog(6, heads=2, sink=sink)
    expected = np.stack([sw.attention(catalog, [row])[:, 0, 0] for row in range(12)], axis=1)
    np.testing.assert_allclose(self_weight(catalog), expected, rtol=1e-5)
    assert self_weight(catalog) is self_weight(catalog)


def test_an_item_without_a_weight_of_its_own_has_the_sinks_score() -> None:
    logit = np.array([[-np.inf, 0.0], [0.0, 0.0]])
    instance = sw.Instance(logit, [5.0, 6.0], sw.Linear(), sink_logit=[0.5, 0.5], sink_score=[3.0])
    assert instance.alone.tolist() == pytest.approx([instance.value([0]), instance.value([1])])
    assert instance.alone[0] == 3.0


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 50])
def test_rows_are_valued_piece_by_piece(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """No piece has more rows than the memory is meant for, and the pieces are the whole."""
    catalog, user = random_catalog(5, n=60, sink=True)
    rows = np.random.default_rng(0).permutation(60)[:count]
    expected, pieces, whole = rewards_alone(catalog, user, rows), [], alone._rewards

    def recorded(catalog: sw.Catalog, user: sw.User, some: np.ndarray) -> np.ndarray:
        pieces.append(len(some))
        return whole(catalog, user, some)

    monkeypatch.setattr(alone, "_CHUNK", 7)
    monkeypatch.setattr(alone, "_rewards", recorded)
    np.testing.assert_allclose(rewards_alone(catalog, user, rows), expected, rtol=1e-12)
    assert sum(pieces) == len(expected) == count
    assert max(pieces) <= 7


@pytest.mark.parametrize("far", [50.0, 1e3, 1e9])
def test_weights_of_a_far_sink_are_finite(far: float) -> None:
    """Warnings are errors: float32 must not overflow, whichever of item and sink has the larger logit."""
    catalog = sw.Catalog([[1.0], [-1.0]], np.zeros((2, 1)), [[1.0], [1.0]], sink=sw.Sink([[far]], [[0.0]]))
    np.testing.assert_allclose(self_weight(catalog), [[0.0, 1.0]], atol=1e-20)
    assert (self_weight(catalog) >= 0).all()
