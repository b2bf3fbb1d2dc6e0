"""Milliseconds of ``sw.rerank`` beside pyversity, and gap and value on lists of a real ranker.

    python benchmarks/rerank.py                       times beside pyversity, which pip installs
    python benchmarks/rerank.py --lists LISTS         the gap too, on the lists that score_lists.py wrote

Like with like: the same scores and vectors (double precision, not normalised), the same k and diversity, one thread.
The methods take turns, round by round, so that a machine that slows down slows all of them; a figure is the median over
rounds. ``setwise`` with rules has three limits. The gap is that of the bound after at most 20 ms or so; the best known
value is that of the longest search.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import setwise as sw

K, DIM, DIVERSITY = 10, 64, 0.25
SIZES = (200, 500)
LONG_MS = 200.0  # of the search for the best known value
Call = Callable[[], object]


def methods(m: int, rng: np.random.Generator) -> dict[str, Call]:
    scores, vectors = rng.normal(size=m), rng.normal(size=(m, DIM))
    columns = {
        "brand": rng.integers(20, size=m),
        "is_new": rng.random(m) < 0.1,
        "kind": rng.choice([*"abcdefgh"], size=m),
    }
    rules = {"at_most": {"brand": 2, "kind": 3}, "at_least": {"is_new": {True: 1}}}
    ours = partial(sw.rerank, scores, K, embeddings=vectors, diversity=DIVERSITY)
    calls: dict[str, Call] = {
        "mmr": partial(ours, strategy="mmr"),
        "dpp": partial(ours, strategy="dpp"),
        "setwise": ours,
        "setwise, three limits": partial(ours, attributes=columns, **rules),
    }
    try:
        import pyversity
    except ModuleNotFoundError:
        return calls
    for name in ("mmr", "dpp"):
        function = getattr(pyversity, name)
        calls[f"pyversity {name}"] = partial(function, vectors, scores, K, diversity=DIVERSITY)
    return calls


def medians(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if turn >= 3:
                taken[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(times) for name, times in taken.items()}


def times(rounds: int) -> None:
    rng = np.random.default_rng(0)
    for m in SIZES:
        result = medians(methods(m, rng), rounds)
        print(f"m = {m}, k = {K}, d = {DIM}")
        for name, milliseconds in result.items():
            rival = result.get(f"pyversity {name}")
            ratio = "" if rival is None else f"  {milliseconds / rival:.2f} of pyversity's"
            print(f"  {name:<22} {milliseconds:7.3f} ms{ratio}")


def gaps(lists: Path) -> None:
    for file in sorted(lists.glob("*.npz")):
        data = np.load(file)
        for m in SIZES:
            gap, share, taken = [], [], []
            for scores, vectors in zip(data["scores"][:, :m], data["vectors"][:, :m], strict=True):
                call = partial(sw.rerank, scores, K, embeddings=vectors)
                order = call()
                best = max(order.value, call(budget_ms=LONG_MS).value)
                began = time.perf_counter()
                gap.append(call().gap)
                taken.append(1000 * (time.perf_counter() - began))
                share.append(order.value / best)
            print(
                f"{file.stem}, m = {m}: gap median {np.median(gap):.3%}, 90th percentile {np.quantile(gap, 0.9):.2%}, "
                f"proven {np.mean(np.array(gap) == 0):.0%}; value {np.mean(share):.5f} of the best known, least "
                f"{min(share):.5f}; search and bound {np.median(taken):.1f} ms, 90th percentile "
                f"{np.quantile(taken, 0.9):.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--lists", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", sw.errors.ScoresGivenUp)
    times(given.rounds)
    if given.lists is not None:
        gaps(given.lists)


if __name__ == "__main__":
    main()
