"""Export of a network: arrays of the catalogue and the encoder, independent of the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_networks import ITEMS, random_network, random_slates

from setwise.errors import InvalidInput
from setwise.training.export import export_model
from setwise.training.network import POOLINGS, Shape


def test_arrays_of_the_catalogue() -> None:
    network = random_network(Shape(dim=5, heads=2, d_kq=3, d_v=4))
    ids, titles = [f"song-{row}" for row in range(ITEMS)], [f"title {row}" for row in range(ITEMS)]
    catalog = export_model(network, ids, {"title": titles}).catalog()
    assert catalog.query.shape == catalog.key.shape == (ITEMS, 2, 4), "one coordinate more than d_kq, for the sink"
    assert catalog.value.shape == (ITEMS, 2, 4)
    assert catalog.base.shape == (ITEMS, 6), "the base term and the bias"
    np.testing.assert_array_equal(catalog.base[:, -1], network.bias.weight.detach().numpy()[:, 0])
    assert catalog.rewards[0].bias == pytest.approx(float(network.offset.detach()))
    assert catalog.ids[3] == "song-3"
    assert catalog.attributes["title"][7] == "title 7"


@pytest.mark.parametrize(("base", "sink"), [(False, False), (True, False), (False, True)])
def test_networks_without_base_or_sink(base: bool, sink: bool) -> None:
    model = export_model(random_network(Shape(dim=4, base=base, sink=sink)), range(ITEMS), {})
    assert (model.catalog().base is not None) == base
    assert (model.catalog().sink is not None) == sink
    assert (model.user([]).base is not None) == base


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_of_the_encoder(pooling: str) -> None:
    encoder = export_model(random_network(Shape(dim=4, pooling=pooling)), range(ITEMS), {}).encoder
    assert (encoder.project is not None) == (pooling in ("projected", "unit_mean"))
    assert (encoder.attend is not None) == (pooling == "attention")


def test_the_last_user_coordinate_is_one() -> None:
    model = export_model(random_network(Shape(dim=4)), range(ITEMS), {})
    for history in ([], [3], [1, 2, 5]):
        assert model.user(history).base[-1] == 1


def test_further_training_does_not_change_an_exported_model() -> None:
    network, slates = random_network(Shape(dim=4)), random_slates()
    model = export_model(network, slates.ids, {})
    before = model.predict(slates)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    np.testing.assert_array_equal(model.predict(slates), before)


def test_the_number_of_ids_is_checked() -> None:
    with pytest.raises(InvalidInput, match="ids must be"):
        export_model(random_network(Shape(dim=4)), range(ITEMS - 1), {})
