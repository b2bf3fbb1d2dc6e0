"""The network against the reference objective, invariance to order and padding, initialisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_networks import ITEMS, random_network, random_slates

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training.export import export_model
from setwise.training.network import POOLINGS, Shape, SimpleNetwork
from setwise.training.trainer import PaddedSlates

SHAPES = st.builds(
    Shape,
    dim=st.integers(1, 6),
    heads=st.integers(1, 3),
    d_kq=st.integers(1, 4),
    d_v=st.integers(1, 4),
    base=st.booleans(),
    sink=st.booleans(),
    pooling=st.sampled_from(POOLINGS),
)


@examples(60)
@given(st.integers(0, 10_000), SHAPES, st.booleans())
def test_network_model_and_reference_objective_agree(seed: int, shape: Shape, embedded: bool) -> None:
    network, slates = random_network(shape, seed, embedded=embedded), random_slates(seed)
    model = export_model(network, slates.ids, {})
    data = PaddedSlates.of(slates)
    with torch.no_grad():
        argument = network(data.history, data.history_mask, data.shown, data.shown_mask)
    expected = torch.sigmoid(argument)[data.shown_mask].numpy()
    np.testing.assert_allclose(model.predict(slates), expected, atol=1e-5)
    for history, shown, hits in zip(slates.history, slates.shown, _cut(expected, slates.shown), strict=True):
        reference = sw.item_rewards(model.catalog(), model.user([slates.ids[row] for row in history]), shown)
        np.testing.assert_allclose(reference, hits, atol=1e-5)


def _cut(values: np.ndarray, lists: Ragged) -> list[np.ndarray]:
    return np.split(values, lists.offsets[1:-1])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_histories_and_slates_are_sets(pooling: str) -> None:
    network = random_network(Shape(dim=4, heads=2, pooling=pooling))
    history, shown = torch.tensor([[3, 5, 7, 9]]), torch.tensor([[1, 2, 4]])
    yes = lambda rows: torch.ones_like(rows, dtype=torch.bool)  # noqa: E731
    with torch.no_grad():
        one = network(history, yes(history), shown, yes(shown))
        other = network(history.flip(1), yes(history), shown[:, [2, 0, 1]], yes(shown))
    torch.testing.assert_close(one[:, [2, 0, 1]], other)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_has_no_effect(pooling: str) -> None:
    network = random_network(Shape(dim=4, heads=2, pooling=pooling))
    history_mask, shown_mask = torch.tensor([[True, True, False]]), torch.tensor([[True, False]])
    with torch.no_grad():
        results = [
            network(torch.tensor([[3, 5, pad]]), history_mask, torch.tensor([[1, pad]]), shown_mask)[0, 0]
            for pad in (0, 1, 20)
        ]
        bare = network(torch.tensor([[3, 5]]), history_mask[:, :2], torch.tensor([[1]]), shown_mask[:, :1])[0, 0]
    for result in results:
        torch.testing.assert_close(result, bare)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_empty_histories_are_pooled_to_a_constant(pooling: str) -> None:
    network = random_network(Shape(dim=4, pooling=pooling))
    with torch.no_grad():
        pooled = network.pool(network.items(torch.tensor([[3, 5], [7, 1]])), torch.tensor([[False] * 2] * 2))
    torch.testing.assert_close(pooled[0], pooled[1])
    assert torch.isfinite(pooled).all()


def test_the_bias_of_an_item_affects_that_item_only() -> None:
    network = random_network(Shape(dim=4))
    history, shown = torch.tensor([[3]]), torch.tensor([[1, 2]])
    yes = torch.ones_like(shown, dtype=torch.bool)
    with torch.no_grad():
        before = network(history, yes[:, :1], shown, yes)
        network.bias.weight[1] += 2
        after = network(history, yes[:, :1], shown, yes)
    torch.testing.assert_close(after - before, torch.tensor([[2.0, 0.0]]))


def test_given_embeddings_are_fixed_and_keep_their_cosines() -> None:
    vectors = np.random.default_rng(0).normal(size=(ITEMS, 4)).astype(np.float32)
    network = SimpleNetwork(ITEMS, Shape(dim=4), vectors)
    with torch.no_grad():
        x = network.items.all_items().numpy()
    np.testing.assert_allclose(x @ x.T, vectors @ vectors.T, atol=1e-4)
    assert "items.given" not in dict(network.named_parameters())
    assert set(network.decays) <= set(dict(network.named_parameters()))
    assert not hasattr(SimpleNetwork(ITEMS, Shape(dim=4)), "decays")


@pytest.mark.parametrize("name", ["dim", "heads", "d_kq", "d_v"])
def test_sizes_are_whole_numbers(name: str) -> None:
    for wrong in (0, -1, 1.5, True, "4"):
        with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
            Shape(**{name: wrong})


def test_unknown_pooling_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pooling must be one of projected, unit_mean, mean, attention, got 'max'"):
        Shape(pooling="max")


def test_frozen_items_keep_their_pointwise_value_under_the_reward() -> None:
    torch.manual_seed(0)
    network = SimpleNetwork(6, Shape(dim=4, heads=2, d_kq=2, d_v=2))
    one = torch.tensor([[1, 2]]), torch.ones(1, 2, dtype=torch.bool)
    network.pointwise = True
    with torch.no_grad():
        before = network(*one, *one)
        network.freeze_items(Logistic(0.5, -2.0))
        torch.testing.assert_close(network(*one, *one), 0.5 * before - 2.0)  # the offset was zero
    trainable = {name.split(".")[0] for name, tensor in network.named_parameters() if tensor.requires_grad}
    assert trainable == {"query", "key", "value", "user_heads", "sink_key", "sink_value", "level", "offset"}
