"""An upper bound over all items of a catalogue on a device, for catalogues too large for the bounds over fine cells.

Let M^h be at least every score of head h, the sink's included, and ρ_i^h at least every logit of item i, so that the
weights of the other members of a set, and of the sink, add up to at most K e^(ρ_i), with K = k − 1, or k with a sink.
An average rises with the weight of what is above it, and no score is above M. So with α_i = e^(q_i·k_i − ρ_i),

    a_i(S) ≤ base_i · u⁰ + Σ_h [M^h − α_i^h (M^h − s_i^h) / (α_i^h + K)]      for every S of at most k items with i.

F(S) is at most the sum of the k largest rewards at these arguments. ρ_i is ‖q_i‖ times the longest key. Every item
counts, eligible or not. The bound is looser than those over cells, and takes one pass over the vectors.

**Rounding.** Scores are products in single precision, raised by (2 D + 8) 2⁻²⁴ ‖v‖ ‖u‖ for the longest v, more than
their error. All else is in double precision with a relative margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from setwise.model.users import User
from setwise.retrieval.device_catalog import DeviceCatalog
from setwise.retrieval.device_rewards import evaluated

_TOGETHER = 1 << 22  # items whose arguments are computed at a time
_MARGIN = 1e-9  # relative, more than rounding in double precision

Padded = tuple[torch.Tensor, float]  # scores by place, and how far they may be off


@dataclass(frozen=True, eq=False)
class DeviceBound:
    """What the bound needs of every item beside its vector: log α, rounded downwards, by place (P, H) in float32."""

    catalog: DeviceCatalog
    log_share: torch.Tensor

    @classmethod
    def of(cls, catalog: DeviceCatalog) -> DeviceBound:
        """Compute log α of all items."""
        longest = torch.linalg.norm(catalog.key, dim=2).double().amax(0) * (1 + 1e-5)  # (H,), norms in float32
        if catalog.sink_key is not None:
            longest = torch.maximum(longest, torch.linalg.norm(catalog.sink_key, dim=1))
        share = torch.zeros((len(catalog.layout.rows), catalog.heads), device=catalog.device)
        for first in range(0, len(catalog.query), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            query, key = catalog.query[some].double(), catalog.key[some].double()
            own, reach = (query * key).sum(2), torch.linalg.norm(query, dim=2) * longest
            low = own - reach - 1e-6 * (own.abs() + reach)  # also covers the rounding to float32
            share[catalog.place_of[some].long()] = low.float()
        return cls(catalog, share)

    def upper(self, user: User, k: int) -> float:
        """F(S) is at most this for every set S of at most k items."""
        catalog, layout = self.catalog, self.catalog.layout
        users = catalog.users([user])
        heads, width = users.heads.shape[1:]
        held = layout.order >= 0
        scores = [self._scores(slice(h * width, (h + 1) * width), users.heads[0, h]) for h in range(heads)]
        base = self._scores(
            slice(heads * width, None), users.heads.new_zeros(0) if users.base is None else users.base[0]
        )
        tops = [torch.where(held, score, -torch.inf).amax().double() + pad for score, pad in scores]
        if catalog.sink_value is not None:
            tops = [torch.maximum(top, own) for top, own in zip(tops, catalog.sink_scores(users)[0], strict=True)]
        others, best = k - 1 + (catalog.sink_key is not None), []
        for first in range(0, len(held), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            argument = self._arguments(some, scores, base, tops, others)
            rows = layout.order[some].clamp_min(0).long()
            reward = evaluated(catalog.rewards, catalog.classes(rows), argument)
            best.append(torch.topk(torch.where(held[some], reward, -torch.inf), min(k, len(rows))).values)
        every = torch.cat(best)
        largest = torch.topk(every, min(k, len(every))).values
        return _raised(float(largest.clamp_min(0.0).sum()), float(largest[0]))

    def _scores(self, columns: slice, vector: torch.Tensor) -> Padded:
        """The products of these columns of all rows with a vector, in single precision, and more than their error."""
        rows = self.catalog.layout.rows[:, columns]
        length = float(self.catalog.layout.norm.max()) * float(torch.linalg.norm(vector))
        products = torch.cat([torch.mv(part, vector.float()) for part in torch.split(rows, _TOGETHER)])
        return products, (2 * len(vector) + 8) * 2.0**-24 * length

    def _arguments(
        self, some: slice, scores: list[Padded], base: Padded, tops: list[torch.Tensor], others: int
    ) -> torch.Tensor:
        """At least the argument of each of these items in any set."""
        argument = base[0][some].double() + base[1]
        size = argument.abs()
        for h, ((score, pad), top) in enumerate(zip(scores, tops, strict=True)):
            share = torch.exp(self.log_share[some, h].double())
            below = (top - (score[some].double() + pad)).clamp_min(0.0)
            argument += top - (share * below / (share + others) if others else below)
            size += top.abs() + below
        return argument + _MARGIN * size


def _raised(total: float, single: float) -> float:
    """The bound from the sum of the positive rewards and the largest reward; infinite where they are not numbers."""
    bound = total if single > 0 else single
    return bound + _MARGIN * abs(bound) if math.isfinite(bound) else math.inf
