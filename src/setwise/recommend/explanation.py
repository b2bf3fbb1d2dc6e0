"""Explanation: what each item contributes to a slate, and what other methods would have shown.

Item i of the slate S receives from the items it attends to: its argument is

    a_i(S) = base_i · u⁰ + t_i + Σ_h sink_i^h s_0^h + Σ_{j∈S} lent_ij,      lent_ij = Σ_h attention_ij^h s_j^h,

with the added scores t_i. So ``lent`` is the paper's directed weighted graph, valued by the user's scores. ``rewards``
beside ``alone`` says what the other items of the slate are worth to each item; the rivals say what choosing the set as
a whole is worth. Every value is recomputed by the reference objective.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._display import html_table
from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.ranking import Ranker
from setwise.ranking.beam import BEAM
from setwise.ranking.dpp import DPP
from setwise.ranking.greedy import GREEDY
from setwise.ranking.knn import KNN
from setwise.ranking.mmr import MMR
from setwise.ranking.top_k import TOP_K
from setwise.recommend.clock import Clock
from setwise.recommend.pipeline import answer
from setwise.recommend.retrieve import Candidates, Choice, Snapshot, retrieve
from setwise.recommend.slate import Slate, finite, items_to_dicts

RIVALS = (TOP_K, KNN, MMR, DPP, GREEDY, BEAM)


@dataclass(frozen=True, eq=False)
class Rival:
    """The same query under one ranker: ids, rows of ``catalog`` and value of its set, and how long ranking took.

    The slate's own ranker is listed with the slate as answered, which the search for the bound may have improved.
    """

    ranker: str
    items: NDArray[Any]
    indices: Rows
    value: float
    milliseconds: float
    catalog: Catalog = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The parts of a slate of k items.

    attention  (H, k, k)  the weight that item i gives to item j; rows sum to 1, or to less by what the sink takes
    sink       (H, k)     what the sink takes, or None without one
    rewards    (k,)       f_i(a_i(S)): what each item earns in this set
    alone      (k,)       f_i(a_i({i})): what it would earn as the only item
    lent       (k, k)     what item j of the slate lends to the argument of item i, over all heads
    rivals                the same query under top-k (the largest ``alone``), vector search by score ("knn"), MMR, DPP,
                          greedy, beam and the slate's own ranker; each has the budget of the query for ranking
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
        """How much more the slate is worth than the items of largest reward alone."""
        return self._gain_over(TOP_K)

    @property
    def gain_over_greedy(self) -> float:
        """How much more the slate is worth than the greedy set."""
        return self._gain_over(GREEDY)

    def __repr__(self) -> str:
        return f"Explanation({self.slate!r}, rivals={[rival.ranker for rival in self.rivals]})"

    def _repr_html_(self) -> str:
        lent = self.lent - np.diag(np.diag(self.lent))  # without what an item gives to itself
        columns = (self.slate.items, self.rewards, self.alone, lent.sum(axis=1), lent.sum(axis=0))
        items = zip(*(column.tolist() for column in columns), strict=True)
        rivals = ((rival.ranker, rival.value, rival.milliseconds) for rival in self.rivals)
        return html_table("Items of the slate", ("id", "reward", "alone", "received", "lent"), items) + html_table(
            "The same query with other rankers", ("ranker", "value", "ms"), rivals
        )

    def to_dict(self) -> dict[str, Any]:
        """The explanation without its slate as plain JSON data."""
        return {
            "attention": self.attention.tolist(),
            "sink": None if self.sink is None else self.sink.tolist(),
            "rewards": self.rewards.tolist(),
            "alone": self.alone.tolist(),
            "lent": self.lent.tolist(),
            "rivals": [
                {
                    "ranker": rival.ranker,
                    "items": items_to_dicts(rival.catalog, rival.indices),
                    "value": finite(rival.value),
                    "milliseconds": rival.milliseconds,
                }
                for rival in self.rivals
            ],
            "gain_over_top_k": finite(self.gain_over_top_k),
            "gain_over_greedy": finite(self.gain_over_greedy),
        }

    def _gain_over(self, ranker: Ranker) -> float:
        return next(self.slate.value - rival.value for rival in self.rivals if rival.ranker == ranker.name)


def rivals_of(slate: Slate) -> list[Ranker]:
    """The rankers that a slate is compared with, its own among them."""
    return [*dict.fromkeys((*RIVALS, slate.query.ranker))]


def explained(slate: Slate, answers: Iterable[Slate]) -> Explanation:
    """Explain the slate; ``answers`` are those of its rivals."""
    catalog, user, rows, size = slate.catalog, slate.user, slate.members, len(slate)
    logit, sink_logit = objective.logits(catalog, rows, None)
    attention, sink = objective.softmax(logit, sink_logit)
    score, _ = objective.scores(catalog, user, rows, None)
    return Explanation(
        slate=slate,
        attention=attention[:, :size, :size],
        sink=None if sink_logit is None else sink[:, :size],
        rewards=objective.item_rewards(catalog, user, rows)[:size],
        alone=np.array([objective.set_value(catalog, user, [row]) for row in slate.indices]),
        lent=np.einsum("hij,hj->ij", attention, score)[:size, :size],
        rivals=[_rival(slate_of_rival) for slate_of_rival in answers],
    )


def _rival(slate: Slate) -> Rival:
    value = objective.set_value(slate.catalog, slate.user, slate.members)
    return Rival(slate.ranker, slate.items, slate.indices, value, slate.timings["rank"], slate.catalog)


def answers_of_rivals(slate: Slate, snapshot: Snapshot) -> list[Slate]:
    """What each rival chooses; ``snapshot`` is of the index that the slate came from."""
    candidates = retrieve(slate.query, snapshot)
    return [_answer(ranker, slate, snapshot, candidates) for ranker in rivals_of(slate)]


def _answer(ranker: Ranker, slate: Slate, snapshot: Snapshot, candidates: Candidates) -> Slate:
    """The set that this ranker chooses under the same constraints, from the same candidates or from its own."""
    if ranker == slate.query.ranker:
        return slate
    query = replace(slate.query, ranker=ranker, certify=False, budget_ms=None)
    candidates = retrieve(query, snapshot) if ranker.by_reward_alone else candidates
    return answer(Choice(query, snapshot, candidates), Clock(slate.query.budget_ms))
