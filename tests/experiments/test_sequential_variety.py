"""Model 1 and its transformer agree within eps on every sequence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sequential_variety import SequentialVariety

import setwise as sw
from setwise.errors import InvalidInput

N, K = 8, 6


def random_model(seed: int) -> SequentialVariety:
    """Signed embeddings, some coordinates and lag weights exactly zero, β of either sign."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    x = rng.normal(size=(N, d)) * (rng.random((N, d)) < 0.9)
    x[np.linalg.norm(x, axis=1) == 0, 0] = 1.0
    lags = rng.gamma(1.0, 0.5, size=K - 1) * (rng.random(K - 1) < 0.8)
    return SequentialVariety(
        rng.lognormal(size=N), x / np.linalg.norm(x, axis=1, keepdims=True), lags, float(rng.normal(scale=1.5))
    )


def direct_values(model: SequentialVariety, sequences: np.ndarray) -> np.ndarray:
    """The model's definition, term by term, for many sequences of one length."""
    total = np.zeros(len(sequences))
    for t in range(sequences.shape[1]):
        exponent = np.zeros(len(sequences))
        for lag in range(1, t + 1):
            now, before = sequences[:, t], sequences[:, t - lag]
            exponent += model.lag_weight[lag - 1] * (model.embedding[now] * model.embedding[before]).sum(axis=1)
        total += model.utility[sequences[:, t]] * np.exp(model.beta * exponent)
    return total


def transformer_values(instance: sw.Instance, sequences: np.ndarray) -> np.ndarray:
    """F of many ordered slates at once, from the instance of all (item, place) pairs."""
    pairs = sequences * K + np.arange(sequences.shape[1])
    logit = instance.logit[:, pairs[:, :, None], pairs[:, None, :]]
    sink = instance.sink_logit[:, pairs]
    top = np.maximum(logit.max(axis=3), sink)
    weight = np.exp(logit - top[..., None])
    average = (weight * instance.score[:, pairs][:, :, None, :]).sum(axis=3) / (weight.sum(axis=3) + np.exp(sink - top))
    return np.exp(instance.base[pairs] + average.sum(axis=0)).sum(axis=1)


def test_every_short_sequence_and_ten_thousand_long_ones(count) -> None:
    short = [np.array(list(itertools.permutations(range(N), length))) for length in range(1, 5)]
    for seed in range(count(200, 20)):
        model = random_model(seed)
        rng = np.random.default_rng(1000 + seed)
        eps = float(10.0 ** rng.uniform(-5, -1))
        catalog, user = model.to_catalog(eps), model.user()
        instance = sw.Instance.from_catalog(catalog, user, np.arange(N))
        long = np.argsort(rng.random((10_000, N)), axis=1)
        for sequences in (*short, long[:5000, :5], long[5000:, :6]):
            direct = direct_values(model, sequences)
            assert np.abs(transformer_values(instance, sequences) - direct).max() <= eps
            for at in rng.integers(len(sequences), size=2):  # and by the reference objective
                assert abs(sw.set_value(catalog, user, sequences[at]) - direct[at]) <= eps
                assert model.value(sequences[at]) == pytest.approx(direct[at], rel=1e-12)


def test_every_item_of_the_sequence_matches() -> None:
    model = random_model(3)
    catalog = model.to_catalog(1e-6, ids=[f"song {i}" for i in range(N)])
    rewards = sw.item_rewards(catalog, model.user(), [5, 0, 3, 7])
    np.testing.assert_allclose(rewards, model.item_utilities([5, 0, 3, 7]), atol=1e-6)
    assert catalog.ids[5] == "song 5"


def test_the_first_item_keeps_its_base_utility() -> None:
    model = random_model(1)
    assert model.item_utilities([4, 2])[0] == model.utility[4]


def test_variety_and_continuity() -> None:
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    bored = SequentialVariety([1, 1, 1], x, [1.0, 0.5], beta=-1.0)
    assert bored.value([0, 2, 1]) > bored.value([0, 1, 2])
    loyal = SequentialVariety([1, 1, 1], x, [1.0, 0.5], beta=1.0)
    assert loyal.value([0, 1, 2]) > loyal.value([0, 2, 1])


