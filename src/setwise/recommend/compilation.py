"""Compile the inner loops of a request in advance, so that the first request does not wait for them.

numba compiles a function when it is first called, and keeps the machine code on disk. A request calls some dozens of
them: together they compile for two or three minutes, once on a machine, and load in seconds afterwards.
"""

from __future__ import annotations

import time

import numpy as np

from setwise._progress import Progress
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import compile_search
from setwise.model.catalog import Catalog, Sink
from setwise.model.rewards import Logistic
from setwise.model.users import User
from setwise.recommend.recommender import Recommender
from setwise.retrieval.index import Index

ATTEMPTS = 8
LONG_MS = 1000  # a budget in which every search for the bound has its turn
# Backend, whether there is a base, and the type of the arrays: compiled code differs by type.
KINDS = (("scan", False, np.float32), ("tree", True, np.float32), ("scan", True, np.float64))


def compile_requests(kinds: int = len(KINDS), progress: bool | None = None) -> None:
    """Compute slates of small catalogues in every way, for the first ``kinds`` kinds of catalogue."""
    points = np.random.default_rng(0).normal(size=(300, 2, 2))
    with Progress("compiling", kinds, progress) as bar:
        for backend, with_base, dtype in KINDS[:kinds]:
            base = points[:, 0] if with_base else None
            catalog = Catalog(points, points, points, base=base, dtype=dtype)
            index = Index.build(catalog, cells=8, backend=backend, progress=False)
            user, recommender = User(points[0], None if base is None else base[0]), Recommender(index)
            index.candidates(user, per_cell=2)
            warm_up(recommender)
            _search_to_the_end(recommender, user)
            bar.advance(1)
        _search_beside_a_sink()


def _search_beside_a_sink() -> None:
    """A bound of a catalogue whose items attend mostly to the sink, which has a search of its own."""
    rng = np.random.default_rng(1)
    query, key, value = np.full((40, 2, 2), 2.0), 0.1 * rng.normal(size=(40, 2, 2)), rng.normal(size=(40, 2, 2))
    sink = Sink(np.full((2, 2), 1.0), np.zeros((2, 2)))
    catalog = Catalog(query, key, value, Logistic(1.0, 0.0), sink=sink)
    compile_search(CellBounds.build(catalog, cells=4), User(rng.normal(size=(2, 2))))


def _search_to_the_end(recommender: Recommender, user: User) -> None:
    """Request until a budget is spent on searching: the searches of one in which code was compiled were cut short."""
    for _ in range(ATTEMPTS):
        began = time.perf_counter()
        recommender.recommend(user, k=6, budget_ms=LONG_MS)
        if time.perf_counter() - began < 1.2e-3 * LONG_MS:
            return


def warm_up(recommender: Recommender) -> None:
    """Compute a slate in every way: code is compiled now, and an artifact that cannot answer is refused now."""
    catalog = recommender.index.catalog
    base = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    user = User(np.zeros((catalog.heads, catalog.value.shape[2])), base)
    recommender.explain(recommender.recommend(user, k=2))
    recommender.recommend(user, k=1, ranker="exhaustive", certify=False)  # also the proof where sets are few
    recommender.recommend_many([user, user], k=2, threads=1)
    if recommender.encoder is not None:
        recommender.recommend(history=[], k=1)
