"""One recommendation on its way: retrieve candidates, rank them, certify the answer.

Phase One knows what items lend, not what they are worth in company: among the best of every cell by score the followers
of the leader may be missing. So the pass over the catalogue brings a reserve as well, and those of it that make the
best pairs with the leader are candidates, too (``retrieval/company.py``; what that is worth: docs/results.md, Reach).

Swap search mostly finds the best set in its first few climbs and then only assures itself. A certificate assures more:
so where one is wanted, ranking stops early, and goes on only if no proof is found in a while. Where the search for the
bound meets a better feasible set than the ranker's, that one is the answer. Pins and ``at_most`` only make the feasible
sets fewer, so the bound holds for them too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Rows
from setwise._validation import milliseconds, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.instance import Instance
from setwise.model.users import User
from setwise.ranking import Ranking, rank
from setwise.ranking.swap import enough
from setwise.recommend.slate import Slate, Wishes
from setwise.retrieval import Index
from setwise.retrieval.partners import followers
from setwise.retrieval.snapshot import Found

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.score_order import Scored

PER_HEAD = 2  # of each cell by every head alone, when there are several
CERTIFY_MS = 100.0  # for the certificate when no budget is given
RANK_SHARE = 0.4  # of the budget that is left is for ranking
CERTIFY_SHARE = 0.9  # of the budget that ranking leaves is for the certificate, the rest for the judge
FIRST_LOOK = 16  # that part of swap search's evaluations is made before a proof is sought
FIRST_PROOF = 0.25  # of the time for the certificate is spent before ranking goes on
LEAST_MS = 0.5  # a phase is given at least this
PROVEN_WITHIN = 1e-8  # of Σ |f_i|: what rounding outwards leaves between value and bound of a search that has ended
TIMED = ("swap", "exact")  # rankers that take budget_ms
RESERVE, LARGEST_RESERVE = 9, 6_400  # so many times k of every cell, and rows times heads in all at most
FOLLOWERS = 0.25  # of the candidates


def wished(
    index: Index,
    k: int,
    exclude: Rows,
    include: Rows,
    where: Mapping[str, Any] | None,
    at_most: Mapping[str, int] | None,
) -> Wishes:
    """The wishes, checked; ``exclude`` and ``include`` are rows. What was removed is excluded for all."""
    for name, wish in (("where", where), ("at_most", at_most)):
        if wish is not None and not isinstance(wish, Mapping):
            raise InvalidInput(
                name, "a mapping of attributes, or left out", repr(wish), f"write {name}={{'artist': …}}"
            )
    barred = np.union1d(exclude, index.removed).astype(np.intp)
    wishes = Wishes(whole_number("k", k), barred, np.unique(include), where, at_most or {})
    _refuse_contradictions(index.catalog, wishes)
    return wishes


def _refuse_contradictions(catalog: Catalog, wishes: Wishes) -> None:
    hidden = np.isin(wishes.include, wishes.exclude)
    if wishes.where:
        hidden |= ~catalog.attributes.matching(wishes.where)[wishes.include]
    if hidden.any():
        which = repr(catalog.ids[wishes.include[hidden]].tolist()[0])
        raise Infeasible("include", "items that may be shown", f"{which}, excluded or filtered out", "drop one wish")


class Request:
    """Who asks, for what, and how far the answer is."""

    def __init__(
        self, index: Index, user: ArrayLike | User, wishes: Wishes, budget_ms: float | None, began: float
    ) -> None:
        self.index, self.wishes, self.began = index, wishes, began
        self.catalog: Catalog = index.catalog
        self.user = self.catalog.user(user)
        self.budget_ms = milliseconds(budget_ms)
        self.timings: dict[str, float] = {}
        self.complete = False  # whether the candidates are all the items that may be shown
        self.upper_bound = math.inf
        self.scored: Scored | None = None  # what all items score, where the certificate need not ask
        self.settled = True  # whether neither ranking nor certificate would gain by going on
        self.rows: Rows
        self.chosen: Rows
        self.value: float

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Write down how long a phase took, or went on."""
        start = time.perf_counter()
        yield
        self.timings[phase] = self.timings.get(phase, 0.0) + 1000 * (time.perf_counter() - start)

    def resumed(self) -> Request:
        """The request after it waited for its turn, which its budget does not pay for."""
        self.began = time.perf_counter() - sum(self.timings.values()) / 1000
        return self

    def left_ms(self, share: float, otherwise: float | None) -> float | None:
        """A share of what is left of the budget; ``otherwise`` when there is none."""
        if self.budget_ms is None:
            return otherwise
        return max(share * (self.budget_ms - 1000 * (time.perf_counter() - self.began)), LEAST_MS)

    # --- Phase One ---

    def retrieve(self, most: int, company: bool = True) -> None:
        """The best of every cell, by total score and by each head: all there is, or the most promising of too many.

        With ``company`` a quarter of them are the leader's followers: top-k has no use for those.
        """
        if not self.sees_all(most):
            wishes, reserve = self.wishes, self.reserve if company else 0
            self.take(self.index.found(self.user, wishes.k, wishes.exclude, wishes.where, self.per_head, reserve), most)

    @property
    def per_head(self) -> int:
        """How many of each cell every head adds."""
        return PER_HEAD if self.catalog.heads > 1 else 0

    @property
    def reserve(self) -> int:
        """How many more of each cell are asked whether they follow the leader."""
        return min(RESERVE * self.wishes.k, LARGEST_RESERVE // (self.catalog.heads * self.index.partition.n_cells))

    def sees_all(self, most: int) -> bool:
        """Whether no more than ``most`` items may be shown: then all of them are candidates."""
        where = self.wishes.where
        if len(self.catalog) > most and not where:
            return False
        shown = self.catalog.attributes.matching(where).copy() if where else np.ones(len(self.catalog), bool)
        shown[self.wishes.exclude] = False
        if not shown.any():
            raise Infeasible(
                "where and exclude", "conditions that leave an item", "ones that leave none", "loosen them"
            )
        self.complete = bool(np.count_nonzero(shown) <= most)
        if self.complete:
            self.rows = np.flatnonzero(shown)
        return self.complete

    def take(self, found: Found, most: int) -> None:
        """These are the candidates, or the most promising of them; the followers from the reserve; and the pins."""
        few = int(FOLLOWERS * most) if len(found.reserve) else 0
        rows = found.best
        if len(rows) > most - few:
            rows = self._promising(rows, max(most - few, self.wishes.k))
        if few:
            others = np.concatenate([np.setdiff1d(found.best, rows, assume_unique=True), found.reserve])
            rows = np.concatenate([rows, followers(self.catalog, self.user, self._leader(rows), others, few)])
        self.rows = np.union1d(rows, self.wishes.include).astype(np.intp)

    def _leader(self, rows: Rows) -> int:
        """The one of highest total score."""
        score, _ = objective.scores(self.catalog, self.user, rows, None)
        return int(rows[np.argmax(score.sum(axis=0) + objective.base_scores(self.catalog, self.user, rows))])

    def _promising(self, rows: Rows, most: int) -> Rows:
        """The best of each cell, and then whoever ranks highest by total score or in some head."""
        score, _ = objective.scores(self.catalog, self.user, rows, None)
        total = score.sum(axis=0) + objective.base_scores(self.catalog, self.user, rows)
        places = [np.argsort(np.argsort(-measure, kind="stable")) for measure in (total, *score)]
        place = np.min(places, axis=0)
        by_cell = np.lexsort((-total, self.index.cell_of[rows]))
        cell = self.index.cell_of[rows][by_cell]
        place[by_cell[np.r_[True, cell[1:] != cell[:-1]]]] = -1
        return np.sort(rows[np.lexsort((-total, place))[:most]])

    # --- Phase Two ---

    def rank(self, ranker: str, certify: bool) -> None:
        """Choose among the candidates; where a certificate follows, swap search has but a first look."""
        self.instance = Instance.from_catalog(self.catalog, self.user, self.rows)
        self.settled = not (certify and ranker == "swap") or self.complete
        share = RANK_SHARE if certify else CERTIFY_SHARE
        self._adopt(self._ranked(ranker, share, 1 if self.settled else FIRST_LOOK))

    def rank_on(self) -> None:
        """Go on with swap search, if there is time: from the start again, as the same things come in the same order."""
        if not self._late():
            ranking = self._ranked("swap", RANK_SHARE, 1)
            if ranking.value > self.value:
                self._adopt(ranking)

    def _ranked(self, ranker: str, share: float, part: int) -> Ranking:
        """By this ranker, in a share of what is left; swap search as far as one ``part`` of enough."""
        options: dict[str, Any] = {}
        if ranker in TIMED and self.budget_ms is not None:
            options["budget_ms"] = self.left_ms(share, None)
        if ranker == "swap":  # a budget is a limit, not a wish: who has found enough leaves the rest to the certificate
            options["evaluations"] = enough(self.instance.m, self.wishes.k) // part
        return rank(self.instance, self.wishes.k, ranker, **self._constraints(), **options)

    def _constraints(self) -> dict[str, Any]:
        """The wishes as ``rank`` takes them: pins are positions among the candidates."""
        return {"include": np.searchsorted(self.rows, self.wishes.include), "at_most": self.wishes.at_most}

    def _adopt(self, ranking: Ranking) -> None:
        self.chosen, self.value = self.instance.candidates[ranking.indices], ranking.value

    def _late(self) -> bool:
        """Whether the budget is spent."""
        return self.budget_ms is not None and 1000 * (time.perf_counter() - self.began) >= self.budget_ms

    # --- the certificate ---

    def certify(self, cells: CellBounds) -> None:
        """Bound every feasible set of the catalogue; a better set met on the way is adopted."""
        from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch

        if self.complete:
            return self._certify_instance()
        where, barred = self.wishes.where, self.wishes.exclude
        self._search = WholeCatalogSearch(
            cells, self.user, self.wishes.k, self.value, exclude=barred, where=where, scored=self.scored
        )
        first = CERTIFY_SHARE if self.settled else FIRST_PROOF
        self._prove(first, CERTIFY_MS if self.settled else FIRST_PROOF * CERTIFY_MS)

    def certify_on(self) -> None:
        """Go on with the certificate, if there is time, knowing what ranking has found since."""
        if not self._late():
            self._search.offer(self.value)
            self._prove(CERTIFY_SHARE, (1 - FIRST_PROOF) * CERTIFY_MS)

    def _certify_instance(self) -> None:
        """All there is was ranked: search the instance itself, limits and pins included."""
        budget = self.left_ms(CERTIFY_SHARE, CERTIFY_MS)
        ranking = rank(self.instance, self.wishes.k, "exact", budget_ms=budget, **self._constraints())
        if ranking.value > self.value:
            self._adopt(ranking)
        self.upper_bound = ranking.upper_bound

    def _prove(self, share: float, otherwise: float) -> None:
        """Search in a share of what is left, or for so many milliseconds without a budget."""
        budget = self.left_ms(share, otherwise)
        self._search.run(otherwise if budget is None else budget)
        found = self._search.found()
        if found.better is not None and not self.wishes.at_most and not len(self.wishes.include):
            self.chosen, self.value = found.better, found.value
        self.upper_bound = found.upper_bound
        self.settled = self.settled or (self._search.finished and found.value <= self.value)

    # --- the answer ---

    def slate(self, ranker: str, upper_bound: float) -> Slate:
        """What was chosen, judged: best first by reward."""
        rewards = objective.item_rewards(self.catalog, self.user, self.chosen)
        order = np.lexsort((self.chosen, -rewards))
        chosen, rewards = self.chosen[order], rewards[order]
        value = float(rewards.sum())
        bound = max(upper_bound, value)
        size = float(np.abs(rewards).sum())
        return Slate(
            catalog=self.catalog,
            user=self.user,
            wishes=self.wishes,
            ranker=ranker,
            indices=chosen,
            value=value,
            rewards=rewards,
            upper_bound=bound,
            proven=math.isfinite(size) and bound <= value + PROVEN_WITHIN * size,
            timings=dict(self.timings),
        )


def retrieve_together(requests: Sequence[Request], most: int, company: bool = True) -> None:
    """``retrieve`` for requests with one k, one filter and one index, in one pass; each is charged its share of it."""
    start = time.perf_counter()
    asking = [request for request in requests if not request.sees_all(most)]
    if asking:
        one = asking[0]
        found = one.index.found_many(
            [request.user for request in asking],
            one.wishes.k,
            [request.wishes.exclude for request in asking],
            one.wishes.where,
            one.per_head,
            one.reserve if company else 0,
        )
        for request, mine in zip(asking, found, strict=True):
            request.take(mine, most)
    share = (time.perf_counter() - start) / len(requests)
    for request in requests:
        request.timings["retrieve"] = 1000 * share


def score_together(requests: Sequence[Request], cells: CellBounds) -> None:
    """What certificates ask of all items, for requests with one filter: in one pass, charged like retrieval."""
    from setwise.bounds.catalog.whole_catalog import scores

    start = time.perf_counter()
    asking = [request for request in requests if not request.complete]
    if asking:
        users, barred = [request.user for request in asking], [request.wishes.exclude for request in asking]
        for request, scored in zip(asking, scores(cells, users, barred, asking[0].wishes.where), strict=True):
            request.scored = scored
    for request in asking:
        request.timings["certify"] = 1000 * (time.perf_counter() - start) / len(asking)
