"""Nearest neighbours: the k candidates of highest total score, whatever the rest of the set.

The total score is base_i + Σ_h v_i^h · u^h. A pure embedding model maximises it, and a vector database returns it. With
a sink it is not the order of what items are worth alone: that is ``top-k``.
"""

from __future__ import annotations

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.top_k import in_order


def knn(instance: Instance, constraints: Constraints) -> Ranking:
    """Add the allowed candidate of highest score, up to k times."""
    indices = in_order(constraints, instance.total_score)
    return Ranking(indices, instance.value(indices), evaluations=1)


KNN = Ranker("knn", knn, "vector search by score", uses_attention=False, interactive=True, lower_limits=True)
