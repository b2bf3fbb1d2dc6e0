"""Time of a request with added scores beside the same request without, taking turns in one run, one thread.

    python benchmarks/scores.py                        10^5 items, about two minutes
    python benchmarks/scores.py --items 1000000        another size

Ways: ``without`` scores; ``dense``, a number for every item; ``candidates``, a mapping of 1,000 ids, the others not
eligible; ``floor``, the same mapping with a floor; ``sparse``, 2,000 scores of the user as an encoder computes them.
Phases: ``parse`` is the query, ``retrieve`` Phase One, ``scores`` the pass over all items that the bound needs, and
``request`` all of ``recommend`` without a bound. Times are processor time of the one thread, which other programs on
the machine change less than they change the time on the clock. A row is the median over the rounds; ``more_ms`` is the
median of the differences to ``without`` in the same round. Raw rows go to benchmarks/rows/scores.csv.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import setwise as sw
from retrieval import trained
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.user_scores import scores as bound_scores
from setwise.model.added_scores import AddedScores
from setwise.recommend import retrieve as phase_one
from setwise.recommend.query import Query

ROWS = Path(__file__).parent / "rows" / "scores.csv"
K, CELLS, NAMED, NEIGHBOURS = 10, 256, 1000, 2000
FIELDS = ("n", "way", "phase", "ms", "more_ms", "ratio")


def ways(n: int, user: sw.User, rng: np.random.Generator) -> dict[str, tuple[sw.User, dict[str, Any]]]:
    """The user and the arguments of each way."""
    dense, rows = rng.normal(size=n), rng.permutation(n)[:NAMED]
    named = {int(row): float(dense[row]) for row in rows}
    near = AddedScores.sparse(n, rng.permutation(n)[:NEIGHBOURS], rng.random(NEIGHBOURS))
    return {
        "without": (user, {}),
        "dense": (user, {"scores": dense}),
        "candidates": (user, {"scores": named}),
        "floor": (user, {"scores": named, "scores_floor": -1.0}),
        "sparse": (user.with_scores(near), {}),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.thread_time()
    result = work()
    return 1000 * (time.thread_time() - start), result


def one_round(
    recommender: sw.Recommender, cells: CellBounds, user: sw.User, options: dict[str, Any]
) -> dict[str, float]:
    """Milliseconds of each phase of one request."""
    snapshot = phase_one.Snapshot(recommender.index, None, 400)
    parse, query = timed(lambda: Query.parse(recommender.index, user, k=K, **options))
    retrieve, _ = timed(lambda: phase_one.retrieve(query, snapshot))
    scores, _ = timed(lambda: bound_scores(cells, [query.user], [query.eligible]))
    request, _ = timed(lambda: recommender.recommend(user, K, certify=False, **options))
    return {"parse": parse, "retrieve": retrieve, "scores": scores, "request": request}


def measure(n: int, rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    catalog, users = trained(n, rng)
    recommender = sw.Recommender(sw.Index.build(catalog, CELLS, progress=False), certify=False)
    cells = CellBounds.build(catalog)
    every = ways(n, sw.User(users[0]), rng)
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 2):  # the first two warm up
        for way, (user, options) in every.items():
            for phase, ms in one_round(recommender, cells, user, options).items():
                if number >= 2:
                    times.setdefault((way, phase), []).append(ms)
    rows = []
    for (way, phase), own in times.items():
        plain = times["without", phase]
        more = statistics.median(ms - base for ms, base in zip(own, plain, strict=True))
        ms = statistics.median(own)
        rows.append(dict(zip(FIELDS, (n, way, phase, ms, more, ms / statistics.median(plain)), strict=True)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    rows = measure(arguments.items, arguments.rounds)
    kept = []
    if ROWS.exists():
        with ROWS.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if int(row["n"]) != arguments.items]
    with ROWS.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows([*kept, *rows])
    for row in rows:
        print(f"{row['way']:11} {row['phase']:9} {row['ms']:8.2f} ms  {row['more_ms']:+7.2f} ms  x{row['ratio']:.2f}")


if __name__ == "__main__":
    main()
