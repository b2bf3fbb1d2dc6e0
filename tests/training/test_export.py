"""What leaves the network: plain arrays that no longer know it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_networks import ITEMS, random_network, random_slates

from setwise.errors import InvalidInput
from setwise.training.export import exported
from setwise.training.network import READINGS, Shape


def test_what_goes_into_the_catalogue() -> None:
    network = random_network(Shape(dim=5, heads=2, d_kq=3, d_v=4))
    ids, titles = [f"song-{row}" for row in range(ITEMS)], [f"title {row}" for row in range(ITEMS)]
    catalog = exported(network, ids, {"title": titles}).catalog()
    assert catalog.query.shape == catalog.key.shape == (ITEMS, 2, 4), "a coordinate more than d_kq speaks to the sink"
    assert catalog.value.shape == (ITEMS, 2, 4)
    assert catalog.base.shape == (ITEMS, 6), "the base term, and the item's own bias"
    np.testing.assert_array_equal(catalog.base[:, -1], network.bias.weight.detach().numpy()[:, 0])
    assert catalog.rewards[0].bias == pytest.approx(float(network.offset.detach()))
    assert catalog.ids[3] == "song-3"
    assert catalog.attributes["title"][7] == "title 7"


@pytest.mark.parametrize(("base", "sink"), [(False, False), (True, False), (False, True)])
def test_parts_that_are_not_there(base: bool, sink: bool) -> None:
    model = exported(random_network(Shape(dim=4, base=base, sink=sink)), range(ITEMS), {})
    assert (model.catalog().base is not None) == base
    assert (model.catalog().sink is not None) == sink
    assert (model.user([]).base is not None) == base


@pytest.mark.parametrize("reading", READINGS)
def test_the_reading_goes_along(reading: str) -> None:
    encoder = exported(random_network(Shape(dim=4, reading=reading)), range(ITEMS), {}).encoder
    assert (encoder.project is not None) == (reading in ("turned", "direction"))
    assert (encoder.attend is not None) == (reading == "attention")


def test_the_users_last_coordinate_reads_the_biases() -> None:
    model = exported(random_network(Shape(dim=4)), range(ITEMS), {})
    for history in ([], [3], [1, 2, 5]):
        assert model.user(history).base[-1] == 1


def test_learning_on_changes_nothing_that_was_exported() -> None:
    network, slates = random_network(Shape(dim=4)), random_slates()
    model = exported(network, slates.ids, {})
    before = model.predict(slates)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    np.testing.assert_array_equal(model.predict(slates), before)


def test_one_id_an_item() -> None:
    with pytest.raises(InvalidInput, match="ids must be"):
        exported(random_network(Shape(dim=4)), range(ITEMS - 1), {})
