"""Milliseconds of ``sw.rerank`` beside pyversity, and gap and value on lists of a real ranker.

    python benchmarks/rerank.py                       times beside pyversity, which pip installs
    python benchmarks/rerank.py --lists LISTS         the gap too, on the lists that score_lists.py wrote
    python benchmarks/rerank.py --http                what HTTP adds, and 50 requests a second to one worker

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
import base64
import http.client as http_client
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import setwise as sw

K, DIM, DIVERSITY = 10, 64, 0.25
SIZES = (200, 500)
RATE, RATE_S = 50, 6.0  # requests a second, and seconds
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


def http(rounds: int) -> None:
    """Milliseconds of POST /v1/rerank for a service without a catalogue and one worker."""
    m, rng = SIZES[0], np.random.default_rng(0)
    scores, vectors = rng.normal(size=m), rng.normal(size=(m, DIM)).astype(np.float32)
    named = {"id": [f"item {at}" for at in range(m)], "score": scores.tolist()}
    rounded = np.round(vectors.astype(np.float64), 4).tolist()
    forms = {
        "no vectors": named,
        "vectors in base64": named | {"vector": base64.b64encode(vectors.tobytes()).decode()},
        "vectors as numbers": named | {"vector": rounded},
    }
    command = [sys.executable, "-m", "setwise", "serve", "--rerank-only", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = next(json.loads(line)["port"] for line in process.stderr or () if '"serving"' in line)
            for name, candidates in forms.items():
                body = json.dumps({"candidates": candidates, "k": K})
                line = http_client.HTTPConnection("127.0.0.1", port)

                def ask(line: http_client.HTTPConnection = line, body: str = body) -> None:
                    line.request("POST", "/v1/rerank", body)
                    assert line.getresponse().read()

                own = rerank_data_of(candidates)
                result = medians({"HTTP": ask, "in process": own}, rounds)
                added = result["HTTP"] - result["in process"]
                waits = sorted(paced(ask, RATE, RATE_S))
                print(
                    f"{name}, {len(body) / 1024:.0f} KiB: HTTP {result['HTTP']:.2f} ms, {added:.2f} more than the call; "
                    f"at {RATE} a second p50 {waits[len(waits) // 2]:.1f}, p95 {waits[int(0.95 * len(waits))]:.1f} ms"
                )
        finally:
            process.terminate()


def rerank_data_of(candidates: dict[str, object]) -> Call:
    from setwise.recommend.rerank import answer_data, rerank_data

    return lambda: answer_data(rerank_data({"candidates": candidates, "k": K}))


def paced(call: Call, rate: int, seconds: float) -> list[float]:
    """Milliseconds from the time that each call was due until it was answered, one after another."""
    began, waits = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        call()
        waits.append(1000 * (time.perf_counter() - due))
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--lists", type=Path)
    parser.add_argument("--http", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", sw.errors.ScoresGivenUp)
    if given.http:
        http(given.rounds)
        return
    times(given.rounds)
    if given.lists is not None:
        gaps(given.lists)


if __name__ == "__main__":
    main()
