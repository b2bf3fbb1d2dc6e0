"""What a network is taught: three questions about a slate whose answers are in the data.

The network gives every shown item an argument a_i(S); f is the logistic function, f(a) = 1 / (1 + e^{−a}).

* ``item``: what came of item i? Cross-entropy of f(a_i) and the outcome, item by item (the paper's Trivago task).
* ``set``: is this whole set true or fake? Cross-entropy of the mean of f(a_i) over the slate (the paper's Spotify
  task, where the output is the sum of the f); outcomes are all 1 in a true set, all 0 in a fake one.
* ``choice``: which item was chosen? Cross-entropy of the softmax of a_i within the slate. It says nothing of a slate
  from which nobody chose, and promises no number of hits: calibrate before believing F.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def item_loss(argument: Tensor, outcome: Tensor, filled: Tensor) -> Tensor:
    """−log likelihood of each item's outcome, averaged over the items shown."""
    return functional.binary_cross_entropy_with_logits(argument[filled], outcome[filled])


def set_loss(argument: Tensor, outcome: Tensor, filled: Tensor) -> Tensor:
    """−log likelihood of the whole set being true, averaged over the slates."""
    size = filled.sum(dim=1)
    mean = (torch.sigmoid(argument) * filled).sum(dim=1) / size
    label = (outcome * filled).sum(dim=1) / size
    # A mean of float32 logistics can be exactly 0 or 1, where the logarithm ends.
    return functional.binary_cross_entropy(mean.clamp(1e-6, 1 - 1e-6), label)


def choice_loss(argument: Tensor, outcome: Tensor, filled: Tensor) -> Tensor:
    """−log of the softmax weight of what was chosen, averaged over the slates with a choice."""
    weight = torch.log_softmax(argument.masked_fill(~filled, -torch.inf), dim=1).masked_fill(~filled, 0.0)
    chosen = (outcome * filled).sum(dim=1)
    share = outcome * filled / chosen.clamp_min(1e-9)[:, None]
    return -(share * weight).sum() / (chosen > 0).sum().clamp_min(1)


LOSSES: dict[str, Loss] = {"item": item_loss, "set": set_loss, "choice": choice_loss}
