"""The cost of an upper bound: nodes and milliseconds to a proof, and the gap after 10, 50 and 200 ms.

    python benchmarks/certificates.py                               all families of families.py, three instances of each
    python benchmarks/certificates.py --families trained --instances 100
    python benchmarks/certificates.py --nodes 20000 --proof-ms 60000

For every instance: ``upper_bound`` alone, the ranker ``exact`` with each budget, and ``exact`` until it has proven its set or met
the limits on nodes and milliseconds. Gaps are (bound − value) / |bound| with the value of the same call; for ``upper_bound`` the
best value of all calls is used. ``late`` is the share of calls that took more than their budget and a tenth. Each call gets
a fresh instance, so that nothing prepared by another helps. Raw rows go to report/certificates.csv, which is not committed:
some are about real users.

This file is about instances; certificates of whole catalogues are measured by whole_catalog.py.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import copy
import csv
import statistics
import time
from pathlib import Path

import numpy as np
from families import FAMILIES, Family, Problem, trained_families

import setwise as sw
from setwise.bounds.candidates.upper_bound import upper_bound
from setwise.model.constraints import Constraints
from setwise.ranking.exact import exact

FIELDS = ("family", "m", "k", "heads", "instance", "call", "nodes", "ms", "value", "bound", "proven")
BUDGETS = (10, 50, 200)


def fresh(instance: sw.Instance) -> sw.Instance:
    """The same instance without what it has worked out already."""
    other = copy.copy(instance)
    for name in ("weight", "sink_weight", "total_score", "_row_top"):
        other.__dict__.pop(name, None)
    return other


def calls(problem: Problem, nodes: int, proof_ms: float) -> list[tuple]:
    """(call, nodes, ms, value, bound, proven) of everything that is measured."""
    rows = []

    def timed(name: str, function, *arguments, **options) -> None:
        began = time.perf_counter()
        result = function(fresh(problem.instance), *arguments, **options)
        ms = 1000 * (time.perf_counter() - began)
        if isinstance(result, float):
            rows.append((name, "", ms, "", result, ""))
        else:
            rows.append((name, result.evaluations, ms, result.value, result.upper_bound, result.proven))

    constraints = Constraints.of(problem.instance, problem.k, include=problem.pinned)
    timed("upper_bound", upper_bound, problem.k, include=problem.pinned)
    for budget in BUDGETS:
        timed(f"{budget} ms", exact, constraints, budget_ms=budget)
    timed("proof", exact, constraints, nodes=nodes, budget_ms=proof_ms)
    return rows


def measure(name: str, family: Family, options: argparse.Namespace) -> list[dict]:
    rows = []
    for number in range(options.instances):
        for problem in family(number):
            it = problem.instance
            where = (name, it.m, problem.k, it.heads, number)
            for call in calls(problem, options.nodes, options.proof_ms):
                rows.append(dict(zip(FIELDS, where + call, strict=True)))
    return rows


def gap(row: dict, value: float) -> float:
    return (row["bound"] - value) / max(abs(row["bound"]), 1e-300)


def table(rows: list[dict]) -> None:
    heads = ("upper_bound", *(f"{budget} ms" for budget in BUDGETS))
    print(f"{'family':>26} {'m':>5} {'k':>3} {'H':>2} | gap: " + " ".join(f"{head:>12}" for head in heads), end=" | ")
    print(f"{'proven':>7} {'nodes':>8} {'most':>8} {'ms':>9} {'most':>9} {'late':>5}")
    for where in dict.fromkeys(tuple(row[field] for field in FIELDS[:4]) for row in rows):
        mine = [row for row in rows if tuple(row[field] for field in FIELDS[:4]) == where]
        line(where, mine, heads)


def line(where: tuple, mine: list[dict], heads: tuple[str, ...]) -> None:
    best: dict[int, float] = {}
    for row in mine:
        if row["value"] != "":
            best[row["instance"]] = max(best.get(row["instance"], -np.inf), row["value"])
    gaps = []
    for head in heads:
        chosen = [row for row in mine if row["call"] == head]
        gaps.append(
            np.mean([gap(row, best[row["instance"]] if row["value"] == "" else row["value"]) for row in chosen])
        )
    proofs = [row for row in mine if row["call"] == "proof"]
    timed = [(row["ms"], float(row["call"].split()[0])) for row in mine if row["call"] in heads[1:]]
    nodes, ms = ([row[field] for row in proofs] for field in ("nodes", "ms"))
    print(
        f"{where[0]:>26} {where[1]:>5} {where[2]:>3} {where[3]:>2} |      " + " ".join(f"{g:>12.4f}" for g in gaps),
        end=" | ",
    )
    print(
        f"{np.mean([row['proven'] for row in proofs]):>7.2f} {statistics.median(nodes):>8.0f} {max(nodes):>8} "
        f"{statistics.median(ms):>9.1f} {max(ms):>9.1f} {np.mean([took > 1.1 * budget for took, budget in timed]):>5.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--proof-ms", type=float, default=10_000)
    parser.add_argument("--families", default="", help="only those whose names begin so")
    parser.add_argument("--out", type=Path, default=Path("report/certificates.csv"))
    options = parser.parse_args()
    families = FAMILIES | trained_families(options.data)
    warm = FAMILIES["gaussian, 1 head, weak"](0)[0]
    calls(warm, 10, 1000.0)  # compile
    rows: list[dict] = []
    for name, family in families.items():
        if name.startswith(options.families):
            rows += measure(name, family, options)
            print(f"  {name}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    table(rows)


if __name__ == "__main__":
    main()
