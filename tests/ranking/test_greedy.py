"""Greedy does what its definition says, for logits of any size, and fills ordered slates place by place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequential_variety import SequentialVariety

import setwise as sw
from counts import examples
from worlds import REWARDS, random_catalog, random_instance


def greedy_by_the_judge(instance: sw.Instance, k: int) -> float:
    """Grow by the best candidate, every value taken from the reference objective; the best set passed."""
    chosen: list[int] = []
    passed = []
    for _ in range(k):
        others = [c for c in range(instance.m) if c not in chosen]
        values = [instance.value([*chosen, c]) for c in others]
        chosen.append(others[int(np.argmax(values))])
        passed.append(max(values))
    return max(passed)


@examples(60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.sampled_from([0.5, 5.0, 500.0, 5000.0]))
def test_the_same_as_a_greedy_that_asks_the_judge(seed: int, heads: int, sink: bool, sharpness: float) -> None:
    instance = random_instance(seed, n=7, heads=heads, sink=sink, sharpness=sharpness, rewards=REWARDS[:6])
    assert sw.rank(instance, 4, "greedy").value == pytest.approx(greedy_by_the_judge(instance, 4), rel=1e-9)


def test_rows_without_weight() -> None:
    weight = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    instance = sw.Instance.from_weights(weight, [1.0, 2.0, -4.0], reward=sw.Linear())
    assert sw.rank(instance, 3, "greedy").value == pytest.approx(greedy_by_the_judge(instance, 3))


def test_many_candidates_and_members_are_looked_at_in_blocks() -> None:
    """Several blocks of members, and a reward of its own for many: still what the reference objective says."""
    instance = random_instance(3, n=600, heads=4, rewards=[sw.Logistic(1.0, -b / 10) for b in range(20)])
    ranking = sw.rank(instance, 12, "greedy")
    chosen = ranking.indices
    others = np.setdiff1d(np.arange(600), chosen)
    for c in chosen:  # the last to join was the best of all additions to the others
        rest = [i for i in chosen if i != c]
        if instance.value([*rest, c]) >= max(instance.value([*rest, other]) for other in others):
            return
    pytest.fail("no member can have been added last")


# --- ordered slates ---


def a_model(seed: int, n: int = 7, places: int = 4) -> SequentialVariety:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return SequentialVariety(
        rng.lognormal(size=n), x / np.linalg.norm(x, axis=1, keepdims=True), 0.8 ** np.arange(places - 1), rng.normal()
    )


def slates_of(model: SequentialVariety) -> sw.Instance:
    return sw.Instance.from_catalog(model.to_catalog(1e-9), model.user(), np.arange(len(model.utility)))


def pairs(instance: sw.Instance, ranking: sw.Ranking) -> dict[int, int]:
    """{place: item} of an answer."""
    places, items = instance.positions[ranking.indices], instance.candidates[ranking.indices]
    return dict(zip(places.tolist(), items.tolist(), strict=True))


def test_a_sequence_is_grown_from_its_beginning() -> None:
    """The model itself, which knows no places, leads a greedy search to the same sequence."""
    for seed in range(20):
        model = a_model(seed)
        sequence: list[int] = []
        for _ in range(4):
            others = [i for i in range(7) if i not in sequence]
            sequence.append(max(others, key=lambda i: model.value([*sequence, i])))
        instance = slates_of(model)
        assert pairs(instance, sw.rank(instance, 4, "greedy")) == dict(enumerate(sequence))  # utilities are positive
        assert pairs(instance, sw.rank(instance, 2, "greedy")) == dict(enumerate(sequence[:2]))


def test_slates_that_stop_early_have_no_gaps() -> None:
    lengths = set()
    for seed in range(40):
        catalog, user = random_catalog(seed, n=6, positions=4, rewards=[sw.Linear(1.0, -1.0)])
        instance = sw.Instance.from_catalog(catalog, user, np.arange(6))
        places = sorted(pairs(instance, sw.rank(instance, 4, "greedy")))
        assert places == list(range(len(places)))
        lengths.add(len(places))
    assert lengths == {1, 2, 3, 4}


def test_pinned_pairs_keep_their_places() -> None:
    model = a_model(1)
    instance = slates_of(model)
    pinned = np.flatnonzero((instance.positions == 1) & (instance.candidates == 5))
    slate = pairs(instance, sw.rank(instance, 3, "greedy", include=pinned))
    assert sorted(slate) == [0, 1, 2]
    assert slate[1] == 5
    others = [i for i in range(7) if i != 5]
    first = max(others, key=lambda i: model.value([i, 5]))
    third = max((i for i in others if i != first), key=lambda i: model.value([first, 5, i]))
    assert (slate[0], slate[2]) == (first, third)


def test_a_place_that_nobody_may_take_is_passed_over() -> None:
    instance = slates_of(a_model(2))
    slate = pairs(instance, sw.rank(instance, 4, "greedy", exclude=np.flatnonzero(instance.positions == 1)))
    assert sorted(slate) == [0, 2, 3]


def test_places_are_exclusive_even_when_nobody_said_so() -> None:
    """An instance made by hand, with positions but without label arrays of what may be chosen once."""
    instance = sw.Instance(np.zeros((4, 4)), [4.0, 3.0, 2.0, 1.0], positions=[0, 0, 1, 1])
    assert sw.rank(instance, 4, "greedy").indices.tolist() == [0, 2]
