"""Certificates: a slate, an upper bound over the whole catalogue, and an independent check of both."""

import tempfile
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.verification.verify import verify


def main() -> None:
    rng = np.random.default_rng(3)
    n, d = 3000, 6
    catalog = sw.Catalog(
        query=1.5 * rng.normal(size=(n, d)),
        key=rng.normal(size=(n, d)),
        value=rng.normal(size=(n, d)) + 0.5 * rng.normal(size=d),
        reward=sw.Logistic(scale=1.0, bias=-8.0),
    )
    user = rng.normal(size=d)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=32))

    for budget in (20, 200):
        slate = recommender.recommend(user, k=4, budget_ms=budget)
        state = "proven optimal" if slate.proven else f"at least {1 - slate.gap:.2%} of the best there is"
        print(f"{budget:>4} ms: {slate.value:.4f} of at most {slate.upper_bound:.4f}: {state}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slate.json"
        slate.save(path)
        for check in verify(path, catalog).checks:
            print(f"{'ok' if check.ok else 'NO':>4}  {check.name}: {check.sentence}")


if __name__ == "__main__":
    main()
