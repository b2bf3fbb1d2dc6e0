"""Beam search does what its definition says: tuples, their order, prefixes computed once, widths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequential_variety import SequentialVariety

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.ranking.partial_set import PartialSet
from worlds import REWARDS, random_instance

INCREASING = (REWARDS[0], REWARDS[1], REWARDS[4], REWARDS[5])  # strictly, so that increments are never equal
GROUPS = {"artist": [f"artist {i % 3}" for i in range(6)]}

instances = st.builds(
    lambda seed, heads, base, sink, sharpness: random_instance(
        seed, n=6, heads=heads, base=base, sink=sink, sharpness=sharpness, rewards=INCREASING, attributes=GROUPS
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.3, 1.0, 2.0]),
)
options = st.sampled_from(
    [{}, {"include": [2]}, {"exclude": [0, 4]}, {"at_most": {"artist": 1}}, {"include": [1], "at_most": {"artist": 1}}]
)


class ByReference:
    """The definition, tuple by tuple, nothing shared: every value is those of the reference objective."""

    def __init__(self, instance: sw.Instance, k: int, **options) -> None:
        self.instance, self.constraints = instance, Constraints.of(instance, k, **options)
        self.expanded: dict[tuple[int, ...], int] = {}  # a prefix: how many might join it

    def joiners(self, chosen: list[int]) -> list[int]:
        allowed = [c for c in range(self.instance.m) if c not in chosen and self.constraints.admits([*chosen, c])]
        self.expanded[tuple(chosen)] = len(allowed)
        return sorted(allowed, key=lambda c: -self.instance.value([*chosen, c]))

    def sets_of(self, branching: tuple[int, ...]) -> list[list[int]] | None:
        """The sets passed by this tuple; None when it does not exist."""
        passed = [self.constraints.pinned.tolist()]
        for b in branching:
            ranked = self.joiners(passed[-1])
            if not ranked and b == 1:
                continue  # the slate is full before k
            if b > len(ranked):
                return None
            passed.append([*passed[-1], ranked[b - 1]])
        return [chosen for chosen in passed if chosen]

    def trace(self, solutions: int) -> list[float]:
        steps = self.constraints.k - len(self.constraints.pinned)
        tuples = itertools.product(range(1, self.instance.m + 1), repeat=steps)
        best, trace = -np.inf, []
        self.expanded.clear()
        for branching in sorted(tuples, key=lambda b: (sum(b), [-part for part in b])):
            if len(trace) == solutions:
                break
            expanded = dict(self.expanded)
            passed = self.sets_of(branching)
            if passed is None:
                self.expanded = expanded
                continue
            best = max(best, *map(self.instance.value, passed))
            trace.append(best)
        return trace


@examples(40)
@given(instances, st.integers(1, 3), options, st.sampled_from([1, 2, 7, 30, 1000]))
def test_the_definition(instance: sw.Instance, k: int, options, solutions: int) -> None:
    """The same best values after each candidate solution, the same number of them, no prefix evaluated twice."""
    slow = ByReference(instance, k, **options)
    expected = slow.trace(solutions)
    ranking = sw.rank(instance, k, "beam", solutions=solutions, **options)
    np.testing.assert_allclose(ranking.trace, expected, rtol=1e-9)
    assert ranking.value == pytest.approx(expected[-1], rel=1e-9)
    assert ranking.evaluations == sum(slow.expanded.values()) + len(slow.constraints.pinned)
    assert (np.diff(ranking.trace) >= 0).all()


def additive(m: int) -> sw.Instance:
    """Everyone attends to itself alone: increments are the scores, m for the first candidate to 1 for the last."""
    return sw.Instance.from_weights(np.eye(m), np.arange(m, 0, -1.0), reward=sw.Linear())


def ranks(members: list[int], m: int) -> tuple[int, ...]:
    """The tuple that chose these members, in this order, of an additive instance."""
    left, result = list(range(m)), []
    for c in members:
        result.append(left.index(c) + 1)
        left.remove(c)
    return tuple(result)


def tuples_tried(monkeypatch: pytest.MonkeyPatch, m: int, k: int, solutions: int) -> list[tuple[int, ...]]:
    tried = []
    greedy_extensions = PartialSet.greedy_extensions

    def spied(self: PartialSet, rank: int, until: float) -> list[PartialSet]:
        sets = greedy_extensions(self, rank, until)
        tried.append(ranks(sets[-1].chosen.tolist(), m))
        return sets

    monkeypatch.setattr(PartialSet, "greedy_extensions", spied)
    sw.rank(additive(m), k, "beam", solutions=solutions)
    return tried


def test_total_branching_grows_and_early_changes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuples_tried(monkeypatch, 9, 3, 11) == [
        (1, 1, 1),
        (2, 1, 1),
        (1, 2, 1),
        (1, 1, 2),
        (3, 1, 1),
        (2, 2, 1),
        (2, 1, 2),
        (1, 3, 1),
        (1, 2, 2),
        (1, 1, 3),
        (4, 1, 1),
    ]


@pytest.mark.parametrize(("m", "k"), [(4, 4), (6, 3), (5, 1)])
def test_every_tuple_that_exists_is_tried_once(monkeypatch: pytest.MonkeyPatch, m: int, k: int) -> None:
    every = itertools.product(*(range(1, m - step + 1) for step in range(k)))
    expected = sorted(every, key=lambda b: (sum(b), [-part for part in b]))
    assert tuples_tried(monkeypatch, m, k, 10**6) == expected


@examples(40)
@given(instances, st.integers(1, 5), options)
def test_one_solution_is_greedy(instance: sw.Instance, k: int, options) -> None:
    greedy = sw.rank(instance, k, "greedy", **options)
    for option in ("solutions", "width"):
        one = sw.rank(instance, k, "beam", **{option: 1}, **options)
        np.testing.assert_array_equal(one.indices, greedy.indices)
        assert (one.value, one.evaluations) == (greedy.value, greedy.evaluations)


def test_a_hundred_solutions_unless_told() -> None:
    ranking = sw.rank(random_instance(1, n=20), 5, "beam")
    assert len(ranking.trace) == 100
    assert ranking.trace[-1] == pytest.approx(ranking.value)


def test_nothing_to_choose() -> None:
    """All pinned: one candidate solution, the pinned set."""
    instance = random_instance(2)
    for option in ({}, {"width": 3}):
        ranking = sw.rank(instance, 2, "beam", include=[4, 7], **option)
        assert sorted(ranking.indices.tolist()) == [4, 7]
        assert ranking.evaluations == 1
        assert ranking.trace.size == (0 if option else 1)


# --- a budget ---


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_that_is_not_used_up_changes_nothing(seed: int) -> None:
    """A quarter of an hour: the best of a growth is among the sets that are expected to be worth most."""
    instance = random_instance(seed, n=8, heads=2, sink=True, rewards=REWARDS)
    for option in ({"solutions": 30}, {"width": 3}):
        free = sw.rank(instance, 6, "beam", **option)
        timed = sw.rank(instance, 6, "beam", budget_ms=1e6, **option)
        np.testing.assert_array_equal(timed.indices, free.indices)
        np.testing.assert_allclose(timed.solutions, free.solutions)
        assert timed.evaluations == free.evaluations


def test_a_set_is_filled_up_after_its_time() -> None:
    """One step, and then the candidates that were worth most in it."""
    instance = additive(6)
    constraints = Constraints.of(instance, 4)
    step, filled = PartialSet.from_pinned(instance, constraints).greedy_extensions(2, until=0.0)
    assert (step.chosen.tolist(), filled.chosen.tolist()) == ([1], [1, 0, 2, 3])
    assert step.expected == 5.0
    for option, first in (({"solutions": 9}, 1), ({"width": 2}, 0)):
        ranking = sw.rank(instance, 4, "beam", budget_ms=1e-6, **option)
        assert sorted(ranking.indices.tolist()) == [0, 1, 2, 3]
        assert len(ranking.trace) == first


def test_a_set_that_is_filled_up_keeps_limits() -> None:
    for seed in range(4):
        instance = random_instance(seed, n=6, attributes=GROUPS)
        constraints = Constraints.of(instance, 4, at_most={"artist": 1})
        *_, filled = PartialSet.from_pinned(instance, constraints).greedy_extensions(1, until=0.0)
        assert sorted(filled.chosen % 3) == [0, 1, 2]


def test_places_are_filled_up_after_its_time() -> None:
    """A step ranks the pairs of one place; those of the places after it are filled with any that may be added."""
    instance = random_instance(5, n=4, positions=3)
    *_, filled = PartialSet.from_pinned(instance, Constraints.of(instance, 3)).greedy_extensions(1, until=0.0)
    assert instance.positions[filled.chosen].tolist() == [0, 1, 2]
    used = instance.candidates[filled.chosen]
    for place, pair in enumerate(filled.chosen.tolist()):
        free = (instance.positions == place) & ~np.isin(instance.candidates, used[:place])
        assert place == 0 or pair == np.flatnonzero(free)[0]


@pytest.mark.parametrize("seed", range(8))
def test_the_best_set_of_a_level_is_filled_up_after_its_time(seed: int) -> None:
    """The best item, the best beside it, and then those that were best beside it: no other set of the level is used."""
    instance = random_instance(
        seed, n=9, heads=2, sharpness=3.0, rewards=(sw.Linear(1.0, 8.0),)
    )  # more items, more value
    order = sorted(range(9), key=lambda c: -instance.value([c]))
    beside = sorted(order[1:], key=lambda c: -instance.value([order[0], c]))
    for k in (2, 5):
        ranking = sw.rank(instance, k, "beam", width=3, budget_ms=1e-6)
        assert sorted(ranking.indices.tolist()) == sorted([order[0], *beside[: k - 1]])


def test_candidates_are_counted_once_they_are_valued() -> None:
    partial = PartialSet.from_pinned(additive(6), Constraints.of(additive(6), 4))
    assert partial.evaluations == 0
    assert len(partial.ranked) == 6
    assert partial.evaluations == 6


# --- what one step computes ---


@pytest.mark.parametrize("rewards", [REWARDS[:1], REWARDS[:2], REWARDS[:3], REWARDS], ids=len)
def test_values_of_all_candidates_at_once(rewards) -> None:
    instance = random_instance(4, n=9, heads=2, base=True, sink=True, rewards=rewards)
    partial = PartialSet.from_pinned(instance, Constraints.of(instance, 5, include=[2, 6], exclude=[1]))
    np.testing.assert_allclose(partial.values, [instance.value([2, 6, c]) for c in partial.ranked])
    assert sorted(partial.ranked.tolist()) == [0, 3, 4, 5, 7, 8]
    assert (np.diff(partial.values) <= 0).all()


def test_values_of_more_members_than_are_computed_at_once() -> None:
    rng = np.random.default_rng(6)
    instance = sw.Instance(rng.normal(size=(900, 900)), rng.normal(size=900), base=rng.normal(size=900))
    members = rng.choice(900, 21, replace=False)
    partial = PartialSet.from_pinned(instance, Constraints.of(instance, 22, include=members))
    for place in (0, 1, 400, 878):
        assert partial.values[place] == pytest.approx(instance.value([*members, partial.ranked[place]]), rel=1e-12)


def test_values_beyond_the_doubles_are_ranked() -> None:
    """+∞ first, −∞ and what is not a number last; a set without a value is never the best."""
    rewards = ([sw.Exp(), sw.Exp(-1.0), sw.Linear()], [1, 0, 1, 2])
    instance = sw.Instance.from_weights(np.eye(4), [-900.0, 900.0, -900.0, 1.0], reward=rewards)
    empty = PartialSet.from_pinned(instance, Constraints.of(instance, 2))
    assert empty.ranked.tolist() == [1, 3, 0, 2]
    assert empty.values.tolist() == [np.inf, 1.0, -np.inf, -np.inf]
    after = empty.add(np.intp(1))
    assert after.ranked.tolist() == [3, 0, 2]
    assert after.values.tolist() == [np.inf, -np.inf, -np.inf]
    assert after.add(np.intp(0)).value == -np.inf
    assert sw.rank(instance, 1, "beam", exclude=[1]).indices.tolist() == [3]


def test_an_item_that_attends_to_nothing_has_average_zero() -> None:
    logit = np.zeros((3, 3))
    logit[0] = -np.inf
    instance = sw.Instance(logit, [4.0, 2.0, 5.0], sw.Linear())
    partial = PartialSet.from_pinned(instance, Constraints.of(instance, 2))
    assert dict(zip(partial.ranked.tolist(), partial.values.tolist(), strict=True)) == {0: 0.0, 1: 2.0, 2: 5.0}


# --- what callers are told ---


@pytest.mark.parametrize("option", [{}, {"width": 4}])
def test_lower_limits_are_kept(option) -> None:
    for seed in range(4):
        instance = random_instance(seed, n=6, rewards=INCREASING, attributes=GROUPS)
        ranking = sw.rank(instance, 3, "beam", at_least={"artist": {"artist 2": 2}}, **option)
        assert {2, 5} <= set(ranking.indices.tolist())


def test_a_service_offers_it_up_to_a_smaller_k() -> None:
    pytest.importorskip("msgspec")
    from setwise.service.decoding import decode_recommend
    from setwise.service.http_errors import HttpError
    from setwise.service.settings import Settings

    body = '{{"history": [], "ranker": "beam", "k": {}}}'
    assert decode_recommend(body.format(4).encode(), Settings(slow_k=4)).ranker == "beam"
    with pytest.raises(HttpError, match="k must be at most 4 with the ranker beam, got 5"):
        decode_recommend(body.format(5).encode(), Settings(slow_k=4))


# --- the usual beam ---


def beam_by_reference(instance: sw.Instance, k: int, width: int, **options) -> float:
    constraints = Constraints.of(instance, k, **options)
    level = {frozenset(constraints.pinned.tolist())}
    seen = set(level)
    while level:
        grown = {s | {c} for s in level for c in range(instance.m) if c not in s and constraints.admits([*s, c])}
        level = set(sorted(grown, key=lambda s: -instance.value(sorted(s)))[:width])
        seen |= level
    return max(instance.value(sorted(s)) for s in seen if s)


@examples(40)
@given(instances, st.integers(1, 4), options, st.integers(1, 12))
def test_the_best_distinct_sets_of_every_level(instance: sw.Instance, k: int, options, width: int) -> None:
    ranking = sw.rank(instance, k, "beam", width=width, **options)
    assert ranking.value == pytest.approx(beam_by_reference(instance, k, width, **options), rel=1e-9)


@examples(40)
@given(instances, st.integers(1, 5), options)
def test_a_beam_wide_enough_tries_everything(instance: sw.Instance, k: int, options) -> None:
    everything = sw.rank(instance, k, "exhaustive", **options)
    wide = sw.rank(instance, k, "beam", width=10**9, **options)
    assert wide.value == pytest.approx(everything.value, rel=1e-9)


# --- ordered slates ---


@examples(30)
@given(instances, st.integers(1, 4), options, st.sampled_from(["first", "last"]))
def test_tuples_of_one_place(instance: sw.Instance, k: int, options: dict, order: str) -> None:
    """(j, 1, …, 1) and (1, …, 1, j) by the definition, j = 1, 2, …"""
    places = k - len(options.get("include", ()))
    if places < 1:
        return
    made = sw.rank(instance, k, "beam", solutions=4, order=order, **options)
    greedy = ByReference(instance, k, **options).sets_of(places * (1,))
    places += len(greedy[-1]) - k  # limits may fill a slate before k
    for j, value in enumerate(made.solutions, 1):
        branching = (j, *(places - 1) * [1]) if order == "first" else (*(places - 1) * [1], j)
        passed = ByReference(instance, k, **options).sets_of(branching)
        full = instance.value(passed[-1])
        if order == "last" and j > 1:
            assert value == pytest.approx(full)
        assert value >= full - 1e-9
    if order == "last":
        assert made.trace.max() == pytest.approx(made.trace[0]), "it never improves on greedy"


def test_all_sequences_are_within_reach() -> None:
    """Every sequence without gaps is a tuple; the model itself says which is best."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(5, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        model = SequentialVariety(rng.lognormal(size=5), x, [1.0, 0.7, 0.5], rng.normal())
        instance = sw.Instance.from_catalog(model.to_catalog(1e-7), model.user(), np.arange(5))
        best = max(model.value(s) for length in (1, 2, 3) for s in itertools.permutations(range(5), length))
        for option in ({"solutions": 10**6}, {"width": 10**6}):
            ranking = sw.rank(instance, 3, "beam", **option)
            places = sorted(instance.positions[ranking.indices].tolist())
            assert places == list(range(len(places)))
            assert ranking.value == pytest.approx(best, abs=2e-7)
        assert len(sw.rank(instance, 3, "beam", solutions=10**6).trace) == 5 * 4 * 3


# --- refused ---


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"solutions": 0}, "solutions must be a whole number of at least 1, got 0; pass 1 or more."),
        ({"width": 2.5}, "width must be a whole number of at least 1, got 2.5; pass an int."),
        (
            {"solutions": 5, "width": 5},
            "solutions or order, and width must be given one at a time, got both; drop one.",
        ),
        (
            {"order": "first", "width": 5},
            "solutions or order, and width must be given one at a time, got both; drop one.",
        ),
        ({"order": "middle"}, "order must be one of total, first, last, got 'middle'; choose one of those."),
    ],
)
def test_invalid_arguments(options, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sw.rank(random_instance(0), 3, "beam", **options)
    assert str(caught.value) == sentence
