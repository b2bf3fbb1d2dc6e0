"""The front door: retrieve candidates cell by cell, rank them, certify the answer against the whole catalogue.

    rec = Recommender(index)                       or Recommender.from_model(model), which understands histories
    slate = rec.recommend(user, k=10)              or rec.recommend(history=["id of a song", "another"])
    slate.items, slate.value, slate.upper_bound, slate.gap
    rec.explain(slate)                             who lends whom, and what plain top-k and greedy would have been worth
    rec.save("songs/"); Recommender.load("songs/")

Retrieval is Phase One (retrieval/), ranking Phase Two (ranking/), the certificate a bound on F(S) for EVERY feasible
set of all n items (certificates/whole_catalog.py); how one request goes through them is request.py. (An index has no
places: ordered slates are ranked as an ``Instance``.)
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Rows
from setwise._validation import listed, whole_number
from setwise.errors import InvalidInput, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ids import IdChoice, Ids
from setwise.model.ragged import Ragged
from setwise.model.users import User
from setwise.ranking import RANKERS, warm_up
from setwise.recommend.explanation import Explanation, explained
from setwise.recommend.memory import keep_some
from setwise.recommend.pipeline import Request, retrieve_together, score_together, wished
from setwise.recommend.slate import Slate
from setwise.retrieval import Index
from setwise.retrieval.partners import followers
from setwise.storage import artifact

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds

Asker = tuple[Any, Rows]  # a user, and the rows of what he or she has heard

CANDIDATES = (
    400  # at most so many are ranked, unless told: more gained half a percent on trained catalogues, at m² cost
)
NOTHING: Rows = np.zeros(0, np.intp)  # what a user who comes as a vector has heard
TOGETHER = 256  # users share one retrieval pass; more would only take more memory
CERTIFIED_TOGETHER = 4  # share the certificate's pass: every one of them keeps the scores of all items


@dataclass(frozen=True, eq=False)
class _Snapshot:
    """An index at one moment, and the cells that its certificates are made of when they are asked for."""

    index: Index
    cells: CellBounds | None


@dataclass(frozen=True, eq=False)
class _Way:
    """How requests are answered: from this index, by this ranker, certified when there are cells for it."""

    index: Index
    ranker: str
    cells: CellBounds | None

    @property
    def company(self) -> bool:
        """Whether the ranker looks at more than scores."""
        return self.ranker != "knn"

    def answered(self, request: Request) -> Slate:
        """The request, ranked, certified and judged."""
        with request.timed("rank"):
            request.rank(self.ranker, self.cells is not None)
        with request.timed("certify"):
            if self.cells is not None:
                request.certify(self.cells)
        if not request.settled:
            with request.timed("rank"):
                request.rank_on()
            with request.timed("certify"):
                request.certify_on()
        return request.slate(self.ranker, request.upper_bound)

    def all_answered(self, requests: Sequence[Request], threads: int) -> list[Slate]:
        """Requests that were retrieved together, answered a few at a time; one thread is the caller's own."""
        few = [requests[start : start + CERTIFIED_TOGETHER] for start in range(0, len(requests), CERTIFIED_TOGETHER)]
        if threads == 1:
            return [slate for some in few for slate in self._few_answered(some)]
        with ThreadPoolExecutor(threads) as pool:
            return [slate for some in pool.map(self._few_answered, few) for slate in some]

    def _few_answered(self, requests: Sequence[Request]) -> list[Slate]:
        """With one pass over the catalogue for all their certificates."""
        if self.cells is not None:
            score_together(requests, self.cells)
        return [self.answered(request.resumed()) for request in requests]


