"""Qdrant: the best set of the points that a search returned.

    points = client.query_points("products", query=vector, limit=200, with_payload=True, with_vectors=True).points
    best = rerank_points(points, k=10, at_most={"brand": 2})

The score of a point is that of the search, its vector that of the point, its payload the attributes. Qdrant's client is
not imported: its points are used by their public attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from setwise.errors import InvalidInput
from setwise.interop.documents import order_of_documents

Point = TypeVar("Point")


def rerank_points(points: Sequence[Point], k: int = 10, vector_name: str | None = None, **options: Any) -> list[Point]:
    """The best set of k points, best first.

    ``vector_name`` is that of the vectors to compare, where a collection has several. The options are those of
    ``setwise.rerank``, such as ``diversity`` and ``at_most``.
    """
    if not points:
        return []
    for name in ("id", "score", "payload"):
        if not hasattr(points[0], name):
            must = "scored points of a search"
            raise InvalidInput("points", must, type(points[0]).__name__, "pass the points of query_points")
    vectors = [_vector(getattr(point, "vector", None), vector_name) for point in points]
    scores = [getattr(point, "score", None) for point in points]
    payload = [getattr(point, "payload", None) for point in points]
    order = order_of_documents(scores, vectors, payload, k, options)
    return [points[at] for at in order.indices.tolist()]


def _vector(given: Any, name: str | None) -> Any:
    """The one vector of a point, or that of this name."""
    if not isinstance(given, Mapping):
        return given
    if name is None and len(given) > 1:
        known = ", ".join(given)
        raise InvalidInput("vector_name", f"one of {known}", "none", "name the vectors to compare")
    return next(iter(given.values()), None) if name is None else given.get(name)
