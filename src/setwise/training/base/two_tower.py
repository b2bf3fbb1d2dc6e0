"""A two-tower network for sessions whose order matters: which items come next (model/two_tower.py).

Every session gives an example per epoch: it is cut at a random place; the items before the cut are the history, and
items after it, drawn at random, are the targets. The loss is the cross-entropy of a softmax over the catalogue,
estimated from a sample (Yi et al. 2019): the candidates of a batch are its targets and NEGATIVES items drawn by
popularity. An item is a candidate with probability q_i = 1 − exp(−m p_i), where p is the popularity and m the number of
draws; subtracting log q_i from its score makes the sampled softmax nearly unbiased.

Steps follow a fixed schedule, without early stopping: held-out sessions, which choose the weights of the blend and
calibrate the reward, take no part in the training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise._types import Floats, Ints
from setwise.model.ragged import Ragged
from setwise.model.two_tower import TwoTower
from setwise.training.device import resolve_device

DIM = 128
LATEST = 15  # items of a history: with the decay below older ones weigh next to nothing
TARGETS = 5  # per example, drawn with replacement
NEGATIVES = 1024  # per batch
EPOCHS, MOST_STEPS = 16, 2000
LEAST_BATCH, BATCH, PER_EPOCH = 32, 512, 30  # sessions per step, and steps per epoch of small data
RATE, WARM_UP, WEIGHT_DECAY, START = 3e-3, 0.08, 0.1, 0.05


class _Batch(NamedTuple):
    seen: Tensor  # (B, LATEST), the latest first
    weight: Tensor  # (B, LATEST)
    targets: Ints  # (B, TARGETS)


def fit_two_tower(sessions: Ragged, n: int, decay: float, seed: int = 0, device: str | None = None) -> TwoTower:
    """Train on sessions of two distinct items or more, in order; on a processor the same seed gives the same model."""
    target = resolve_device(device)
    rng = np.random.default_rng([seed, 7])
    drawn = np.bincount(sessions.values, minlength=n).astype(np.float64) + 1
    drawn /= drawn.sum()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tables = [(START * torch.randn(n, DIM)).to(target).requires_grad_() for _ in range(3)]
    bias = torch.zeros(DIM, device=target, requires_grad=True)
    item_bias = torch.from_numpy(np.log(drawn)).float().to(target).requires_grad_()
    groups = [{"params": tables, "weight_decay": WEIGHT_DECAY}, {"params": [bias, item_bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    batch_size = min(BATCH, max(LEAST_BATCH, len(sessions) // PER_EPOCH))
    steps = min(MOST_STEPS, EPOCHS * math.ceil(len(sessions) / batch_size))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / steps))
    for rows in _batches(len(sessions), batch_size, steps, rng):
        batch = _batch(sessions, rows, decay, rng, target)
        loss = _loss(batch, tables, bias, item_bias, drawn, rng)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    seen, last, items, bias_of_users, bias_of_items = (
        part.detach().cpu().numpy() for part in (*tables, bias, item_bias)
    )
    with_bias = np.column_stack([items, bias_of_items]).astype(np.float32)
    return TwoTower(with_bias, seen, last, bias_of_users, decay)


def _rate(part: float) -> float:
    """The learning rate, relative: a short rise, then half a cosine."""
    return min(1.0, part / WARM_UP + 1e-3) * 0.5 * (1 + math.cos(math.pi * min(part, 1.0)))


def _batches(count: int, size: int, steps: int, rng: np.random.Generator) -> list[Ints]:
    """The sessions of every step: all of them in random order, epoch by epoch."""
    epochs = math.ceil(steps * size / count)
    order = [np.array_split(rng.permutation(count), math.ceil(count / size)) for _ in range(epochs)]
    return [rows for epoch in order for rows in epoch][:steps]


def _batch(sessions: Ragged, rows: Ints, decay: float, rng: np.random.Generator, device: torch.device) -> _Batch:
    start, length = sessions.offsets[rows], sessions.lengths[rows]
    cut = rng.integers(1, length)
    age = np.arange(LATEST)
    known = age < cut[:, None]
    seen = sessions.values[np.where(known, start[:, None] + cut[:, None] - 1 - age, start[:, None])]
    weight = np.where(known, decay**age, 0.0)
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    later = rng.integers(cut[:, None], length[:, None], (len(rows), TARGETS))
    targets = sessions.values[start[:, None] + later]
    items, weights = torch.from_numpy(seen.astype(np.int64)), torch.from_numpy(weight).float()
    return _Batch(items.to(device), weights.to(device), targets)


def _loss(
    batch: _Batch, tables: list[Tensor], bias: Tensor, item_bias: Tensor, drawn: Floats, rng: np.random.Generator
) -> Tensor:
    seen, last, items = tables
    pooled = torch.nn.functional.embedding_bag(batch.seen, seen, per_sample_weights=batch.weight, mode="sum")
    user = torch.tanh(pooled + last[batch.seen[:, 0]] + bias)
    negatives = np.searchsorted(np.cumsum(drawn), rng.random(NEGATIVES)).clip(max=len(drawn) - 1)
    candidates = np.unique(np.concatenate([batch.targets.ravel(), negatives]))
    chance = -np.expm1(-(NEGATIVES + batch.targets.size) * drawn[candidates])
    which = torch.from_numpy(candidates).to(items.device)
    shift = item_bias[which] - torch.from_numpy(np.log(chance)).float().to(items.device)
    logits = torch.addmm(shift, user, items[which].T)
    place = torch.from_numpy(np.searchsorted(candidates, batch.targets)).to(items.device)
    return -(logits.gather(1, place) - torch.logsumexp(logits, 1, keepdim=True)).mean()
