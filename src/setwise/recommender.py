"""The front door: retrieve candidates cell by cell, rank them, certify the answer against the whole catalogue.

    rec = Recommender(index)
    slate = rec.recommend(user, k=10)
    slate.items, slate.value, slate.upper_bound, slate.gap

Retrieval is Phase One (retrieval/), ranking Phase Two (ranking/), the certificate a bound on F(S) for EVERY feasible
set of all n items (certificates/whole_catalog.py); pins and ``at_most`` only make the feasible sets fewer. Where the
search for the bound meets a better feasible set than the ranker's, that one is shown. (An index has no places: ordered
slates are ranked as an ``Instance``.)
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise import objective
from setwise.catalog import Catalog
from setwise.checks import milliseconds, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.ids import IdChoice
from setwise.instance import Instance
from setwise.ranking import RANKERS, Ranking, rank, warm_up
from setwise.retrieval import Index
from setwise.slate import Slate, Wishes
from setwise.users import User

if TYPE_CHECKING:
    from setwise.certificates.cell_bounds import CellBounds

Rows = NDArray[np.intp]

CANDIDATES = (
    400  # at most so many are ranked, unless told: more gained half a percent on trained catalogues, at m² cost
)
PER_HEAD = 2  # of each cell by every head alone, when there are several
CERTIFY_MS = 100.0  # for the certificate when no budget is given
RANK_SHARE = 0.4  # of the budget that retrieval leaves is for ranking
CERTIFY_SHARE = 0.9  # of the budget that ranking leaves is for the certificate, the rest for the judge
LEAST_MS = 0.5  # a phase is given at least this
PROVEN_WITHIN = 1e-9  # relative to Σ |f_i|
TIMED = ("swap", "exact")  # rankers that take budget_ms


@dataclass(frozen=True, eq=False)
class _Snapshot:
    """An index at one moment, and the cells that its certificates are made of when they are asked for."""

    index: Index
    cells: CellBounds | None


class Recommender:
    """Recommends sets from an index: thread-safe, and follows changes of the index."""

    def __init__(self, index: Index, ranker: str = "swap", certify: bool = True, candidates: int = CANDIDATES) -> None:
        if not isinstance(index, Index):
            raise InvalidInput("index", "a setwise.Index", type(index).__name__, "use Index.build or Index.load")
        if not isinstance(ranker, str) or ranker not in RANKERS:
            raise InvalidInput("ranker", f"one of {', '.join(sorted(RANKERS))}", repr(ranker), "choose one of those")
        self.index, self.ranker, self.certify = index, ranker, certify
        self._candidates = whole_number("candidates", candidates)
        self._change = threading.Lock()
        self._snapshot = self._taken()
        warm_up()

    def _taken(self) -> _Snapshot:
        from setwise.certificates.cell_bounds import CellBounds  # compiled: imported when first needed
        from setwise.certificates.whole_catalog import whole_catalog_bound

        index = self.index.snapshot()
        if not self.certify:
            return _Snapshot(index, None)
        cells = CellBounds.build(index.catalog)
        nobody = User(np.zeros((index.catalog.heads, index.catalog.value.shape[2])), _no_base(index.catalog))
        whole_catalog_bound(cells, nobody, 1, budget_ms=1)  # compiled, or loaded, before the first request
        return _Snapshot(index, cells)

    def _current(self) -> _Snapshot:
        """The snapshot to answer from; a new one when the index has changed."""
        if not self._snapshot.index.is_like(self.index):
            with self._change:
                if not self._snapshot.index.is_like(self.index):
                    self._snapshot = self._taken()
        return self._snapshot

    def __repr__(self) -> str:
        return f"Recommender({self.index!r}, ranker={self.ranker!r}, certify={self.certify})"

    def recommend(
        self,
        user: ArrayLike | User,
        k: int = 10,
        *,
        exclude: IdChoice = (),
        include: IdChoice = (),
        where: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
        budget_ms: float | None = None,
    ) -> Slate:
        """The best set of at most k items for this user, with its certificate.

        ``exclude`` and ``include`` are ids; ``where`` filters by attributes ({"city": "Rome", "price": (None, 200)});
        ``at_most={"artist": 2}`` limits a group; ``budget_ms`` is for everything together (some 100 ms otherwise).
        """
        snapshot = self._current()
        request = _Request(snapshot.index, user, k, exclude, include, where, at_most, budget_ms)
        upper_bound = math.inf
        with request.timed("retrieve"):
            request.retrieve(self._candidates)
        with request.timed("rank"):
            request.rank(self.ranker, self.certify)
        with request.timed("certify"):
            if snapshot.cells is not None:
                upper_bound = request.certify(snapshot.cells)
        return request.slate(upper_bound)

    def recommend_many(
        self, users: Iterable[ArrayLike | User], k: int = 10, *, threads: int | None = None, **wishes: Any
    ) -> list[Slate]:
        """``recommend`` for many users, with the same wishes, on ``threads`` threads (all cores unless told)."""
        workers = whole_number("threads", threads) if threads is not None else len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda user: self.recommend(user, k, **wishes), users))


class _Request:
    """One recommendation on its way."""

    def __init__(
        self,
        index: Index,
        user: ArrayLike | User,
        k: int,
        exclude: IdChoice,
        include: IdChoice,
        where: Mapping[str, Any] | None,
        at_most: Mapping[str, int] | None,
        budget_ms: float | None,
    ) -> None:
        self.began = time.perf_counter()
        self.budget_ms = milliseconds(budget_ms)
        self.index = index
        self.catalog: Catalog = self.index.catalog
        self.user = self.catalog.user(user)
        _refuse_other_than_mappings(where=where, at_most=at_most)
        exclude_rows, include_rows = self.catalog.rows_of(exclude), np.unique(self.catalog.rows_of(include))
        barred = np.union1d(exclude_rows, self.index.removed).astype(np.intp)  # what was removed is excluded for all
        self.wishes = Wishes(whole_number("k", k), barred, include_rows, where, at_most or {})
        self._refuse_contradictions()
        self.timings: dict[str, float] = {}
        self.complete = False  # whether the candidates are all the items that may be shown
        self.rows: Rows
        self.chosen: Rows
        self.value: float

    def _refuse_contradictions(self) -> None:
        hidden = np.isin(self.wishes.include, self.wishes.exclude)
        if self.wishes.where:
            hidden |= ~self.catalog.attributes.matching(self.wishes.where)[self.wishes.include]
        if hidden.any():
            which = repr(self.catalog.ids[self.wishes.include[hidden]].tolist()[0])
            raise Infeasible(
                "include", "items that may be shown", f"{which}, excluded or filtered out", "drop one wish"
            )

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Write down how long a phase took."""
        start = time.perf_counter()
        yield
        self.timings[phase] = 1000 * (time.perf_counter() - start)

    def left_ms(self, share: float, otherwise: float | None) -> float | None:
        """A share of what is left of the budget; ``otherwise`` when there is none."""
        if self.budget_ms is None:
            return otherwise
        return max(share * (self.budget_ms - 1000 * (time.perf_counter() - self.began)), LEAST_MS)

    # --- Phase One ---

    def retrieve(self, most: int) -> None:
        """The best of every cell, by total score and by each head: all there is, or the most promising of too many."""
        wishes = self.wishes
        if (shown := self._few(most)) is not None:
            self.rows, self.complete = shown, True
            return
        per_head = PER_HEAD if self.catalog.heads > 1 else 0
        rows = self.index.candidates(self.user, wishes.k, self.wishes.exclude, wishes.where, per_head=per_head)
        if len(rows) > most:
            rows = self._promising(rows, max(most, wishes.k))
        self.rows = np.union1d(rows, wishes.include).astype(np.intp)

    def _few(self, most: int) -> Rows | None:
        """All rows that may be shown, when they are few."""
        where = self.wishes.where
        if len(self.catalog) > most and not where:
            return None
        shown = self.catalog.attributes.matching(where).copy() if where else np.ones(len(self.catalog), bool)
        shown[self.wishes.exclude] = False
        if not shown.any():
            raise Infeasible(
                "where and exclude", "conditions that leave an item", "ones that leave none", "loosen them"
            )
        return np.flatnonzero(shown) if np.count_nonzero(shown) <= most else None

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
        """Choose among the candidates."""
        self.instance = Instance.from_catalog(self.catalog, self.user, self.rows)
        options: dict[str, Any] = {}
        if ranker in TIMED and self.budget_ms is not None:
            options["budget_ms"] = self.left_ms(RANK_SHARE if certify else CERTIFY_SHARE, None)
        self._adopt(rank(self.instance, self.wishes.k, ranker, **self._constraints(), **options))

    def _constraints(self) -> dict[str, Any]:
        """The wishes as ``rank`` takes them: pins are positions among the candidates."""
        return {"include": np.searchsorted(self.rows, self.wishes.include), "at_most": self.wishes.at_most}

    def _adopt(self, ranking: Ranking) -> None:
        self.chosen, self.value = self.instance.candidates[ranking.indices], ranking.value

    # --- the certificate ---

    def certify(self, cells: CellBounds) -> float:
        """An upper bound over every feasible set of the catalogue; a better set met on the way is adopted."""
        from setwise.certificates.whole_catalog import whole_catalog_bound

        budget = self.left_ms(CERTIFY_SHARE, CERTIFY_MS)
        if self.complete:  # all there is was ranked: search the instance itself, limits and pins included
            ranking = rank(self.instance, self.wishes.k, "exact", budget_ms=budget, **self._constraints())
            if ranking.value > self.value:
                self._adopt(ranking)
            return ranking.upper_bound
        found = whole_catalog_bound(
            cells,
            self.user,
            self.wishes.k,
            self.value,
            exclude=self.wishes.exclude,
            where=self.wishes.where,
            budget_ms=CERTIFY_MS if budget is None else budget,
        )
        if found.better is not None and not self.wishes.at_most and not len(self.wishes.include):
            self.chosen = found.better
        return found.upper_bound

    # --- the answer ---

    def slate(self, upper_bound: float) -> Slate:
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
            indices=chosen,
            value=value,
            rewards=rewards,
            upper_bound=bound,
            proven=math.isfinite(size) and bound <= value + PROVEN_WITHIN * size,
            timings=self.timings,
        )


def _refuse_other_than_mappings(**wishes: object) -> None:
    for name, wish in wishes.items():
        if wish is not None and not isinstance(wish, Mapping):
            raise InvalidInput(
                name, "a mapping of attributes, or left out", repr(wish), f"write {name}={{'artist': …}}"
            )


def _no_base(catalog: Catalog) -> NDArray[np.float64] | None:
    return None if catalog.base is None else np.zeros(catalog.base.shape[1])
