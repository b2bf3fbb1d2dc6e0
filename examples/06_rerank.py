"""Re-ranking: choose a set from the candidates and scores of another system."""

import time

import numpy as np

import setwise as sw


def main() -> None:
    rng = np.random.default_rng(0)
    m, topics = 500, 40
    topic = rng.integers(topics, size=m)  # results of a search engine: many near-copies of few topics
    embeddings = rng.normal(size=(topics, 32))[topic] + 0.2 * rng.normal(size=(m, 32))
    scores = rng.normal(size=topics)[topic] + 0.3 * rng.normal(size=m)  # of any scale
    source = rng.integers(8, size=m)

    top = np.argsort(-scores)[:10]
    sw.rerank(scores, k=10, embeddings=embeddings)  # the first call compiles, or loads what was compiled
    began = time.perf_counter()
    columns, rules = {"source": source}, {"source": 2}
    chosen = sw.rerank(scores, k=10, embeddings=embeddings, diversity=0.7, attributes=columns, at_most=rules)
    milliseconds = 1000 * (time.perf_counter() - began)

    for name, shown in (("top ten by score", top), ("sw.rerank", chosen)):
        most = np.bincount(source[shown]).max()
        print(
            f"{name:>17}: {len(set(topic[shown]))} topics, mean score {scores[shown].mean():.2f}, {most} of one source"
        )
    print(f"{m} candidates took {milliseconds:.0f} ms")


if __name__ == "__main__":
    main()
