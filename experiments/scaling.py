"""How cost and value of a whole request grow with the number of items, k, heads and cells; and memory.

    OMP_NUM_THREADS=1 python experiments/scaling.py --data ../shared/data --out report/scaling.csv

A request is ``Recommender.recommend`` without a certificate: the best of every cell, at most 400 of them, ranked by
swap search, evaluated. (The certificate takes the budget it is given, and reads all n scores once.)
Requests are warm, one at a time, each three times, of which the fastest counts; figures are medians over users, values
are those of the reference objective. Times are wall time and processor time; other work on the machine disturbs the
latter less.

Two sources. ``simulated``: the world of datasets/synthetic.py, two heads. ``bootstrapped``: rows of the trained
playlist catalogues (one head; four heads too where heads vary) drawn with replacement, each coordinate jittered by a
tenth of its standard deviation, and their held-out users: real directions and real attention at any size. Copies of the
same track stay near each other, as covers and remasters do.

* n from 10^4 to 3·10^6 at fixed cells and k, with the backends ``scan`` (looks at every item) and ``tree`` (promises a
  recall);
* k, heads and cells, one at a time, at n = 10^5 with ``scan``.

Exponents are slopes of log milliseconds of processor time against log n by least squares from 10^5 on, for the whole
request and for retrieval alone (the best of every cell, without the reserve that a request brings too): ranking costs
the same at any n, and hides the growth of the rest while that is small.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from catalogues import ready_made
from kept_rows import KeptRows, Row
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.datasets import World
from setwise.ranking import warm_up
from setwise.recommend.retrieve import PER_HEAD

SIZES = (10_000, 100_000, 300_000, 1_000_000, 3_000_000)
KS, HEADS, CELLS = (5, 10, 20, 50), (1, 2, 4, 8), (16, 64, 256, 1024)
SOURCES = ("simulated", "bootstrapped")
BACKENDS = ("scan", "tree")
USUAL = {"k": 10, "cells": 256}
OWN_HEADS = {"simulated": 2, "bootstrapped": 1}
REAL = {1: "playlists_one_head", 4: "playlists_four_heads"}
TRIES = 3
JITTER = 0.1  # of a coordinate's standard deviation
FROM = 100_000  # the smallest size that exponents are fitted to: below, fixed costs rule
_TOGETHER = 1 << 18  # rows made at once
FIELDS = (
    "study", "source", "n", "k", "heads", "cells", "backend", "user", "retrieve_ms", "rank_ms", "total_ms",
    "retrieve_cpu_ms", "total_cpu_ms", "value",    "build_s", "catalogue_mb", "index_mb", "peak_mb",
)  # fmt: skip


class Setting(NamedTuple):
    """One point of the study; its text is the unit's name."""

    study: str
    source: str
    n: int
    k: int
    heads: int
    cells: int
    backend: str

    @property
    def unit(self) -> str:
        """The setting as text."""
        return "/".join(map(str, self))

    @classmethod
    def of(cls, unit: str) -> Setting:
        """The setting of a text."""
        study, source, n, k, heads, cells, backend = unit.split("/")
        return cls(study, source, int(n), int(k), int(heads), int(cells), backend)


def settings(
    sources: Sequence[str],
    sizes: Sequence[int],
    usual: int,
    ks: Sequence[int],
    heads: Sequence[int],
    cells: Sequence[int],
) -> list[Setting]:
    """All points; ``usual`` is the n at which k, heads and cells vary. Those of one catalogue follow each other."""
    result = []
    for source in sources:
        own = OWN_HEADS[source]
        result += [Setting("k", source, usual, k, own, USUAL["cells"], "scan") for k in ks]
        result += [Setting("cells", source, usual, USUAL["k"], own, each, "scan") for each in cells]
        real = [h for h in heads if source == "simulated" or h in REAL]
        result += [Setting("heads", source, usual, USUAL["k"], h, USUAL["cells"], "scan") for h in real]
        result += [
            Setting("n", source, n, USUAL["k"], own, USUAL["cells"], backend) for n in sizes for backend in BACKENDS
        ]
    return result