class Recommender:
    """Recommends sets from an index: thread-safe, and follows changes of the index.

    ``ranker`` chooses among at most ``candidates`` retrieved items (one of ``setwise.ranking.RANKERS``); ``certify``
    says whether every slate comes with a bound on all others. Both can be chosen for a single request, too.
    ``encoder`` reads histories: it is about the items that the index has now. Items added later can be recommended, and
    are seen in a history without being read.
    """

    def __init__(
        self,
        index: Index,
        ranker: str = "swap",
        certify: bool = True,
        candidates: int = CANDIDATES,
        encoder: Encoder | None = None,
    ) -> None:
        self._fill(index, ranker, certify, candidates, encoder, None)

    def _fill(
        self,
        index: Index,
        ranker: str,
        certify: bool,
        candidates: int,
        encoder: Encoder | None,
        cells: CellBounds | None,
    ) -> None:
        """The fields, checked; ``cells`` are the bounds of the index where they are known already."""
        if not isinstance(index, Index):
            raise InvalidInput("index", "a setwise.Index", type(index).__name__, "use Index.build or Index.load")
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InvalidInput("encoder", "an Encoder", type(encoder).__name__, "pass that of a trained model")
        self.index, self.ranker, self.certify = index, _known_ranker(ranker), certify
        self._candidates = whole_number("candidates", candidates)
        self.encoder = None if encoder is None else encoder.fitted_to(index.catalog)
        self._read: Ids = index.catalog.ids  # the ids of the encoder's rows
        self._change = threading.Lock()
        self._snapshot = self._taken(certify, cells)
        warm_up()
        keep_some()
        followers(index.catalog, _nobody(index.catalog), 0, NOTHING, 1)  # compiled, or loaded: no request waits for it

    @classmethod
    def from_model(cls, model: Any, cells: int | None = None, **options: Any) -> Recommender:
        """For a trained model (a ``SimpleTransformer``): its catalogue, indexed, and its encoder of histories.

        Without a number of ``cells`` there are as many as ``Index.build`` chooses; the options are those of the class.
        """
        catalog = model.catalog() if callable(getattr(model, "catalog", None)) else None
        if not isinstance(catalog, Catalog) or not isinstance(getattr(model, "encoder", None), Encoder):
            todo = "pass a SimpleTransformer, or Recommender(index, encoder=...) by hand"
            raise InvalidInput("model", "one with a catalogue and an encoder", type(model).__name__, todo)
        return cls(Index.build(catalog, cells), encoder=model.encoder, **options)

    def _taken(self, certify: bool, known: CellBounds | None = None) -> _Snapshot:
        from setwise.bounds.catalog.cells import CellBounds  # compiled: imported when first needed
        from setwise.bounds.catalog.whole_catalog import whole_catalog_bound

        index = self.index.snapshot()
        if not certify:
            return _Snapshot(index, None)
        cells = CellBounds.build(index.catalog) if known is None else known
        whole_catalog_bound(cells, _nobody(index.catalog), 1, budget_ms=1)  # compiled, or loaded, now
        return _Snapshot(index, cells)

    def _current(self, certify: bool) -> _Snapshot:
        """The snapshot to answer from; a new one when the index has changed, or cells are missed."""
        if not self._serves(self._snapshot, certify):
            with self._change:
                if not self._serves(self._snapshot, certify):
                    self._snapshot = self._taken(certify or self.certify)
        return self._snapshot

    def _serves(self, snapshot: _Snapshot, certify: bool) -> bool:
        return snapshot.index.is_like(self.index) and not (certify and snapshot.cells is None)

    def __repr__(self) -> str:
        return f"Recommender({self.index!r}, ranker={self.ranker!r}, certify={self.certify})"

    # --- asking ---

    def recommend(
        self,
        user: ArrayLike | User | None = None,
        k: int = 10,
        *,
        history: IdChoice | None = None,
        exclude: IdChoice | None = None,
        include: IdChoice = (),
        where: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
        budget_ms: float | None = None,
        ranker: str | None = None,
        certify: bool | None = None,
    ) -> Slate:
        """The best set of at most k items for this user, or for whoever has this ``history``, with its certificate.

        A history is a list of ids, read by the encoder; an empty one is a newcomer's. ``exclude`` and ``include`` are
        ids; what the history holds is excluded unless ``exclude`` says otherwise or ``include`` pins it. ``where``
        filters by attributes ({"city": "Rome", "price": (None, 200)}); ``at_most={"artist": 2}`` limits a group;
        ``budget_ms`` is for everything together (some 100 ms otherwise). ``ranker`` and ``certify`` are for this
        request alone.
        """
        began = time.perf_counter()
        way = self._way(ranker, certify)
        _the_given(user=user, history=history)
        asker: Asker = (user, NOTHING) if history is None else self._readers(way.index.catalog, [history])[0]
        request = _asked(way.index, asker, k, began, exclude, include, where, at_most, budget_ms)
        with request.timed("retrieve"):
            request.retrieve(self._candidates, way.company)
        return way.answered(request)

    def recommend_many(
        self,
        users: Iterable[ArrayLike | User] | None = None,
        k: int = 10,
        *,
        histories: Iterable[IdChoice] | None = None,
        threads: int | None = None,
        ranker: str | None = None,
        certify: bool | None = None,
        **wishes: Any,
    ) -> list[Slate]:
        """``recommend`` for many users or histories, with the same wishes: retrieved together, ranked side by side.

        Up to 256 of them share one pass over the catalogue (their ``timings`` have each one's share of it); ranking is
        on ``threads`` threads (all cores unless told).
        """
        workers = whole_number("threads", threads) if threads is not None else len(os.sched_getaffinity(0))
        way = self._way(ranker, certify)
        given = _the_given(users=users, histories=histories)
        asking = listed("users", given, "users") if histories is None else listed("histories", given, "histories")
        slates: list[Slate] = []
        for start in range(0, len(asking), TOGETHER):
            some = asking[start : start + TOGETHER]
            askers: list[Asker] = [(user, NOTHING) for user in some]
            if users is None:
                askers = self._readers(way.index.catalog, some)
            requests = [_asked(way.index, asker, k, time.perf_counter(), **wishes) for asker in askers]
            retrieve_together(requests, self._candidates, way.company)
            slates += way.all_answered(requests, workers)
        return slates

    def _way(self, ranker: str | None, certify: bool | None) -> _Way:
        wanted = self.certify if certify is None else certify
        snapshot = self._current(wanted)
        chosen = _known_ranker(self.ranker if ranker is None else ranker)
        return _Way(snapshot.index, chosen, snapshot.cells if wanted else None)

    def _readers(self, catalog: Catalog, histories: Sequence[IdChoice]) -> list[Asker]:
        """The users of these histories, each with the rows of the catalogue that it holds."""
        if self.encoder is None:
            todo = "use Recommender.from_model(model), or pass a user"
            raise InvalidInput("history", "left out, as this recommender has no encoder to read it", "one", todo)
        heard = [catalog.rows_of(history) for history in histories]
        heads, base = self.encoder.users(Ragged.of([self._rows_read(catalog, rows) for rows in heard]))
        return [(User(one, None if base is None else base[at]), heard[at]) for at, one in enumerate(heads)]

    def _rows_read(self, catalog: Catalog, rows: Rows) -> Rows:
        """The encoder's rows of these items, leaving out those that it does not know."""
        if catalog.ids is self._read:
            return rows
        known = []
        for one in catalog.ids[rows].tolist():
            try:
                known.append(self._read.rows_of([one])[0])
            except UnknownId:
                continue
        return np.array(known, np.intp)

    def explain(self, slate: Slate) -> Explanation:
        """Why the slate is worth what it is, and what plain top-k, greedy and beam search would have shown."""
        index = self._current(False).index
        same = isinstance(slate, Slate) and slate.catalog is index.catalog
        if not same or not np.isin(index.removed, slate.wishes.exclude).all():
            must = "a slate of this recommender, and its index unchanged since"
            raise InvalidInput("slate", must, "another", "recommend again, then explain")
        request = Request(index, slate.user, slate.wishes, None, time.perf_counter())
        request.retrieve(self._candidates)
        return explained(slate, request)

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write index, catalogue, encoder and bounds to the folder ``path`` as one artifact, atomically and compacted.

        Saved without the bounds that certificates are made of, every opening would have to measure all items again.
        """
        index = self.index.snapshot()
        index.compact()
        arrays, meta = index.packed()
        parts = {f"index.{name}": array for name, array in arrays.items()}
        encoder = None if self.encoder is None else self._fitting(index.catalog, self.encoder)
        parts |= {f"encoder.{name}": array for name, array in (encoder.packed() if encoder else {}).items()}
        cells = self._cells_of(index)
        parts |= {f"cells.{name}": array for name, array in (cells.to_arrays() if cells else {}).items()}
        options = {"ranker": self.ranker, "certify": bool(self.certify), "candidates": self._candidates}
        artifact.write(path, "recommender", parts, {"index": meta, "options": options})

    def _cells_of(self, index: Index) -> CellBounds | None:
        """What certificates of this index are made of, where they are wanted."""
        from setwise.bounds.catalog.cells import CellBounds

        if not self.certify:
            return None
        snapshot = self._current(True)
        return snapshot.cells if snapshot.index.is_like(index) else CellBounds.build(index.catalog)

    def _fitting(self, catalog: Catalog, encoder: Encoder) -> Encoder:
        """The encoder of just these items, in their order."""
        if catalog.ids is self._read:
            return encoder
        try:
            rows = self._read.rows_of(catalog.ids[np.arange(len(catalog))])
        except UnknownId:
            todo = "train again with them, or save the index alone by recommender.index.save"
            raise InvalidInput("encoder", "one that can read every item", "items added since", todo) from None
        return replace(encoder, items=encoder.items[rows])

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Recommender:
        """Open what ``save`` wrote, or a saved index: digests checked, arrays mapped; the options are the class's."""
        saved = artifact.read(path, "recommender", "index", otherwise="make one of it with setwise index")
        if saved.kind == "index":
            return cls(Index.unpacked(path, saved.arrays, saved.meta), **options)
        from setwise.bounds.catalog.cells import CellBounds

        index = Index.unpacked(path, artifact.under("index.", saved.arrays), saved.meta["index"])
        parts, cells = (artifact.under(prefix, saved.arrays) for prefix in ("encoder.", "cells."))
        wanted = {**saved.meta["options"], "encoder": Encoder(**parts) if parts else None, **options}
        recommender = cls.__new__(cls)
        bounds = CellBounds.from_arrays(index.catalog, cells) if cells and wanted["certify"] else None
        recommender._fill(index, **wanted, cells=bounds)
        return recommender


