"""Explanation: why a slate is worth what it is, and what other methods would have shown.

Item i of the slate S draws on its company through attention: its argument is

    a_i(S) = base_i · u⁰ + Σ_h sink_i^h s_0^h + Σ_{j∈S} lent_ij,      lent_ij = Σ_h attention_ij^h s_j^h,

so ``lent`` says who lends whom value: the paper's directed weighted graph, valued by the user's scores. ``rewards``
beside ``alone`` says what the company is worth to each item; the rivals say what it is worth to choose the set as a
whole. Every figure is recomputed by the judge.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.recommend.pipeline import Request
from setwise.recommend.slate import Slate

TOP_K, GREEDY, BEAM = "knn", "greedy", "beam"


@dataclass(frozen=True, eq=False)
class Rival:
    """The same request under one ranker: ids, rows and value of its set, and how long ranking took.

    The slate's own ranker is listed with the slate as it was answered, which the certificate may have bettered.
    """

    ranker: str
    items: NDArray[Any]
    indices: Rows
    value: float
    milliseconds: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """A slate of k items, taken apart.

    attention  (H, k, k)  who attends to whom; rows sum to 1, or to less by what the sink takes
    sink       (H, k)     what the sink takes, or None without one
    rewards    (k,)       f_i(a_i(S)): what each item earns in this company
    alone      (k,)       f_i(a_i({i})): what it would earn as the only item
    lent       (k, k)     what item j lends to the argument of item i, over all heads
    rivals                the same request under plain top-k ("knn"), greedy, beam and the slate's own ranker
    """

    slate: Slate
    attention: Floats
    sink: Floats | None
    rewards: Floats
    alone: Floats
    lent: Floats
    rivals: list[Rival]

    @property
    def gain_over_top_k(self) -> float:
        """How much more the slate is worth than the items of highest score."""
        return self._gain_over(TOP_K)

    @property
    def gain_over_greedy(self) -> float:
        """How much more the slate is worth than what adding the best next item leads to."""
        return self._gain_over(GREEDY)

    def _gain_over(self, ranker: str) -> float:
        return next(self.slate.value - rival.value for rival in self.rivals if rival.ranker == ranker)


def explained(slate: Slate, request: Request) -> Explanation:
    """The slate, taken apart; ``request`` is the same request with its candidates retrieved."""
    catalog, user, rows = slate.catalog, slate.user, slate.indices
    logit, sink_logit = objective.logits(catalog, rows, None)
    attention, sink = objective.softmax(logit, sink_logit)
    score, _ = objective.scores(catalog, user, rows, None)
    return Explanation(
        slate=slate,
        attention=attention,
        sink=None if sink_logit is None else sink,
        rewards=objective.item_rewards(catalog, user, rows),
        alone=np.array([objective.set_value(catalog, user, [row]) for row in rows]),
        lent=np.einsum("hij,hj->ij", attention, score),
        rivals=[_rival(name, slate, request) for name in dict.fromkeys((TOP_K, GREEDY, BEAM, slate.ranker))],
    )


def _rival(ranker: str, slate: Slate, request: Request) -> Rival:
    """What this ranker makes of the same candidates under the same wishes."""
    answer, took = slate, slate.timings["rank"]
    if ranker != slate.ranker:
        began = time.perf_counter()
        request.rank(ranker, certify=False)
        took = 1000 * (time.perf_counter() - began)
        answer = request.slate(ranker, math.inf)
    value = objective.set_value(slate.catalog, slate.user, answer.indices)
    return Rival(ranker, answer.items, answer.indices, value, took)
