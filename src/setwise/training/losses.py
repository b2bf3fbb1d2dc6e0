"""Training losses of a slate.

The network gives every shown item an argument a_i(S); f is the logistic function, f(a) = 1 / (1 + e^{−a}).

* ``item``: the outcome of item i. Cross-entropy of f(a_i) and the outcome, item by item (the paper's Trivago task).
* ``set``: whether the whole set is positive or negative. Cross-entropy of the mean of f(a_i) over the slate (the
  paper's Spotify task, where the output is the sum of the f). Outcomes of a positive set are 1, of a negative set 0.
* ``choice``: which item was chosen. Cross-entropy of the softmax of a_i within the slate. Slates without a choice carry
  no information, and F is not a number of hits: calibrate before using F as one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def item_loss(argument: Tensor, outcome: Tensor, mask: Tensor) -> Tensor:
    """−log likelihood of each item's outcome, averaged over the items shown; ``mask`` is False for padding."""
    return functional.binary_cross_entropy_with_logits(argument[mask], outcome[mask])


def set_loss(argument: Tensor, outcome: Tensor, mask: Tensor) -> Tensor:
    """−log likelihood of the label of the whole set, averaged over the slates."""
    size = mask.sum(dim=1)
    mean = (torch.sigmoid(argument) * mask).sum(dim=1) / size
    label = (outcome * mask).sum(dim=1) / size
    # A mean of float32 logistics can be exactly 0 or 1, where the logarithm is not finite.
    return functional.binary_cross_entropy(mean.clamp(1e-6, 1 - 1e-6), label)


def choice_loss(argument: Tensor, outcome: Tensor, mask: Tensor) -> Tensor:
    """−log of the softmax weight of the chosen item, averaged over the slates with a choice."""
    weight = torch.log_softmax(argument.masked_fill(~mask, -torch.inf), dim=1).masked_fill(~mask, 0.0)
    chosen = (outcome * mask).sum(dim=1)
    share = outcome * mask / chosen.clamp_min(1e-9)[:, None]
    return -(share * weight).sum() / (chosen > 0).sum().clamp_min(1)


LOSSES: dict[str, Loss] = {"item": item_loss, "set": set_loss, "choice": choice_loss}
