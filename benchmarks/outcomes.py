"""A million outcomes: sent to a real service with a log, which is killed meanwhile, and counted.

    python benchmarks/outcomes.py                     about two minutes

The log has 50,000 slates of 10 items, most of them stored by a second process. Then every item's outcome is sent, 500,000
in all and each of them twice, 1,000 in a request, by four clients. The service is killed (SIGKILL) a few times
meanwhile; a client whose request was not answered 200 sends it again to the next service. At the end the log must hold
every outcome once: none lost, none counted twice. With --log it stays in that folder.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import setwise as sw
from setwise.storage.slate_log import ShownSlate, SlateLog, new_id, read_slates, read_totals

K, BATCH, TOGETHER, CLIENTS, KILLS = 10, 100, 1000, 4, 3


class Service:
    """``setwise serve`` in a process that may be killed and started again."""

    def __init__(self, artifact: Path, log: Path) -> None:
        self._command = [sys.executable, "-m", "setwise", "serve", str(artifact), "--port", "0", "--log", str(log)]
        self._command += ["--workers", "1"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{json.loads(self.process.stderr.readline())['port']}"

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.start()

    def post(self, client: httpx.Client, path: str, body: Any) -> Any:
        """The answer with status 200, however often it takes."""
        while True:
            try:
                response = client.post(self.url + path, json=body)
                if response.status_code == 200:
                    return response.json()
            except httpx.HTTPError:
                pass
            time.sleep(0.05)


def show(service: Service, log: Path, slates: int) -> list[tuple[str, Any]]:
    """One slate of the service, and others as another service with the same log would store them; all their items."""
    with httpx.Client(timeout=120) as client:
        first = service.post(client, "/v1/recommend", {"vector": [1.0] * 4, "k": K})
    shown, others = [(first["slate"], item["id"]) for item in first["items"]], SlateLog(log)
    rng = random.Random(0)
    while len(shown) < K * slates:
        some = [
            ShownSlate(new_id(), None, "v", json.dumps(rng.sample(range(1000), K)), [0.1] * K) for _ in range(BATCH)
        ]
        others.write([some])
        shown += [(slate.id, item) for slate in some for item in json.loads(slate.items)]
    others.close()
    return shown


def send(service: Service, outcomes: list[tuple[str, Any]], kills: int) -> tuple[int, int]:
    """Send all outcomes, while the service is killed so often; how many were answered as new, and as repeated."""
    parts = [outcomes[start : start + TOGETHER] for start in range(0, len(outcomes), TOGETHER)]
    local, done = threading.local(), []

    def one(part: list[tuple[str, Any]]) -> tuple[int, int]:
        if not hasattr(local, "client"):
            local.client = httpx.Client(timeout=60)
        body = {"outcomes": [{"slate": slate, "item": item} for slate, item in part]}
        answer = service.post(local.client, "/v1/outcomes", body)
        assert not answer["unknown_slates"], "a slate that was shown is not in the log"
        done.append(len(part))
        return answer["new"], answer["repeated"]

    with ThreadPoolExecutor(CLIENTS) as pool:
        sending = [pool.submit(one, part) for part in parts]
        for number in range(1, kills + 1):
            while len(done) < number * len(parts) // (kills + 1):
                time.sleep(0.001)
            service.restart()
        found = [each.result() for each in sending]
    return sum(new for new, _ in found), sum(repeated for _, repeated in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outcomes", type=int, default=1_000_000, help="sent, each item's twice")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 1000, 1, 4)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        artifact, log = Path(folder) / "artifact", options.log or Path(folder) / "log"
        sw.Recommender(sw.Index.build(sw.Catalog(query, key, value), cells=8, progress=False)).save(artifact)
        service = Service(artifact, log)
        try:
            began = time.perf_counter()
            shown = show(service, log, options.outcomes // (2 * K))
            print(f"{len(shown):,} items shown in {time.perf_counter() - began:.1f} s", flush=True)
            twice = [*shown, *shown]
            random.Random(0).shuffle(twice)
            began = time.perf_counter()
            new, repeated = send(service, twice, options.kills)
            took = time.perf_counter() - began
        finally:
            service.process.terminate()
            service.process.wait()
        stored = [(one.id, one.items[at]) for one in read_slates(log) for at, _, _ in one.outcomes]
        had = sum(totals.had for *_, totals in read_totals(log))
        size = sum(path.stat().st_size for path in log.iterdir())
    print(f"{len(twice):,} outcomes sent in {took:.1f} s ({len(twice) / took:,.0f} a second), {options.kills} kills")
    print(
        f"answered: {new:,} new, {repeated:,} repeated; the log has {len(stored):,}, counted {had:,.0f}; {size / 1e6:.0f} MB"
    )
    print(f"lost: {len(set(shown) - set(stored))}; counted twice: {len(stored) - len(set(stored))}")


if __name__ == "__main__":
    main()
