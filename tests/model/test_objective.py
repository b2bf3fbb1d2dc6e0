"""The reference objective against an independent computation, and by its properties."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores
from setwise.model.objective import attended
from worlds import REWARDS, random_catalog

# Reward functions written once more, in 60-digit decimals.
DECIMAL = {
    sw.Logistic: lambda f, x: 1 / (1 + (-(Decimal(f.scale) * x + Decimal(f.bias))).exp()),
    sw.Linear: lambda f, x: Decimal(f.scale) * x + Decimal(f.bias),
    sw.ReLU: lambda f, x: max(Decimal(0), Decimal(f.scale) * x + Decimal(f.bias)),
    sw.Softplus: lambda f, x: (1 + (Decimal(f.scale) * x + Decimal(f.bias)).exp()).ln(),
    sw.Constant: lambda f, x: Decimal(f.c),
}


def exact_value(catalog: sw.Catalog, user: sw.User, items: list[int]) -> tuple[Decimal, Decimal]:
    """F(S) and Σ|f_i| by the paper's Problem P: the softmax of the WHOLE catalogue, restricted by an indicator x.

    a_i = (w_i ⊙ Vu)ᵀx / w_iᵀx with W = softmax(QKᵀ) over all n items (and the sink as one more column, always on).
    """
    with localcontext(prec=60):
        numbers = lambda array: np.vectorize(Decimal, otypes=[object])(np.asarray(array, float))  # noqa: E731
        query, key, value = (numbers(part) for part in (catalog.query, catalog.key, catalog.value))
        heads, n = catalog.heads, catalog.n_items
        u = numbers(user.heads)
        x = [Decimal(int(j in items)) for j in range(n)] + [Decimal(1)]
        total, size = Decimal(0), Decimal(0)
        for i in items:
            a = Decimal(0)
            if catalog.base is not None:
                a += sum(numbers(catalog.base)[i] * numbers(user.base))
            for h in range(heads):
                keys, values = list(key[:, h]), list(value[:, h])
                if catalog.sink is not None:
                    keys.append(numbers(catalog.sink.key)[h])
                    values.append(numbers(catalog.sink.value)[h])
                w = [sum(query[i, h] * k).exp() for k in keys]
                w = [one / sum(w) for one in w]
                vu = [sum(v * u[h]) for v in values]
                a += sum(p * q * r for p, q, r in zip(w, vu, x)) / sum(p * r for p, r in zip(w, x))  # noqa: B905
            f = catalog.rewards[catalog.reward_class[i]]
            reward = DECIMAL[type(f)](f, a)
            total, size = total + reward, size + abs(reward)
        return total, size


def test_agrees_with_full_softmax_in_sixty_digits(count) -> None:
    worst = 0.0
    for case in range(count(1000, 4)):
        rng = np.random.default_rng(case)
        catalog, user = random_catalog(
            case,
            n=int(rng.integers(1, 8)),
            heads=int(rng.integers(1, 5)),
            d=int(rng.integers(1, 4)),
            base=bool(rng.integers(2)),
            sink=bool(rng.integers(2)),
            sharpness=float(10 ** rng.uniform(-2, 3.5)),  # logits up to about ±10^4
            rewards=[reward for reward in REWARDS if type(reward) in DECIMAL],
        )
        items = rng.permutation(catalog.n_items)[: rng.integers(1, 6)].tolist()
        truth, size = exact_value(catalog, user, items)
        error = abs(Decimal(sw.set_value(catalog, user, items)) - truth)
        worst = max(worst, float(error / size) if size else float(error))
    assert worst <= 1e-12


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans())
def test_order_of_a_set_does_not_matter(seed: int, heads: int, base: bool, sink: bool) -> None:
    catalog, user = random_catalog(seed, heads=heads, base=base, sink=sink, rewards=REWARDS)
    rng = np.random.default_rng(seed)
    items = rng.permutation(12)[:5]
    shuffled = rng.permutation(5)
    assert sw.set_value(catalog, user, items[shuffled]) == pytest.approx(sw.set_value(catalog, user, items), rel=1e-12)
    one, other = sw.item_rewards(catalog, user, items), sw.item_rewards(catalog, user, items[shuffled])
    np.testing.assert_allclose(other, one[shuffled], rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_scaling_a_row_of_weights_changes_nothing(seed: int, heads: int) -> None:
    rng = np.random.default_rng(seed)
    logit, score, base = rng.normal(size=(heads, 5, 5)), rng.normal(size=(heads, 5)), rng.normal(size=5)
    sink, sink_score = rng.normal(size=(heads, 5)), rng.normal(size=heads)
    shift = rng.normal(size=(heads, 5)) * 100
    moved = attended(logit + shift[:, :, None], score, base, sink + shift, sink_score)
    np.testing.assert_allclose(moved, attended(logit, score, base, sink, sink_score), rtol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(-3, 3), st.booleans())
def test_shifting_a_head_is_shifting_the_argument_of_f(seed: int, heads: int, c: float, sink: bool) -> None:
    """Scores of one head + c (sink included) move every a_i by exactly c: f_i(x) becomes f_i(x + c)."""
    catalog, user = random_catalog(seed, heads=heads, sink=sink, rewards=REWARDS, dtype=np.float64)
    # One more value coordinate, equal to 1 for every item, carries the shift through the user's vector.
    ones = np.ones((catalog.n_items, heads, 1))
    parts = {"query": catalog.query, "key": catalog.key, "dtype": np.float64}
    if catalog.sink is not None:
        parts["sink"] = sw.Sink(catalog.sink.key, np.concatenate([catalog.sink.value, np.ones((heads, 1))], axis=1))
    wide = np.concatenate([catalog.value, ones], axis=2)
    classes = catalog.reward_class
    extra = np.zeros((heads, 1))
    extra[0] = c
    shifted_scores = sw.Catalog(value=wide, reward=(catalog.rewards, classes), **parts)
    plain = sw.Catalog(value=wide, reward=([f.shifted(c) for f in catalog.rewards], classes), **parts)
    items = np.arange(5)
    np.testing.assert_allclose(
        sw.item_rewards(shifted_scores, np.concatenate([user.heads, extra], axis=1), items),
        sw.item_rewards(plain, np.concatenate([user.heads, 0 * extra], axis=1), items),
        rtol=1e-9,
        atol=1e-12,
    )


def test_attention_rows_sum_to_one_and_the_sink_takes_the_rest() -> None:
    catalog, _ = random_catalog(1, heads=2)
    share = sw.attention(catalog, [3, 1, 4])
    assert share.shape == (2, 3, 3)
    np.testing.assert_allclose(share.sum(axis=2), 1.0)
    with_sink, _ = random_catalog(1, heads=2, sink=True)
    assert (sw.attention(with_sink, [3, 1, 4]).sum(axis=2) < 1).all()


def test_a_single_item_earns_its_own_score() -> None:
    catalog, user = random_catalog(2)
    alone = catalog.rewards[0](float(catalog.value[5, 0].astype(float) @ user.heads[0]))
    assert sw.set_value(catalog, user, [5]) == pytest.approx(float(alone))


@pytest.mark.parametrize("base", [False, True])
def test_added_scores_are_added_to_the_argument(base: bool) -> None:
    catalog, user = random_catalog(4, base=base, rewards=[sw.Linear()])
    added = np.random.default_rng(0).normal(size=12)
    with_scores = sw.User(user.heads, user.base, AddedScores.dense(added))
    items = [7, 2, 5]
    expected = sw.item_rewards(catalog, user, items) + added[items]
    np.testing.assert_allclose(sw.item_rewards(catalog, with_scores, items), expected, rtol=1e-12)


def test_empty_set_is_worth_nothing() -> None:
    catalog, user = random_catalog(2, heads=2, sink=True)
    assert sw.set_value(catalog, user, []) == 0.0
    assert sw.attention(catalog, []).shape == (2, 0, 0)


def test_a_row_without_any_weight_attends_to_nothing() -> None:
    nothing = np.full((1, 2, 2), -np.inf)
    np.testing.assert_array_equal(attended(nothing, np.ones((1, 2)), np.array([3.0, 4.0])), [3.0, 4.0])


def test_ordered_slates_are_the_pairs_of_item_and_place() -> None:
    """Adding the encodings by hand, in a catalogue of all (item, place) pairs, gives the same values."""
    catalog, user = random_catalog(3, n=4, heads=2, positions=3)
    encoding = catalog.positions
    pairs = list(itertools.product(range(4), range(3)))
    summed = [
        np.array([getattr(catalog, part)[i].astype(float) + getattr(encoding, part)[t] for i, t in pairs])
        for part in ("query", "key", "value")
    ]
    flat = sw.Catalog(*summed, reward=(catalog.rewards, [catalog.reward_class[i] for i, _ in pairs]), dtype=np.float64)
    for slate in itertools.permutations(range(4), 3):
        rows = [pairs.index((item, place)) for place, item in enumerate(slate)]
        assert sw.set_value(catalog, user, slate) == pytest.approx(sw.set_value(flat, user, rows), rel=1e-12)
    assert sw.set_value(catalog, user, [2, 0], positions=[2, 1]) == pytest.approx(
        sw.set_value(flat, user, [pairs.index((2, 2)), pairs.index((0, 1))]), rel=1e-12
    )


@pytest.mark.parametrize(
    ("items", "positions", "sentence"),
    [
        ([0, 1, 2, 3], None, "items must be at most 3, one a position, got 4 items; shorten the slate."),
        ([0, 1], [0], "positions must be one for each of 2 items, got 1; pass as many as items."),
        (
            [0, 1],
            [1, 1],
            "positions must be a set of distinct row numbers, got 1 more than once; remove the repetition.",
        ),
    ],
)
def test_each_position_once(items, positions, sentence: str) -> None:
    catalog, user = random_catalog(3, n=4, positions=3)
    with pytest.raises(InvalidInput) as caught:
        sw.set_value(catalog, user, items, positions)
    assert str(caught.value) == sentence


def test_positions_need_encodings() -> None:
    catalog, user = random_catalog(3)
    with pytest.raises(InvalidInput, match="positions must be absent, as the catalogue has no positional encodings"):
        sw.set_value(catalog, user, [0], positions=[0])