# --- catalogues of any size ---


def simulated(n: int, heads: int, users: int, seed: int) -> tuple[sw.Catalog, list[sw.User]]:
    """The world, and users of it."""
    world = World.make(n, n_users=users, heads=heads, seed=seed)
    return world.catalog, [world.user(history) for history in world.histories]


def bootstrapped(data: Path, n: int, heads: int, users: int, seed: int) -> tuple[sw.Catalog, list[sw.User]]:
    """Trained rows drawn again and jittered, and the users they were trained beside."""
    trained = ready_made(REAL[heads], data / "catalogs" / f"{REAL[heads]}.npz", users)
    rng, source = np.random.default_rng([seed, n]), trained.catalog
    rows = rng.integers(len(source), size=n)
    arrays = {name: _jittered(getattr(source, name), rows, rng) for name in ("query", "key", "value")}
    base = None if source.base is None else _jittered(source.base, rows, rng)
    return sw.Catalog(**arrays, reward=source.rewards[0], base=base), trained.users


def _jittered(array: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    scale = np.float32(JITTER) * array.std(axis=0, dtype=np.float32)
    result = np.empty((len(rows), *array.shape[1:]), np.float32)
    for start in range(0, len(rows), _TOGETHER):  # piece by piece: normals of all rows at once would double the memory
        part = rows[start : start + _TOGETHER]
        noise = rng.standard_normal((len(part), *array.shape[1:]), np.float32)
        result[start : start + len(part)] = array[part] + scale * noise
    return result


# --- measuring ---


def measured(setting: Setting, catalog: sw.Catalog, users: Sequence[sw.User], seed: int) -> list[Row]:
    """A row a user: build, warm up, ask."""
    began = time.perf_counter()
    index = sw.Index.build(catalog, cells=setting.cells, backend=setting.backend, seed=seed, progress=False)
    build = time.perf_counter() - began
    recommender = sw.Recommender(index, ranker="swap", certify=False)
    warm_up()
    recommender.recommend(users[0], k=setting.k)
    beside = {name: array for name, array in index.packed()[0].items() if not name.startswith("catalog.")}
    about = {
        **setting._asdict(),
        "build_s": build,
        "catalogue_mb": _megabytes(catalog.packed()[0]),
        "index_mb": _megabytes(beside),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,  # of the process so far, smaller n before
    }
    return [about | {"user": number, **_asked(recommender, user, setting.k)} for number, user in enumerate(users)]


def _asked(recommender: sw.Recommender, user: sw.User, k: int) -> Row:
    """The fastest of some requests, and of as many retrievals alone by the processor's clock."""
    tries = []
    for _ in range(TRIES):
        wall, cpu = time.perf_counter(), time.process_time()
        slate = recommender.recommend(user, k=k)
        took = {"total_ms": time.perf_counter() - wall, "total_cpu_ms": time.process_time() - cpu}
        cpu = time.process_time()
        recommender.index.candidates(user, k, per_head=PER_HEAD if recommender.index.catalog.heads > 1 else 0)
        took["retrieve_cpu_ms"] = time.process_time() - cpu
        phases = {f"{phase}_ms": slate.timings[phase] for phase in ("retrieve", "rank")}
        tries.append({name: 1000 * seconds for name, seconds in took.items()} | phases)
    return {name: min(each[name] for each in tries) for name in tries[0]} | {"value": slate.value}


def _megabytes(arrays: dict[str, np.ndarray]) -> float:
    return sum(array.nbytes for array in arrays.values()) / 1e6


# --- summaries, from the rows alone ---


def grouped(rows: list[Row]) -> dict[Setting, list[Row]]:
    """Rows by setting, in the order they came."""
    result: dict[Setting, list[Row]] = {}
    for row in rows:
        result.setdefault(Setting(*(row[name] for name in Setting._fields)), []).append(row)
    return result


def median(rows: list[Row], name: str) -> float:
    """Over users."""
    return float(np.median([row[name] for row in rows]))


def exponent(
    rows: list[Row], source: str, backend: str, measure: str, least: int = FROM
) -> tuple[float, int, int] | None:
    """The slope of log median against log n, and the sizes it was fitted from and to; None with fewer than two."""
    points = {
        setting.n: median(mine, measure)
        for setting, mine in grouped(rows).items()
        if (setting.study, setting.source, setting.backend) == ("n", source, backend) and setting.n >= least
    }
    if len(points) < 2:
        return None
    slope = np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0]
    return float(slope), min(points), max(points)


