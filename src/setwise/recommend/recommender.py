"""Recommender: the entry point. It retrieves candidates, ranks them and bounds every other set of the catalogue.

    rec = Recommender(index)                       or Recommender.from_model(model), which encodes histories
    slate = rec.recommend(user, k=10)              or rec.recommend(history=["id of a song", "another"])
    slate.items, slate.value, slate.upper_bound, slate.gap
    rec.explain(slate)                             what each item contributes, and what top-k and greedy would show
    rec.save("songs/"); Recommender.load("songs/")

Retrieval is Phase One (retrieval/), ranking Phase Two (ranking/); the bound holds for F(S) of EVERY feasible set of all
n items (bounds/catalog/). A request is a ``Query`` (query.py), and pipeline.py answers it. An index has no positions:
ordered slates are ranked as an ``Instance``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from setwise._validation import available_cores, whole_number
from setwise.errors import InvalidInput
from setwise.kernels import parts, preparation
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.ids import IdChoice
from setwise.model.ragged import Ragged
from setwise.model.users import User
from setwise.ranking import DEFAULT, ranker_named
from setwise.recommend import pipeline
from setwise.recommend.arguments import (
    IGNORE,
    SLATE_SIZE,
    Given,
    Options,
    RequestArguments,
    description,
    require_names,
    takes,
)
from setwise.recommend.descriptions import descriptions, featured
from setwise.recommend.encoder_items import EncoderItems
from setwise.recommend.explanation import Explanation, answers_of_rivals, explained
from setwise.recommend.histories import Seen, known_items
from setwise.recommend.memory import keep_some
from setwise.recommend.proofs import Proofs, positive_seconds
from setwise.recommend.query import Query
from setwise.recommend.retrieve import Snapshot, device_requests
from setwise.recommend.slate import Slate
from setwise.retrieval import Index
from setwise.storage import artifact

if TYPE_CHECKING:
    from setwise.bounds.catalog.cells import CellBounds


CANDIDATES = 400  # ranked at most: more gained half a percent on trained catalogues, and the cost is quadratic
RETRIEVED_TOGETHER = 256  # users share one retrieval pass; more would only take more memory


class Recommender:
    """Recommends sets from an index: thread-safe, and follows changes of the index.

    ``ranker`` chooses among at most ``candidates`` retrieved items (one of ``setwise.ranking.RANKERS``); ``certify``
    says whether every slate comes with an upper bound (the attribute ``certifies``). A single request may choose both
    otherwise. ``features`` turns features into users, ``encoder`` histories; it knows the items that the index has now.
    Items added later can be recommended, and in a history they are excluded from the slate but not encoded.
    """

    def __init__(
        self,
        index: Index,
        ranker: str = DEFAULT.name,
        certify: bool = True,
        candidates: int = CANDIDATES,
        encoder: Encoder | None = None,
        features: FeatureEncoder | None = None,
    ) -> None:
        self._fill(index, ranker, certify, candidates, encoder, features, None)

    def _fill(
        self,
        index: Index,
        ranker: str,
        certify: bool,
        candidates: int,
        encoder: Encoder | None,
        features: FeatureEncoder | None,
        cells: CellBounds | None,
    ) -> None:
        """Check and set the fields; ``cells`` are those of the index where they were saved with it."""
        if not isinstance(index, Index):
            raise InvalidInput("index", "a setwise.Index", type(index).__name__, "use Index.build or Index.load")
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InvalidInput("encoder", "an Encoder", type(encoder).__name__, "pass that of a trained model")
        self.index, self.ranker, self.certifies = index, ranker_named(ranker).name, certify
        self.most_candidates = whole_number("candidates", candidates)
        self.encoder = None if encoder is None else encoder.fitted_to(index.catalog)
        self.features = None if features is None else features.fitted_to(index.catalog)
        self._encoder_items = EncoderItems(index.catalog.ids)
        self.effects: dict[str, Any] = {}  # what the model says of them: words, and a drawing
        self._change, self._proofs = threading.Lock(), Proofs()
        preparation.require(parts.FIRST)  # compiled here, not in a request
        self._snapshot = self._take_snapshot(certify, cells)
        keep_some()

    @classmethod
    def from_model(cls, model: Any, cells: int | None = None, **options: Any) -> Recommender:
        """For a trained model (a ``SimpleTransformer``): its catalogue, indexed, and its encoder of histories.

        Without a number of ``cells`` there are as many as ``Index.build`` chooses; the options are those of the class.
        """
        catalog = model.catalog() if callable(getattr(model, "catalog", None)) else None
        if not isinstance(catalog, Catalog) or not isinstance(getattr(model, "encoder", None), Encoder):
            todo = "pass a SimpleTransformer, or Recommender(index, encoder=...) by hand"
            raise InvalidInput("model", "one with a catalogue and an encoder", type(model).__name__, todo)
        recommender = cls(Index.build(catalog, cells), encoder=model.encoder, **options)
        recommender.effects = dict(getattr(model, "effects", {}))
        return recommender

    def prepare(self) -> Recommender:
        """Wait until the code of bounds is compiled. After an installation, slates before have none (``left_out``).

        Programs that answer a few requests and end call it.
        """
        preparation.require(self._snapshot.code)
        return self

    def _take_snapshot(self, certify: bool, saved: CellBounds | None = None) -> Snapshot:
        from setwise.bounds.catalog.cells import CellBounds  # compiled: imported when first needed
        from setwise.bounds.compiled import parts_of

        index = self.index.snapshot()
        device = device_requests(index, self.most_candidates)
        if not certify or (device is not None and device.bounds):
            return Snapshot(index, None, self.most_candidates, device)
        cells = CellBounds.build(index.catalog) if saved is None else saved
        code = [parts.CANDIDATES, parts.FEW_SETS]
        if len(index.catalog) > self.most_candidates:
            code = [*parts_of(index.catalog), *code]
        elif index.catalog.heads > 1:  # all items are candidates
            code = [parts.LIFTS, *code]
        preparation.begin(code)
        return Snapshot(index, cells, self.most_candidates, device, tuple(code))

    def _current(self, certify: bool) -> Snapshot:
        """The snapshot to answer from; a new one when the index has changed, or cells are missing."""
        if not self._is_current(self._snapshot, certify):
            with self._change:
                if not self._is_current(self._snapshot, certify):
                    self._snapshot = self._take_snapshot(certify or self.certifies)
        return self._snapshot

    def _is_current(self, snapshot: Snapshot, certify: bool) -> bool:
        return snapshot.index.is_like(self.index) and not (certify and not snapshot.bounds)

    def __repr__(self) -> str:
        return f"Recommender({self.index!r}, ranker={self.ranker!r}, certify={self.certifies})"

    # --- requests ---

    @takes(RequestArguments)
    def recommend(
        self, user: ArrayLike | User | None = None, k: int = SLATE_SIZE, **arguments: Unpack[RequestArguments]
    ) -> Slate:
        """The best set of at most k items for this user, or for a user with this ``history``, with an upper bound.

        A history is a list of ids, which the encoder turns into a user; an empty one is a new user's. ``features``
        ({"size": 3.0}) become a user where the model was trained with user columns. Items of the history are not shown
        again unless ``filter_seen=False`` or ``include`` pins them; ``exclude`` names further ids that are not shown,
        ``include`` those that must be. Ids of history, exclude and scores that the catalogue does not have are reported
        in ``slate.ignored``, or refused with ``unknown="error"``. ``where`` filters by attributes ({"city": "Rome",
        "price": (None, 200)}); ``at_most={"artist": 2}`` allows two items of one artist, ``at_least={"genre": {"jazz":
        2}}`` requires two of jazz, and ``exactly={"site": 1}`` one of every site; ``budget_ms`` is for the whole
        request; without it the bound takes at most 100 ms. ``ranker`` and ``certify`` are for this request alone.

        ``scores`` are those of your own recommender for this request, on the scale of the argument: one number per
        item in the order of the catalogue, or {id: score}. They are added to each item's argument. An item that a
        mapping does not name is not eligible, or has the score ``scores_floor``. With scores, user and history may
        both be left out: the user is then zero, and an item's argument is its score.
        """
        began = time.perf_counter()
        require_names(arguments)
        history, features = arguments.pop("history", None), arguments.pop("features", None)
        scores, unknown = arguments.get("scores"), arguments.get("unknown", IGNORE)
        snapshot = self._snapshot_for(arguments.get("certify"))
        description({"history": history, "user": user, "features": features}, scores is not None)
        if features is not None:
            user = featured(self.features, features, k, _shown(snapshot))
        seen = Seen(user) if history is None else self._encoded(snapshot.index, [history], unknown)[0]
        query = self._query(snapshot, seen, k=k, **arguments)
        return replace(pipeline.run(query, snapshot, began), improver=self.certify)

    @takes(Options)
    def recommend_many(
        self,
        users: Iterable[ArrayLike | User] | None = None,
        k: int = SLATE_SIZE,
        *,
        histories: Iterable[IdChoice] | None = None,
        features: Iterable[Mapping[str, Any] | Sequence[Any]] | None = None,
        scores: Iterable[Given] | None = None,
        threads: int | None = None,
        **options: Unpack[Options],
    ) -> list[Slate]:
        """``recommend`` for many users, histories or features with the same options: retrieved together.

        ``scores`` has one entry per user or history, each an array or a mapping; alone, one entry per slate.
        Up to 256 users share one pass over the catalogue, and the ``timings`` of each slate have its share of it.
        Ranking uses ``threads`` threads, by default one a core.
        """
        require_names(options)
        workers = whole_number("threads", threads) if threads is not None else available_cores()
        snapshot = self._snapshot_for(options.get("certify"))
        name, people, of_user = descriptions(scores, users=users, histories=histories, features=features)
        if name == "features":
            shown = _shown(snapshot)
            people = [featured(self.features, features_of_user, k, shown) for features_of_user in people]
        where, slates = options.get("where"), list[Slate]()
        filtered = snapshot.index.eligible(where=where) if people and isinstance(where, Mapping) else None
        for start in range(0, len(people), RETRIEVED_TOGETHER):
            part = slice(start, start + RETRIEVED_TOGETHER)
            encoded = None
            if name == "histories":
                encoded = self._encoded(snapshot.index, people[part], options.get("unknown", IGNORE))
            queries = [
                self._query(snapshot, seen, k=k, scores=scored, filtered=filtered, **options)
                for seen, scored in zip(encoded or map(Seen, people[part]), of_user[part], strict=True)
            ]
            answers = pipeline.run_many(queries, snapshot, workers)
            slates += [replace(slate, improver=self.certify) for slate in answers]
        return slates

    def _snapshot_for(self, certify: bool | None) -> Snapshot:
        return self._current(self.certifies if certify is None else certify)

    def _query(
        self, snapshot: Snapshot, seen: Seen, *, ranker: str | None = None, certify: bool | None = None, **stated: Any
    ) -> Query:
        """Parse one request; what it leaves open is as the recommender has it."""
        user, rows, ignored = seen
        if user is None and stated.get("scores") is not None:
            user = zero_user(snapshot.index.catalog)
        ranker = self.ranker if ranker is None else ranker
        certify = self.certifies if certify is None else certify
        return Query.parse(snapshot.index, user, rows, ranker=ranker, certify=certify, ignored=ignored, **stated)

    def _encoded(self, index: Index, histories: Sequence[IdChoice], unknown: str) -> list[Seen]:
        """The users of these histories, each with the rows of the seen items and the ids that are unknown."""
        if self.encoder is None:
            todo = "use Recommender.from_model(model), or pass a user"
            raise InvalidInput("history", "left out, as this recommender has no encoder for it", "one", todo)
        catalog = index.catalog
        known = [known_items(catalog, "history", history, unknown, index.removed) for history in histories]
        users = self.encoder.users(Ragged.of([self._encoder_items.rows(catalog, rows) for rows, _ in known]))
        moved = self._encoder_items.moved(catalog, users)
        return [Seen(user, rows, ignored) for user, (rows, ignored) in zip(moved, known, strict=True)]

    def explain(self, slate: Slate) -> Explanation:
        """What each item contributes to the slate, and what top-k, greedy and beam search would have shown."""
        return explained(slate, answers_of_rivals(slate, self._snapshot_of(slate, False, "explain")))

    def certify(self, slate: Slate, seconds: float = 1.0) -> Slate:
        """The slate after ``seconds`` more of search for its upper bound, or fewer if it is proven optimal before.

        The bound never rises; if the search finds a better feasible set, that is the slate. The next call for the same
        query goes on from there, and a complete proof is not computed again (``recommend/proofs.py``). If the code of
        bounds is still being compiled, that is waited for before.
        """
        limit = positive_seconds(seconds)
        snapshot = self._snapshot_of(slate, True, "certify")
        preparation.require(snapshot.code)
        return replace(self._proofs.continued(slate, snapshot, limit), improver=self.certify)

    def _snapshot_of(self, slate: Slate, certify: bool, then: str) -> Snapshot:
        """The snapshot that the slate is about; refuse a slate of another index."""
        snapshot = self._current(certify)
        same = isinstance(slate, Slate) and slate.catalog is snapshot.index.catalog
        if not same or not np.isin(snapshot.index.removed, slate.query.exclude).all():
            must = "a slate of this recommender, and its index unchanged since"
            raise InvalidInput("slate", must, "another", f"recommend again, then {then}")
        return snapshot

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write index, catalogue, encoder and cells to the folder ``path`` as one artifact, atomically and compacted.

        The cells of the bounds are saved too: loading would otherwise have to measure all items again.
        """
        index = self.index.snapshot()
        index.compact()
        arrays, meta = index.packed()
        parts = {f"index.{name}": array for name, array in arrays.items()}
        encoder = None if self.encoder is None else self._encoder_items.restricted(index.catalog, self.encoder)
        parts |= {f"encoder.{name}": array for name, array in (encoder.packed() if encoder else {}).items()}
        trees, named = ({}, None) if self.features is None else self.features.packed()
        parts |= {f"features.{name}": array for name, array in trees.items()}
        cells = self.cells_of(index)
        parts |= {f"cells.{name}": array for name, array in (cells.to_arrays() if cells else {}).items()}
        options = {"ranker": self.ranker, "certify": bool(self.certifies), "candidates": self.most_candidates}
        described = {"index": meta, "options": options, "features": named, "effects": self.effects}
        artifact.write(path, "recommender", parts, described)

    def cells_of(self, index: Index) -> CellBounds | None:
        """The cells that bounds over this index need, where bounds are wanted."""
        from setwise.bounds.catalog.cells import CellBounds

        if not self.certifies:
            return None
        snapshot = self._current(True)
        known = snapshot.cell_bounds if snapshot.index.is_like(index) else None
        return known if isinstance(known, CellBounds) else CellBounds.build(index.catalog)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Recommender:
        """Open what ``save`` wrote, or a saved index: digests checked, arrays mapped; the options are the class's."""
        saved = artifact.read(path, "recommender", "index", otherwise="make one of it with setwise index")
        if saved.kind == "index":
            return cls(Index.unpacked(path, saved.arrays, saved.meta), **options)
        from setwise.bounds.catalog.cells import CellBounds

        with artifact.restoring(path):
            index = Index.unpacked(path, artifact.under("index.", saved.arrays), saved.meta["index"])
            encoder, cells = (artifact.under(prefix, saved.arrays) for prefix in ("encoder.", "cells."))
            named, trees = saved.meta.get("features"), artifact.under("features.", saved.arrays)
            wanted = {
                **saved.meta["options"],
                "encoder": Encoder.unpacked(encoder) if encoder else None,
                "features": FeatureEncoder.unpacked(trees, named) if named else None,
            }
            certify = options.get("certify", wanted["certify"])
            bounds = CellBounds.from_arrays(index.catalog, cells) if cells and certify else None
            effects = dict(saved.meta.get("effects", {}))
        recommender = cls.__new__(cls)
        with nullcontext() if options else artifact.restoring(path):  # what is wrong may be one of the options
            recommender._fill(index, **{**wanted, **options}, cells=bounds)
        recommender.effects = effects
        return recommender


def _shown(snapshot: Snapshot) -> int:
    """The number of items that were not removed."""
    return len(snapshot.index.catalog) - len(snapshot.index.removed)


def zero_user(catalog: Catalog) -> User:
    """A user whose scores are all zero: for requests by added scores alone, and for compiling kernels beforehand."""
    base = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    return User(np.zeros((catalog.heads, catalog.value.shape[2])), base)
