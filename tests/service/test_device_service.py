"""A service of an index on a device answers whole requests there; torch runs them on the processor here."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from services import here, post

import setwise as sw
from setwise.service.decoding import decode_recommend
from setwise.service.handlers import Handlers, TaskMessage
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings
from torch_device import DEVICE
from worlds import random_catalog

pytest.importorskip("torch")

from setwise.recommend.device_pipeline import DeviceRequests

N, MOST = 900, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    catalog, _ = random_catalog(0, n=N, heads=2, base=True, attributes={"even": np.arange(N) % 2})
    path = tmp_path_factory.mktemp("device") / "saved"
    sw.Recommender(sw.Index.build(catalog, cells=8, backend="gpu", device=DEVICE), candidates=MOST).save(path)
    return path


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries each pass on the device has ranked."""
    noted: list[int] = []
    original = DeviceRequests.ranked

    def noting(self: DeviceRequests, queries: Any) -> Any:
        noted.append(len(queries))
        return original(self, queries)

    monkeypatch.setattr(DeviceRequests, "ranked", noting)
    return noted


def body_of(seed: int, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"user": {"heads": rng.normal(size=(2, 3)).tolist(), "base": rng.normal(size=2).tolist()}, "k": 4, **more}


def answers(handlers: Handlers, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """What a worker answers to these requests, together where there are several."""
    now = time.monotonic()
    requests = [decode_recommend(json.dumps(body).encode(), Settings()) for body in bodies]
    tasks = [TaskMessage("recommend", msgspec.Raw(msgspec.json.encode(one)), now, now + 600) for one in requests]
    return [json.loads(reply.outcome) for reply in handlers.replies(tasks)]


def test_whole_requests_are_answered_on_the_device(folder: Path, on_device: list[int]) -> None:
    served, plain = ServedArtifact.open(folder, "v"), sw.Recommender.load(folder)
    served.recommender.prepare()
    handlers = Handlers(served, Settings())
    catalog = plain.index.catalog
    reference = sw.Recommender(sw.Index.build(catalog, partition=plain.index.partition), candidates=MOST)
    for more in ({}, {"certify": False}, {"where": {"even": 1}}, {"budget_ms": 1500}):
        on_device.clear()
        group = answers(handlers, *(body_of(seed, **more) for seed in range(3)))
        assert on_device[-1] == 3, more
        assert len(on_device) == (3 if "budget_ms" in more else 1)  # the time of a pass is measured by two of them
        for seed, answer in enumerate(group):
            body = body_of(seed, **more)
            user = sw.User(body["user"]["heads"], body["user"]["base"])
            options = {name: more[name] for name in more if name != "budget_ms"}
            expected = reference.recommend(user, k=4, **options)
            rows = [item["id"] for item in answer["items"]]
            assert answer["value"] == pytest.approx(sw.set_value(catalog, user, rows), rel=1e-9)
            assert answer["value"] >= 0.999 * expected.value
            assert (answer["upper_bound"] is None) == ("certify" in more)
            if answer["upper_bound"] is not None:
                assert answer["upper_bound"] >= max(answer["value"], expected.value) * (1 - 1e-9)


def test_what_the_device_cannot_answer_in_time_is_answered_here(folder: Path, on_device: list[int]) -> None:
    handlers = Handlers(ServedArtifact.open(folder, "v"), Settings())
    (pinned,) = answers(handlers, body_of(0, include=[7]))
    assert 7 in [item["id"] for item in pinned["items"]]
    on_device.clear()
    (hurried,) = answers(handlers, body_of(0, k=5, budget_ms=0.01))
    assert on_device == [1, 1]  # it was measured, and takes longer
    assert len(hurried["items"]) == 5


@pytest.mark.nightly
def test_a_service_over_http(folder: Path) -> None:
    with here(folder) as service:
        alone = post(service, "/v1/recommend", body_of(1, certify=False))
        batch = post(service, "/v1/recommend/batch", {"requests": [body_of(seed, certify=False) for seed in range(3)]})
        assert batch["answers"][1]["items"] == alone["items"]
        assert alone["left_out"] == []
