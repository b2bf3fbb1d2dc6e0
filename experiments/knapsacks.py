"""Published knapsack instances as judge of limits on sums: quadratic (QKP) and multidimensional (MKP).

    python experiments/knapsacks.py --data ../shared/data [--budget-ms 1000] [--every 1]

A quadratic knapsack is a model of complements whose pairs have half of each profit; a multidimensional one has items
that do not interact. Both are asked for with ``sum_at_most`` and ``k=None``. The value is recomputed from the file, and
the bound compared with the best value that is known.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import setwise as sw
from setwise.preferences.complementarity import Complementarity

MULTIDIMENSIONAL = ("mknapcb1", "mknapcb3", "mknapcb5", "mknapcb7")
EPS = 0.4  # profits are whole numbers


class Knapsack(NamedTuple):
    """An instance: profits (n,), profits of pairs (n, n) or None, weights (m, n), capacities (m,), best known value."""

    name: str
    profit: np.ndarray
    pairs: np.ndarray | None
    weight: np.ndarray
    capacity: np.ndarray
    best: float

    def value(self, rows: np.ndarray) -> float:
        """The profit of these items."""
        own = float(self.profit[rows].sum())
        return own if self.pairs is None else own + float(self.pairs[np.ix_(rows, rows)].sum()) / 2


def quadratic(folder: Path) -> Iterator[Knapsack]:
    """The instances of Billionnet and Soutif."""
    with (folder / "qkp_best_known.csv").open() as file:
        known = {row["instance"]: float(row["best_known"]) for row in csv.DictReader(file)}
    for name, best in sorted(known.items()):
        lines = gzip.decompress((folder / f"{name}.txt.gz").read_bytes()).decode().split("\n")
        n = int(lines[1])
        pairs = np.zeros((n, n))
        for row in range(n - 1):
            pairs[row, row + 1 :] = np.array(lines[3 + row].split(), float)
        _, capacity, weights = [line for line in lines[2 + n :] if line.strip()][:3]
        profit, weight = np.array(lines[2].split(), float), np.array([weights.split()], float)
        yield Knapsack(name, profit, pairs + pairs.T, weight, np.array([float(capacity)]), best)


def multidimensional(folder: Path, file_name: str) -> Iterator[Knapsack]:
    """The instances of Chu and Beasley in one file."""
    with (folder / "mknapcb_best_known.csv").open() as file:
        known = [row for row in csv.DictReader(file) if row["file"].startswith(file_name)]
    best = {int(row["problem"]): float(row["best_known_1997"]) for row in known}
    numbers = iter(gzip.decompress((folder / f"{file_name}.txt.gz").read_bytes()).decode().split())
    for problem in range(int(next(numbers))):
        n, m, _ = int(next(numbers)), int(next(numbers)), next(numbers)
        profit = np.array([float(next(numbers)) for _ in range(n)])
        weight = np.array([float(next(numbers)) for _ in range(m * n)]).reshape(m, n)
        capacity = np.array([float(next(numbers)) for _ in range(m)])
        yield Knapsack(f"{file_name} {problem}", profit, None, weight, capacity, best[problem])


def recommender(knapsack: Knapsack, certify: bool) -> tuple[sw.Recommender, sw.User]:
    """The instance as a catalogue, and the user for whom it is worth its profits."""
    attributes = {f"w{row}": weight for row, weight in enumerate(knapsack.weight)}
    n = len(knapsack.profit)
    if knapsack.pairs is None:
        nothing = np.zeros((n, 1))
        catalog = sw.Catalog(
            nothing, nothing, nothing, sw.Linear(), base=knapsack.profit[:, None], attributes=attributes
        )
        user = sw.User(np.zeros((1, 1)), np.ones(1))
    else:
        model = Complementarity(knapsack.profit[:, None], knapsack.pairs / 2)
        catalog, user = model.to_catalog(EPS, attributes=attributes), model.user([1.0])
    index = sw.Index.build(catalog, cells=1, progress=False)
    return sw.Recommender(index, candidates=n + 1, certify=certify).prepare(), user


def solved(knapsack: Knapsack, budget_ms: float, certify: bool) -> dict[str, float | str]:
    """The value and the bound that a request has within its budget."""
    asked, user = recommender(knapsack, certify)
    limits = {f"w{row}": float(capacity) for row, capacity in enumerate(knapsack.capacity)}
    asked.recommend(user, None, sum_at_most=limits, budget_ms=20)
    began = time.perf_counter()
    slate = asked.recommend(user, None, sum_at_most=limits, budget_ms=budget_ms)
    seconds = time.perf_counter() - began
    value = knapsack.value(slate.indices)
    assert (knapsack.weight[:, slate.indices].sum(axis=1) <= knapsack.capacity).all()
    assert slate.upper_bound >= knapsack.best - EPS
    gap, above = 1 - value / knapsack.best, slate.upper_bound / knapsack.best - 1
    return {"name": knapsack.name, "value": value, "gap": gap, "above": above, "seconds": seconds}


def main() -> None:
    """Print one line for each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--budget-ms", type=float, default=1000.0)
    parser.add_argument("--every", type=int, default=1, help="only every so many instances of a file")
    parser.add_argument("--certify", action="store_true", help="with bounds, which get part of the budget")
    options = parser.parse_args()
    families = {"QKP": quadratic(options.data / "optim" / "qkp")}
    families |= {name: multidimensional(options.data / "optim" / "mkp", name) for name in MULTIDIMENSIONAL}
    for family, instances in families.items():
        chosen = [one for number, one in enumerate(instances) if number % options.every == 0]
        rows = [solved(one, options.budget_ms, options.certify) for one in chosen]
        gaps = np.array([row["gap"] for row in rows], float)
        reached = int((gaps <= 1e-9).sum())
        above = np.mean([float(row["above"]) for row in rows])
        slowest = max(float(row["seconds"]) for row in rows)
        print(
            f"{family:>9}: best known reached on {reached} of {len(rows)}, mean gap {100 * gaps.mean():.3f} %, "
            f"worst {100 * gaps.max():.3f} %, bounds {100 * above:.2f} % above it, at most {slowest:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
