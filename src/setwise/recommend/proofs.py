"""Proofs: certificates that go on after the request.

A request stops its search for an upper bound at the end of its budget. ``Recommender.certify(slate, seconds=…)``
searches on and returns the slate with what is known then: a smaller bound, and a better set if the search found a
feasible one. Neither is ever worse than before.

The open searches of the last queries are kept, so a second call goes on where the first stopped, and a proof that is
complete is not computed again. A query is the same if all that its answer depends on is: the user, k, the eligible
items, pins and limits, and the snapshot of the index; neither its budget nor its ranker is part of that. A search takes
some megabytes, so only a few are kept; the results of more.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from setwise._types import Rows
from setwise._validation import real_number
from setwise.errors import InvalidInput
from setwise.model.instance import Instance
from setwise.recommend import pipeline
from setwise.recommend.catalog_bounds import Best, bound_catalog, catalog_search
from setwise.recommend.clock import Clock
from setwise.recommend.independent import is_independent
from setwise.recommend.query import Query
from setwise.recommend.retrieve import Snapshot
from setwise.recommend.slate import Slate
from setwise.recommend.valuation import valued

if TYPE_CHECKING:
    from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch

SEARCHES = 4  # open searches that are kept
RESULTS = 256  # bounds and sets that are kept
_IRRELEVANT = ("budget_ms", "ranker", "certify")  # keys of the JSON form


@dataclass
class Proof:
    """What is known of a query: its best set, the least bound, and the search that can go on."""

    snapshot: Snapshot
    best: Best
    upper_bound: float
    search: WholeCatalogSearch | None = None
    settled: bool = False
    running: threading.Lock = field(default_factory=threading.Lock)


class Proofs:
    """The proofs of the last queries: thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Proof] = OrderedDict()
        self._change = threading.Lock()

    def continued(self, slate: Slate, snapshot: Snapshot, seconds: float) -> Slate:
        """The slate after ``seconds`` more of search, less if it is proven optimal before."""
        query = slate.query
        if slate.proven:
            return slate
        if is_independent(query):
            return pipeline.run(replace(query, certify=True), snapshot)
        proof = self._proof(slate, snapshot)
        with proof.running:
            clock = Clock(None, timings=dict(slate.timings))
            self._take(proof, np.sort(slate.members), slate.value, slate.upper_bound)
            if not proof.settled:
                with clock.phase("certify"):
                    self._search(query, proof, seconds)
            return valued(query, proof.best.rows, proof.upper_bound, clock.timings)

    def _proof(self, slate: Slate, snapshot: Snapshot) -> Proof:
        """The proof of the slate's query, which becomes the latest one; the searches of old ones are dropped."""
        key = query_key(slate.query)
        with self._change:
            proof = self._kept.pop(key, None)
            if proof is None or proof.snapshot is not snapshot:
                proof = Proof(snapshot, Best(np.sort(slate.members), slate.value), slate.upper_bound)
            self._kept[key] = proof
            while len(self._kept) > RESULTS:
                self._kept.popitem(last=False)
            for old in list(self._kept.values())[:-SEARCHES]:
                old.search = None
            return proof

    @staticmethod
    def _take(proof: Proof, rows: Rows, value: float, upper_bound: float) -> None:
        """Add what a request found."""
        if value > proof.best.value:
            proof.best = Best(rows, value)
        proof.upper_bound = min(proof.upper_bound, upper_bound)

    @staticmethod
    def _search(query: Query, proof: Proof, seconds: float) -> None:
        """Continue the search for so long; if all eligible items are candidates, search these from the start."""
        cells, clock = proof.snapshot.cell_bounds, Clock(1000 * seconds)
        if query.eligible.count <= proof.snapshot.most_candidates:
            instance = Instance.from_catalog(query.catalog, query.user, query.eligible.rows)
            bounded = pipeline.bound_candidates(query, instance, proof.best, clock)._replace(settled=False)
        elif cells is None:  # bounded on a device, where no search goes on
            proof.settled = True
            return
        else:
            if proof.search is None:
                proof.search = catalog_search(query, cells, proof.best)
            proof.search.offer(proof.best.value, proof.best.rows)
            bounded = bound_catalog(query, proof.search, proof.best, clock.share(1.0))
        proof.best, proof.settled = bounded.best, bounded.settled
        proof.upper_bound = min(proof.upper_bound, bounded.upper_bound)


def query_key(query: Query) -> str:
    """A digest of all that the best set of a query depends on, beside the catalogue."""
    content = {name: part for name, part in query.to_json().items() if name not in _IRRELEVANT}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def positive_seconds(seconds: float) -> float:
    """The time that a proof may take."""
    number = real_number("seconds", seconds)
    if number <= 0:
        raise InvalidInput("seconds", "above 0", seconds, "pass the time that the proof may take")
    return number
