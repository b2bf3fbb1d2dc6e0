"""Bring your own embeddings: a model of your own as plain arrays, with histories, constraints and explanations."""

import tempfile
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.model.encoder import Encoder


def main() -> None:
    rng = np.random.default_rng(1)
    n, d = 2000, 16
    genre = rng.integers(12, size=n)
    x = rng.normal(size=(12, d))[genre] + 0.7 * rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)  # your item embeddings: word2vec, a two-tower model, anything

    # An item by itself has the score x_i · u; near-copies lower each other. One head, a base term and a sink.
    catalog = sw.Catalog(
        query=np.hstack([8 * x, np.ones((n, 1))]),  # an item attends to what is like it …
        key=np.hstack([x, np.full((n, 1), -8.0)]),  # … with weight e^(8 (cos − 1)), 1 for a copy and for itself
        value=np.ones((n, 1)),  # the contribution is then −2: see the encoder below
        base=8 * x,
        sink=sw.Sink(key=np.zeros((1, d + 1)), value=np.zeros((1, 1))),
        reward=sw.Logistic(scale=1.0, bias=-3.0),
        ids=[f"song-{i}" for i in range(n)],
        attributes={"genre": [f"genre {g}" for g in genre], "year": rng.integers(1970, 2025, size=n)},
    )
    # A history is read as the mean of its embeddings: u⁰ = mean, and near-copies contribute −2 for every user.
    encoder = Encoder(
        items=x,
        heads_weight=np.zeros((1, 1, d)),
        heads_bias=np.full((1, 1), -2.0),
        base_weight=np.eye(d),
        base_bias=np.zeros(d),
    )
    recommender = sw.Recommender(sw.Index.build(catalog), encoder=encoder)

    history = catalog.ids[np.flatnonzero(genre == 5)[:4]]  # four songs of one genre
    slate = recommender.recommend(history=history, k=8, at_most={"genre": 6}, where={"year": (1990, None)})
    print(f"{len(slate)} songs, {slate.value:.3f} expected hits; upper bound {slate.upper_bound:.3f}")

    why = recommender.explain(slate)
    for item, reward, alone in zip(slate.items, why.rewards, why.alone, strict=True):
        print(f"  {item}: {reward:.3f} in the slate, {alone:.3f} by itself")
    for rival in why.rivals:
        print(f"  {rival.ranker:>6} has the value {rival.value:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        recommender.save(Path(folder) / "songs")  # setwise recommend, serve, bench and evaluate open this folder
        again = sw.Recommender.load(Path(folder) / "songs")
        print("saved, loaded, the same:", len(again.recommend(history=history, k=8)), "songs")


if __name__ == "__main__":
    main()
