"""Query clusters: items of similar attention share one row of weights, in all heads at once.

Replacing the query of item i by the mean query q̄_c of its cluster c replaces row i of w^h by

    B_jc^h = exp(q̄_c^h · k_j^h),      the geometric mean of the rows of the cluster, as rows scale freely,

so that W' = A Bᵀ with A one-hot has a non-negative rank of the number C of clusters. B distinguishes all keys, so keys
need not be clustered. With C ≥ m every item is a cluster of its own, and the weights are exact.

Rankers use the weights B that a cluster gives to the candidates and, for a set Y, the sums N_c = z_c s_0 +
Σ_{j∈Y} B_jc s_j and D_c = z_c + Σ_{j∈Y} B_jc of the cluster's average a_c(Y) = N_c / D_c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Rows
from setwise.model.instance import FLOOR, Instance
from setwise.retrieval.kmeans import farthest_first, lloyd

_LEAST_LOG = -30.0  # comparisons of rows treat weights below e^−30 of the row's largest as equal
_ROUNDS = 10  # of k-means


@dataclass(frozen=True, eq=False)
class QueryClusters:
    """C clusters of m candidates and the weights they attend with."""

    cluster_of: Rows  # (m,)
    weight: Floats  # (H, C, m): B, each row up to a scale
    sink_weight: Floats  # (H, C): z on the scale of the row; zero without a sink
    score: Floats  # (H, m)
    sink_score: Floats  # (H,)

    @classmethod
    def of(cls, instance: Instance, clusters: int) -> QueryClusters:
        """At most ``clusters`` clusters; each item its own when there are no more items than that."""
        sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
        if clusters >= instance.m:
            own = np.arange(instance.m)
            return cls(own, instance.weight, instance.sink_weight, instance.score, sink_score)
        row, sink = _logs(instance.weight), _logs(instance.sink_weight)
        cluster_of = _cluster(np.concatenate(list(row), axis=1), clusters)
        mean = _averaging(cluster_of)
        none = instance.sink_logit is None
        sink_weight = np.zeros((instance.heads, len(mean))) if none else np.exp(sink @ mean.T)
        return cls(cluster_of, np.exp(mean @ row), sink_weight, instance.score, sink_score)

    def used_by(self, rows: Rows) -> Rows:
        """The clusters that ``rows`` belong to, each once."""
        return np.unique(self.cluster_of[rows])

    def sums(self, used: Rows, rows: Rows) -> tuple[Floats, Floats]:
        """N and D of the clusters ``used`` for the set ``rows``: (H, used) each."""
        weight, sink = self.weight[:, used][:, :, rows], self.sink_weight[:, used]
        numerator = (weight * self.score[:, None, rows]).sum(axis=2) + sink * self.sink_score[:, None]
        return numerator, weight.sum(axis=2) + sink


def _logs(weight: Floats) -> Floats:
    """Logarithms of weights, not below the floor."""
    return np.log(np.maximum(weight, np.exp(FLOOR)))


def _cluster(rows: Floats, clusters: int) -> Rows:
    """k-means of the rows, started from rows far from each other; clusters are numbered without gaps: (m,)."""
    points = np.maximum(rows, _LEAST_LOG)
    points = points - points.mean(axis=1, keepdims=True)  # rows scale freely
    return lloyd(points, farthest_first(points, clusters), _ROUNDS, keep_empty=False)[1]


def _averaging(label: Rows) -> Floats:
    """The matrix that averages over each cluster: (C, m)."""
    member = label == np.arange(label.max() + 1)[:, None]
    return np.asarray(member / member.sum(axis=1, keepdims=True))
