"""General transformers: any number of encoder layers over the history and decoder layers over the slate.

The simple transformer is one self-attention layer that the user reads; these are what it is compared with (the paper's
"general transformers"). Every item shown ends as one number, like there:

    history → encoder layers (self-attention)                                   → memory
    slate   → decoder layers (self-attention, then cross-attention to memory)   → a linear layer → a_i

Slates and histories are sets, so nothing says where an item stands. Without encoder layers the memory is the mean of
the history. Somebody without history is met as ``anyone``, a learned vector that stands at the head of every history.
Nothing here can be optimised over as F can: an item's company enters through layers of non-linear functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.training.network import CORRECTION_DECAY, Items


@dataclass(frozen=True)
class Depth:
    """The sizes of a general transformer."""

    encoder_layers: int = 1  # over the history; 0: its mean
    decoder_layers: int = 1  # over the slate
    dim: int = 64  # of the embeddings and of every layer
    heads: int = 4
    feedforward: int = 128  # hidden width within a layer
    dropout: float = 0.1

    def __post_init__(self) -> None:
        whole_number("encoder_layers", self.encoder_layers, least=0)
        for name in ("decoder_layers", "dim", "heads", "feedforward"):
            whole_number(name, getattr(self, name))
        if self.dim % self.heads:
            raise InvalidInput("dim", f"a multiple of the {self.heads} heads", self.dim, "change one of the two")
        if not 0 <= self.dropout < 1:
            raise InvalidInput("dropout", "at least 0 and below 1", self.dropout, "pass a share such as 0.1")


class GeneralTransformer(nn.Module):
    """Encoder over the history, decoder over the slate; arguments a_i (B, L) as the simple network gives them."""

    def __init__(self, n_items: int, depth: Depth, embeddings: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.items = Items(n_items, depth.dim, embeddings)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.zeros_(self.bias.weight)
        self.anyone = nn.Parameter(torch.zeros(1, 1, depth.dim))
        # Normalising first keeps four layers trainable without a warm-up.
        options: dict[str, Any] = {"dropout": depth.dropout, "batch_first": True, "norm_first": True}
        sizes = (depth.dim, depth.heads, depth.feedforward)
        encoder = nn.TransformerEncoderLayer(*sizes, **options)
        decoder = nn.TransformerDecoderLayer(*sizes, **options)
        self.encoder = (
            nn.TransformerEncoder(encoder, depth.encoder_layers, nn.LayerNorm(depth.dim), enable_nested_tensor=False)
            if depth.encoder_layers
            else None
        )
        self.decoder = nn.TransformerDecoder(decoder, depth.decoder_layers, nn.LayerNorm(depth.dim))
        self.read = nn.Linear(depth.dim, 1)
        if embeddings is not None:
            self.decays = {"items.correction.weight": CORRECTION_DECAY}

    def memory(self, history: Tensor, heard: Tensor) -> tuple[Tensor, Tensor]:
        """What the decoder may look at (B, T', dim), and where it must not."""
        anyone = self.anyone.expand(len(history), 1, -1)
        x = torch.cat([anyone, self.items(history)], dim=1)
        known = torch.cat([torch.ones_like(heard[:, :1]), heard], dim=1)
        if self.encoder is not None:
            return self.encoder(x, src_key_padding_mask=~known), ~known
        weight = known.to(x.dtype)[..., None]
        mean = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        return mean, torch.zeros_like(known[:, :1])

    def forward(self, history: Tensor, heard: Tensor, shown: Tensor, filled: Tensor) -> Tensor:
        """The arguments (B, L) of the items shown; what is not ``filled`` is padding."""
        memory, hidden = self.memory(history, heard)
        x = self.decoder(self.items(shown), memory, tgt_key_padding_mask=~filled, memory_key_padding_mask=hidden)
        argument: Tensor = self.read(x).squeeze(-1) + self.bias(shown).squeeze(-1)
        return argument
