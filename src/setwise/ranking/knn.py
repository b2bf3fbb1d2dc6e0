"""Nearest neighbours: the k candidates of highest total score, whatever the rest of the set.

The total score is base_i + Σ_h v_i^h · u^h. A pure embedding model maximises it, and a vector database returns it. With
a sink it is not the order of what items are worth alone: that is ``top-k``.
"""

from __future__ import annotations

import numpy as np

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking


def knn(instance: Instance, constraints: Constraints) -> Ranking:
    """Add the allowed candidate of highest score, up to k times."""
    chosen = list(constraints.pinned)
    while len(chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(chosen))
        if not len(allowed):
            break
        chosen.append(allowed[np.argmax(instance.total_score[allowed])])
    indices = np.array(chosen, np.intp)
    return Ranking(indices, instance.value(indices), evaluations=1)


KNN = Ranker("knn", knn, "vector search by score", uses_attention=False, interactive=True, lower_limits=True)
