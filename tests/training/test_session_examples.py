"""What sessions teach: cuts that lose nothing, single items that are called rightly, slates judged by the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_networks import ITEMS, grouped_sessions, random_network

from setwise.datasets.sessions import Sessions
from setwise.model.ragged import Ragged
from setwise.training.examples import Cuts, own_slates, singles
from setwise.training.export import exported
from setwise.training.network import Shape

LISTS = st.lists(st.lists(st.integers(0, 19), min_size=2, max_size=12, unique=True), min_size=1, max_size=8)


def sessions_of(lists: list[list[int]]) -> Sessions:
    return Sessions(Ragged.of(lists), list(range(20)))


def both_cuts(sessions: Sessions, history: int, seed: int = 0) -> list[Cuts]:
    return [Cuts.first(sessions, history), Cuts.random(sessions, np.random.default_rng(seed), history)]


@given(LISTS, st.integers(1, 8), st.integers(0, 10_000))
def test_cuts_part_every_session(lists: list[list[int]], history: int, seed: int) -> None:
    for cuts in both_cuts(sessions_of(lists), history, seed):
        for items, known, hits in zip(lists, cuts.history, cuts.hits, strict=True):
            assert sorted([*known, *hits]) == sorted(items)
            assert len(known) == min(history, len(items) // 2)
            assert len(hits) >= 1


@given(LISTS)
def test_the_first_items_are_known_in_their_order(lists: list[list[int]]) -> None:
    for items, known, hits in zip(lists, *vars_of(Cuts.first(sessions_of(lists), 3)), strict=True):
        assert [*known, *hits] == items


def vars_of(cuts: Cuts) -> tuple[Ragged, Ragged]:
    return cuts.history, cuts.hits


def test_repeated_items_count_once() -> None:
    cuts = Cuts.first(sessions_of([[3, 3, 4, 3, 5, 4]]), 2)
    assert [list(cuts.history[0]), list(cuts.hits[0])] == [[3], [4, 5]]


def test_random_cuts_follow_the_generator_and_differ() -> None:
    sessions = grouped_sessions(20)
    one, same, other = (Cuts.random(sessions, np.random.default_rng(seed), 3) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.history.values, same.history.values)
    assert not np.array_equal(one.history.values, other.history.values)


def test_some_of_the_cuts() -> None:
    cuts = Cuts.first(sessions_of([[1, 2], [3, 4, 5, 6], [7, 8]]), 2)
    some = cuts.taken(np.array([2, 1]))
    assert [list(one) for one in some.hits] == [[8], [5, 6]]
    assert [list(one) for one in some.sessions.items] == [[7, 8], [3, 4, 5, 6]]


@given(LISTS, st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
def test_singles_are_one_item_called_rightly_and_never_known(
    lists: list[list[int]], seed: int, hits: int, misses: int
) -> None:
    rng = np.random.default_rng(seed)
    cuts = Cuts.random(sessions_of(lists), rng, 4)
    slates = singles(cuts, rng, hits, misses)
    assert (slates.shown.lengths == 1).all()
    for known, item, outcome in zip(slates.history, slates.shown.values, slates.outcome, strict=True):
        assert item not in known
        rests = [set(rest) for one, rest in zip(*vars_of(cuts), strict=True) if list(one) == list(known)]
        assert outcome in [float(item in rest) for rest in rests]


def test_singles_are_as_many_as_asked_for() -> None:
    cuts = Cuts.first(grouped_sessions(200, length=10), 3)  # seven hits a session
    slates = singles(cuts, np.random.default_rng(0), hits=5, misses=3)
    chosen = slates.outcome.sum()
    assert chosen >= 200 * 5, "others that happen to be hits are called so"
    assert 200 * 5 * 3 * 0.5 < len(slates) - chosen < 200 * 5 * 3
    assert len(np.unique(slates.shown.values)) == cuts.sessions.n_items


def test_hits_are_not_asked_for_twice() -> None:
    cuts = Cuts.first(sessions_of([[1, 2, 3, 4]]), 2)
    slates = singles(cuts, np.random.default_rng(0), hits=9, misses=1)
    assert {3, 4} <= set(slates.shown.values)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from(["swap", "knn"]))
def test_own_slates_show_nothing_known_and_are_judged_by_the_rest(seed: int, k: int, ranker: str) -> None:
    sessions = grouped_sessions(12, seed)
    model = exported(random_network(Shape(dim=4, heads=1), seed), sessions.ids, {})
    for cuts in both_cuts(sessions, 3, seed):
        slates = own_slates(model, cuts, k, ranker)
        assert len(slates) == len(sessions)
        outcomes = np.split(slates.outcome, slates.shown.offsets[1:-1])
        for known, hits, shown, outcome in zip(*vars_of(cuts), slates.shown, outcomes, strict=True):
            assert 1 <= len(shown) <= k
            assert not set(shown) & set(known)
            np.testing.assert_array_equal(outcome, np.isin(shown, hits))
        np.testing.assert_array_equal(slates.history.values, cuts.history.values)


def test_judged_knows_whose_hit_it_is() -> None:
    cuts = Cuts.first(sessions_of([[1, 2], [3, 4]]), 1)
    np.testing.assert_array_equal(cuts.judged(Ragged.of([[2, 4], [4, 2]])), [1, 0, 1, 0])


@pytest.mark.parametrize("seed", range(3))
def test_the_model_that_knows_the_groups_has_more_hits(seed: int) -> None:
    """The judge of own slates tells a model with the truth from one without."""
    sessions = grouped_sessions(60, seed)
    network = random_network(Shape(dim=3, heads=1, base=True, sink=True, reading="mean"), seed)
    random = exported(network, sessions.ids, {})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.items.correction.weight.copy_(torch.eye(3).repeat_interleave(ITEMS // 3, 0))
        for layer in (network.base, network.user_base):
            layer.weight.copy_(3 * torch.eye(3))
    knowing = exported(network, sessions.ids, {})
    cuts = Cuts.first(sessions, 3)
    assert own_slates(knowing, cuts, 3).outcome.mean() > own_slates(random, cuts, 3).outcome.mean() + 0.05
