"""Share of the best known value for each ranker and family, with evaluations and microseconds.

    python benchmarks/ranking.py                          all rankers, all families of families.py, below five minutes
    python benchmarks/ranking.py --instances 10           more of each
    python benchmarks/ranking.py --large                  up to 1,000 candidates and k = 50 as well
    python benchmarks/ranking.py --families trained       the families whose names begin so
    python benchmarks/ranking.py --rankers beam paper     these rankers only

Every ranker of the registry takes part: one with ``solutions`` at 1, 10 and 100 candidate solutions, one with ``evaluations`` at
its default and at 10^3, 10^4 and 10^5 of them, any other once. "Best known" is the largest value that any of these, or a swap search
of 10^7 / k evaluations, found for the instance; so shares do not compare across runs with different rankers. Instances that
a ranker rejects, or that take too long, are left out with a note. Values are those of the reference objective. Times are
medians of three calls, or of one long call, each on a fresh instance, so that nothing prepared by another ranker helps. A value below 0 counts as a share of 0.

Raw rows go to benchmarks/rows/ranking.csv, those about real users to report/ranking.csv, which is not committed.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import contextlib
import copy
import csv
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from families import FAMILIES, Family, Problem, trained_families

import setwise as sw
from setwise.ranking import RANKERS

FIELDS = (
    "family",
    "m",
    "k",
    "heads",
    "instance",
    "ranker",
    "budget",
    "value",
    "best_known",
    "evaluations",
    "microseconds",
)
SOLUTIONS = (1, 10, 100)
EVALUATIONS = (1_000, 10_000, 100_000)
HEAVY = 10_000_000  # divided by k: evaluations of the search that only serves as a reference
MOST_SETS = 3_000_000  # beyond which exhaustive search is left out
LONG = 0.1  # seconds beyond which one call is timing enough


class Method(NamedTuple):
    """A ranker with its options; ``budget`` is how rows and tables call them."""

    ranker: str
    budget: str
    options: dict[str, int]

    @property
    def label(self) -> str:
        return f"{self.ranker} {self.budget}".strip()


def methods(rankers: Iterable[str]) -> list[Method]:
    result = []
    for ranker in rankers:
        options = RANKERS[ranker].options
        if "solutions" in options:
            result += [Method(ranker, f"{n}", {"solutions": n}) for n in SOLUTIONS]
        else:
            result.append(Method(ranker, "", {}))
        if "evaluations" in options:
            result += [Method(ranker, f"{n:.0e}".replace("e+0", "e"), {"evaluations": n}) for n in EVALUATIONS]
        if "width" in options:
            result.append(Method(ranker, "width 10", {"width": 10}))
    return result


def too_long(method: Method, problem: Problem) -> bool:
    """What tries all sets, or proves, is for small instances."""
    free, room = problem.instance.m - len(problem.pinned), problem.k - len(problem.pinned)
    sets = sum(math.comb(free, size) for size in range(room + 1))
    return method.ranker in ("exhaustive", "exact") and sets > MOST_SETS


def unprepared(instance: sw.Instance) -> sw.Instance:
    """The same instance without what was computed and kept for others."""
    fresh = copy.copy(instance)
    for name, attribute in vars(sw.Instance).items():
        if isinstance(attribute, cached_property):
            vars(fresh).pop(name, None)
    return fresh


def timed(problem: Problem, method: Method) -> tuple[sw.Ranking, float]:
    """The answer, and the median of the seconds that it took."""
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < LONG:
        fresh = unprepared(problem.instance)
        began = time.perf_counter()
        ranking = sw.rank(fresh, problem.k, method.ranker, include=problem.pinned, **method.options)
        seconds.append(time.perf_counter() - began)
    return ranking, statistics.median(seconds)


def measured(problem: Problem, about: dict, contenders: list[Method], left_out: Counter) -> list[dict]:
    """A row for each method that answers."""
    rows = []
    for method in contenders:
        if too_long(method, problem):
            left_out[method.label, f"more than {MOST_SETS:,} sets"] += 1
            continue
        try:
            ranking, seconds = timed(problem, method)
        except sw.SetwiseError as error:
            left_out[method.label, str(error)] += 1
            continue
        found = (method.ranker, method.budget, ranking.value, None, ranking.evaluations, round(1e6 * seconds))
        rows.append(about | dict(zip(FIELDS[5:], found, strict=True)))
    best = max([row["value"] for row in rows] + [reference(problem)])
    return [row | {"best_known": best} for row in rows]


def reference(problem: Problem) -> float:
    if "swap" not in RANKERS:
        return -math.inf
    return sw.rank(problem.instance, problem.k, "swap", include=problem.pinned, evaluations=HEAVY // problem.k).value


def warm_up(problem: Problem, contenders: list[Method]) -> None:
    """Compile, or load, what each ranker needs for instances of this kind: one call with its first options."""
    first = {method.ranker: method for method in reversed(contenders) if not too_long(method, problem)}
    for method in first.values():
        with contextlib.suppress(sw.SetwiseError):  # errors are reported by the caller
            sw.rank(problem.instance, problem.k, method.ranker, include=problem.pinned, **method.options)


def run(families: dict[str, Family], contenders: list[Method], instances: int, large: bool) -> list[dict]:
    rows: list[dict] = []
    left_out: Counter = Counter()
    for name, family in families.items():
        began = time.perf_counter()
        warm_up(family(0)[0], contenders)
        for seed in range(instances):
            for problem in family(seed, large):
                about = (name, problem.instance.m, problem.k, problem.instance.heads, seed)
                rows += measured(problem, dict(zip(FIELDS[:5], about, strict=True)), contenders, left_out)
        print(f"  {name}: {time.perf_counter() - began:.0f} s", flush=True)
    for (label, why), count in left_out.items():
        print(f"  left out {count} times: {label} ({why})")
    return rows


def save(rows: list[dict], path: Path) -> None:
    if not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


# --- tables ---


def label(row: dict) -> str:
    return Method(row["ranker"], row["budget"], {}).label


def share(row: dict) -> float:
    return max(0.0, row["value"] / row["best_known"]) if row["best_known"] > 0 else math.nan


def table(rows: list[dict], title: str, number: Callable[[dict], float], form: str) -> None:
    """The mean of ``number`` by family and method; a star where the method answered fewer instances than others did."""
    columns = list(dict.fromkeys(map(label, rows)))
    print(f"\n{title}\n{'':>26} " + " ".join(f"{column:>14}" for column in columns))
    for family in dict.fromkeys(row["family"] for row in rows):
        found = {
            column: [number(row) for row in rows if (row["family"], label(row)) == (family, column)]
            for column in columns
        }
        most = max(map(len, found.values()))
        cells = [
            f"{statistics.fmean(mine):{form}}" + "*" * (len(mine) < most) if mine else "" for mine in found.values()
        ]
        print(f"{family:>26} " + " ".join(f"{cell:>14}" for cell in cells))


def report(rows: list[dict]) -> None:
    table(rows, "Mean share of the best known value", share, ".4f")
    table(rows, "Mean evaluations", lambda row: row["evaluations"], ",.0f")
    table(rows, "Mean microseconds", lambda row: row["microseconds"], ",.0f")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--instances", type=int, default=2, help="seeds (or users) a family; two instances or more each"
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--families", nargs="*", default=[""], help="beginnings of their names")
    parser.add_argument("--rankers", nargs="*", default=list(RANKERS), choices=list(RANKERS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/rows/ranking.csv"))
    parser.add_argument("--private", type=Path, default=Path("report/ranking.csv"))
    options = parser.parse_args()
    every = FAMILIES | trained_families(options.data)
    wanted = {name: family for name, family in every.items() if name.startswith(tuple(options.families))}
    rows = run(wanted, methods(options.rankers), options.instances, options.large)
    save([row for row in rows if row["family"] in FAMILIES], options.out)
    save([row for row in rows if row["family"] not in FAMILIES], options.private)
    report(rows)


if __name__ == "__main__":
    main()
