"""What the way to an answer costs, beside the answer itself.

    python benchmarks/serving.py                      10^5 items, k = 10, 64 cells, certificate on

First in this process: the whole ``recommend`` against its phases (retrieve, rank, certify) measured alone, for the same
users in turn. Then over HTTP on one kept-alive connection. What HTTP adds is told of the same requests: the time until
the answer is read, beside the time that ``recommend`` took within the process that serves, as the answer reports it.
``fast`` requests (top-k, no certificate) show the cost of the way most plainly: there is little else.

A second line compares with a process of its own that has loaded the same artifact and gets the same requests, twenty by
turns, both processes started anew six times: whether the service computes more slowly than others do. On the GPU
machine that takes more rounds than these: a process there has one of two speeds (15 and 22 ms for the same request) for
seconds, and the medians of two processes differ by up to 7 ms either way. Raw rows go to
benchmarks/rows/serving.csv.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import contextlib
import csv
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import setwise as sw
from retrieval import trained
from setwise.recommend.pipeline import Request, wished
from setwise.recommend.recommender import CANDIDATES

K, CELLS, BUDGET_MS = 10, 64, 100
BLOCK = 20  # requests one way before the other has its turn
ROUNDS = 6  # of new processes
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
            rows += [_row("phases", "certified", 0, alone), _row("recommend", "certified", 0, whole)]
    return rows


def both_ways(artifact: Path, users: np.ndarray, turns: int) -> list[dict]:
    """``turns`` requests of each kind, over HTTP and in process by turns, in equal shares for each round."""
    rows, share = [], -(-turns // (ROUNDS * BLOCK)) * BLOCK
    for number in range(ROUNDS):
        with service(artifact) as client, elsewhere(artifact) as line:
            for kind, wishes in KINDS.items():
                for start in range(-BLOCK, share, BLOCK):  # the first block warms up
                    asked = [users[(number * share + turn) % len(users)] for turn in range(start, start + BLOCK)]
                    far = [over(client, user, wishes) for user in asked]
                    line.send((asked, wishes))
                    near = line.recv()
                    if start >= 0:
                        rows += [_row("http", kind, number, whole) for whole, _ in far]
                        rows += [_row("in process", kind, number, within) for _, within in far]
                        rows += [_row("elsewhere", kind, number, took) for took in near]
    return rows


@contextlib.contextmanager
def service(artifact: Path) -> Iterator[socket.socket]:
    command = [sys.executable, "-m", "setwise", "serve", str(artifact), "--port", "0", "--budget-ms", str(BUDGET_MS)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        port = json.loads(process.stderr.readline())["port"]
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield client
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def elsewhere(artifact: Path) -> Iterator[Connection]:
    """The line to a process that asks its own recommender."""
    line, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=recommending, args=(artifact, theirs), daemon=True)
    process.start()
    try:
        yield line
    finally:
        line.send(None)
        process.join()


def recommending(artifact: Path, line: Connection) -> None:
    recommender = sw.Recommender.load(artifact)
    while (task := line.recv()) is not None:
        users, wishes = task
        ask = partial(recommender.recommend, k=K, budget_ms=BUDGET_MS, **wishes)
        line.send([milliseconds(partial(ask, user)) for user in users])


def over(client: socket.socket, user: np.ndarray, wishes: dict) -> tuple[float, float]:
    """Milliseconds of one request over HTTP, and of ``recommend`` within it."""
    body = json.dumps({"vector": user.tolist(), "k": K, **wishes}).encode()
    sent = f"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    start = time.perf_counter()
    got = _over(client, sent)
    took = 1000 * (time.perf_counter() - start)
    timings = json.loads(got.partition(b"\r\n\r\n")[2])["timings"]
    return took, timings["total"] - timings["queue"]


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


def _row(way: str, kind: str, round_: int, ms: float) -> dict:
    return {"way": way, "kind": kind, "round": round_, "ms": round(ms, 4)}


def of(rows: list[dict], way: str, kind: str = "certified", column: str = "ms") -> np.ndarray:
    return np.array([row[column] for row in rows if (row["way"], row["kind"]) == (way, kind)])


def report(rows: list[dict]) -> None:
    whole, alone = of(rows, "recommend"), of(rows, "phases")
    print(
        f"recommend {np.median(whole):.2f} ms, its phases alone {np.median(alone):.2f} ms: "
        f"ratio {np.median(whole) / np.median(alone):.3f} (wanted: at most 1.5)"
    )
    for kind in KINDS:
        far, near, other = (of(rows, way, kind) for way in ("http", "in process", "elsewhere"))
        print(
            f"{kind}: http p50 {np.median(far):.2f} ms (p99 {np.quantile(far, 0.99):.2f}), in process p50 "
            f"{np.median(near):.2f} ms (p99 {np.quantile(near, 0.99):.2f}): "
            f"{np.median(far) - np.median(near):+.2f} ms (wanted: at most 1); "
            f"request by request p50 {np.median(far - near):.2f}, p99 {np.quantile(far - near, 0.99):.2f}"
        )
        rounds = of(rows, "http", kind, "round")
        each = [np.median(far[rounds == one]) - np.median(other[rounds == one]) for one in range(ROUNDS)]
        print(
            f"  in another process p50 {np.median(other):.2f} ms: {np.median(far) - np.median(other):+.2f}, by rounds",
            " ".join(f"{one:+.2f}" for one in each),
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
        rows += both_ways(Path(folder) / "artifact", users, options.turns)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ("way", "kind", "round", "ms"))
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


if __name__ == "__main__":
    main()
