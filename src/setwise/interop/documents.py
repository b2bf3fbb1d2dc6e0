"""What retrieved documents of any library have in common: a score, perhaps a vector, and metadata as attributes.

A metadatum that is a text, a number or a truth value is an attribute; others, such as lists, are no part of a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from setwise.errors import MissingDependency
from setwise.recommend.rerank import Order
from setwise.recommend.rerank.requests import rerank_quietly

PLAIN = (str, int, float, bool)


def order_of_documents(
    scores: Sequence[float | None],
    vectors: Any,
    metadata: Sequence[Mapping[str, Any] | None],
    k: int,
    options: Mapping[str, Any],
) -> Order:
    """The positions of the best set of these documents, best first."""
    given = None if vectors is None or all(vector is None for vector in vectors) else list(vectors)
    return rerank_quietly(list(scores), k=k, embeddings=given, attributes=attributes_of(metadata), **options)


def attributes_of(metadata: Sequence[Mapping[str, Any] | None]) -> dict[str, list[Any]]:
    """Columns of the metadata that are plain in every document; None where one lacks it."""
    records = [record or {} for record in metadata]
    columns = {str(name): [record.get(name) for record in records] for record in records for name in record}
    return {name: cells for name, cells in columns.items() if _is_plain(cells)}


def _is_plain(cells: Sequence[Any]) -> bool:
    """Whether they are all texts, or all numbers, but for missing ones."""
    present = [cell for cell in cells if cell is not None]
    texts = [isinstance(cell, str) for cell in present]
    return all(isinstance(cell, PLAIN) for cell in present) and (all(texts) or not any(texts))


def missing(library: str, package: str) -> MissingDependency:
    """The error for an adapter whose library is not installed."""
    return MissingDependency(package, f"the adapter for {library}", None)
