"""The dense sub-problems of many users on a device: the arrays of model/instance.py, all users at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from setwise.kernels import rewards as codes
from setwise.model.instance import FLOOR
from setwise.model.reward_table import RewardTable
from setwise.ranking.swap import LARGEST_SINGLE, LEAST_SINGLE
from setwise.retrieval.device_catalog import DeviceCatalog, DeviceUsers


class DeviceInstances(NamedTuple):
    """m candidates of each of B users; weights are e^(logit − the row's largest), at least e^−700.

    Arrays are in single precision where that can represent all weights and rewards, else in double precision.
    """

    weight: torch.Tensor  # (B, m, H, m): w_ij at [i, h, j]
    received: torch.Tensor  # (B, m, H, m): w_ij at [j, h, i]
    score: torch.Tensor  # (B, m, H)
    base: torch.Tensor  # (B, m)
    sink_weight: torch.Tensor  # (B, m, H); zero without a sink
    sink_part: torch.Tensor  # (B, m, H): the sink's weight times its score
    of_class: torch.Tensor | None  # (B, m) the reward class; None: all have the same
    held: torch.Tensor  # (B, m) whether there is a candidate
    rewards: RewardTable

    def part(self, users: slice) -> DeviceInstances:
        """The sub-problems of some users."""
        of_users: list[Any] = [each[users] if isinstance(each, torch.Tensor) else each for each in self]
        return DeviceInstances(*of_users)

    @property
    def own(self) -> torch.Tensor:
        """w_ii: (B, m, H)."""
        return torch.diagonal(self.weight, dim1=1, dim2=3).transpose(1, 2)


def instances(catalog: DeviceCatalog, rows: torch.Tensor, held: torch.Tensor, users: DeviceUsers) -> DeviceInstances:
    """The sub-problems on ``rows`` (B, m); places that are not ``held`` have some row."""
    score, base = catalog.scores(rows, users)
    query, key = catalog.query[rows].double().transpose(1, 2), catalog.key[rows].double().transpose(1, 2)
    logit = torch.matmul(query, key.transpose(2, 3))  # (B, H, m, m)
    logit = torch.where(held[:, None, None, :], logit, -torch.inf)
    sink_logit = catalog.sink_logits(query.transpose(1, 2))
    top = torch.maximum(logit.amax(3), sink_logit)
    weight = (logit - top[..., None]).clamp_min_(FLOOR).exp_()
    sink = torch.where(sink_logit == -torch.inf, 0.0, (sink_logit - top).clamp_min(FLOOR).exp())
    sink_score = catalog.sink_scores(users)
    kind = torch.float32 if _fits_single(catalog.rewards, weight, held, score, base, sink_score) else torch.float64
    weight, sink = weight.to(kind), sink.transpose(1, 2).to(kind)
    return DeviceInstances(
        weight.transpose(1, 2).contiguous(),
        weight.permute(0, 3, 1, 2).contiguous(),
        score.transpose(1, 2).contiguous().to(kind),
        base.to(kind),
        sink,
        sink * sink_score[:, None].to(kind),
        catalog.classes(rows),
        held,
        catalog.rewards,
    )


def _fits_single(
    table: RewardTable,
    weight: torch.Tensor,
    held: torch.Tensor,
    score: torch.Tensor,
    base: torch.Tensor,
    sink_score: torch.Tensor,
) -> bool:
    """Whether single precision suffices for the search: only logistic rewards, no tiny weights, none of them tiny.

    A large argument does no harm: rewards that round to 1 are equal to any precision that a value is shown with.
    """
    if (table.code != codes.LOGISTIC).any():
        return False
    smallest = torch.where(held[:, None, None, :] & held[:, None, :, None], weight, 1.0).amin()
    least = torch.minimum(score.amin(2), sink_score).sum(1) + base.amin(1)  # of any argument
    low, argument = torch.stack([smallest, least.amin()]).tolist()
    parameters = table.parameter
    return low >= LEAST_SINGLE and bool((parameters[:, 0] * argument - abs(parameters[:, 1]) >= -LARGEST_SINGLE).all())
