"""The simple transformer as a network: what is learned, and how a slate's arguments come from it.

    x_i            an item's embedding after the input layer
    q_i, k_i, v_i  linear in x_i, one of each a head
    x̄              the user: P times the mean of the x of the history, at unit length (or as ``reading`` says)
    u^h, u⁰        linear in (x̄, 1): the constant coordinate speaks for users of whom nothing is known
    w_ij^h         exp(q_i^h · k_j^h), and z_i^h = exp(q_i^h · k_0^h + level^h), the weight of the sink
    a_i(S)         base_i · u⁰ + bias_i + Σ_h (Σ_{j∈S} w_ij^h v_j^h + z_i^h v_0^h) · u^h / (Σ_{j∈S} w_ij^h + z_i^h)

These are the catalogue's arrays: ``objective.py`` computes the same numbers from them. The item's own bias is the last
column of the base term, next to a user coordinate that is always 1.

**Where learning starts** decides whether attention is learned at all. From small random weights every head is a mean
over the slate, and hardly leaves that plateau. So keys start equal to queries (items attend to what is like them, with
logits of about SHARPNESS), the sink starts SILENCE above nothing, so that weights are small and add up like a sum, and
values start large enough to be felt through them.

With given embeddings e_i (word2vec of the sessions, say) x_i = L e_i + r_i: a learned layer, and a correction for each
item that a strong decay keeps small, so that an item seen rarely stays where its embedding puts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.rewards import Logistic

READINGS = ("turned", "direction", "mean", "attention")
CORRECTION_DECAY = 10.0  # of the corrections r_i: 10 and 30 did equally well in the simulated world, none far worse
SHARPNESS, SILENCE, LOUDNESS = 4.0, 6.0, 3.0  # logits of an item and itself, of the sink, and the scale of values
_LEVER = 5.0  # the sink's level is learned as a multiple of this: Adam's steps are small, and it has far to go


@dataclass(frozen=True)
class Shape:
    """The sizes of a simple transformer."""

    dim: int = 32  # of the embeddings
    heads: int = 4
    d_kq: int = 8  # of queries and keys
    d_v: int = 8  # of values
    base: bool = True  # the residual term: without it an item is worth only what its company lends
    sink: bool = True  # lets attention be silent, so that a softmax can act like a sum
    reading: str = "turned"  # P times a history's mean, at unit length; "direction": without P; "mean"; "attention"

    def __post_init__(self) -> None:
        for name in ("dim", "heads", "d_kq", "d_v"):
            whole_number(name, getattr(self, name))
        if self.reading not in READINGS:
            raise InvalidInput("reading", f"one of {', '.join(READINGS)}", repr(self.reading), "choose one of those")


class SimpleNetwork(nn.Module):
    """One self-attention layer over the slate, read by the user."""

    def __init__(self, n_items: int, shape: Shape, embeddings: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.items = Items(n_items, shape.dim, embeddings)
        self.reader = Reader(shape)
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
        self.silent = False  # while it is, items are worth what they are alone and nothing is learned of company
        self.attend_to_alike()
        if embeddings is not None:
            self.decays = {"items.correction.weight": CORRECTION_DECAY}

    def attend_to_alike(self) -> None:
        """Keys like queries, a sink that is nearly silent beside nothing, and values that are felt through it."""
        with torch.no_grad():
            for head in self.query.weight.view(self.shape.heads, self.shape.d_kq, -1):
                nn.init.orthogonal_(head, gain=math.sqrt(SHARPNESS))
            self.query.bias.zero_()
            self.key.weight.copy_(self.query.weight)
            if self.shape.sink:
                self.level.fill_(SILENCE / _LEVER)
                self.value.weight.mul_(LOUDNESS)
                self.value.bias.mul_(LOUDNESS)

    def keep_items(self, reward: Logistic) -> None:
        """Keep what items are, and are worth alone under this reward: only company is learned from now on."""
        with torch.no_grad():
            for tensor in (self.user_base.weight, self.user_base.bias, self.bias.weight):
                tensor.mul_(reward.scale)
            self.offset.fill_(reward.bias)
        for part in (self.items, self.reader, self.base, self.user_base, self.bias):
            part.requires_grad_(False)

    @property
    def sink_level(self) -> Tensor:
        """What is added to the sink's logits, one number a head."""
        return _LEVER * self.level

    def forward(self, history: Tensor, heard: Tensor, shown: Tensor, filled: Tensor) -> Tensor:
        """The arguments a_i(S) (B, L) of the items shown; what is not ``filled`` is padding."""
        user: Tensor = self.reader(self.items(history), heard)
        x: Tensor = self.items(shown)
        argument = self.offset.expand(shown.shape) if self.silent else self.offset + self.company(x, user, filled)
        if self.shape.base:
            liking = (self.base(x) @ self.user_base(user).unsqueeze(-1)).squeeze(-1)
            argument = argument + liking + self.bias(shown).squeeze(-1)
        return argument

    def company(self, x: Tensor, user: Tensor, filled: Tensor) -> Tensor:
        """Σ_h of what the slate lends each of its items (B, L)."""
        query, key = self.headed(self.query, x).transpose(1, 2), self.headed(self.key, x).transpose(1, 2)
        heads = self.headed(self.user_heads, user)  # (B, H, d_v)
        score = torch.einsum("blhd,bhd->bhl", self.headed(self.value, x), heads)
        logit = (query @ key.transpose(-1, -2)).masked_fill(~filled[:, None, None, :], -1e9)  # (B, H, L, L)
        if self.shape.sink:
            silence = torch.einsum("bhld,hd->bhl", query, self.sink_key) + self.sink_level[:, None]
            logit = torch.cat([logit, silence[..., None]], dim=-1)
            score = torch.cat([score, torch.einsum("hd,bhd->bh", self.sink_value, heads)[..., None]], dim=-1)
        return (torch.softmax(logit, dim=-1) @ score[..., None]).squeeze(-1).sum(1)

    def headed(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """(…, H, d) of a layer that serves all heads at once."""
        result: Tensor = layer(x).unflatten(-1, (self.shape.heads, -1))
        return result


class Items(nn.Module):
    """x_i: a row that is learned, or a given embedding through a linear layer and a learned correction."""

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
        nn.init.orthogonal_(self.layer.weight)  # cosines between embeddings survive as far as dimensions allow
        nn.init.zeros_(self.layer.bias)

    def forward(self, rows: Tensor) -> Tensor:
        correction: Tensor = self.correction(rows)
        return correction if self.given is None else self.layer(self.given[rows]) + correction

    def everything(self) -> Tensor:
        """The x of all items (n, dim)."""
        result: Tensor = self(torch.arange(self.correction.num_embeddings, device=self.correction.weight.device))
        return result


class Reader(nn.Module):
    """x̄ (B, dim): what a history (B, T, dim) says of its user; the same for everybody without one."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.project = nn.Linear(shape.dim, shape.dim) if shape.reading in ("turned", "direction") else None
        if self.project is not None:
            nn.init.eye_(self.project.weight)
            nn.init.zeros_(self.project.bias)
            self.project.requires_grad_(shape.reading == "turned")
        self.attend = nn.Parameter(torch.zeros(shape.dim)) if shape.reading == "attention" else None

    def forward(self, x: Tensor, heard: Tensor) -> Tensor:
        logit = x.new_zeros(x.shape[:2]) if self.attend is None else x @ self.attend
        weight = torch.softmax(logit.masked_fill(~heard, -1e9), dim=1) * heard
        mean: Tensor = (x * weight[..., None]).sum(1)
        if self.project is None:
            return mean
        turned = self.project(mean)
        unit: Tensor = turned / (turned.norm(dim=1, keepdim=True) + 1e-6)
        return unit
