"""General transformers: sets in, sets out; padding is not there; depth is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.errors import InvalidInput
from setwise.training.baselines import PointwiseNetwork
from setwise.training.general import Depth, GeneralTransformer

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
                parameter += 0.1 * torch.randn_like(parameter)  # no part may hide behind its zeros
    return [network.eval() for network in found]


NETWORKS = networks()
NAMES = [f"{type(network).__name__}-{number}" for number, network in enumerate(NETWORKS)]


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    history, shown = rng.integers(0, ITEMS, (5, 7)), rng.permuted(np.tile(np.arange(ITEMS), (5, 1)), axis=1)[:, :4]
    heard = np.arange(7) < np.array([7, 4, 1, 0, 6])[:, None]
    filled = np.arange(4) < np.array([4, 4, 2, 3, 1])[:, None]
    return tuple(torch.as_tensor(array) for array in (history, heard, shown, filled))  # type: ignore[return-value]


@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
def test_a_permuted_slate_or_history_is_the_same_slate_or_history(network: torch.nn.Module) -> None:
    history, heard, shown, filled = batch()
    with torch.no_grad():
        straight = network(history, heard, shown, filled)
        turn = torch.tensor([2, 0, 3, 1])
        turned = network(history, heard, shown[:, turn], filled[:, turn])
        torch.testing.assert_close(turned[filled[:, turn]], straight[:, turn][filled[:, turn]], rtol=1e-4, atol=1e-5)
        back = torch.arange(6, -1, -1)
        other = network(history[:, back], heard[:, back], shown, filled)
        torch.testing.assert_close(other[filled], straight[filled], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
def test_padding_is_not_there(network: torch.nn.Module) -> None:
    history, heard, shown, filled = batch()
    with torch.no_grad():
        straight = network(history, heard, shown, filled)
        junk = (torch.where(heard, history, 9), heard, torch.where(filled, shown, 17), filled)
        torch.testing.assert_close(network(*junk)[filled], straight[filled], rtol=1e-4, atol=1e-5)
        wider = [torch.nn.functional.pad(array, (0, 3)) for array in (history, heard, shown, filled)]
        torch.testing.assert_close(network(*wider)[:, :4][filled], straight[filled], rtol=1e-4, atol=1e-5)
    assert torch.isfinite(straight).all()  # the history of the fourth slate is empty


def test_company_and_history_matter_where_they_should() -> None:
    history, heard, shown, filled = batch()
    full = torch.ones_like(filled)
    company = shown.clone()
    company[:, 1:] = (shown[:, 1:] + 1) % ITEMS
    for network in NETWORKS:
        with torch.no_grad():
            first = network(history, heard, shown, full)[:, 0]
            beside = network(history, heard, company, full)[:, 0]
            unheard = network((history + 1) % ITEMS, heard, shown, full)[:, 0]
        alone = isinstance(network, PointwiseNetwork)
        assert torch.equal(first, beside) if alone else not torch.allclose(first, beside)
        assert not torch.allclose(first[:3], unheard[:3])


@pytest.mark.parametrize(("encoder", "decoder"), [(0, 1), (1, 1), (2, 1), (1, 4), (4, 2)])
def test_there_are_as_many_layers_as_asked_for(encoder: int, decoder: int) -> None:
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
def test_bad_sizes_are_refused(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Depth(**options)  # type: ignore[arg-type]
