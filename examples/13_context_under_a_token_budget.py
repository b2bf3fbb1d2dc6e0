"""Passages for a question within a token budget: relevance less what is said twice, against greedy density and MMR."""

import numpy as np

import setwise as sw
from setwise.preferences.complementarity import Complementarity

PASSAGES, TOPICS, BUDGET = 60, 8, 1200


def passages(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors, a relevance for the question (a BM25 score, scaled) and the tokens of each passage."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(TOPICS, size=PASSAGES)
    vectors = np.eye(TOPICS, 24)[topic] + 0.25 * rng.normal(size=(PASSAGES, 24)) / np.sqrt(24)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = np.clip(rng.exponential(size=TOPICS)[topic] + 0.3 * rng.normal(size=PASSAGES), 0.05, None)
    return vectors, relevance, rng.integers(60, 400, PASSAGES)


def within(order: np.ndarray, tokens: np.ndarray) -> list[int]:
    """The passages in this order, as long as they fit."""
    chosen: list[int] = []
    for row in order.tolist():
        if tokens[[*chosen, row]].sum() <= BUDGET:
            chosen.append(row)
    return chosen


def by_mmr(vectors: np.ndarray, relevance: np.ndarray, tokens: np.ndarray) -> list[int]:
    """Maximal marginal relevance, as long as passages fit."""
    chosen: list[int] = []
    while True:
        nearest = (vectors @ vectors[chosen].T).max(axis=1) if chosen else np.zeros(PASSAGES)
        gain = 0.7 * relevance / relevance.max() - 0.3 * nearest
        gain[[row for row in range(PASSAGES) if row in chosen or tokens[[*chosen, row]].sum() > BUDGET]] = -np.inf
        if gain.max() == -np.inf:
            return chosen
        chosen.append(int(gain.argmax()))


def main() -> None:
    for seed in range(3):
        vectors, relevance, tokens = passages(seed)
        similar = np.clip(vectors @ vectors.T, 0.0, None) * np.minimum.outer(relevance, relevance)
        np.fill_diagonal(similar, 0.0)
        model = Complementarity(relevance[:, None], -0.3 * similar)  # what two passages both say counts less
        catalog = model.to_catalog(eps=1e-3, attributes={"tokens": tokens})
        recommender = sw.Recommender(sw.Index.build(catalog, cells=1)).prepare()
        user = model.user([1.0])
        best = recommender.recommend(user, k=None, sum_at_most={"tokens": BUDGET}, budget_ms=500)
        answers = {
            "setwise": best.indices.tolist(),
            "density": within(np.argsort(-relevance / tokens), tokens),
            "MMR": by_mmr(vectors, relevance, tokens),
        }
        for name, rows in answers.items():
            value = model.value([1.0], rows)
            print(
                f"question {seed}, {name:>8}: value {value:6.3f}, {len(rows):2} passages, {tokens[rows].sum()} tokens"
            )
        print(f"question {seed}: no context is worth more than {best.upper_bound:.3f}")


if __name__ == "__main__":
    main()
