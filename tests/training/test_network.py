"""The network and the judge agree on every number; sets have no order, padding is not there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_networks import ITEMS, random_network, random_slates

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training.export import exported
from setwise.training.fit import Rectangles
from setwise.training.network import READINGS, Shape, SimpleNetwork

SHAPES = st.builds(
    Shape,
    dim=st.integers(1, 6),
    heads=st.integers(1, 3),
    d_kq=st.integers(1, 4),
    d_v=st.integers(1, 4),
    base=st.booleans(),
    sink=st.booleans(),
    reading=st.sampled_from(READINGS),
)


@settings(max_examples=60)
@given(st.integers(0, 10_000), SHAPES, st.booleans())
def test_network_model_and_judge_agree(seed: int, shape: Shape, embedded: bool) -> None:
    network, slates = random_network(shape, seed, embedded=embedded), random_slates(seed)
    model = exported(network, slates.ids, {})
    data = Rectangles.of(slates)
    with torch.no_grad():
        argument = network(data.history, data.heard, data.shown, data.filled)
    expected = torch.sigmoid(argument)[data.filled].numpy()
    np.testing.assert_allclose(model.predict(slates), expected, atol=1e-5)
    for history, shown, hits in zip(slates.history, slates.shown, _cut(expected, slates.shown), strict=True):
        judged = sw.item_rewards(model.catalog(), model.user([slates.ids[row] for row in history]), shown)
        np.testing.assert_allclose(judged, hits, atol=1e-5)


def _cut(values: np.ndarray, lists: Ragged) -> list[np.ndarray]:
    return np.split(values, lists.offsets[1:-1])


@pytest.mark.parametrize("reading", READINGS)
def test_histories_and_slates_are_sets(reading: str) -> None:
    network = random_network(Shape(dim=4, heads=2, reading=reading))
    history, shown = torch.tensor([[3, 5, 7, 9]]), torch.tensor([[1, 2, 4]])
    yes = lambda rows: torch.ones_like(rows, dtype=torch.bool)  # noqa: E731
    with torch.no_grad():
        one = network(history, yes(history), shown, yes(shown))
        other = network(history.flip(1), yes(history), shown[:, [2, 0, 1]], yes(shown))
    torch.testing.assert_close(one[:, [2, 0, 1]], other)


@pytest.mark.parametrize("reading", READINGS)
def test_padding_is_not_there(reading: str) -> None:
    network = random_network(Shape(dim=4, heads=2, reading=reading))
    heard, filled = torch.tensor([[True, True, False]]), torch.tensor([[True, False]])
    with torch.no_grad():
        results = [
            network(torch.tensor([[3, 5, pad]]), heard, torch.tensor([[1, pad]]), filled)[0, 0] for pad in (0, 1, 20)
        ]
        bare = network(torch.tensor([[3, 5]]), heard[:, :2], torch.tensor([[1]]), filled[:, :1])[0, 0]
    for result in results:
        torch.testing.assert_close(result, bare)


@pytest.mark.parametrize("reading", READINGS)
def test_whoever_has_no_history_is_the_same_newcomer(reading: str) -> None:
    network = random_network(Shape(dim=4, reading=reading))
    with torch.no_grad():
        read = network.reader(network.items(torch.tensor([[3, 5], [7, 1]])), torch.tensor([[False] * 2] * 2))
    torch.testing.assert_close(read[0], read[1])
    assert torch.isfinite(read).all()


def test_an_items_own_bias_reaches_no_other() -> None:
    network = random_network(Shape(dim=4))
    history, shown = torch.tensor([[3]]), torch.tensor([[1, 2]])
    yes = torch.ones_like(shown, dtype=torch.bool)
    with torch.no_grad():
        before = network(history, yes[:, :1], shown, yes)
        network.bias.weight[1] += 2
        after = network(history, yes[:, :1], shown, yes)
    torch.testing.assert_close(after - before, torch.tensor([[2.0, 0.0]]))


def test_given_embeddings_are_kept_and_their_cosines_survive() -> None:
    vectors = np.random.default_rng(0).normal(size=(ITEMS, 4)).astype(np.float32)
    network = SimpleNetwork(ITEMS, Shape(dim=4), vectors)
    with torch.no_grad():
        x = network.items.everything().numpy()
    np.testing.assert_allclose(x @ x.T, vectors @ vectors.T, atol=1e-4)
    assert "items.given" not in dict(network.named_parameters())
    assert set(network.decays) <= set(dict(network.named_parameters()))
    assert not hasattr(SimpleNetwork(ITEMS, Shape(dim=4)), "decays")


@pytest.mark.parametrize("name", ["dim", "heads", "d_kq", "d_v"])
def test_sizes_are_whole_numbers(name: str) -> None:
    for wrong in (0, -1, 1.5, True, "4"):
        with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
            Shape(**{name: wrong})


def test_a_reading_is_one_of_four() -> None:
    with pytest.raises(InvalidInput, match="reading must be one of turned, direction, mean, attention, got 'aloud'"):
        Shape(reading="aloud")


def test_items_that_are_kept_are_worth_alone_what_the_reward_says() -> None:
    torch.manual_seed(0)
    network = SimpleNetwork(6, Shape(dim=4, heads=2, d_kq=2, d_v=2))
    one = torch.tensor([[1, 2]]), torch.ones(1, 2, dtype=torch.bool)
    network.silent = True
    with torch.no_grad():
        before = network(*one, *one)
        network.keep_items(Logistic(0.5, -2.0))
        torch.testing.assert_close(network(*one, *one), 0.5 * before - 2.0)  # the offset was zero
    learned = {name.split(".")[0] for name, tensor in network.named_parameters() if tensor.requires_grad}
    assert learned == {"query", "key", "value", "user_heads", "sink_key", "sink_value", "level", "offset"}
