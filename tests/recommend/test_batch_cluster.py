"""Parts as tasks of a cluster: the bytes of a run here, each part saved once; with a stand-in for Ray."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

import setwise as sw
from recommend.test_batch import HISTORIES, parquet, users
from saved_songs import model
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.recommend.batch import cluster_tasks
from setwise.recommend.batch.run import recommend_table


class Task:
    """A call whose arguments and result are pickled, as between machines; ``broken`` calls fail."""

    def __init__(self, ray: FakeRay, work, arguments) -> None:
        self._ray, self._content = ray, pickle.dumps((work, arguments))

    def future(self) -> Future:
        future: Future = Future()
        self._ray.calls += 1
        if self._ray.calls > self._ray.most:
            future.set_exception(ConnectionError("the cluster ended"))
            return future
        try:
            work, arguments = pickle.loads(self._content)
            future.set_result(pickle.loads(pickle.dumps(work(*arguments))))
        except Exception as error:
            future.set_exception(error)
        return future


class FakeRay:
    def __init__(self, cores: float = 3.0, most: int = 1000) -> None:
        self.cores, self.most, self.calls, self.cancelled = cores, most, 0, 0

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cores} if self.cores else {}

    def put(self, content):
        return content

    def cancel(self, task: Task) -> None:
        self.cancelled += 1

    def remote(self, **options):
        assert options == {"num_cpus": 1, "max_retries": -1}
        return lambda work: SimpleNamespace(remote=lambda *arguments: Task(self, work, arguments))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "shop"
    sw.Recommender.from_model(model()).save(folder)
    return folder


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(cluster_tasks, "joined", lambda address: SimpleNamespace(ray=fake))
    monkeypatch.setattr(cluster_tasks, "_OPEN", {})
    return fake


def test_the_bytes_are_those_of_a_run_here(shop: Path, tmp_path: Path, ray: FakeRay) -> None:
    table = parquet(tmp_path / "users.parquet", users())
    recommend_table(table, shop, tmp_path / "here.parquet", HISTORIES, processes=1, part_rows=5)
    report = recommend_table(table, shop, tmp_path / "there.parquet", HISTORIES, cluster="there", part_rows=5)
    assert (report.computed, report.processes, ray.calls, ray.cancelled) == (23, 3, 5, 0)
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "there.parquet").read_bytes()
    assert not (tmp_path / "there.parquet.parts").exists()


@pytest.mark.nightly
def test_a_run_that_was_cut_short_continues_anywhere(shop: Path, tmp_path: Path, ray: FakeRay) -> None:
    table, out = parquet(tmp_path / "users.parquet", users()), tmp_path / "there.parquet"
    ray.most = 3
    with pytest.raises(ConnectionError):
        recommend_table(table, shop, out, HISTORIES, cluster="there", part_rows=5, processes=1)
    parts = [*(tmp_path / "there.parquet.parts").glob("part-*")]
    assert 1 <= len(parts) <= 3
    report = recommend_table(table, shop, out, HISTORIES, processes=1, part_rows=5)
    assert report.resumed == 5 * len(parts)
    recommend_table(table, shop, tmp_path / "here.parquet", HISTORIES, processes=1, part_rows=5)
    assert (tmp_path / "here.parquet").read_bytes() == out.read_bytes()


def test_a_model_that_is_replaced_is_refused(shop: Path, tmp_path: Path, ray: FakeRay) -> None:
    table, copy = parquet(tmp_path / "users.parquet", users()), tmp_path / "shop"
    sw.Recommender.load(shop).save(copy)
    submit = cluster_tasks.ClusterTasks.started

    def replaced(self, number, rows):
        sw.Recommender.from_model(model(), cells=2).save(copy)
        return submit(self, number, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_tasks.ClusterTasks, "started", replaced)
        with pytest.raises(DamagedArtifact, match="it was replaced during the run; run the same command again"):
            recommend_table(table, copy, tmp_path / "out.parquet", HISTORIES, cluster="there")


def test_a_cluster_without_cores(shop: Path, tmp_path: Path, ray: FakeRay) -> None:
    ray.cores = 0
    table = parquet(tmp_path / "users.parquet", users())
    with pytest.raises(InvalidInput, match="cluster must be one with a core for tasks, got none"):
        recommend_table(table, shop, tmp_path / "out.parquet", HISTORIES, cluster="there")
