"""The best known set of a whole catalogue: a long search, with more time than a request has.

The candidates are those of Phase One and the best by score. A swap search with a large budget ranks them. Then single
members are exchanged for any item of the catalogue until no exchange helps, the most promising items are added to the
candidates, and the search is repeated until a round finds nothing better. Its value is that of ``sw.set_value``; it is
bounded by a whole-catalogue certificate. It is the best *known*: only a proof says that it is the best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from catalogues import Trained
from numpy.typing import NDArray

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.model import objective
from setwise.model.eligibility import Eligibility
from setwise.model.rewards import evaluate

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Heaviness:
    """The effort for one user."""

    by_score: int = 500  # candidates beside Phase One's
    added: int = 200  # candidates added after each round
    rounds: int = 4  # at most
    evaluations_a_pair: int = 200  # of the swap search: so many times k m
    certificate_ms: float = 500.0

    @classmethod
    def quick(cls) -> Heaviness:
        """The smallest effort, for tests."""
        return cls(50, 20, 2, 20, 20.0)


@dataclass(frozen=True, eq=False)
class BestKnown:
    """A set of catalogue rows, its reference value, and an upper bound on the value of every set."""

    items: Rows
    value: float
    upper_bound: float


class HeavySearch:
    """The search over one catalogue; ``nearest`` finds by score alone, ``index`` cell by cell, ``cells`` bound."""

    def __init__(
        self, trained: Trained, index: sw.Index, nearest: sw.Index, cells: CellBounds, heaviness: Heaviness
    ) -> None:
        self.trained, self.catalog, self.index, self.nearest = trained, trained.catalog, index, nearest
        self.cells, self.heaviness = cells, heaviness

    def __call__(self, number: int, k: int) -> BestKnown:
        """The best set known for user ``number``."""
        user, seen = self.trained.users[number], self.trained.histories[number]
        found = self._searched(user, seen, k)
        value = sw.set_value(self.catalog, user, found)
        budget = self.heaviness.certificate_ms
        bound = whole_catalog_bound(
            self.cells, user, k, value, eligible=Eligibility.of(self.cells.catalog, exclude=seen), budget_ms=budget
        )
        better = found if bound.better is None else bound.better
        return BestKnown(better, sw.set_value(self.catalog, user, better), bound.upper_bound)

    def _searched(self, user: sw.User, seen: Rows, k: int) -> Rows:
        it = self.heaviness
        pool = np.union1d(
            self.index.candidates(user, k, seen, per_head=self.trained.per_head),
            self.nearest.candidates(user, it.by_score, seen),
        )
        best, value = pool[:1], -np.inf
        for round_ in range(it.rounds):
            instance = sw.Instance.from_catalog(self.catalog, user, pool)
            evaluations = it.evaluations_a_pair * k * len(pool)
            ranking = sw.rank(instance, k, "swap", evaluations=evaluations, seed=round_)
            chosen = instance.candidates[ranking.indices]
            if round_ and set(chosen) == set(best):
                break  # no exchange helped this set in the last round
            found, added = climbed(self.catalog, user, chosen, seen, it.added)
            reached = sw.set_value(self.catalog, user, found)
            if reached <= value * (1 + 1e-12):
                break
            best, value, pool = found, reached, np.union1d(np.union1d(pool, found), added)
        return best


def climbed(catalog: sw.Catalog, user: sw.User, chosen: Rows, barred: Rows, most: int) -> tuple[Rows, Rows]:
    """The set after the best exchanges with the whole catalogue, and ``most`` items that were nearly exchanged."""
    value = sw.set_value(catalog, user, chosen)
    while True:
        values = exchanged(catalog, user, chosen)
        values[:, chosen] = values[:, barred] = -np.inf
        out, joiner = np.unravel_index(np.argmax(values), values.shape)
        proposal = chosen.copy()
        proposal[out] = joiner
        reached = sw.set_value(catalog, user, proposal)
        if reached <= value * (1 + 1e-12):
            promise = values.max(axis=0)
            wanted = min(most, int(np.isfinite(promise).sum()))
            return chosen, np.argsort(-promise, kind="stable")[:wanted]
        chosen, value = proposal, reached


def exchanged(catalog: sw.Catalog, user: sw.User, chosen: Rows) -> Floats:
    """F of ``chosen`` with its member o replaced by item c: (k, n), o by c."""
    k, n = len(chosen), len(catalog)
    everyone = np.arange(n)
    own, sink = objective.logits(catalog, chosen, None)
    score, sink_score = objective.scores(catalog, user, everyone, None)
    silent = np.zeros(catalog.heads) if sink_score is None else sink_score
    base = objective.base_scores(catalog, user, everyone)
    member, joiner = np.repeat(base[chosen][None, :, None], k, 0) + np.zeros((1, 1, n)), np.tile(base, (k, 1))
    for h in range(catalog.heads):
        query, key = catalog.query[:, h].astype(np.float64), catalog.key[:, h].astype(np.float64)
        none = np.full(n, -np.inf) if catalog.sink is None else query @ catalog.sink.key[h].astype(np.float64)
        # Rows of the members: members, added item, sink. Row of the added item: members, itself, sink.
        lent = query[chosen] @ key.T
        top = np.maximum(lent.max(axis=1), own[h].max(axis=1))
        top = top if sink is None else np.maximum(top, sink[h])
        weight, own_weight, rest = (
            np.exp(lent - top[:, None]),
            np.exp(own[h] - top[:, None]),
            np.exp(none[chosen] - top),
        )
        taken, itself = query @ key[chosen].T, np.einsum("nd,nd->n", query, key)
        top = np.maximum(np.maximum(taken.max(axis=1), itself), none)
        borrowed, kept, left = np.exp(taken - top[:, None]), np.exp(itself - top), np.exp(none - top)
        s = score[h, chosen]
        for o in range(k):
            stays = np.arange(k) != o
            total = own_weight[:, stays].sum(axis=1) + rest
            worth = own_weight[:, stays] @ s[stays] + rest * silent[h]
            member[o] += (worth[:, None] + weight * score[h]) / (total[:, None] + weight)
            total = borrowed[:, stays].sum(axis=1) + kept + left
            joiner[o] += (borrowed[:, stays] @ s[stays] + kept * score[h] + left * silent[h]) / total
    rewards = np.stack([_evaluated(catalog, member[:, i], chosen[i]) for i in range(k)], axis=1)  # (o, i, c)
    rewards[np.arange(k), np.arange(k)] = 0.0  # the replaced item earns nothing
    gained = np.stack([evaluate(catalog.rewards, catalog.reward_class, joiner[o]) for o in range(k)])
    return np.asarray(rewards.sum(axis=1) + gained)


def _evaluated(catalog: sw.Catalog, argument: Floats, row: int) -> Floats:
    """The reward of one item at many arguments."""
    return np.asarray(catalog.rewards[catalog.reward_class[row]].value(argument))
