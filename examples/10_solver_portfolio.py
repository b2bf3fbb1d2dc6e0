"""A portfolio of solvers: run k of them on a problem, and one must solve it.

Solvers of one kind fail on the same problems, so the k most reliable ones are not the best portfolio. ``AtLeastOne``
values a set by known cases, weighted by their similarity to the problem at hand. The cases here are simulated.
"""

import numpy as np

import setwise as sw
from setwise.preferences.at_least_one import AtLeastOne

KINDS, SOLVERS, K = 4, 12, 3


def problems(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A feature of each problem, and which solvers solve it: those of a kind fail together on hard structures."""
    feature = rng.random((count, 2))
    kind = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    hard = rng.random((count, KINDS)) < np.stack([0.35 + 0.4 * feature[:, 0], 0.85 - 0.4 * feature[:, 0],
                                                  0.5 + 0.3 * feature[:, 1], np.full(count, 0.65)], axis=1)  # fmt: skip
    return feature, (~hard[:, kind] & (rng.random((count, SOLVERS)) < 0.92)).astype(float)


def main() -> None:
    rng = np.random.default_rng(0)
    known, solved = problems(800, rng)
    new, truth = problems(300, rng)
    model = AtLeastOne(solved)

    hits = {"top-k of the same model": 0.0, "setwise": 0.0}
    for feature, outcome in zip(new, truth, strict=True):
        similarity = np.exp(-((known - feature) ** 2).sum(axis=1) / 0.02)
        weights = similarity / similarity.sum()
        top = np.argsort(-(weights @ solved))[:K]
        chosen = sw.rank(model.instance(weights, K), K, "greedy").indices
        hits["top-k of the same model"] += outcome[top].max() / len(new)
        hits["setwise"] += outcome[chosen].max() / len(new)

    for name, share in hits.items():
        print(f"{name:>24}: at least one of {K} solvers solves {100 * share:.1f} % of new problems")
    print(f"{'all solvers':>24}: {100 * truth.max(axis=1).mean():.1f} %")


if __name__ == "__main__":
    main()
