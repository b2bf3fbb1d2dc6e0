"""Export a trained network to plain arrays: the catalogue of its items and the encoder of its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise._types import Floats32
from setwise.model.catalog import Catalog, Sink
from setwise.model.encoder import Encoder
from setwise.model.rewards import Logistic
from setwise.training.network import SimpleNetwork
from setwise.training.slate_model import SlateModel


@torch.no_grad()
def export_model(
    network: SimpleNetwork,
    ids: Sequence[Any],
    attributes: Mapping[str, Sequence[Any]],
    summary: Mapping[str, Any] | None = None,
) -> SlateModel:
    """The network's parameters as a model of plain arrays, independent of torch."""
    shape, x = network.shape, network.items.all_items()
    query, key = network.per_head(network.query, x), network.per_head(network.key, x)
    scale = 0.0 if network.pointwise else 1.0  # without attention, all values are zero
    sink = None
    if shape.sink:  # a last coordinate, 1 in queries and 0 in keys, carries the sink's level
        query = torch.cat([query, query.new_ones(*query.shape[:2], 1)], dim=2)
        key = torch.cat([key, key.new_zeros(*key.shape[:2], 1)], dim=2)
        sink_key = torch.cat([network.sink_key, network.sink_level[:, None]], dim=1)
        sink = Sink(_array(sink_key), _array(scale * network.sink_value))
    catalog = Catalog(
        _array(query),
        _array(key),
        _array(scale * network.per_head(network.value, x)),
        Logistic(1.0, float(network.offset)),
        _array(torch.cat([network.base(x), network.bias.weight], dim=1)) if shape.base else None,
        sink,
        list(ids),
        dict(attributes),
    )
    return SlateModel(catalog, _encoder(network, x), summary)


def _encoder(network: SimpleNetwork, x: Tensor) -> Encoder:
    shape, attend, project = network.shape, network.pool.attend, network.pool.project
    base_weight = base_bias = None
    if shape.base:  # the last user coordinate is 1 for every history: it multiplies the items' biases
        layer = network.user_base
        base_weight = _array(torch.cat([layer.weight, layer.weight.new_zeros(1, shape.dim)]))
        base_bias = _array(torch.cat([layer.bias, layer.bias.new_ones(1)]))
    return Encoder(
        _array(x),
        _array(network.user_heads.weight.view(shape.heads, shape.d_v, shape.dim)),
        _array(network.user_heads.bias.view(shape.heads, shape.d_v)),
        base_weight,
        base_bias,
        None if attend is None else _array(attend),
        None if project is None else _array(torch.cat([project.weight, project.bias[:, None]], dim=1)),
    )


def _array(tensor: Tensor) -> Floats32:
    return np.array(tensor.detach().cpu().numpy(), np.float32)
