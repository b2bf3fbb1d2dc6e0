"""Instance: built from a catalogue or from arrays, it values sets as the reference objective does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.instance import unit_rows
from worlds import REWARDS, random_catalog, random_instance


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([0.1, 1.0, 1000.0]))
def test_values_as_the_judge_does(seed: int, heads: int, base: bool, sink: bool, sharpness: float) -> None:
    catalog, user = random_catalog(seed, heads=heads, base=base, sink=sink, sharpness=sharpness, rewards=REWARDS)
    rng = np.random.default_rng(seed)
    candidates = rng.permutation(12)[:7]
    instance = sw.Instance.from_catalog(catalog, user, candidates)
    chosen = rng.permutation(7)[:4]
    np.testing.assert_allclose(
        instance.rewards_of(chosen), sw.item_rewards(catalog, user, candidates[chosen]), rtol=1e-12, atol=1e-12
    )


@given(st.integers(0, 10**6))
def test_weights_are_shifted_by_the_row_maximum(seed: int) -> None:
    instance = random_instance(seed, heads=2, sink=True, sharpness=3.0)
    largest = np.maximum(instance.weight.max(axis=2), instance.sink_weight)
    np.testing.assert_array_equal(largest, 1.0)
    logit, top = instance.logit, np.maximum(instance.logit.max(axis=2), instance.sink_logit)
    np.testing.assert_allclose(instance.weight, np.exp(logit - top[:, :, None]))
    np.testing.assert_allclose(instance.sink_weight, np.exp(instance.sink_logit - top))


def test_scaling_rows_of_given_weights_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    weight, score, scale = rng.random((5, 5)), rng.normal(size=5), rng.random((5, 1)) * 1e6
    one, other = sw.Instance.from_weights(weight, score), sw.Instance.from_weights(scale * weight, score)
    assert one.value([0, 2, 4]) == pytest.approx(other.value([0, 2, 4]), rel=1e-12)


def test_zero_weights_and_tiny_weights() -> None:
    instance = sw.Instance.from_weights([[0.0, 1.0], [0.0, 0.0]], [2.0, 3.0], reward=sw.Linear())
    assert instance.weight.tolist() == [[[0, 1], [0, 0]]]
    assert instance.value([0]) == 0.0, "item 0 attends to item 1 only"
    assert instance.value([0, 1]) == 3.0, "and item 1 to nothing"
    spread = sw.Instance([[0.0, 5000.0], [0.0, 0.0]], [1.0, 2.0], reward=sw.Linear())
    assert spread.weight.min() > 0, "a positive weight stays positive, so that no denominator vanishes"
    assert spread.value([0]) == 1.0


def test_ordered_pairs() -> None:
    catalog, user = random_catalog(1, n=4, positions=2)
    instance = sw.Instance.from_catalog(catalog, user, [3, 1])
    assert instance.candidates.tolist() == [3, 3, 1, 1]
    assert instance.positions.tolist() == [0, 1, 0, 1]
    assert instance.value([0, 3]) == pytest.approx(sw.set_value(catalog, user, [3, 1]), rel=1e-12)
    assert instance.value([2, 1]) == pytest.approx(sw.set_value(catalog, user, [1, 3]), rel=1e-12)


def test_groups_from_attributes_and_from_labels() -> None:
    catalog, user = random_catalog(1, attributes={"artist": [None, "x", "y"] * 4, "year": list(range(12))})
    instance = sw.Instance.from_catalog(catalog, user, [0, 1, 2, 4])
    assert list(instance.groups) == ["artist", "year"]
    assert len(instance.groups) == 2
    labels = instance.groups["artist"]
    assert labels[0] == -1
    assert labels[1] == labels[3] != labels[2]
    turned = instance.permuted(np.array([3, 2, 1, 0]))
    assert turned.groups["artist"].tolist() == labels[::-1].tolist()
    assert list(turned.groups) == ["artist", "year"]
    assert len(turned.groups) == 2
    assert "artist" in turned.groups
    assert "genre" not in turned.groups
    plain = sw.Instance(np.zeros((3, 3)), np.zeros(3), groups={"colour": ["red", "blue", "red"], "shelf": [5, 5, 6]})
    assert plain.groups["colour"].tolist() == [0, 1, 0]
    assert plain.groups["shelf"].tolist() == [5, 5, 6]


def test_size_and_name() -> None:
    instance = random_instance(0, heads=2)
    assert len(instance) == instance.m == 12
    assert repr(instance) == "Instance(12 candidates, 2 heads, 1 reward function)"
    np.testing.assert_allclose(instance.total_score, instance.score.sum(axis=0))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"logit": np.zeros((2, 3))},
            "logit must be an array of shape (1, 3, 3), got shape (1, 2, 3); reshape it or check its source.",
        ),
        (
            {"logit": np.full((3, 3), np.nan)},
            "logit must be −∞ or numbers of at most 1e+100 in size, got NaN, +∞ or larger ones; remove or replace such entries.",
        ),
        (
            {"score": [1, np.inf, 0]},
            "score must be finite everywhere, got inf at (0, 1); remove or replace such entries.",
        ),
        ({"base": [1, 2]}, "base must be an array of shape (3,), got shape (2,); reshape it or check its source."),
        (
            {"sink_logit": np.zeros(3)},
            "sink_logit and sink_score must be given together, got one alone; pass both or neither.",
        ),
        (
            {"candidates": [1, 2]},
            "candidates must be an array of shape (3,), got shape (2,); reshape it or check its source.",
        ),
        (
            {"logit": [[0.0, 0.0, 0.0], [0.0, 0.0, np.nan], [0.0, 0.0, 0.0]]},
            "logit must be −∞ or numbers of at most 1e+100 in size, got NaN, +∞ or larger ones; remove or replace such entries.",
        ),
        (
            {"logit": np.full((3, 3), np.inf, np.float32)},
            "logit must be −∞ or numbers of at most 1e+100 in size, got NaN, +∞ or larger ones; remove or replace such entries.",
        ),
        ({"candidates": [5, 7, 7]}, "candidates must be distinct, got 7 more than once; remove the repetition."),
        (
            {"candidates": [7, 7, 7], "positions": [0, 1, 1]},
            "(candidate, position) pairs must be distinct, got 7 more than once; remove the repetition.",
        ),
        ({"candidates": [7, 8, 7]}, "candidates must be distinct, got 7 more than once; remove the repetition."),
        (
            {"candidates": [7, 7, 7], "positions": [0, 1, 0]},
            "(candidate, position) pairs must be distinct, got 7 more than once; remove the repetition.",
        ),
        ({"groups": {"a": [1]}}, "attribute 'a' must be 3 values, one per item, got 1; align it with the items."),
        ({"groups": 5}, "groups must be a mapping {name: one value per candidate}, got 5; write groups={...}."),
        (
            {"candidates": [0.5, 1, 2]},
            "candidates must be whole numbers, one per candidate, got dtype float64; pass row numbers.",
        ),
        (
            {"score": np.zeros((1, 0)), "logit": np.zeros((0, 0))},
            "candidates must be at least one, got none; retrieve or pass some.",
        ),
    ],
)
def test_invalid_arguments(arguments, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sw.Instance(**{"logit": np.zeros((3, 3)), "score": np.zeros(3)} | arguments)
    assert str(caught.value) == sentence


def test_nobody_can_change_an_instance() -> None:
    logit = np.zeros((3, 3))
    instance = sw.Instance(logit, [1.0, 2.0, 3.0], sw.Linear(), groups={"g": ["x", None, "x"], "h": [1.5, np.nan, 1.5]})
    logit[:] = np.nan
    assert instance.value([0, 1]) == 3.0
    assert instance.groups["g"].tolist() == [0, -1, 0]
    assert instance.groups["h"].tolist() == [0, -1, 0]


def test_more_refusals() -> None:
    with pytest.raises(InvalidInput, match="candidates must be at least one, got none; loosen the filters"):
        sw.Instance.from_catalog(*random_catalog(0), [])
    with pytest.raises(InvalidInput, match="weight must be finite and at least 0, got other entries"):
        sw.Instance.from_weights([[-1.0]], [1.0])
    for wrong in (-1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="weight must be finite and at least 0, got other entries"):
            sw.Instance.from_weights([[1.0, wrong], [1.0, 1.0]], [1.0, 1.0])
    catalog, user = random_catalog(0)
    with pytest.raises(InvalidInput, match="candidates must be a set of distinct row numbers, got 3 more than once"):
        sw.Instance.from_catalog(catalog, user, [3, 3])


def test_logits_of_any_allowed_size_and_kind() -> None:
    largest = np.full((2, 2), 1e100)
    assert sw.Instance(largest, [1.0, 2.0]).value([0]) == sw.Instance(-largest, [1.0, 2.0]).value([0])
    single = np.zeros((2, 2), np.float32)
    single.flags.writeable = False
    assert sw.Instance(single, [1.0, 2.0]).logit.dtype == np.float64
    double = np.zeros((1, 2, 2))
    double.flags.writeable = False
    assert np.shares_memory(sw.Instance(double, [1.0, 2.0]).logit, double), "a read-only array is not copied"


def test_a_single_candidate() -> None:
    instance = sw.Instance([[0.0]], [2.0], sw.Linear(), candidates=np.array([9], np.uint8))
    assert instance.value([0]) == 2.0
    assert instance.candidates.tolist() == [9]


@pytest.mark.parametrize("parts", [{}, {"heads": 2, "base": True, "sink": True}, {"positions": 2, "n": 4}])
def test_permuted_is_the_same_problem(parts) -> None:
    instance = random_instance(5, rewards=REWARDS, **parts)
    order = np.random.default_rng(0).permutation(instance.m)
    turned = instance.permuted(order)
    chosen = np.argsort(order)[:3]  # where the first three are now
    np.testing.assert_allclose(turned.rewards_of(chosen), instance.rewards_of([0, 1, 2]), rtol=1e-12)
    np.testing.assert_array_equal(turned.candidates, instance.candidates[order])
    np.testing.assert_allclose(turned.similarity, instance.similarity[np.ix_(order, order)], rtol=1e-12)
    assert [labels.tolist() for labels in turned.exclusive] == [labels[order].tolist() for labels in instance.exclusive]
    if instance.positions is not None:
        np.testing.assert_array_equal(turned.positions, instance.positions[order])


def test_logits_do_not_depend_on_the_order_of_candidates() -> None:
    """To the last bit, although rounding in a product of matrices depends on the order of its rows."""
    catalog, user = random_catalog(7, n=61, heads=2, d=33, sink=True)
    for count in range(2, 61):
        sorted_rows = np.arange(count)
        plain = sw.Instance.from_catalog(catalog, user, sorted_rows)
        for order in (sorted_rows[::-1], np.roll(sorted_rows, 1), np.r_[0, sorted_rows[:0:-1]]):
            other = sw.Instance.from_catalog(catalog, user, order)
            np.testing.assert_array_equal(other.logit, plain.logit[:, order[:, None], order])
            np.testing.assert_array_equal(other.sink_logit, plain.sink_logit[:, order])


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_similarities_are_cosines_at_any_scale(scale: float) -> None:
    rows = unit_rows(scale * np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.0, -2.0, 0.0], [0.5, 0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8, 0], [0, 0, 0], [0, -1, 0], [1, 0, 0]], rtol=1e-12)


@pytest.mark.parametrize("base", [False, True])
def test_similarity_is_that_of_the_embeddings(base: bool) -> None:
    catalog, user = random_catalog(2, heads=2, base=base)
    instance = sw.Instance.from_catalog(catalog, user, [4, 1, 7])
    vectors = (catalog.base if base else catalog.value.reshape(12, -1))[[4, 1, 7]].astype(float)
    length = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(instance.similarity, vectors @ vectors.T / np.outer(length, length), rtol=1e-12)
    assert sw.Instance(np.zeros((2, 2)), [1.0, 2.0]).similarity.tolist() == [[1, 0], [0, 1]]
