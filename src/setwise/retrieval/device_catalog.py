"""DeviceCatalog: what a request reads of a catalogue, beside the vectors of a gpu index, on the same device.

    query, key    (n, H, d) float32, by row        place_of   (n,) the place of each row in the layout
    values and base terms are the layout's rows, at these places

Numbers are read in float32, as the catalogue has them, and every product is computed in float64. So scores and logits
differ from those of model/objective.py by rounding in float64 alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from setwise._types import Floats
from setwise.model.catalog import Catalog
from setwise.model.reward_table import RewardTable
from setwise.model.users import User
from setwise.retrieval.device_layout import BLOCK, DeviceLayout, pieces
from setwise.retrieval.device_rewards import evaluated


@dataclass(frozen=True, eq=False)
class DeviceUsers:
    """B users: heads (B, H, d_v) and base (B, d_0), both float64; None without a base term."""

    heads: torch.Tensor
    base: torch.Tensor | None

    def part(self, users: slice) -> DeviceUsers:
        """Some of the users."""
        return DeviceUsers(self.heads[users], None if self.base is None else self.base[users])


@dataclass(frozen=True, eq=False)
class DeviceCatalog:
    """Queries, keys and reward classes by row, beside the layout of an index of the same rows."""

    catalog: Catalog
    layout: DeviceLayout
    place_of: torch.Tensor  # (n,) int32
    query: torch.Tensor  # (n, H, d) float32
    key: torch.Tensor  # (n, H, d) float32
    reward_class: torch.Tensor | None  # (n,) int32; None: all items have the same function
    rewards: RewardTable
    sink_key: torch.Tensor | None  # (H, d) float64
    sink_value: torch.Tensor | None  # (H, d_v) float64

    @classmethod
    def of(cls, catalog: Catalog, layout: DeviceLayout) -> DeviceCatalog:
        """Copy queries, keys and classes to the device of the layout, in pieces."""
        device, held = layout.device, torch.nonzero(layout.order >= 0)[:, 0]
        place_of = torch.empty(layout.count, dtype=torch.int32, device=device)
        place_of[layout.order[held].long()] = held.to(torch.int32)
        table, sink = RewardTable.of(catalog.rewards), catalog.sink
        classes = None
        if len(table.code) > 1:
            classes = torch.from_numpy(np.array(catalog.reward_class, np.int32)).to(device)
        query, key = _copied(catalog.query, device), _copied(catalog.key, device)
        sink_key, sink_value = (
            (None, None) if sink is None else (_double(sink.key, device), _double(sink.value, device))
        )
        return cls(catalog, layout, place_of, query, key, classes, table, sink_key, sink_value)

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self.layout.device

    @property
    def heads(self) -> int:
        """The number of heads, H."""
        return self.query.shape[1]

    def users(self, users: list[User]) -> DeviceUsers:
        """These users on the device."""
        heads = _double(np.stack([user.heads for user in users]), self.device)
        if self.catalog.base is None:
            return DeviceUsers(heads, None)
        none = np.zeros(self.catalog.base.shape[1])
        base = np.stack([none if user.base is None else user.base for user in users])
        return DeviceUsers(heads, _double(base, self.device))

    def cell_of(self, rows: torch.Tensor) -> torch.Tensor:
        """The cell of each row: int64, of the same shape."""
        block = (self.place_of[rows] // BLOCK).contiguous()
        return torch.searchsorted(self.layout.block_start[1:].contiguous(), block, right=True)

    def scores(self, rows: torch.Tensor, users: DeviceUsers) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores s_j^h (B, H, m) and base terms (B, m) of ``rows`` (B, m), in float64."""
        vectors = self.layout.rows[self.place_of[rows].long()].double()
        count, heads, width = users.heads.shape
        value = vectors[..., : heads * width].reshape(count, -1, heads, width)
        score = torch.einsum("bmhd,bhd->bhm", value, users.heads)
        if users.base is None:
            return score, torch.zeros_like(score[:, 0])
        return score, torch.einsum("bmd,bd->bm", vectors[..., heads * width :], users.base)

    def classes(self, rows: torch.Tensor) -> torch.Tensor | None:
        """The reward class of each row; None where all are the same."""
        return None if self.reward_class is None else self.reward_class[rows]

    def sink_scores(self, users: DeviceUsers) -> torch.Tensor:
        """s_0^h (B, H); zero without a sink."""
        if self.sink_value is None:
            return torch.zeros_like(users.heads[:, :, 0])
        return torch.einsum("hd,bhd->bh", self.sink_value, users.heads)

    def sink_logits(self, query: torch.Tensor) -> torch.Tensor:
        """The logits of the sink (B, H, m) for queries (B, m, H, d); −∞ without a sink."""
        if self.sink_key is None:
            return torch.full_like(query[..., 0], -torch.inf).transpose(1, 2)
        return torch.einsum("bmhd,hd->bhm", query, self.sink_key)

    def pair_values(
        self, anchor: torch.Tensor, rows: torch.Tensor, users: DeviceUsers, score: torch.Tensor, base: torch.Tensor
    ) -> torch.Tensor:
        """F({anchor, c}) (B, m) for every c of ``rows`` (B, m) with these scores and base terms (partners.py).

        ``anchor`` (B,) is a position among the rows; the value of its pair with itself has no meaning.
        """
        query, key = self.query[rows].double(), self.key[rows].double()
        at = anchor[:, None]
        q_l, k_l = (torch.take_along_dim(each, at[..., None, None], 1) for each in (query, key))  # (B, 1, H, d)
        s_l, b_l = torch.take_along_dim(score, at[:, None], 2), torch.take_along_dim(base, at, 1)
        sink, of_sink = self.sink_scores(users)[..., None], self.sink_logits(query)
        to_row = torch.einsum("bohd,bmhd->bhm", q_l, key)
        to_anchor = torch.einsum("bmhd,bohd->bhm", query, k_l)
        itself = (query * key).sum(3).transpose(1, 2)
        l_itself, l_sink = torch.take_along_dim(itself, at[:, None], 2), torch.take_along_dim(of_sink, at[:, None], 2)
        of_row = base + _average((to_anchor, itself, of_sink), (s_l, score, sink)).sum(1)
        of_anchor = b_l + _average((l_itself, to_row, l_sink), (s_l, score, sink)).sum(1)
        classes = self.classes(rows)
        l_class = None if classes is None else torch.take_along_dim(classes, at, 1)
        return evaluated(self.rewards, classes, of_row) + evaluated(self.rewards, l_class, of_anchor)


def needed_bytes(catalog: Catalog) -> int:
    """The device memory of a ``DeviceCatalog``, without the layout."""
    _, heads, width = catalog.query.shape
    return len(catalog) * int(8 * heads * width + 4 + 4 * (len(catalog.rewards) > 1))


def _average(logits: tuple[torch.Tensor, ...], scores: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The attention average of three scores with these logits."""
    top = torch.maximum(torch.maximum(logits[0], logits[1]), logits[2])
    weights = [torch.exp(logit - top) for logit in logits]
    total = sum(weight * score for weight, score in zip(weights, scores, strict=True))
    return torch.as_tensor(total / (weights[0] + weights[1] + weights[2]))


def _copied(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """An array (n, H, d) on the device, copied in pieces."""
    result = torch.empty(array.shape, dtype=torch.float32, device=device)
    flat = result.reshape(len(array), -1)
    for first, rows in pieces(array.reshape(len(array), -1), device):
        flat[first : first + len(rows)] = rows
    return result


def _double(array: Floats | np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64)).to(device)
