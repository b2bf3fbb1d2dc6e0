"""SASRec (Kang and McAuley 2018) as a peer: two layers of causal self-attention over a history, full softmax.

Trained to predict the next item at every position, with the cross-entropy over the whole catalogue, which is stronger
than the sampled binary loss of the original (Klenitskiy and Vasilev 2023). Dropout and the number of epochs are chosen
on the validation part; the model is then trained again on all training sessions. Meant for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from setwise.datasets import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged

DIM, LAYERS, HEADS, LENGTH = 128, 2, 2, 50
RATE, WEIGHT_DECAY, BATCH = 1e-3, 1e-4, 128
EPOCHS, PATIENCE = 100, 8
DROPOUTS = (0.2, 0.5)
Hits = Callable[[Callable[[HistorySplit], np.ndarray]], float]


class Setting(NamedTuple):
    """What is chosen on the validation part."""

    dropout: float
    epochs: int


class SasRec(nn.Module):
    """The network; item n is padding."""

    def __init__(self, n: int, dropout: float) -> None:
        super().__init__()
        self.n = n
        self.items, self.positions = nn.Embedding(n + 1, DIM, padding_idx=n), nn.Embedding(LENGTH, DIM)
        for table in (self.items, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(
            DIM, HEADS, DIM, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(DIM), enable_nested_tensor=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """The state (B, T, DIM) at every position of padded sequences (B, T), which end at the last place."""
        length = rows.shape[1]
        state = self.dropout(self.items(rows) * DIM**0.5 + self.positions.weight[-length:])
        later = torch.triu(torch.ones(length, length, device=rows.device, dtype=torch.bool), 1)
        return self.layers(state, mask=later)

    def logits(self, state: Tensor) -> Tensor:
        """The scores of all items."""
        return state @ self.items.weight[:-1].T

    def scores(self, split: HistorySplit) -> np.ndarray:
        """The scores (B, n) of the histories."""
        self.eval()
        with torch.no_grad():
            rows = padded(split.history, self.n).to(self.items.weight.device)
            return self.logits(self(rows)[:, -1]).float().cpu().numpy()


def padded(lists: Iterable[np.ndarray], n: int) -> Tensor:
    """The latest LENGTH items of each list, at the end of its row."""
    rows = [np.asarray(one)[-LENGTH:] for one in lists]
    filled = np.full((len(rows), LENGTH), n, np.int64)
    for place, row in enumerate(rows):
        filled[place, LENGTH - len(row) :] = row
    return torch.from_numpy(filled)


def fit(
    sessions: Sessions, setting: Setting, seed: int = 0, after: Callable[[SasRec, int], bool] | None = None
) -> SasRec:
    """Train for the epochs of the setting, or until ``after`` an epoch says that it is enough."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = SasRec(sessions.n_items, setting.dropout).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    inputs, targets = (part.to(device) for part in _examples(sessions.items, sessions.n_items))
    order = np.random.default_rng(seed)
    for epoch in range(1, setting.epochs + 1):
        model.train()
        for rows in torch.from_numpy(order.permutation(len(inputs))).to(device).split(BATCH):
            wanted = targets[rows]
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                state = model(inputs[rows])
                logits = model.logits(state[wanted < model.n])
            loss = nn.functional.cross_entropy(logits.float(), wanted[wanted < model.n])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if after is not None and after(model, epoch):
            break
    return model


def _examples(items: Ragged, n: int) -> tuple[Tensor, Tensor]:
    """Sequences and, place by place, the item that follows; long sessions are cut in pieces."""
    pieces = [one[max(0, end - LENGTH - 1) : end] for one in items for end in range(len(one), 1, -LENGTH)]
    return padded((piece[:-1] for piece in pieces), n), padded((piece[1:] for piece in pieces), n)


def tuned(first: Sessions, hits: Hits, epochs: int = EPOCHS, seed: int = 0) -> Setting:
    """The dropout and the number of epochs of most hits on the validation part."""
    best, chosen = -1.0, Setting(DROPOUTS[0], 1)
    for dropout in DROPOUTS:
        own, since = -1.0, 0

        def after(model: SasRec, epoch: int, dropout: float = dropout) -> bool:
            nonlocal best, chosen, own, since
            found = hits(model.scores)
            since = 0 if found > own else since + 1
            own = max(own, found)
            if found > best:
                best, chosen = found, Setting(dropout, epoch)
            return since >= PATIENCE

        fit(first, Setting(dropout, epochs), seed, after)
    return chosen
