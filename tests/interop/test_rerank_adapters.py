"""Adapters that re-rank: the order of ``sw.rerank``, by the real libraries where they are installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import processes
import setwise as sw
from setwise.errors import InvalidInput
from setwise.interop import rerank_frame, rerank_implicit, rerank_points

RNG = np.random.default_rng(0)
M = 30
SCORES = RNG.normal(size=M)
VECTORS = RNG.normal(size=(M, 4))
SHOPS = [str(shop) for shop in RNG.choice([*"abc"], size=M)]
OPTIONS = {"at_most": {"shop": 2}, "diversity": 0.6}


def expected(k: int, vectors=VECTORS, scores=SCORES, **options) -> list[int]:
    attributes = {"shop": SHOPS} if options else None
    return sw.rerank(scores, k, embeddings=vectors, attributes=attributes, warn_above=9, **options).tolist()


def metadata(at: int) -> dict:
    return {"shop": SHOPS[at], "at": at, "tags": ["x"]}


def test_langchain() -> None:
    documents = pytest.importorskip("langchain_core.documents")
    adapter = pytest.importorskip("setwise.interop.langchain")

    class Embeddings:
        def embed_documents(self, texts):
            return [VECTORS[int(text)].tolist() for text in texts]

        def embed_query(self, text):
            return VECTORS[3].tolist()

    found = [
        documents.Document(page_content=str(at), metadata=metadata(at) | {"relevance_score": SCORES[at]})
        for at in range(M)
    ]
    compressor = adapter.SetwiseCompressor(k=5, embeddings=Embeddings(), **OPTIONS)
    chosen = compressor.compress_documents(found, "q")
    assert [one.metadata["at"] for one in chosen] == expected(5, **OPTIONS)
    assert "setwise_reward" not in found[0].metadata
    plain = [documents.Document(page_content=str(at)) for at in range(M)]
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    by_query = [
        int(one.page_content) for one in compressor.model_copy(update={"options": {}}).compress_documents(plain, "q")
    ]
    assert by_query == expected(5, scores=unit @ unit[3])
    first = adapter.SetwiseCompressor(k=3).compress_documents(plain, "q")
    assert [int(one.page_content) for one in first] == [0, 1, 2]
    assert adapter.SetwiseCompressor().compress_documents([], "q") == []


def test_llama_index() -> None:
    schema = pytest.importorskip("llama_index.core.schema")
    adapter = pytest.importorskip("setwise.interop.llama_index")
    nodes = [
        schema.NodeWithScore(
            node=schema.TextNode(text=str(at), embedding=VECTORS[at].tolist(), metadata={"shop": SHOPS[at]}),
            score=float(SCORES[at]),
        )
        for at in range(M)
    ]
    chosen = adapter.SetwisePostprocessor(k=5, **OPTIONS).postprocess_nodes(nodes, query_str="q")
    assert [int(one.node.text) for one in chosen] == expected(5, **OPTIONS)
    assert chosen[0] is nodes[int(chosen[0].node.text)]
    assert adapter.SetwisePostprocessor().postprocess_nodes([], query_str="q") == []
    unscored = [schema.NodeWithScore(node=schema.TextNode(text=str(at))) for at in range(5)]
    in_order = adapter.SetwisePostprocessor(k=2).postprocess_nodes(unscored, query_str="q")
    assert [one.node.text for one in in_order] == ["0", "1"]


def test_haystack() -> None:
    haystack = pytest.importorskip("haystack")
    adapter = pytest.importorskip("setwise.interop.haystack")
    documents = [
        haystack.Document(content=str(at), embedding=VECTORS[at].tolist(), score=float(SCORES[at]), meta=metadata(at))
        for at in range(M)
    ]
    pipeline = haystack.Pipeline()
    saved = adapter.SetwiseRanker(top_k=5, **OPTIONS).to_dict()
    pipeline.add_component("ranker", adapter.SetwiseRanker(top_k=5, **OPTIONS))
    again = haystack.Pipeline()
    again.add_component("ranker", adapter.SetwiseRanker.from_dict(saved))
    for one in (pipeline, again):
        chosen = one.run({"ranker": {"documents": documents}})["ranker"]["documents"]
        assert [int(document.content) for document in chosen] == expected(5, **OPTIONS)
    ranker = adapter.SetwiseRanker()
    assert ranker.run([]) == {"documents": []}
    assert len(ranker.run(documents, top_k=3)["documents"]) == 3


def test_qdrant() -> None:
    models = pytest.importorskip("qdrant_client.models")
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    vectors_config = models.VectorParams(size=4, distance=models.Distance.COSINE)
    client.create_collection("shop", vectors_config=vectors_config)
    client.create_collection("named", vectors_config={"a": vectors_config, "b": vectors_config})
    for at in range(M):
        vector = VECTORS[at].tolist()
        client.upsert("shop", [models.PointStruct(id=at, vector=vector, payload=metadata(at))])
        client.upsert("named", [models.PointStruct(id=at, vector={"a": vector, "b": vector[::-1]}, payload={})])
    asked = {"query": [1.0, 0.5, 0.0, 0.0], "limit": M, "with_payload": True, "with_vectors": True}
    points = client.query_points("shop", **asked).points
    best = rerank_points(points, 5, **OPTIONS)
    columns = {"shop": [point.payload["shop"] for point in points]}
    order = sw.rerank(
        [point.score for point in points],
        5,
        embeddings=np.array([point.vector for point in points]),
        attributes=columns,
        warn_above=9,
        **OPTIONS,
    )
    assert [point.id for point in best] == [points[at].id for at in order.tolist()]
    named = client.query_points("named", using="a", **asked).points
    assert len(rerank_points(named, 5, vector_name="b")) == 5
    with pytest.raises(InvalidInput, match="vector_name must be one of a, b, got none"):
        rerank_points(named, 5)


def test_points_of_something_else() -> None:
    assert rerank_points([]) == []
    with pytest.raises(InvalidInput, match="points must be scored points of a search, got dict"):
        rerank_points([{"id": 1}])


TABLE = {"user_id": np.arange(M) % 3, "item_id": np.arange(M), "score": SCORES, "shop": SHOPS}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
def test_frames(library: str) -> None:
    frame = TABLE
    if library == "pyarrow":
        frame = pytest.importorskip(library).table(TABLE)
    elif library != "dict":
        frame = pytest.importorskip(library).DataFrame(TABLE)
    best = rerank_frame(frame, 3, vectors=(np.arange(M), VECTORS), **OPTIONS)
    assert type(best) is type(frame)
    names = best.column_names if library == "pyarrow" else list(best) if library == "dict" else list(best.columns)
    assert names == ["user_id", "item_id", "score", "reward", "rank"]
    items, users = (
        [int(cell) for cell in best[name]] if library == "dict" else [int(str(cell)) for cell in best[name]]
        for name in ("item_id", "user_id")
    )
    for user in range(3):
        rows = np.flatnonzero(TABLE["user_id"] == user)
        order = sw.rerank(
            SCORES[rows],
            3,
            embeddings=VECTORS[rows],
            attributes={"shop": [SHOPS[row] for row in rows]},
            warn_above=9,
            **OPTIONS,
        )
        assert [item for item, one in zip(items, users, strict=True) if one == user] == rows[order].tolist()


def test_a_list_without_a_feasible_set_is_named() -> None:
    with pytest.raises(InvalidInput, match="the list 0 must be one with a set that keeps the rules"):
        rerank_frame(TABLE, 3, exactly={"shop": 3})


def test_implicit() -> None:
    library = pytest.importorskip("implicit.als")
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix((RNG.random((40, 60)) < 0.2).astype(np.float32))
    model = library.AlternatingLeastSquares(factors=8, random_state=0, use_gpu=False, num_threads=1)
    model.fit(matrix, show_progress=False)
    ids, scores = model.recommend(np.arange(5), matrix[:5], N=30)
    best, of_best = rerank_implicit(ids, scores, 4, vectors=model.item_factors, diversity=0.7)
    assert best.shape == of_best.shape == (5, 4)
    for user in range(5):
        order = sw.rerank(scores[user], 4, embeddings=model.item_factors[ids[user]], diversity=0.7, warn_above=9)
        assert best[user].tolist() == ids[user][order].tolist()
        np.testing.assert_allclose(of_best[user], scores[user][order])
    one, _ = rerank_implicit(ids[0], scores[0], 4, vectors=model.item_factors, diversity=0.7)
    assert one.tolist() == best[0].tolist()


def test_places_that_implicit_could_not_fill() -> None:
    lowest = np.finfo(np.float32).min
    best, scores = rerank_implicit([[3, 1, -1], [2, -1, -1]], [[0.5, 0.4, lowest], [0.3, lowest, lowest]], 2)
    assert best.tolist() == [[3, 1], [2, -1]]
    assert scores[1, 1] == lowest


MISSING = """
import sys
sys.modules["langchain_core"] = sys.modules["llama_index"] = sys.modules["haystack"] = None
import setwise.interop
for name in ("langchain", "llama_index", "haystack"):
    try:
        __import__(f"setwise.interop.{name}")
    except ImportError as error:
        print(error)
"""


def test_adapters_are_imported_when_they_are_used() -> None:
    said = processes.run([sys.executable, "-c", MISSING], check=True).stdout.splitlines()
    assert (
        said[0]
        == "the adapter for LangChain needs langchain-core, which is not installed; run: pip install langchain-core."
    )
    assert len(said) == 3
