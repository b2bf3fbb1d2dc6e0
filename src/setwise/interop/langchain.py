"""LangChain: a document compressor that keeps the best set of the retrieved documents.

    compressor = SetwiseCompressor(k=5, at_most={"source": 2}, embeddings=embeddings)
    retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=retriever)

The score of a document is its metadatum ``relevance_score``, or ``score``; without one, with ``embeddings`` it is the
cosine to the query, and else the place among the retrieved ones. Its vector is that of ``embeddings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from setwise.interop.documents import missing, order_of_documents
from setwise.model.instance import unit_rows

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import Field
except ModuleNotFoundError:
    raise missing("LangChain", "langchain-core") from None

SCORES = ("relevance_score", "score")


class SetwiseCompressor(BaseDocumentCompressor):
    """The best set of k documents; ``options`` are those of ``setwise.rerank``, such as ``diversity``."""

    k: int = 10
    embeddings: Any = None
    options: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, k: int = 10, embeddings: Any = None, **options: Any) -> None:
        super().__init__(k=k, embeddings=embeddings, options=options)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        """The chosen documents, best first; each has its reward in the set as ``setwise_reward``."""
        if not documents:
            return []
        vectors = None
        if self.embeddings is not None:
            vectors = np.asarray(self.embeddings.embed_documents([one.page_content for one in documents]), np.float64)
        scores = [next((one.metadata[name] for name in SCORES if name in one.metadata), None) for one in documents]
        if all(score is None for score in scores):
            scores = self._scores(query, vectors, len(documents))
        order = order_of_documents(scores, vectors, [one.metadata for one in documents], self.k, self.options)
        chosen = zip(order.indices.tolist(), order.rewards.tolist(), strict=True)
        return [
            documents[at].model_copy(update={"metadata": {**documents[at].metadata, "setwise_reward": reward}})
            for at, reward in chosen
        ]

    def _scores(self, query: str, vectors: Any, m: int) -> list[float | None]:
        """The cosines to the query, or the order of the retriever."""
        if vectors is None:
            return [1.0 / (1 + place) for place in range(m)]
        asked = unit_rows(np.asarray([self.embeddings.embed_query(query)], np.float64))
        return list((unit_rows(vectors) @ asked[0]).tolist())
