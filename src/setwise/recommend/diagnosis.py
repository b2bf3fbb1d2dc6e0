"""Diagnosis: whether optimising the set pays for a model and its users, in numbers that one can check.

For every user the best set known is compared with two rivals that need no set optimiser: *top-k*, the k items of
largest reward alone, and *greedy*, which adds the item that raises F most. Both are over the same candidates.

* Headroom over top-k, best / top-k − 1: what knowing the other items of the set is worth.
* Headroom over greedy, best / greedy − 1: what searching beyond greedy is worth; no ranker gains more over greedy.
* Proven gap, 1 − best / bound: what the best set that exists may have beyond the best set known.
* Base rate, F / k of the best set: logistic rewards near 1 leave no headroom, whatever attention does.
* Items attended, exp(entropy) of a row of the attention in the best set, the mean over items and heads: 1 if every item
  attends to one item, k if to all evenly.

The best set known is the best of what the three rankers find. Ratios are of values summed over users, so that users of
nearly no value do not decide; errors are those of the mean of the differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._types import SLATE_SIZE, Floats
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.ids import IdChoice
from setwise.model.users import User
from setwise.recommend.arguments import description
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate

WORTHWHILE = 0.01  # of the value: less headroom than this is not worth a search
BUDGET_MS = 500.0  # search and bound of one user
RIVALS = ("top-k", "greedy")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was measured, one number for each user."""

    k: int
    best: Floats
    top_k: Floats
    greedy: Floats
    gap: Floats
    attended: Floats
    attends: bool = True  # whether the model has attention: otherwise top-k is the best set

    @property
    def users(self) -> int:
        """How many users were measured."""
        return len(self.best)

    @property
    def base_rate(self) -> float:
        """F / k of the best sets, on average."""
        return float(self.best.mean() / self.k)

    def headroom(self, rival: str) -> tuple[float, float]:
        """Best / rival − 1 and its standard error; ``rival`` is ``top-k`` or ``greedy``."""
        other = {"top-k": self.top_k, "greedy": self.greedy}[rival]
        scale = abs(float(other.mean())) or 1.0
        gained = self.best - other
        return float(gained.mean()) / scale, float(gained.std(ddof=1)) / scale / math.sqrt(self.users)

    @property
    def pays(self) -> bool:
        """Whether the headroom over greedy is worthwhile, beyond two standard errors of chance."""
        return self._clear("greedy")

    @property
    def sentence(self) -> str:
        """Whether set optimisation pays, in a sentence."""
        if not self.attends:
            return "Set optimisation does not pay: this model has no attention, so top-k is the best set."
        over_top, over_greedy = (f"{self.headroom(rival)[0]:.1%}" for rival in RIVALS)
        if self.pays:
            verdict = f"Set optimisation pays: search finds {over_greedy} more than greedy, {over_top} more than top-k."
        elif self._clear("top-k"):
            verdict = (
                f"The set matters, and greedy is enough: the best sets have {over_top} more than top-k, {over_greedy} "
                "more than greedy."
            )
        else:
            verdict = f"Set optimisation does not pay: the best sets have only {over_top} more than top-k."
        room = float(np.median(self.gap))
        if room > max(0.05, 2 * self.headroom("greedy")[0]):
            verdict += f" The bounds leave room for {room:.0%} more, so better sets may exist."
        return verdict

    def to_dict(self) -> dict[str, Any]:
        """Means, errors and the sentence as plain JSON data."""
        (over_top, top_error), (over_greedy, greedy_error) = (self.headroom(rival) for rival in RIVALS)
        return {
            "users": self.users,
            "k": self.k,
            "top_k_over_best": 1 / (1 + over_top),
            "greedy_over_best": 1 / (1 + over_greedy),
            "headroom_over_top_k": over_top,
            "headroom_over_top_k_error": top_error,
            "headroom_over_greedy": over_greedy,
            "headroom_over_greedy_error": greedy_error,
            "median_gap": float(np.median(self.gap)),
            "proven": int(np.count_nonzero(self.gap == 0)),
            "base_rate": self.base_rate,
            "items_attended": float(self.attended.mean()),
            "attends": self.attends,
            "pays": self.pays,
            "sentence": self.sentence,
        }

    def _clear(self, rival: str) -> bool:
        gained, error = self.headroom(rival)
        return gained - 2 * error > WORTHWHILE


def diagnose(
    recommender: Recommender,
    k: int = SLATE_SIZE,
    *,
    users: Sequence[User] | None = None,
    histories: Sequence[IdChoice] | None = None,
    features: Sequence[Mapping[str, Any] | Sequence[Any]] | None = None,
    budget_ms: float | None = BUDGET_MS,
) -> Diagnosis:
    """Measure the headroom of a recommender on these users, histories or features, two or more.

    ``budget_ms`` is the time of search and bound for each; None lets the bound take as long as it does in a request.
    """
    many: dict[str, Any] = {"users": users, "histories": histories, "features": features}
    stated = any(people is not None for people in many.values())
    people = many[description(many, None) or ""] if stated else ()
    if len(people) < 2:
        must, got = "two or more, or as many histories or features", len(people)
        raise InvalidInput("users", must, got, "pass some sixty")
    searched = recommender.recommend_many(**many, k=k, certify=True, budget_ms=budget_ms)
    rivals = {ranker: recommender.recommend_many(**many, k=k, ranker=ranker, certify=False) for ranker in RIVALS}
    values = {ranker: np.array([slate.value for slate in slates]) for ranker, slates in rivals.items()}
    best = np.max([np.array([slate.value for slate in searched]), *values.values()], axis=0)
    bound = np.array([slate.upper_bound for slate in searched])
    proven = np.array([slate.proven for slate in searched])
    known = np.isfinite(bound) & (bound > 0) & ~proven
    gap = np.where(known, 1 - best / np.where(known, bound, 1.0), np.where(proven, 0.0, 1.0))
    attended = np.array([items_attended(slate) for slate in searched])
    gap, attends = np.maximum(gap, 0.0), recommender.index.catalog.attends
    return Diagnosis(searched[0].query.k, best, values["top-k"], values["greedy"], gap, attended, attends)


def items_attended(slate: Slate) -> float:
    """exp(entropy) of a row of the attention in the slate, the sink counted as an item: mean over items and heads."""
    weight = objective.attention(slate.catalog, slate.indices)
    sink = np.maximum(0.0, 1 - weight.sum(axis=2, keepdims=True))  # what the sink takes
    whole = np.concatenate([weight, sink], axis=2)
    entropy = -np.sum(whole * np.log(np.where(whole > 0, whole, 1.0)), axis=2)
    return float(np.exp(entropy).mean())
