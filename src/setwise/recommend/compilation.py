"""Compile the code of all requests in advance, so that no request waits for it (kernels/preparation.py)."""

from __future__ import annotations

import numpy as np

from setwise.kernels import preparation
from setwise.kernels.parts import ALL, BOUNDS, FIRST, LISTS
from setwise.model.users import User
from setwise.recommend.recommender import Recommender


def compile_requests(progress: bool | None = None) -> None:
    """Compile every part, as many at a time as there are cores; what could not be compiled so, here."""
    preparation.compile_parts(ALL, progress)
    preparation.load([part for part in ALL if not preparation.is_compiled(part)])


def load_requests() -> None:
    """Wait for what every slate and list needs, and load it, and of the rest of single precision what is compiled."""
    preparation.require([*FIRST, LISTS])
    preparation.load([part for part in BOUNDS if preparation.is_compiled(part)])


def warm_up(recommender: Recommender) -> None:
    """Compute a slate in every way: an artifact that cannot answer is refused now."""
    catalog = recommender.index.catalog
    base = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    user = User(np.zeros((catalog.heads, catalog.value.shape[2])), base)
    recommender.explain(recommender.recommend(user, k=2))
    recommender.recommend_many([user, user], k=2, threads=1)
    if recommender.encoder is not None:
        recommender.recommend(history=[], k=1)
