"""LP search, and what it promises to the rankers built on it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput, SetwiseError
from setwise.model.constraints import Constraints
from setwise.preferences import SequentialVariety
from setwise.ranking.beam import beam
from setwise.ranking.exhaustive import exhaustive
from setwise.ranking.greedy import greedy
from setwise.ranking.linear_program import LinearProgram
from setwise.ranking.lp_search import (
    MAX_UNPRODUCTIVE,
    NO_ROWS,
    CandidateSolutions,
    DenominatorRows,
    _combinations,
    lp_search,
)
from setwise.ranking.thresholds import ThresholdRows, thresholds
from worlds import REWARDS, random_instance

both = pytest.mark.parametrize("ranker", [lp_search, thresholds], ids=["lp_search", "thresholds"])


# --- what both rankers promise ---


@both
@examples(10)
@given(
    seed=st.integers(0, 10**6),
    heads=st.integers(1, 3),
    base=st.booleans(),
    sink=st.booleans(),
    sharpness=st.sampled_from([0.3, 1.0, 6.0, 1000.0]),
    k=st.integers(1, 4),
)
def test_between_greedy_and_the_truth(ranker, seed: int, heads: int, base: bool, sink: bool, sharpness: float, k: int):
    instance = random_instance(seed, heads=heads, base=base, sink=sink, sharpness=sharpness, rewards=REWARDS)
    constraints = Constraints.of(instance, k)
    ranking = ranker(instance, constraints, solutions=20)
    assert constraints.admits(ranking.indices)
    assert ranking.value == instance.value(ranking.indices)
    assert ranking.value <= exhaustive(instance, constraints).value * (1 + 1e-9) + 1e-9
    assert ranking.value >= greedy(instance, constraints).value * (1 - 1e-12) - 1e-12, "greedy is a candidate solution"


@both
def test_share_of_small_optima(ranker, count, record_property) -> None:
    """The optimum of nearly all small instances is found; how many is reported."""
    shares = []
    for seed in range(count(100)):
        instance = random_instance(seed, n=14, heads=1 + seed % 3, sharpness=(0.5, 3.0)[seed % 2])
        constraints = Constraints.of(instance, 4)
        shares.append(ranker(instance, constraints).value / exhaustive(instance, constraints).value)
    record_property("optimal", float(np.mean(np.array(shares) > 1 - 1e-9)))
    assert max(shares) <= 1 + 1e-9
    assert np.mean(np.array(shares) > 1 - 1e-9) >= 0.9
    assert np.mean(shares) >= 0.995


@both
@pytest.mark.parametrize("reward", REWARDS, ids=lambda reward: type(reward).__name__)
def test_every_reward_family(ranker, reward) -> None:
    instance = random_instance(11, n=10, heads=2, base=True, sink=True, sharpness=3.0, rewards=[reward])
    constraints = Constraints.of(instance, 3)
    ranking = ranker(instance, constraints)
    assert ranking.value == pytest.approx(exhaustive(instance, constraints).value, rel=1e-9)


@both
def test_trace_and_budget(ranker) -> None:
    instance = random_instance(3, n=60, heads=2, sharpness=4.0)
    constraints = Constraints.of(instance, 5)
    long = ranker(instance, constraints, solutions=40)
    assert len(long.trace) == 40
    assert (np.diff(long.trace) >= 0).all()
    assert long.trace[-1] == long.value
    assert long.evaluations >= 40
    short = ranker(instance, constraints, solutions=7)
    np.testing.assert_array_equal(short.trace, long.trace[:7])
    assert long.trace[0] == pytest.approx(greedy(instance, constraints).value, rel=1e-12)


@both
def test_ends_early_when_few_sets_are_left(ranker) -> None:
    instance = random_instance(4, n=4)
    ranking = ranker(instance, Constraints.of(instance, 2))
    assert 1 <= len(ranking.trace) <= 4 + 6
    assert ranking.value == pytest.approx(exhaustive(instance, Constraints.of(instance, 2)).value)


@both
def test_seeds(ranker) -> None:
    instance = random_instance(5, n=60, heads=2, sharpness=4.0)
    constraints = Constraints.of(instance, 6)
    one, again, other = (ranker(instance, constraints, solutions=60, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.indices, again.indices)
    np.testing.assert_array_equal(one.trace, again.trace)
    assert one.evaluations == again.evaluations
    assert one.evaluations != other.evaluations, "another seed makes other guesses"


@both
@examples(10)
@given(seed=st.integers(0, 10**6))
def test_constraints(ranker, seed: int) -> None:
    instance = random_instance(seed, n=16, heads=2, sharpness=3.0, attributes={"artist": [i % 4 for i in range(16)]})
    rng = np.random.default_rng(seed)
    exclude, include = np.split(rng.permutation(16)[:6], [4])
    if include[0] % 4 == include[1] % 4:
        include = include[:1]
    constraints = Constraints.of(instance, 4, exclude, include, at_most={"artist": 1})
    ranking = ranker(instance, constraints)
    assert constraints.admits(ranking.indices)
    assert ranking.value <= exhaustive(instance, constraints).value * (1 + 1e-9)


@both
def test_everything_pinned(ranker) -> None:
    instance = random_instance(6)
    ranking = ranker(instance, Constraints.of(instance, 3, include=[1, 5, 7]))
    assert sorted(ranking.indices.tolist()) == [1, 5, 7]
    assert len(ranking.trace) == 1


@both
@pytest.mark.parametrize("excluded", [[], [3]])
def test_nothing_may_join_the_pinned_items(ranker, excluded: list[int]) -> None:
    instance = random_instance(6, n=3 + len(excluded))
    ranking = ranker(instance, Constraints.of(instance, 4, include=[0, 1, 2], exclude=excluded))
    assert sorted(ranking.indices.tolist()) == [0, 1, 2]


@both
def test_ordered_slates(ranker) -> None:
    instance = random_instance(8, n=5, positions=3)
    constraints = Constraints.of(instance, 3)
    ranking = ranker(instance, constraints)
    assert constraints.admits(ranking.indices)
    assert ranking.value == pytest.approx(exhaustive(instance, constraints).value, rel=1e-9)


@both
def test_at_least_as_good_as_beam_search(ranker, count) -> None:
    """At 100 candidate solutions, on average over sharp instances."""
    gains = []
    for seed in range(count(40)):
        instance = random_instance(seed, n=80, heads=1 + seed % 2, d=8, sharpness=2.0, rewards=[sw.Logistic(1.0, -4.0)])
        constraints = Constraints.of(instance, 5)
        gains.append(ranker(instance, constraints).value / beam(instance, constraints).value - 1)
    assert np.mean(gains) >= 0


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solutions": 0}, "solutions"),
        ({"solutions": 2.5}, "solutions"),
        ({"clusters": 0}, "clusters"),
        ({"clusters": True}, "clusters"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_options(ranker, options, message: str) -> None:
    instance = random_instance(0)
    with pytest.raises(InvalidInput, match=message):
        ranker(instance, Constraints.of(instance, 3), **options)


@both
def test_a_solver_that_gives_up_costs_a_guess(ranker, monkeypatch) -> None:
    def give_up(self, *args, **others):
        raise SetwiseError("no")

    monkeypatch.setattr(LinearProgram, "maximise", give_up)
    instance = random_instance(2)
    constraints = Constraints.of(instance, 3)
    assert ranker(instance, constraints).value >= greedy(instance, constraints).value


@both
def test_a_defect_of_the_rows_is_not_hidden(ranker, monkeypatch) -> None:
    def refuse(self, *args, **others):
        raise InvalidInput("rows", "right", "wrong", "mend them")

    monkeypatch.setattr(LinearProgram, "maximise", refuse)
    instance = random_instance(2)
    with pytest.raises(InvalidInput, match="rows"):
        ranker(instance, Constraints.of(instance, 3))


# --- LP search alone ---


def test_openings_are_greedy_anchors_combinations_and_the_others() -> None:
    instance = random_instance(9, n=20)
    pool = CandidateSolutions(instance, Constraints.of(instance, 5), 100)
    first, *others = _combinations(pool, 3)
    anchors, others, singles = others[:20], others[20:36], others[36:]
    assert len(first.known) == 0
    assert not first.linear
    ranked = np.argsort(-np.array([instance.value([i]) for i in range(20)]))
    best = ranked[:3]
    combinations = {frozenset(best[list(chosen)].tolist()) for chosen in product((True, False), repeat=3)}
    assert {frozenset(guess.known.tolist()) for guess in others} == combinations
    assert [guess.linear for guess in others] == [False, True] * 8, "each filled up and linearised"
    assert [guess.known.tolist() for guess in anchors] == [[item] for item in ranked]
    assert not any(guess.linear for guess in anchors)
    for guess in others:
        assert set(guess.known.tolist()) | set(guess.out.tolist()) == set(best.tolist())
    chosen = set(greedy(instance, pool.constraints).indices.tolist())
    distance = [len((set(guess.known.tolist()) ^ chosen) & set(best.tolist())) for guess in others]
    assert distance == sorted(distance)
    assert [guess.known.tolist() for guess in singles] == [[item] for item in ranked[3:]], "then programs at the others"
    assert all(guess.linear for guess in singles)


def test_combinations_keep_limits() -> None:
    instance = random_instance(9, n=8, attributes={"one": [0] * 8})
    pool = CandidateSolutions(instance, Constraints.of(instance, 3, at_most={"one": 1}), 100)
    assert all(len(guess.known) <= 1 for guess in _combinations(pool, 3))


@examples(20)
@given(seed=st.integers(0, 10**6), heads=st.integers(1, 2), sink=st.booleans(), clusters=st.sampled_from([3, 100]))
def test_rows_promise_an_average(seed: int, heads: int, sink: bool, clusters: int) -> None:
    """The known set satisfies its rows, and who satisfies them gives every cluster in use θ/t or more."""
    instance = random_instance(seed, heads=heads, sink=sink)
    programs = DenominatorRows(instance, Constraints.of(instance, 4), clusters)
    rng = np.random.default_rng(seed)
    known = rng.choice(12, 3, replace=False)
    used = programs.clusters.used_by(known)
    rows, low = programs.rows(used, known)
    assert len(rows) == 2 * heads * len(used)
    assert (rows[:, known].sum(axis=1) >= low - 1e-9).all()
    least = np.minimum(instance.score.min(axis=1), 0.0 if instance.sink_score is None else instance.sink_score)
    numerator, denominator = programs.clusters.sums(used, known)
    promised = (numerator / denominator - least[:, None]) / (1 + 0.1)  # the first σ of the grid
    for _ in range(20):
        other = rng.choice(12, 4, replace=False)
        if (rows[:, other].sum(axis=1) >= low).all():
            n, d = programs.clusters.sums(used, other)
            assert (n / d - least[:, None] >= promised - 1e-9).all()


def test_a_known_set_is_feasible_beside_a_heavy_sink() -> None:
    """A sink of weight e^M and values of size e^M make sums of which the leading digits cancel."""
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(10, 3))
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    model = SequentialVariety(rng.lognormal(0.0, 0.5, 10), embedding, 0.8 ** np.arange(4), -0.5)
    instance = sw.Instance.from_catalog(model.to_catalog(1e-4), model.user(), np.arange(10))
    constraints = Constraints.of(instance, 5)
    pool = CandidateSolutions(instance, constraints, 10)
    known = pool.partial_set(greedy(instance, constraints).indices, NO_ROWS)
    for programs in (DenominatorRows(instance, constraints, 64), ThresholdRows(instance, constraints, 64)):
        rounded = programs.round_vertex(known, known.chosen, NO_ROWS)
        np.testing.assert_array_equal(rounded, np.sort(known.chosen))


def test_fractional_entries(monkeypatch) -> None:
    """At most 2 for each cluster in use, and one: the paper's 2r + 2 has one more for ζ, which is not a row here."""
    seen = _vertices(monkeypatch)
    instance = random_instance(1, n=60, sharpness=4.0)
    lp_search(instance, Constraints.of(instance, 6), clusters=8)
    assert seen
    assert all(fractional <= rows for fractional, rows in seen)
    assert max(rows for _, rows in seen) <= 2 * 6 + 1


