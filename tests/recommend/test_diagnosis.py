"""Diagnosis: headroom over top-k and greedy, gap, base rate, attention; and the sentence."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.recommend.diagnosis import Diagnosis, diagnose, items_attended
from setwise.recommend.sample_users import random_histories, random_users
from worlds import random_catalog


def made(best, top_k, greedy, gap=0.0, k=4) -> Diagnosis:
    size = len(best)
    parts = (np.array(part, float) for part in (best, top_k, greedy))
    return Diagnosis(k, *parts, np.full(size, gap), np.full(size, 2.0))


def test_values_are_those_of_the_rankers() -> None:
    catalog, _ = random_catalog(2, n=40, heads=1, d=3, rewards=(sw.Logistic(2.0, -1.0),))
    rec = sw.Recommender(sw.Index.build(catalog, 4))
    users = random_users(rec, 6, seed=1)
    found = diagnose(rec, 4, users=users)
    assert (found.users, found.k) == (6, 4)
    for row, user in enumerate(users):
        values = {
            name: rec.recommend(user, 4, ranker=name, certify=False).value for name in ("top-k", "greedy", "swap")
        }
        assert found.top_k[row] == pytest.approx(values["top-k"])
        assert found.greedy[row] == pytest.approx(values["greedy"])
        assert found.best[row] >= max(values.values()) - 1e-9
        best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(40)), 4, "exact").value
        assert found.best[row] <= best * (1 + 1e-9)
        assert found.best[row] >= (1 - found.gap[row]) * best * (1 - 1e-9), "the gap bounds what is missing"
    assert found.base_rate == pytest.approx(found.best.mean() / 4)
    report = found.to_dict()
    assert report["top_k_over_best"] == pytest.approx(found.top_k.mean() / found.best.mean())
    assert report["headroom_over_greedy"] == pytest.approx(found.best.mean() / found.greedy.mean() - 1)


def test_errors_are_of_the_mean_difference() -> None:
    found = made([2.0, 4.0], [1.0, 2.0], [2.0, 4.0])
    gained, error = found.headroom("top-k")
    assert gained == pytest.approx(1.0)
    assert error == pytest.approx(np.std([1.0, 2.0], ddof=1) / 1.5 / np.sqrt(2))
    assert found.headroom("greedy") == (0.0, 0.0)


@pytest.mark.parametrize(
    ("top_k", "greedy", "pays", "sentence"),
    [
        (8.0, 9.0, True, "Set optimisation pays: search finds 11.1% more than greedy, 25.0% more than top-k."),
        (8.0, 9.99, False, "The set matters, and greedy is enough: the best sets have 25.0% more than top-k, 0.1%"),
        (9.95, 9.99, False, "Set optimisation does not pay: the best sets have only 0.5% more than top-k."),
    ],
)
def test_the_sentence(top_k: float, greedy: float, pays: bool, sentence: str) -> None:
    found = made([10.0] * 5, [top_k] * 5, [greedy] * 5)
    assert found.pays is pays
    assert found.sentence.startswith(sentence)
    assert "may exist" not in found.sentence
    loose = made([10.0] * 5, [top_k] * 5, [greedy] * 5, gap=0.4)
    assert loose.sentence.endswith("The bounds leave room for 40% more, so better sets may exist.")


def test_a_gain_within_chance_does_not_pay() -> None:
    assert not made([10.0, 12.0, 10.0], [10.0, 10.0, 10.0], [10.0, 10.0, 10.0]).pays


def test_items_attended_by_hand() -> None:
    """Equal logits attend evenly; one large key is all that is attended."""
    even = sw.Catalog(np.zeros((5, 1)), np.zeros((5, 1)), np.ones((5, 1)))
    sharp = sw.Catalog(np.ones((5, 1)), np.array([[50.0], [0], [0], [0], [0]]), np.ones((5, 1)))
    user = sw.User(np.ones((1, 1)))
    for catalog, expected in ((even, 3.0), (sharp, 1.0)):
        slate = sw.Recommender(sw.Index.build(catalog, 1)).recommend(user, 3, include=[0])
        assert len(slate) == 3
        assert items_attended(slate) == pytest.approx(expected)
    with_sink = sw.Catalog(np.zeros((5, 1)), np.zeros((5, 1)), np.ones((5, 1)), sink=sw.Sink([[0.0]], [[0.0]]))
    slate = sw.Recommender(sw.Index.build(with_sink, 1)).recommend(user, 3, include=[0])
    assert items_attended(slate) == pytest.approx(len(slate) + 1.0)


def test_random_histories_are_of_items() -> None:
    catalog, _ = random_catalog(3, n=9)
    rec = sw.Recommender(sw.Index.build(catalog, 2))
    drawn = random_histories(rec, 4, 20, seed=0)
    assert [len(set(one.tolist())) for one in drawn] == [8] * 4
    assert not all(set(one.tolist()) == set(drawn[0].tolist()) for one in drawn)


@pytest.mark.parametrize("users", [None, [], [sw.User(np.ones((1, 3)))]])
def test_two_users_at_least(users) -> None:
    catalog, _ = random_catalog(4, n=8)
    with pytest.raises(InvalidInput, match="users must be two or more, or as many histories"):
        diagnose(sw.Recommender(sw.Index.build(catalog, 2)), 2, users=users)


def test_a_model_without_attention() -> None:
    catalog, _ = random_catalog(2, n=40, heads=1, d=3, rewards=(sw.Logistic(2.0, -1.0),))
    still = sw.Catalog(
        catalog.query, catalog.key, np.zeros_like(catalog.value), reward=catalog.rewards[0], base=catalog.key[:, 0]
    )
    rec = sw.Recommender(sw.Index.build(still, 4))
    found = diagnose(rec, 4, users=random_users(rec, 3, seed=1))
    assert not found.attends
    assert found.to_dict()["attends"] is False
    assert found.sentence == "Set optimisation does not pay: this model has no attention, so top-k is the best set."
