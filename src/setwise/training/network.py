"""The simple transformer as a network: its parameters, and the arguments of a slate's items.

    x_i            the embedding of item i after the input layer
    q_i, k_i, v_i  linear in x_i, one of each per head
    x̄              the pooled history: P times the mean of its x, at unit length (or another ``pooling``)
    u^h, u⁰        linear in (x̄, 1): the constant coordinate represents users without a history
    w_ij^h         exp(q_i^h · k_j^h), and z_i^h = exp(q_i^h · k_0^h + level^h), the weight of the sink
    a_i(S)         base_i · u⁰ + bias_i + Σ_h (Σ_{j∈S} w_ij^h v_j^h + z_i^h v_0^h) · u^h / (Σ_{j∈S} w_ij^h + z_i^h)

``export.py`` turns the parameters into the catalogue's arrays, from which ``objective.py`` computes the same numbers.
The bias of an item is the last column of the base term, next to a user coordinate that is always 1.

**Initialisation** decides whether attention is learned at all. From small random weights every head is a mean over the
slate, and training hardly leaves that plateau. So keys start equal to queries: items attend to similar items, with
logits of about SELF_LOGIT. The sink starts with a logit of SINK_LOGIT, so that attention weights are small and nearly
additive, and values start VALUE_SCALE times larger to compensate.

With given embeddings e_i (such as word2vec of the sessions) x_i = L e_i + r_i: a learned layer, and a correction for
each item. A strong weight decay keeps corrections small, so an item that occurs rarely stays near its embedding.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from setwise.model.rewards import Logistic
from setwise.training.settings import POOLINGS as POOLINGS
from setwise.training.settings import Shape as Shape

CORRECTION_DECAY = 10.0  # of the corrections r_i: 10 and 30 gave equal results in the simulated world, 0 far worse
SELF_LOGIT, SINK_LOGIT, VALUE_SCALE = 4.0, 6.0, 3.0  # at the start: an item's logit to itself, the sink's, values
LEVEL_UNIT = 5.0  # the sink's level is learned in this unit: Adam's steps are small relative to the level's range


class SimpleNetwork(nn.Module):
    """One self-attention layer over the slate; the user's vectors turn its output into one argument per item."""

    def __init__(self, n_items: int, shape: Shape, embeddings: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.items = Items(n_items, shape.dim, embeddings)
        self.pool = HistoryPooling(shape)
        self.query = nn.Linear(shape.dim, shape.heads * shape.d_kq)
        self.key = nn.Linear(shape.dim, shape.heads * shape.d_kq, bias=False)
        self.value = nn.Linear(shape.dim, shape.heads * shape.d_v)
        self.user_heads = nn.Linear(shape.dim, shape.heads * shape.d_v)
        if shape.base:
            self.base = nn.Linear(shape.dim, shape.dim, bias=False)
            self.user_base = nn.Linear(shape.dim, shape.dim)
            self.bias = nn.Embedding(n_items, 1)
            nn.init.zeros_(self.bias.weight)
        if shape.sink:
            self.sink_key = nn.Parameter(torch.zeros(shape.heads, shape.d_kq))
            self.sink_value = nn.Parameter(torch.zeros(shape.heads, shape.d_v))
            self.level = nn.Parameter(torch.zeros(shape.heads))
        self.offset = nn.Parameter(torch.zeros(1))  # of the reward: f(a) = logistic(a + offset)
        self.pointwise = False  # if set, attention is left out: a_i does not depend on the rest of the slate
        self.initialise_attention()
        if embeddings is not None:
            self.decays = {"items.correction.weight": CORRECTION_DECAY}

    def initialise_attention(self) -> None:
        """Set keys equal to queries, raise the sink's logit, and scale values to compensate."""
        with torch.no_grad():
            for head in self.query.weight.view(self.shape.heads, self.shape.d_kq, -1):
                nn.init.orthogonal_(head, gain=math.sqrt(SELF_LOGIT))
            self.query.bias.zero_()
            self.key.weight.copy_(self.query.weight)
            if self.shape.sink:
                self.level.fill_(SINK_LOGIT / LEVEL_UNIT)
                self.value.weight.mul_(VALUE_SCALE)
                self.value.bias.mul_(VALUE_SCALE)

    def freeze_items(self, reward: Logistic) -> None:
        """Fold this reward into the base term, and exclude items and base from training: only attention learns."""
        with torch.no_grad():
            for tensor in (self.user_base.weight, self.user_base.bias, self.bias.weight):
                tensor.mul_(reward.scale)
            self.offset.fill_(reward.bias)
        for part in (self.items, self.pool, self.base, self.user_base, self.bias):
            part.requires_grad_(False)

    @property
    def sink_level(self) -> Tensor:
        """The constant added to the sink's logits, one per head."""
        return LEVEL_UNIT * self.level

    def forward(self, history: Tensor, history_mask: Tensor, shown: Tensor, shown_mask: Tensor) -> Tensor:
        """The arguments a_i(S) (B, L) of the items shown; the masks are False for padding."""
        user: Tensor = self.pool(self.items(history), history_mask)
        x: Tensor = self.items(shown)
        argument = self.offset.expand(shown.shape)
        if not self.pointwise:
            argument = argument + self.interaction(x, user, shown_mask)
        if self.shape.base:
            liking = (self.base(x) @ self.user_base(user).unsqueeze(-1)).squeeze(-1)
            argument = argument + liking + self.bias(shown).squeeze(-1)
        return argument

    def interaction(self, x: Tensor, user: Tensor, mask: Tensor) -> Tensor:
        """The attention term of a_i, summed over the heads (B, L)."""
        query, key = self.per_head(self.query, x).transpose(1, 2), self.per_head(self.key, x).transpose(1, 2)
        heads = self.per_head(self.user_heads, user)  # (B, H, d_v)
        score = torch.einsum("blhd,bhd->bhl", self.per_head(self.value, x), heads)
        logit = (query @ key.transpose(-1, -2)).masked_fill(~mask[:, None, None, :], -1e9)  # (B, H, L, L)
        # torch's softmax over so few columns takes several times as long as these steps.
        top = logit.detach().amax(-1)  # (B, H, L)
        if self.shape.sink:
            sink = torch.einsum("bhld,hd->bhl", query, self.sink_key) + self.sink_level[:, None]
            top = torch.maximum(top, sink.detach())
        weight = torch.exp(logit - top[..., None])
        total, shared = weight.sum(-1), (weight * score[:, :, None]).sum(-1)
        if self.shape.sink:
            weight = torch.exp(sink - top)
            total = total + weight
            shared = shared + weight * torch.einsum("hd,bhd->bh", self.sink_value, heads)[..., None]
        return (shared / total).sum(1)

    def per_head(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """The output (…, H, d) of a layer that holds all heads."""
        result: Tensor = layer(x).unflatten(-1, (self.shape.heads, -1))
        return result


class Items(nn.Module):
    """x_i: a learned row, or a linear layer of a given embedding plus a learned correction."""

    def __init__(self, n_items: int, dim: int, embeddings: NDArray[np.float32] | None) -> None:
        super().__init__()
        self.correction = nn.Embedding(n_items, dim)
        self.given: Tensor | None
        if embeddings is None:
            nn.init.normal_(self.correction.weight, std=1 / math.sqrt(dim))
            self.register_buffer("given", None)
            return
        nn.init.zeros_(self.correction.weight)
        self.register_buffer("given", torch.tensor(np.array(embeddings, np.float32)))
        self.layer = nn.Linear(embeddings.shape[1], dim)
        nn.init.orthogonal_(self.layer.weight)  # preserves cosines as far as dimensions allow
        nn.init.zeros_(self.layer.bias)

    def forward(self, rows: Tensor) -> Tensor:
        if self.given is None:
            return self.correction(rows)  # type: ignore[no-any-return]
        if rows.numel() > len(self.given):  # each item once is less work
            return functional.embedding(rows, self.layer(self.given) + self.correction.weight)
        return self.layer(self.given[rows]) + self.correction(rows)  # type: ignore[no-any-return]

    def all_items(self) -> Tensor:
        """The x of all items (n, dim)."""
        result: Tensor = self(torch.arange(self.correction.num_embeddings, device=self.correction.weight.device))
        return result


class HistoryPooling(nn.Module):
    """x̄ (B, dim): a history (B, T, dim) pooled into one vector; an empty history gives a constant."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.project = nn.Linear(shape.dim, shape.dim) if shape.pooling in ("projected", "unit_mean") else None
        if self.project is not None:
            nn.init.eye_(self.project.weight)
            nn.init.zeros_(self.project.bias)
            self.project.requires_grad_(shape.pooling == "projected")
        self.attend = nn.Parameter(torch.zeros(shape.dim)) if shape.pooling == "attention" else None

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        logit = x.new_zeros(x.shape[:2]) if self.attend is None else x @ self.attend
        weight = torch.softmax(logit.masked_fill(~mask, -1e9), dim=1) * mask
        mean: Tensor = (x * weight[..., None]).sum(1)
        if self.project is None:
            return mean
        projected = self.project(mean)
        unit: Tensor = projected / (projected.norm(dim=1, keepdim=True) + 1e-6)
        return unit
