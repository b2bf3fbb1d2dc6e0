"""Imported once by the server process from which workers are forked (worker_pool.py): workers inherit what it loads.

Loading the compiled code of a request takes seconds, and minutes where it must be compiled first. Here it is loaded
once for all workers, those that replace others and those of a reload included.
"""

from __future__ import annotations

import contextlib

import numpy as np

from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.recommend.recommender import Recommender
from setwise.retrieval.index import Index
from setwise.service import worker  # with all that a worker imports
from setwise.service.handlers import warm_up

__all__ = ["worker"]


def load_compiled_code() -> None:
    """Compute slates of small catalogues, without and with a base, with both backends of compiled code."""
    points = np.random.default_rng(0).normal(size=(300, 2, 2))
    for backend, base in (("scan", None), ("tree", points[:, 0])):
        catalog = Catalog(points, points, points, base=base)
        index = Index.build(catalog, cells=8, backend=backend, progress=False)
        index.candidates(User(points[0], None if base is None else base[0]), per_cell=2)
        warm_up(Recommender(index))


# A worker does the same with its artifact, and reports what goes wrong. Ctrl-C during compilation ends the service, and
# this process with it.
with contextlib.suppress(Exception, KeyboardInterrupt):
    load_compiled_code()
