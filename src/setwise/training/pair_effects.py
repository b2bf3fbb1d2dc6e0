"""Pairwise effects between the items of a slate: the starting point of the attention heads.

After the pointwise stage, what items do to each other is first learned in a form that is linear in its parameters, so
that its loss is convex: with centred embeddings x_i of the items and the liking s_j = x_j · B ū of the user for item j,

    a_i(S) = (1 + α) a⁰_i + c · x_i + c₀ + Σ_{j∈S, j≠i} x_i · (M + s_j N) x_j

a⁰ is the argument of the pointwise stage. M is what j does to i for every user; N is what it does in proportion to how
much the user likes j. B is the pointwise model's own, at the rank of the heads' values.

Attention is such a sum when the sink has most of the weight: exp(q_i · k_j) v_j · u / exp(level) is, to first order in
q_i · k_j, a bilinear form of x_i and x_j times v_j · u. So ``initialise_heads`` sets queries and keys to the leading
eigenvectors of the positive and of the negative part of M and of N, symmetrised, and values to ±1 and to ±s_j: four
kinds of head. Logits start small, so that the first order is nearly all. Where M and N are zero, so is the attention
at its start.

Measured in the simulated world of 300 songs, 30,000 slates, seeds 11 and 12, eight epochs of 512 slates: the true value
of the optimised slates is 0.810 of the best from random heads and 0.864 from these. Larger logits at the start were
worse (each part of M scaled by itself: 0.862 with SELF_LOGIT = 1, 0.844 with 2, 0.803 with 4, 0.794 with 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from setwise._types import Floats
from setwise.datasets.sessions import Slates
from setwise.training.network import LEVEL_UNIT, SimpleNetwork
from setwise.training.trainer import PaddedSlates

SELF_LOGIT = 1.0  # the mean logit of an item to itself, at the start
RANDOM = 0.1  # of the random start is kept, since directions of zero would never be learned
VALUE = 6.0  # the largest effect of a head at the start; the level of its sink follows
LEVELS = (3.0, 8.0)  # of the sink, at least and at most


class PairEffects(nn.Module):
    """α, c, c₀, M and N over a pointwise network, which is not trained; all zero at first."""

    def __init__(self, network: SimpleNetwork) -> None:
        super().__init__()
        self.items: Tensor
        self.centre: Tensor
        self.like_value: Tensor
        self.like_weight: Tensor
        self.like_bias: Tensor
        dim = network.shape.dim
        with torch.no_grad():
            x = network.items.all_items()
            self.register_buffer("centre", x.mean(0))
            self.register_buffer("items", x - x.mean(0))
            for name, part in zip(("like_value", "like_weight", "like_bias"), liking_factors(network), strict=True):
                self.register_buffer(name, part.detach(), persistent=False)
        self.pointwise = [network]  # in a list: its parameters are not this module's
        self.general, self.liked = nn.Parameter(torch.zeros(dim, dim)), nn.Parameter(torch.zeros(dim, dim))
        self.linear, self.scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(1))
        self.offset = nn.Parameter(torch.zeros(1))
        self.alone = False  # if set, M and N are left out

    def to(self, *args: Any, **options: Any) -> Self:
        """Move the pointwise network too."""
        self.pointwise[0].to(*args, **options)
        return super().to(*args, **options)

    def forward(self, history: Tensor, history_mask: Tensor, shown: Tensor, shown_mask: Tensor) -> Tensor:
        """The arguments a_i(S) (B, L) of the items shown; the masks are False for padding."""
        network = self.pointwise[0]
        with torch.no_grad():
            alone = network(history, history_mask, shown, shown_mask)
            x = self.items[shown] * shown_mask[..., None]
            liking = self.liking(network.pool(network.items(history), history_mask), x)
            beside = x.sum(1, keepdim=True) - x  # Σ over the other items
            weighted = x * liking[..., None]
            beside_liked = weighted.sum(1, keepdim=True) - weighted
        argument: Tensor = alone * (1 + self.scale) + x @ self.linear + self.offset
        if self.alone:
            return argument
        effect = ((beside @ self.general.T + beside_liked @ self.liked.T) * x).sum(-1)
        return argument + effect

    def arguments(self, slates: Slates) -> Floats:
        """a_i(S) of every item shown, aligned with ``shown.values``."""
        data = PaddedSlates.of(slates).to(self.items.device)
        with torch.no_grad():
            argument = self(data.history, data.history_mask, data.shown, data.shown_mask)
        return np.asarray(argument[data.shown_mask].cpu().numpy(), np.float64)

    def liking(self, user: Tensor, x: Tensor) -> Tensor:
        """s_j (B, L) of the items shown."""
        value, weight, bias = self.like_value, self.like_weight, self.like_bias
        result: Tensor = torch.einsum("blr,br->bl", x @ value.T, user @ weight.T + bias)
        return result


def liking_factors(network: SimpleNetwork) -> tuple[Tensor, Tensor, Tensor]:
    """V (d_v, dim), W (d_v, dim) and w (d_v,) with (V x_j) · (W x̄ + w) nearest to base_j · u⁰."""
    user = torch.cat([network.user_base.weight, network.user_base.bias[:, None]], dim=1)
    left, singular, right = torch.linalg.svd(network.base.weight.T @ user, full_matrices=False)
    rank = min(network.shape.d_v, len(singular))
    root = singular[:rank].sqrt()
    value, weight = root[:, None] * left[:, :rank].T, root[:, None] * right[:rank]
    return value, weight[:, :-1], weight[:, -1]


@dataclass(frozen=True, eq=False)
class _Kind:
    """One kind of head: the positive semi-definite ``form``, a part of M or N, and the sign of its value.

    Queries and keys are scaled by the mean of x_i · |M| x_i, so that both parts of M have one scale and one level: then
    the zeroth order of exp(q_i · k_j) = 1 + q_i · k_j + …, an effect of j on every item alike, cancels.
    """

    form: Tensor  # (dim, dim)
    sign: float
    liked: bool
    strength: float  # of the effect: the sum of x_i · form x_i
    own: float  # the mean of x_i · |M| x_i
    variance: float  # of x_i · |M| x_j over all pairs

    def block(self, number: int, size: int) -> Tensor:
        """(size, dim): the eigenvectors of the ``number``-th ``size`` largest eigenvalues, times their roots."""
        values, vectors = torch.linalg.eigh(self.form)
        rows = (vectors * values.clamp_min(0).sqrt()).T.flip(0)[number * size : (number + 1) * size]
        rows = torch.cat([rows, rows.new_zeros(size - len(rows), rows.shape[1])])
        return rows * math.sqrt(SELF_LOGIT / self.own)

    def level_and_size(self) -> tuple[float, float]:
        """The level of the sink, and the value with which the first order of the head is the effect."""
        # Over logits of this variance, the exponential function has the mean slope exp(variance / 2).
        slope = self.own / SELF_LOGIT * math.exp(-self.variance * (SELF_LOGIT / self.own) ** 2 / 2)
        level = min(max(math.log(VALUE / slope), LEVELS[0]), LEVELS[1])
        return level, slope * math.exp(level)


def initialise_heads(network: SimpleNetwork, effects: PairEffects) -> None:
    """Set the attention of ``network`` to these effects: kinds of head in the order of their strength, in turn."""
    kinds = _kinds(effects)
    with torch.no_grad():
        for head in range(network.shape.heads):
            _initialise(network, effects, head, kinds[head % len(kinds)], head // len(kinds))


def _kinds(effects: PairEffects) -> list[_Kind]:
    result, x = [], effects.items
    for matrix, liked in ((effects.general, False), (effects.liked, True)):
        values, vectors = torch.linalg.eigh((matrix + matrix.T).detach() / 2)
        moments = (x.T @ x / len(x)) @ ((vectors * values.abs()) @ vectors.T)
        own, variance = float(moments.trace()) + 1e-9, float((moments @ moments).trace())
        for sign in (1.0, -1.0):
            form = (vectors * (sign * values).clamp_min(0)) @ vectors.T
            result.append(_Kind(form, sign, liked, float(((x @ form) * x).sum()), own, variance))
    return sorted(result, key=lambda kind: -kind.strength)


def _initialise(network: SimpleNetwork, effects: PairEffects, head: int, kind: _Kind, number: int) -> None:
    shape, rows = network.shape, kind.block(number, network.shape.d_kq)
    level, size = kind.level_and_size()
    keys, values = (slice(head * width, (head + 1) * width) for width in (shape.d_kq, shape.d_v))
    rows = rows + RANDOM * network.query.weight[keys]
    network.query.weight[keys], network.key.weight[keys] = rows, rows
    network.query.bias[keys] = -rows @ effects.centre
    network.value.weight[values], network.user_heads.weight[values] = 0.0, 0.0
    network.value.bias[values], network.user_heads.bias[values] = 0.0, 0.0
    if kind.liked:
        value, weight, bias = effects.like_value, effects.like_weight, effects.like_bias
        rank, root = len(value), size**0.5
        network.value.weight[values][:rank] = kind.sign * root * value
        network.value.bias[values][:rank] = -kind.sign * root * value @ effects.centre
        network.user_heads.weight[values][:rank], network.user_heads.bias[values][:rank] = root * weight, root * bias
    else:
        network.value.bias[values.start] = kind.sign * size**0.5
        network.user_heads.bias[values.start] = size**0.5
    if shape.sink:
        network.sink_key[head], network.sink_value[head] = rows @ effects.centre, 0.0
        network.level[head] = level / LEVEL_UNIT
