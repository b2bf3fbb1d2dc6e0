"""What the way to an answer costs, beside the answer itself.

    python benchmarks/serving.py                      10^5 items, k = 10, 64 cells, certificate on

First in this process: the whole ``recommend`` against its phases (retrieve, rank, certify) measured alone, for the same
users in turn. Then over HTTP on one kept-alive connection: the same requests, twenty to the service, twenty to a
recommender in this process, and so on, so that what the neighbours of this machine do hits both. (One by one in turn,
each would find the caches full of the other's catalogue, as nobody does who serves.) ``fast`` requests (top-k, no
certificate) show the cost of the way most plainly: there is little else.

Beside the difference of the medians stands what is left of both when the phases that each request itself reports are
taken off: the way alone, whatever the speed of the core that computed was. Cores of one machine, and a core from one
second to the next, can differ by more than what is measured here. Raw rows go to benchmarks/rows/serving.csv.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import setwise as sw
from retrieval import trained
from setwise.recommender import CANDIDATES
from setwise.request import Request, wished

K, CELLS, BUDGET_MS = 10, 64, 100
BLOCK = 20  # requests one way before the other has its turn
NONE = np.zeros(0, np.intp)
KINDS = {"certified": {}, "fast": {"ranker": "knn", "certify": False}}


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def phases(recommender: sw.Recommender, user: np.ndarray, budget_ms: float | None) -> float:
    """Retrieve, rank and certify by themselves."""
    snapshot = recommender._current(True)
    wishes = wished(snapshot.index, K, NONE, NONE, None, None)
    request = Request(snapshot.index, user, wishes, budget_ms, time.perf_counter())
    first = [
        lambda: request.retrieve(CANDIDATES),
        lambda: request.rank("swap", True),
        lambda: request.certify(snapshot.cells),
    ]
    took = sum(milliseconds(phase) for phase in first)
    return took if request.settled else took + milliseconds(request.rank_on) + milliseconds(request.certify_on)


def in_process(recommender: sw.Recommender, users: np.ndarray, turns: int) -> list[dict]:
    rows = []
    for turn in range(-3, turns):  # the first three warm up
        user = users[turn % len(users)]
        alone = phases(recommender, user, None)
        whole = milliseconds(lambda: recommender.recommend(user, k=K))  # noqa: B023
        if turn >= 0:
            rows += [_row("phases", "certified", turn, alone), _row("recommend", "certified", turn, whole)]
    return rows


def over_http(recommender: sw.Recommender, folder: Path, users: np.ndarray, turns: int) -> list[dict]:
    command = [sys.executable, "-m", "setwise", "serve", str(folder), "--port", "0", "--budget-ms", str(BUDGET_MS)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        port = json.loads(process.stderr.readline())["port"]
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rows = []
        for kind, wishes in KINDS.items():
            for start in range(-BLOCK, turns, BLOCK):  # the first block warms up
                for way in ("http", "in process"):
                    for turn in range(start, start + BLOCK):
                        took = _asked(way, client, recommender, users[turn % len(users)], wishes)
                        rows += [_row(way, kind, turn, *took)] if turn >= 0 else []
        return rows
    finally:
        process.terminate()
        process.wait()


def _asked(
    way: str, client: socket.socket, recommender: sw.Recommender, user: np.ndarray, wishes: dict
) -> tuple[float, float]:
    """Milliseconds of one request, and of the phases that it says it had."""
    start = time.perf_counter()
    if way == "in process":
        timings = recommender.recommend(user, k=K, budget_ms=BUDGET_MS, **wishes).timings
        took = 1000 * (time.perf_counter() - start)
    else:
        body = json.dumps({"vector": user.tolist(), "k": K, **wishes}).encode()
        head = f"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        got = _over(client, head.encode() + body)
        took = 1000 * (time.perf_counter() - start)
        timings = json.loads(got.partition(b"\r\n\r\n")[2])["timings"]
    return took, sum(timings[phase] for phase in ("retrieve", "rank", "certify"))


def _over(client: socket.socket, sent: bytes) -> bytes:
    client.sendall(sent)
    got = client.recv(1 << 16)
    while b"\r\n\r\n" not in got or len(got) < _length(got):
        got += client.recv(1 << 16)
    if not got.startswith(b"HTTP/1.1 200"):
        raise SystemExit(got.decode())
    return got


def _length(got: bytes) -> int:
    """Bytes of the whole answer, by its head: a client of its own, so that the service is measured and not a library."""
    head = got[: got.index(b"\r\n\r\n")]
    return len(head) + 4 + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def _row(way: str, kind: str, turn: int, ms: float, phases_ms: float = 0.0) -> dict:
    return {"way": way, "kind": kind, "turn": turn, "ms": round(ms, 4), "phases_ms": round(phases_ms, 4)}


def of(rows: list[dict], way: str, kind: str = "certified", less_phases: bool = False) -> np.ndarray:
    return np.array(
        [row["ms"] - less_phases * row["phases_ms"] for row in rows if (row["way"], row["kind"]) == (way, kind)]
    )


def report(rows: list[dict]) -> None:
    whole, alone = of(rows, "recommend"), of(rows, "phases")
    print(
        f"recommend {np.median(whole):.2f} ms, its phases alone {np.median(alone):.2f} ms: "
        f"ratio {np.median(whole) / np.median(alone):.3f} (wanted: at most 1.5)"
    )
    for kind in KINDS:
        far, near = of(rows, "http", kind), of(rows, "in process", kind)
        print(
            f"{kind}: http p50 {np.median(far):.2f} ms (p99 {np.quantile(far, 0.99):.2f}), in process p50 {np.median(near):.2f} ms "
            f"(p99 {np.quantile(near, 0.99):.2f}): {np.median(far) - np.median(near):+.2f} ms (wanted: at most 1)"
        )
        far, near = of(rows, "http", kind, True), of(rows, "in process", kind, True)
        print(
            f"  of that, outside the phases: {np.median(far):.2f} and {np.median(near):.2f} ms, "
            f"{np.median(far) - np.median(near):+.2f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=600)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "serving.csv")
    options = parser.parse_args()
    catalog, users = trained(options.items, np.random.default_rng(0))
    recommender = sw.Recommender(sw.Index.build(catalog, cells=CELLS, progress=False))
    rows = in_process(recommender, users, options.turns)
    with tempfile.TemporaryDirectory() as folder:
        recommender.save(Path(folder) / "artifact")
        rows += over_http(recommender, Path(folder) / "artifact", users, options.turns)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ("way", "kind", "turn", "ms", "phases_ms"))
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


if __name__ == "__main__":
    main()
