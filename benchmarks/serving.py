"""What HTTP and the service add to the time of ``recommend``.

    python benchmarks/serving.py                      10^5 items, k = 10, 64 cells, certificate on

First in this process: the time of ``recommend`` beside the sum of its phases (retrieve, rank, certify). Then over HTTP on
one kept-alive connection. What HTTP adds is measured on the same requests: the time until the response is read, less
the time that ``recommend`` took in the worker, as the response reports it. ``fast`` requests (vector search by score, no certificate)
show the overhead most plainly: they compute little.

A second line compares with another process that has loaded the same artifact and computes the same requests, in blocks
of twenty by turns, with both processes restarted six times. It shows whether a worker computes more slowly than other
processes do. On a machine whose processes run at one of two speeds for seconds, this needs more rounds. Raw rows go to
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

K, CELLS, BUDGET_MS = 10, 64, 100
BLOCK = 20  # requests over HTTP, then as many in the other process
ROUNDS = 6  # with new processes each
KINDS = {"certified": {}, "fast": {"ranker": "knn", "certify": False}}


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def in_process(recommender: sw.Recommender, users: np.ndarray, turns: int) -> list[dict]:
    """The whole ``recommend`` and the sum of its phases."""
    rows = []
    for turn in range(-3, turns):  # the first three warm up
        start = time.perf_counter()
        slate = recommender.recommend(users[turn % len(users)], k=K)
        whole = 1000 * (time.perf_counter() - start)
        if turn >= 0:
            rows.append(_row("phases", "certified", 0, sum(slate.timings.values())))
            rows.append(_row("recommend", "certified", 0, whole))
    return rows


def both_ways(artifact: Path, users: np.ndarray, turns: int) -> list[dict]:
    """``turns`` requests of each kind, over HTTP and in another process by turns, in equal shares for each round."""
    rows, share = [], -(-turns // (ROUNDS * BLOCK)) * BLOCK
    for number in range(ROUNDS):
        with service(artifact) as client, elsewhere(artifact) as line:
            for kind, options in KINDS.items():
                for start in range(-BLOCK, share, BLOCK):  # the first block warms up
                    asked = [users[(number * share + turn) % len(users)] for turn in range(start, start + BLOCK)]
                    far = [request(client, user, options) for user in asked]
                    line.send((asked, options))
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
    """The connection to a process with its own recommender."""
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
        users, options = task
        recommend = partial(recommender.recommend, k=K, budget_ms=BUDGET_MS, **options)
        line.send([milliseconds(partial(recommend, user)) for user in users])


def request(client: socket.socket, user: np.ndarray, options: dict) -> tuple[float, float]:
    """Milliseconds of one request over HTTP, and of ``recommend`` within it."""
    body = json.dumps({"vector": user.tolist(), "k": K, **options}).encode()
    sent = f"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    start = time.perf_counter()
    got = _exchange(client, sent)
    took = 1000 * (time.perf_counter() - start)
    timings = json.loads(got.partition(b"\r\n\r\n")[2])["timings"]
    return took, timings["total"] - timings["queue"]


def _exchange(client: socket.socket, sent: bytes) -> bytes:
    client.sendall(sent)
    got = client.recv(1 << 16)
    while b"\r\n\r\n" not in got or len(got) < _length(got):
        got += client.recv(1 << 16)
    if not got.startswith(b"HTTP/1.1 200"):
        raise SystemExit(got.decode())
    return got


def _length(got: bytes) -> int:
    """Bytes of the complete response, by its head. No client library, so that only the service is measured."""
    head = got[: got.index(b"\r\n\r\n")]
    return len(head) + 4 + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def _row(way: str, kind: str, round_: int, ms: float) -> dict:
    return {"way": way, "kind": kind, "round": round_, "ms": round(ms, 4)}


def of(rows: list[dict], way: str, kind: str = "certified", column: str = "ms") -> np.ndarray:
    return np.array([row[column] for row in rows if (row["way"], row["kind"]) == (way, kind)])


def report(rows: list[dict]) -> None:
    whole, alone = of(rows, "recommend"), of(rows, "phases")
    print(
        f"recommend {np.median(whole):.2f} ms, its phases {np.median(alone):.2f} ms: "
        f"ratio {np.median(whole) / np.median(alone):.3f} (limit: 1.5)"
    )
    for kind in KINDS:
        far, near, other = (of(rows, way, kind) for way in ("http", "in process", "elsewhere"))
        print(
            f"{kind}: http p50 {np.median(far):.2f} ms (p99 {np.quantile(far, 0.99):.2f}), in process p50 "
            f"{np.median(near):.2f} ms (p99 {np.quantile(near, 0.99):.2f}): "
            f"{np.median(far) - np.median(near):+.2f} ms (limit: 1.5); "
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