def _asked(
    index: Index,
    asker: Asker,
    k: int,
    began: float,
    exclude: IdChoice | None = None,
    include: IdChoice = (),
    where: Mapping[str, Any] | None = None,
    at_most: Mapping[str, int] | None = None,
    budget_ms: float | None = None,
) -> Request:
    """One request; what was heard is excluded unless ``exclude`` says otherwise or ``include`` pins it."""
    (user, heard), pinned = asker, index.catalog.rows_of(include)
    unwanted = np.setdiff1d(heard, pinned) if exclude is None else index.catalog.rows_of(exclude)
    return Request(index, user, wished(index, k, unwanted, pinned, where, at_most), budget_ms, began)


def _known_ranker(ranker: str) -> str:
    if not isinstance(ranker, str) or ranker not in RANKERS:
        raise InvalidInput("ranker", f"one of {', '.join(sorted(RANKERS))}", repr(ranker), "choose one of those")
    return ranker


def _the_given(**either: Any) -> Any:
    """The one of the two that was given."""
    given = [one for one in either.values() if one is not None]
    if len(given) != 1:
        got = "both" if given else "neither"
        raise InvalidInput(" or ".join(either), "given, and not both", got, "pass one of the two")
    return given[0]


def _nobody(catalog: Catalog) -> User:
    base = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    return User(np.zeros((catalog.heads, catalog.value.shape[2])), base)
