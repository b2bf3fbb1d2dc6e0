"""Small networks, slates and sessions for the tests of training."""

from __future__ import annotations

import numpy as np
import torch

from setwise.datasets.sessions import Sessions, Slates
from setwise.model.ragged import Ragged
from setwise.training.network import Shape, SimpleNetwork

ITEMS = 30


def random_network(shape: Shape, seed: int = 0, n: int = ITEMS, embedded: bool = False) -> SimpleNetwork:
    """A network without zero parameters, so that every part affects the output."""
    torch.manual_seed(seed)
    vectors = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32) if embedded else None
    network = SimpleNetwork(n, shape, vectors)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.4 * torch.randn_like(parameter)
    return network.eval()


def random_slates(seed: int = 0, count: int = 12, n: int = ITEMS, longest: int = 6) -> Slates:
    """Histories of 0 to 10 items, slates of 1 to ``longest`` items."""
    rng = np.random.default_rng(seed)
    history = Ragged.of([rng.integers(n, size=length) for length in [0, 10, *rng.integers(0, 8, count - 2)]])
    shown = Ragged.of([rng.permutation(n)[:length] for length in rng.integers(1, longest + 1, count)])
    outcome = (rng.random(len(shown.values)) < 0.4).astype(np.float32)
    return Slates(history, shown, outcome, list(range(n)))


def parity_slates(count: int, n: int = ITEMS, seed: int = 0, k: int = 3) -> Slates:
    """A planted problem: outcome 1 with probability 0.9 for even items, 0.1 for odd ones, for every user."""
    rng = np.random.default_rng(seed)
    shown = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)[:, :k]
    history = rng.integers(n, size=(count, 4))
    outcome = (rng.random(shown.shape) < np.where(shown % 2 == 0, 0.9, 0.1)).astype(np.float32)
    lists = [Ragged.cut(part.ravel(), np.full(count, part.shape[1])) for part in (history, shown)]
    return Slates(*lists, outcome.ravel(), [f"item-{row}" for row in range(n)])


def grouped_sessions(count: int, seed: int = 0, groups: int = 3, each: int = 10, length: int = 6) -> Sessions:
    """Sessions of items of one group, except for the last item."""
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(count):
        group = rng.integers(groups)
        mine = rng.permutation(each)[: length - 1] + group * each
        other = (rng.integers(each) + (group + 1) % groups * each) % (groups * each)
        lists.append([*mine, other])
    return Sessions(Ragged.of(lists), [f"item-{row}" for row in range(groups * each)])


def log_loss(predicted: np.ndarray, outcome: np.ndarray) -> float:
    return float(-np.mean(outcome * np.log(predicted) + (1 - outcome) * np.log(1 - predicted)))
