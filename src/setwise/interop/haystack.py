"""Haystack: a ranker component that keeps the best set of the retrieved documents.

    pipeline.add_component("ranker", SetwiseRanker(top_k=5, at_most={"source": 2}))

The score of a document is that of the retriever, its vector ``document.embedding``, its ``meta`` the attributes.
"""

from __future__ import annotations

from typing import Any

from setwise.interop.documents import missing, order_of_documents

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError:
    raise missing("Haystack", "haystack-ai") from None


@component
class SetwiseRanker:
    """The best set of ``top_k`` documents; ``options`` are those of ``setwise.rerank``."""

    def __init__(self, top_k: int = 10, **options: Any) -> None:
        self.top_k, self.options = top_k, options

    def to_dict(self) -> dict[str, Any]:
        """The component as Haystack saves it."""
        return dict(default_to_dict(self, top_k=self.top_k, **self.options))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The component that Haystack saved."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The chosen documents, best first."""
        if not documents:
            return {"documents": []}
        scores = [one.score for one in documents]
        if all(score is None for score in scores):
            scores = [1.0 / (1 + place) for place in range(len(documents))]
        vectors, metadata = [one.embedding for one in documents], [one.meta for one in documents]
        order = order_of_documents(scores, vectors, metadata, self.top_k if top_k is None else top_k, self.options)
        return {"documents": [documents[at] for at in order.indices.tolist()]}
