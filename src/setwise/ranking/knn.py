"""Nearest neighbours: the k candidates of highest total score, the set ignored.

Total score is base_i + Σ_h v_i^h · u^h: what a pure embedding model maximises and what a vector database returns.
The yardstick every set optimiser must beat.
"""

from __future__ import annotations

import numpy as np

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking


def knn(instance: Instance, constraints: Constraints) -> Ranking:
    """Take the best score that is still allowed, up to k times."""
    chosen = list(constraints.pinned)
    while len(chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(chosen))
        if not len(allowed):
            break
        chosen.append(allowed[np.argmax(instance.total_score[allowed])])
    indices = np.array(chosen, np.intp)
    return Ranking(indices, instance.value(indices), evaluations=1)


KNN = Ranker("knn", knn, "top-k by score", uses_attention=False, interactive=True)
