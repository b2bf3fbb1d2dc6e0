"""General transformers: invariance to order and padding, dependence on slate and history, depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baselines import PointwiseNetwork
from general_transformer import Depth, GeneralTransformer
from torch import Tensor

from setwise.errors import InvalidInput

ITEMS = 50


def networks() -> list[torch.nn.Module]:
    torch.manual_seed(0)
    vectors = np.random.default_rng(0).normal(size=(ITEMS, 6)).astype(np.float32)
    depths = [Depth(e, d, dim=8, heads=2, feedforward=16) for e in (0, 1, 2) for d in (1, 3)]
    found: list[torch.nn.Module] = [GeneralTransformer(ITEMS, depth, vectors) for depth in depths]
    found += [GeneralTransformer(ITEMS, depths[2]), PointwiseNetwork(ITEMS, 8, vectors), PointwiseNetwork(ITEMS, 8)]
    for network in found:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(
                    parameter
                )  # no zero parameters, so that every part affects the output
    return [network.eval() for network in found]


NETWORKS = networks()
NAMES = [f"{type(network).__name__}-{number}" for number, network in enumerate(NETWORKS)]


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    history, shown = rng.integers(0, ITEMS, (5, 7)), rng.permuted(np.tile(np.arange(ITEMS), (5, 1)), axis=1)[:, :4]
    history_mask = np.arange(7) < np.array([7, 4, 1, 0, 6])[:, None]
    shown_mask = np.arange(4) < np.array([4, 4, 2, 3, 1])[:, None]
    return tuple(torch.as_tensor(array) for array in (history, history_mask, shown, shown_mask))  # type: ignore[return-value]


@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
def test_permutations_have_no_effect(network: torch.nn.Module) -> None:
    history, history_mask, shown, shown_mask = batch()
    with torch.no_grad():
        expected = network(history, history_mask, shown, shown_mask)
        order = torch.tensor([2, 0, 3, 1])
        permuted = network(history, history_mask, shown[:, order], shown_mask[:, order])
        torch.testing.assert_close(
            permuted[shown_mask[:, order]], expected[:, order][shown_mask[:, order]], rtol=1e-4, atol=1e-5
        )
        reverse = torch.arange(6, -1, -1)
        other = network(history[:, reverse], history_mask[:, reverse], shown, shown_mask)
        torch.testing.assert_close(other[shown_mask], expected[shown_mask], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
def test_padding_has_no_effect(network: torch.nn.Module) -> None:
    history, history_mask, shown, shown_mask = batch()
    with torch.no_grad():
        expected = network(history, history_mask, shown, shown_mask)
        junk = (torch.where(history_mask, history, 9), history_mask, torch.where(shown_mask, shown, 17), shown_mask)
        torch.testing.assert_close(network(*junk)[shown_mask], expected[shown_mask], rtol=1e-4, atol=1e-5)
        wider = [torch.nn.functional.pad(array, (0, 3)) for array in (history, history_mask, shown, shown_mask)]
        torch.testing.assert_close(network(*wider)[:, :4][shown_mask], expected[shown_mask], rtol=1e-4, atol=1e-5)
    assert torch.isfinite(expected).all()  # the history of the fourth slate is empty


def test_arguments_depend_on_the_history_and_the_rest_of_the_slate() -> None:
    history, history_mask, shown, shown_mask = batch()
    full = torch.ones_like(shown_mask)
    changed = shown.clone()
    changed[:, 1:] = (shown[:, 1:] + 1) % ITEMS
    for network in NETWORKS:
        with torch.no_grad():
            first = network(history, history_mask, shown, full)[:, 0]
            other_slate = network(history, history_mask, changed, full)[:, 0]
            other_history = network((history + 1) % ITEMS, history_mask, shown, full)[:, 0]
        pointwise = isinstance(network, PointwiseNetwork)
        assert torch.equal(first, other_slate) if pointwise else not torch.allclose(first, other_slate)
        assert not torch.allclose(first[:3], other_history[:3])


@pytest.mark.parametrize(("encoder", "decoder"), [(0, 1), (1, 1), (2, 1), (1, 4), (4, 2)])
def test_number_of_layers(encoder: int, decoder: int) -> None:
    network = GeneralTransformer(ITEMS, Depth(encoder, decoder, dim=8, heads=2))
    assert (0 if network.encoder is None else len(network.encoder.layers)) == encoder
    assert len(network.decoder.layers) == decoder


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encoder_layers": -1}, "encoder_layers must be a whole number of at least 0"),
        ({"decoder_layers": 0}, "decoder_layers must be a whole number of at least 1"),
        ({"dim": 30, "heads": 4}, "dim must be a multiple of the 4 heads"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
    ],
)
def test_invalid_sizes_are_refused(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Depth(**options)  # type: ignore[arg-type]
