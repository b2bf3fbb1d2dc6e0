"""The loss of the paper's Phase Two against exhaustive search, on small instances where its linear programs run.

    python benchmarks/phase_two.py --count 200 --seed 0

By the formulas λ is above k, and Phase Two enumerates everything; so λ and λ' are also set by hand. Rows of the logits are
copies of one or two rows up to a constant (γ = 0: the loss is that of grids and rounding), or random queries and keys with a
surrogate of rank 1 or 2 (γ as measured). Scores are standard normal, rewards logistic(1.5x − 0.5). Shares are of the
optimum; ``promised`` is the share that the repaired proposition guarantees with the instance's own constants. Raw rows go to report/phase_two.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.model.constraints import Constraints

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from proofs.algorithm import phase_two

FIELDS = (
    "family", "m", "k", "rank", "epsilon", "lam", "lam_prime", "seed", "optimum", "value", "promised", "programs",
    "most_fractional", "evaluations", "gamma", "score_max", "reward_max", "seconds",
)  # fmt: skip


def copies(rank: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, m: rng.normal(size=(rank, m))[np.arange(m) % rank] + rng.normal(size=(m, 1))


def queries_and_keys(rng: np.random.Generator, m: int) -> np.ndarray:
    return 0.5 * rng.normal(size=(m, 2)) @ rng.normal(size=(m, 2)).T


# family, its logits, m, k, rank of the surrogate, ε, λ and λ' (None: by the formulas)
SETTINGS = [
    ("rank one", copies(1), 8, 4, 1, 0.2, None, None),
    ("rank one", copies(1), 8, 4, 1, 0.2, 1, 1),
    ("rank one", copies(1), 8, 4, 1, 0.2, 2, 1),
    ("rank one", copies(1), 8, 4, 1, 0.2, 1, 2),
    ("rank two", copies(2), 6, 3, 2, 0.4, None, None),
    ("rank two", copies(2), 6, 3, 2, 0.4, 1, 1),
    ("any", queries_and_keys, 8, 4, 1, 0.2, None, None),
    ("any", queries_and_keys, 8, 4, 1, 0.2, 1, 1),
    ("any", queries_and_keys, 6, 3, 2, 0.4, None, None),
    ("any", queries_and_keys, 6, 3, 2, 0.4, 1, 1),
]


def measure(setting: tuple, seed: int) -> dict:
    family, logits, m, k, rank, epsilon, lam, lam_prime = setting
    rng = np.random.default_rng(seed)
    instance = sw.Instance(logits(rng, m), rng.normal(size=m), sw.Logistic(1.5, -0.5))
    optimum = sw.rank(instance, k, "exhaustive").value
    start = time.perf_counter()
    made = phase_two(instance, Constraints.of(instance, k), epsilon=epsilon, rank=rank, lam=lam, lam_prime=lam_prime)
    seconds = time.perf_counter() - start
    row = {"family": family, "m": m, "seed": seed, "optimum": optimum, "promised": made.guarantee(optimum)}
    return row | {name: getattr(made, name) for name in FIELDS if hasattr(made, name)} | {"seconds": seconds}


def show(setting: tuple, rows: list[dict]) -> None:
    family, _, m, k, rank, epsilon, lam, _ = setting
    column = {name: np.array([row[name] for row in rows]) for name in FIELDS if name != "family"}
    share, promised = column["value"] / column["optimum"], column["promised"] / column["optimum"]
    print(
        f"{family:9s} {m:2d} {k:2d} {rank:2d} {epsilon:4.2g} {'formula' if lam is None else 'by hand':8s}"
        f"{np.median(column['lam']):4.0f} {np.median(column['lam_prime']):4.0f} {share.mean():8.4f} {share.min():7.4f}"
        f" {(share > 1 - 1e-9).mean():7.2f} {promised.mean():9.3f} {column['programs'].mean():9.1f}"
        f" {column['most_fractional'].max():5d} {np.median(column['gamma']):6.3f}"
        f" {column['seconds'].mean():8.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="instances of each setting")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    print(
        "family     m  k  r    ε λ          λ   λ'     mean   worst   exact  promised  programs  frac      γ  seconds"
    )
    everything = []
    for setting in SETTINGS:
        rows = [measure(setting, options.seed + number) for number in range(options.count)]
        show(setting, rows)
        everything += rows
    path = Path("report/phase_two.csv")
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(everything)


if __name__ == "__main__":
    main()
