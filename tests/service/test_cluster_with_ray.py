"""``setwise cluster up``, ``serve --cluster`` and ``batch --cluster`` with a real cluster of Ray on this machine."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest
from services import post, running, world_recommender

import processes
import setwise as sw
from processes import children
from setwise.recommend.batch.parts import ROWS, rows_digest

pytestmark = pytest.mark.nightly

pytest.importorskip("ray", reason="ray is not installed: pip install 'setwise[ray]'")

HISTORY = ["song-1", "song-40"]
KEY = "a-long-and-random-key"
USERS = 23


class Up(NamedTuple):
    """A running cluster, and what it was made of."""

    process: subprocess.Popen
    address: str
    world: Path
    shards: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # of this cluster alone
        folder = tmp_path_factory.mktemp("cluster")
        world, shards = folder / "world", folder / "shards"
        world_recommender(n=300).save(world)
        command = ["cluster", "up", str(world), "--files", str(shards), "--shards", "2", "--backend", "scan", "--json"]
        with processes.started(
            [sys.executable, "-m", "setwise", *command], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            report = json.loads(process.stdout.readline())
            yield Up(process, report["address"], world, shards)
            process.send_signal(signal.SIGTERM)
            assert process.wait(processes.LIMIT) == 0


def shard_processes(cluster: Up) -> list[int]:
    """The processes of the actors: below those that the command has started."""
    workers = [pid for started in children(cluster.process.pid) for pid in children(started)]
    names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in workers}
    return [pid for pid, name in names.items() if name.startswith(b"ray::ShardActor")]


def test_a_service_of_the_cluster(cluster: Up) -> None:
    body = {"history": HISTORY, "k": 4, "certify": False}
    expected = sw.Recommender.load(cluster.world).recommend(history=HISTORY, k=4, certify=False)
    options = ("--cluster", cluster.address, "--workers", "1", "--deadline-ms", "240000")
    with running(cluster.shards, *options, key=KEY) as service:
        info = service.client.get("/v1/info").json()
        assert (info["items"], info["shards"]) == (300, 2)
        answer = post(service, "/v1/recommend", body)
        assert [item["id"] for item in answer["items"]] == expected.items.tolist()
        assert answer["value"] == expected.value
        before = shard_processes(cluster)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        again = post(service, "/v1/recommend", body)  # Ray starts the host again, and the call is made again
        assert again["items"] == answer["items"]
        assert service.client.get("/v1/items?ids=song-299").json()["items"][0]["id"] == "song-299"
        assert service.client.post("/admin/reload").json() == {"version": info["version"], "before": info["version"]}
        assert post(service, "/v1/recommend", body)["items"] == answer["items"]
        assert 'setwise_shard_seconds_count{shard="1"}' in service.client.get("/metrics").text
        assert service.end() == 0
    assert cluster.process.poll() is None, "the cluster outlives the service"


def batch(table: Path, model: Path, out: Path, *options: str) -> dict:
    """The report of ``setwise batch``."""
    arguments = [
        "batch",
        str(table),
        "--model",
        str(model),
        "--out",
        str(out),
        "--part-rows",
        "5",
        "--k",
        "3",
        "--json",
    ]
    command = [sys.executable, "-m", "setwise", *arguments, *options]
    return json.loads(processes.run(command, check=True, limit=600).stdout)


def test_a_batch_on_the_cluster_has_the_bytes_of_one_here(cluster: Up, tmp_path: Path) -> None:
    rows = [{"user": number, "history": [f"song-{7 * number % 300}", "song-3"]} for number in range(USERS)]
    rows[4]["history"] = ["song-3"] * 2
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "users.parquet")
    table, names = tmp_path / "users.parquet", ("here", "there", "half")
    here, there, half = (tmp_path / f"{name}.parquet" for name in names)
    batch(table, cluster.world, here, "--processes", "1")
    report = batch(table, cluster.world, there, "--cluster", cluster.address)
    assert (report["users"], report["computed"], report["resumed"]) == (USERS, USERS, 0)
    assert there.read_bytes() == here.read_bytes()
    parts = tmp_path / "half.parquet.parts"  # as an interrupted run leaves them
    parts.mkdir()
    job = pa.parquet.read_metadata(here).metadata[b"setwise.batch"].decode()
    (parts / "job.json").write_text(job)
    digest = rows_digest([(row["user"], row["history"]) for row in rows[5:10]])
    done = pa.parquet.read_table(here).slice(5, 5).replace_schema_metadata({ROWS: digest})
    pa.parquet.write_table(done, parts / "part-00000001.parquet")
    report = batch(table, cluster.world, half, "--cluster", cluster.address, "--processes", "2")
    assert (report["computed"], report["resumed"], report["processes"]) == (USERS - 5, 5, 2)
    assert half.read_bytes() == here.read_bytes()