def table(rows: list[Row]) -> Table:
    """Every setting: medians over users, mean value, memory."""
    result = Table(title="One warm request without certificate: medians over users; values are means")
    names = ("study", "source", "n", "k", "heads", "cells", "backend")
    measures = (
        "retrieve_ms",
        "rank_ms",
        "total_ms",
        "retrieve_cpu_ms",
        "total_cpu_ms",
        "build_s",
        "catalogue_mb",
        "index_mb",
        "peak_mb",
    )
    for name in (*names, "value", *measures):
        result.add_column(name.replace("_", " "), justify="left" if name in ("study", "source", "backend") else "right")
    for setting, mine in grouped(rows).items():
        value = np.mean([row["value"] for row in mine])
        numbers = (f"{median(mine, measure):.1f}" for measure in measures)
        result.add_row(*(f"{each:,}" if isinstance(each, int) else each for each in setting), f"{value:.4f}", *numbers)
    return result


def exponents(rows: list[Row], least: int = FROM) -> Table:
    """Growth in n, for whole requests and retrieval, by backend."""
    result = Table(title="Growth with n at fixed cells: processor time ~ n^x")
    for name in ("source", "backend", "from", "to", "x, whole request", "x, retrieval"):
        result.add_column(name, justify="left" if name in ("source", "backend") else "right")
    for source, backend in dict.fromkeys((row["source"], row["backend"]) for row in rows if row["study"] == "n"):
        whole, alone = (exponent(rows, source, backend, name, least) for name in ("total_cpu_ms", "retrieve_cpu_ms"))
        if whole is not None and alone is not None:
            result.add_row(source, backend, f"{whole[1]:,}", f"{whole[2]:,}", f"{whole[0]:.2f}", f"{alone[0]:.2f}")
    return result


# --- the command ---


def run(options: argparse.Namespace) -> KeptRows:
    """Every setting that the file does not hold yet."""
    users = 2 if options.quick else options.users
    points = settings(options.sources, options.sizes, FROM, KS, HEADS, CELLS)
    if options.quick:
        points = settings(options.sources, (300, 600), 300, (2, 3), (1, 2), (4, 8))
        points = [each._replace(cells=min(each.cells, 8), k=min(each.k, 3)) for each in points]
    kept = KeptRows(options.out, FIELDS, {"users": users, "seed": options.seed, "quick": options.quick})

    @lru_cache(maxsize=1)  # three million items are held once
    def made(source: str, n: int, heads: int) -> tuple[sw.Catalog, list[sw.User]]:
        if source == "simulated":
            return simulated(n, heads, users, options.seed)
        return bootstrapped(options.data, n, heads, users, options.seed)

    for unit in kept.missing(dict.fromkeys(each.unit for each in points), "scaling"):
        setting = Setting.of(unit)
        kept.add(unit, measured(setting, *made(setting.source, setting.n, setting.heads), options.seed))
    return kept


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="600 items at most, two users")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, and print the tables."""
    options = parsed(arguments)
    rows, console = run(options).rows, Console(width=200)
    console.print(table(rows))
    console.print(exponents(rows, 0 if options.quick else FROM))
    return rows


if __name__ == "__main__":
    main()
