"""LlamaIndex: a node postprocessor that keeps the best set of the retrieved nodes.

    engine = index.as_query_engine(similarity_top_k=50, node_postprocessors=[SetwisePostprocessor(k=5)])

The score of a node is that of the retriever, its vector that of the node (``node.embedding``), where it has one, else
that of ``embed_model`` if it is given; its metadata are attributes.
"""

from __future__ import annotations

from typing import Any

from setwise.interop.documents import missing, order_of_documents

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
    from pydantic import Field
except ModuleNotFoundError:
    raise missing("LlamaIndex", "llama-index-core") from None


class SetwisePostprocessor(BaseNodePostprocessor):
    """The best set of k nodes; ``options`` are those of ``setwise.rerank``, such as ``diversity`` and ``at_most``."""

    k: int = 10
    embed_model: Any = None
    options: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, k: int = 10, embed_model: Any = None, **options: Any) -> None:
        super().__init__(k=k, embed_model=embed_model, options=options)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex."""
        return "SetwisePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        vectors = [one.node.embedding for one in nodes]
        if self.embed_model is not None and any(vector is None for vector in vectors):
            vectors = self.embed_model.get_text_embedding_batch([one.node.get_content() for one in nodes])
        scores = [one.score for one in nodes]
        if all(score is None for score in scores):
            scores = [1.0 / (1 + place) for place in range(len(nodes))]
        order = order_of_documents(scores, vectors, [one.node.metadata for one in nodes], self.k, self.options)
        return [nodes[at] for at in order.indices.tolist()]