def test_single_places_and_no_effect() -> None:
    alone = SequentialVariety([2.0, 3.0], [[1.0], [-1.0]], [], beta=5.0)
    assert alone.k == 1
    assert sw.set_value(alone.to_catalog(1e-9), alone.user(), [1]) == pytest.approx(3.0, abs=1e-9)
    flat = SequentialVariety([2.0, 3.0], [[1.0], [-1.0]], [1.0], beta=0.0)
    assert sw.set_value(flat.to_catalog(1e-9), flat.user(), [1, 0]) == pytest.approx(5.0, abs=1e-9)


def test_rank_finds_the_best_sequence() -> None:
    model = random_model(11)
    instance = sw.Instance.from_catalog(model.to_catalog(1e-7), model.user(), [0, 2, 4, 6])
    places = np.flatnonzero(instance.positions >= 3)  # sequences of at most three
    best = sw.rank(instance, 3, "exhaustive", exclude=places)
    contiguous = max(
        model.value(sequence) for length in (1, 2, 3) for sequence in itertools.permutations([0, 2, 4, 6], length)
    )
    assert best.value >= contiguous - 1e-6, "slates with gaps are allowed too"


def test_what_cannot_be_reached_is_refused() -> None:
    model = random_model(0)
    with pytest.raises(InvalidInput, match=r"eps must be above 0, got 0\.0"):
        model.to_catalog(0.0)
    with pytest.raises(InvalidInput, match="which is what double precision can keep here, got 1e-30"):
        model.to_catalog(1e-30)
    with pytest.raises(
        InvalidInput, match="sequence must be at most 6 items, got 7; shorten it or pass more lag weights"
    ):
        model.value(range(7))


@pytest.mark.parametrize("size", [1e13, 1e18, 1e50, 1e100])
@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_extreme_lag_weights_never_break_the_promise_silently(size: float, beta: float) -> None:
    model = SequentialVariety([1.0, 2.0, 3.0], [[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]], [size, size], beta)
    with pytest.raises(InvalidInput, match=r"^(eps|the value of a sequence) must be "):
        model.to_catalog(1e-6)


def test_weights_beyond_the_doubles_are_refused() -> None:
    with pytest.raises(InvalidInput):
        SequentialVariety([1.0, 2.0, 3.0], [[1.0, 0], [1, 0], [0, 1]], [1e308, 1e308], -1.0).to_catalog(1e-6)
    with pytest.raises(InvalidInput, match=r"the value of a sequence must be below e\^700, got up to e\^1e\+03"):
        SequentialVariety([1.0, 2.0], [[1.0], [1.0]], [1.0], 1000.0).to_catalog(1e-30)
    with pytest.raises(InvalidInput, match="eps must be at least"):
        random_model(0).to_catalog(5e-324)
    tiny_lag_huge_beta = SequentialVariety([1.0, 2.0], [[1.0], [1.0]], [1e-95], 1e95)
    with pytest.raises(InvalidInput, match="eps must be within reach of double precision"):
        tiny_lag_huge_beta.to_catalog(1e-6)


def test_whatever_is_accepted_is_within_eps(count) -> None:
    """Sizes from the harmless to the absurd: refused, or right."""
    accepted = 0
    for seed in range(count(300, 3)):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(4, 2))
        model = SequentialVariety(
            10 ** rng.uniform(-5, 5, 4),
            x / np.linalg.norm(x, axis=1, keepdims=True),
            10 ** rng.uniform(-20, rng.choice([0, 2, 99]), 3),
            float(rng.choice([-1, 1]) * 10 ** rng.uniform(-9, rng.choice([0, 2, 90]))),
        )
        eps = float(10 ** rng.uniform(-12, 3))
        try:
            catalog = model.to_catalog(eps)
        except InvalidInput:
            continue
        accepted += 1
        for length in (2, 3, 4):
            for sequence in itertools.permutations(range(4), length):
                assert abs(sw.set_value(catalog, model.user(), sequence) - model.value(sequence)) <= eps
    assert accepted > count(300, 3) // 6
