"""General transformers: any number of encoder layers over the history and decoder layers over the slate.

The simple transformer has one self-attention layer. It is compared with these networks (the paper's "general
transformers"), which also compute one number for every item shown:

    history → encoder layers (self-attention)                                   → memory
    slate   → decoder layers (self-attention, then cross-attention to memory)   → a linear layer → a_i

Slates and histories are sets, so there is no positional encoding. Without encoder layers the memory is the mean of the
history. Every history begins with the learned vector ``start``, so that an empty history has a memory, too. F of such a
network has no structure to optimise over: the other items enter a_i through layers of non-linear functions.
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

    encoder_layers: int = 1  # over the history; 0: use its mean
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
    """An encoder over the history and a decoder over the slate; computes arguments a_i (B, L) like SimpleNetwork."""

    def __init__(self, n_items: int, depth: Depth, embeddings: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.items = Items(n_items, depth.dim, embeddings)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.zeros_(self.bias.weight)
        self.start = nn.Parameter(torch.zeros(1, 1, depth.dim))
        # Pre-layer normalisation trains four layers stably without a longer warm-up.
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
        self.output = nn.Linear(depth.dim, 1)
        if embeddings is not None:
            self.decays = {"items.correction.weight": CORRECTION_DECAY}

    def memory(self, history: Tensor, history_mask: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, T', dim) that the decoder attends to, and its padding mask (True for padding)."""
        start = self.start.expand(len(history), 1, -1)
        x = torch.cat([start, self.items(history)], dim=1)
        valid = torch.cat([torch.ones_like(history_mask[:, :1]), history_mask], dim=1)
        if self.encoder is not None:
            return self.encoder(x, src_key_padding_mask=~valid), ~valid
        weight = valid.to(x.dtype)[..., None]
        mean = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        return mean, torch.zeros_like(valid[:, :1])

    def forward(self, history: Tensor, history_mask: Tensor, shown: Tensor, shown_mask: Tensor) -> Tensor:
        """The arguments (B, L) of the items shown; the masks are False for padding."""
        memory, padding = self.memory(history, history_mask)
        x = self.decoder(self.items(shown), memory, tgt_key_padding_mask=~shown_mask, memory_key_padding_mask=padding)
        argument: Tensor = self.output(x).squeeze(-1) + self.bias(shown).squeeze(-1)
        return argument
