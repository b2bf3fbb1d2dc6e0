"""What retrieval compiles (kernels/parts.py)."""

from __future__ import annotations

import numpy as np

from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.retrieval.index import Index
from setwise.retrieval.partners import best_partners
from setwise.retrieval.scored_search import warm_up_scored_search


def use_retrieval() -> None:
    """Build small indexes of both exact backends and search them, with and without a base, filters and partners."""
    points = np.random.default_rng(0).normal(size=(300, 2, 2))
    for backend, base in (("scan", None), ("tree", points[:, 0])):
        index = Index.build(Catalog(points, points, points, base=base), cells=8, backend=backend, progress=False)
        user = User(points[0], None if base is None else base[0])
        for eligible in (index.eligible(), index.eligible(exclude=[1, 2])):
            index.retrieve(user, 2, eligible, per_head=2, reserve=3)
            index.retrieve_many([user, user], 2, [eligible, eligible], per_head=2, reserve=3)
        best_partners(index.catalog, user, 0, np.arange(1, 5), 2)
    warm_up_scored_search()
