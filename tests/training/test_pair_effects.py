"""Pairwise effects: learned where they are planted, and what attention starts from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_networks import ITEMS, random_network

from setwise.datasets import Slates, World
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer, pair_effects
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.pair_effects import PairEffects, initialise_heads, liking_factors
from setwise.training.trainer import Schedule, train


def _effect_of_each_pair(network: SimpleNetwork, history: torch.Tensor) -> np.ndarray:
    """What j adds to the argument of i by attention, for all pairs (i, j), i before j."""
    first, second = np.triu_indices(ITEMS, 1)
    pairs = torch.tensor(np.column_stack([first, second]))
    past, yes = history.expand(len(pairs), -1), torch.ones_like(pairs, dtype=torch.bool)
    known, alone = torch.ones_like(past, dtype=torch.bool), torch.tensor([[True, False]]).expand(len(pairs), 2)
    with torch.no_grad():
        return (network(past, known, pairs, yes) - network(past, known, pairs, alone))[:, 0].numpy()


@pytest.mark.parametrize("liked", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_attention_starts_from_the_effects(monkeypatch: pytest.MonkeyPatch, liked: bool, seed: int) -> None:
    """To first order, that is up to a constant and small terms, the heads compute the bilinear form."""
    for name, small in (("RANDOM", 0.0), ("SELF_LOGIT", 0.1)):
        monkeypatch.setattr(pair_effects, name, small)
    network = random_network(Shape(dim=4, heads=4, d_kq=4, d_v=4), seed)
    effects = PairEffects(network)
    with torch.no_grad():
        form = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
        (effects.liked if liked else effects.general).copy_(0.02 * (form + form.T))
    history = torch.tensor([[1, 2, 3]])
    network.pointwise = True
    first, second = np.triu_indices(ITEMS, 1)
    pairs = torch.tensor(np.column_stack([first, second]))
    past, yes = history.expand(len(pairs), -1), torch.ones_like(pairs, dtype=torch.bool)
    known = torch.ones_like(past, dtype=torch.bool)
    with torch.no_grad():
        wanted = (effects(past, known, pairs, yes) - network(past, known, pairs, yes))[:, 0].numpy()
    initialise_heads(network, effects)
    network.pointwise = False
    assert np.corrcoef(_effect_of_each_pair(network, history), wanted)[0, 1] > 0.9


def test_without_effects_attention_starts_near_zero() -> None:
    network = random_network(Shape(dim=4, heads=5, d_kq=3, d_v=2))
    initialise_heads(network, PairEffects(network))
    assert np.abs(_effect_of_each_pair(network, torch.tensor([[1, 2, 3]]))).max() < 1e-3
    assert all(bool(torch.isfinite(tensor).all()) for tensor in network.state_dict().values())


def test_liking_is_the_base_term_at_full_rank() -> None:
    network = random_network(Shape(dim=3, d_v=5))
    value, weight, bias = liking_factors(network)
    with torch.no_grad():
        x, user = network.items.all_items(), torch.tensor([0.6, -0.8, 0.1])
        torch.testing.assert_close(x @ value.T @ (weight @ user + bias), network.base(x) @ network.user_base(user))


def _rivals(slates: int, seed: int) -> Slates:
    """Two groups of six items; an item is liked with probability 0.8 with one of its group at most, 0.2 with more."""
    rng = np.random.default_rng(seed)
    shown = np.argsort(rng.random((slates, 12)), axis=1)[:, :4]
    group = shown // 6
    crowd = (group[:, :, None] == group[:, None]).sum(-1)
    outcome = (rng.random(shown.shape) < np.where(crowd <= 2, 0.8, 0.2)).astype(np.float32)
    history = Ragged.of(rng.integers(0, 6, (slates, 3)) + 6 * rng.integers(0, 2, (slates, 1)))
    return Slates(history, Ragged.of(shown), outcome.ravel(), [f"item {i}" for i in range(12)])


def test_planted_effects_are_learned() -> None:
    slates, held = _rivals(1500, 0), _rivals(500, 1)
    model = SimpleTransformer.fit(slates, dim=4, heads=2, d_kq=2, d_v=2, epochs=6, batch=64, validation=held)
    losses = model.summary["log_loss"]
    assert model.summary["kept"] == min(losses, key=losses.get) not in ("pointwise", "effects")
    assert losses["pointwise"] > 0.62  # rivals are as frequent for every item: alone, no item differs from another
    assert losses["interaction"] < 0.59
    gain = model.summary["gain_of_attention"]
    assert gain["log_loss"] == pytest.approx(losses["effects"] - losses["interaction"])
    assert gain["log_loss"] > 2 * gain["standard_error"] > 0


def test_the_stage_of_pairs_leaves_the_pointwise_network_unchanged() -> None:
    network = random_network(Shape(dim=4, heads=2), n=12)
    network.pointwise = True
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    report = train(PairEffects(network), _rivals(300, 0), _rivals(100, 1), schedule=Schedule(epochs=3, batch=32))
    assert report.validation[-1] < report.validation[0]
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(tensor, before[name])


def test_attention_is_dropped_where_it_does_not_pay() -> None:
    world = World.make(100, variety=0.0, complementarity=0.0)
    summary = SimpleTransformer.fit(world.log(1500), dim=6, heads=2, epochs=4, batch=64).summary
    assert summary["kept"] == "pointwise"
    assert summary["gain_of_attention"] is None
    assert summary["gain_of_pairs"]["log_loss"] <= 2 * summary["gain_of_pairs"]["standard_error"]
    assert set(summary["stages"]) == {"pointwise", "pairs"}  # few items: the first stage had all the epochs


def test_everything_moves_to_the_device() -> None:
    """The pointwise network is not a part of the module; on a GPU it stayed on the processor."""
    effects = PairEffects(random_network(Shape(dim=4, heads=4, d_kq=4, d_v=4), 0))
    assert effects.to("meta") is effects
    parts = [*effects.parameters(), *effects.buffers(), *effects.pointwise[0].parameters()]
    assert {part.device.type for part in parts} == {"meta"}
    likes = effects.liking(torch.empty((2, 4), device="meta"), torch.empty((2, 3, 4), device="meta"))
    assert likes.shape == (2, 3)