def _vertices(monkeypatch) -> list[tuple[int, int]]:
    """(fractional entries, rows) of every vertex from now on."""
    seen: list[tuple[int, int]] = []
    original = LinearProgram.maximise

    def recorded(self, objective, *, rows, **others):
        vertex = original(self, objective, rows=rows, **others)
        if vertex is not None:
            seen.append((len(vertex.fractional), len(rows)))
        return vertex

    monkeypatch.setattr(LinearProgram, "maximise", recorded)
    return seen


@pytest.mark.parametrize("top", [0, 13])
def test_top_is_limited(top: int) -> None:
    instance = random_instance(0)
    with pytest.raises(InvalidInput, match="top must be"):
        lp_search(instance, Constraints.of(instance, 3), top=top)


def test_patience_is_counted_in_a_row() -> None:
    instance = random_instance(0, n=5)
    pool = CandidateSolutions(instance, Constraints.of(instance, 2), 100)
    with pytest.raises(SetwiseError, match="defect"):
        pool.ranking()
    for _ in range(MAX_UNPRODUCTIVE):
        pool.add(pool.partial_set(NO_ROWS, NO_ROWS))
    assert pool.may_continue, "the first was new"
    pool.add(pool.partial_set(NO_ROWS, NO_ROWS))
    assert not pool.may_continue
    assert pool.add(pool.partial_set(np.array([0]), np.array([1, 2]))) is not None
    assert pool.may_continue
