"""Requests on a device, run by torch on the processor: candidates and values are those of the processor's own path."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.errors import TooLarge
from setwise.model import objective
from setwise.recommend.query import Query
from setwise.recommend.retrieve import retrieve
from torch_device import DEVICE

torch = pytest.importorskip("torch")

from setwise.recommend import device_candidates, device_pipeline  # noqa: E402
from setwise.recommend.device_pipeline import DeviceRequests  # noqa: E402
from setwise.retrieval.backends import gpu  # noqa: E402

N = 1500


def catalog_of(kind: str, n: int = N) -> sw.Catalog:
    """A catalogue with one head, or with two heads, base, sink and two reward functions."""
    rng = np.random.default_rng(0)
    if kind == "one head":
        return sw.Catalog(*rng.normal(size=(2, n, 4)), rng.normal(size=(n, 6)), attributes={"even": np.arange(n) % 2})
    parts = [rng.normal(size=(n, 2, width)) for width in (4, 4, 6)]
    return sw.Catalog(
        *parts,
        base=rng.normal(size=(n, 3)),
        sink=sw.Sink(rng.normal(size=(2, 4)), rng.normal(size=(2, 6))),
        reward=([sw.Logistic(2.0, -1.0), sw.Linear()], np.arange(n) % 2),
        attributes={"even": np.arange(n) % 2},
    )


def users_of(catalog: sw.Catalog, count: int) -> list[sw.User]:
    rng = np.random.default_rng(1)
    base = None if catalog.base is None else rng.normal(size=(count, 3))
    heads = rng.normal(size=(count, catalog.heads, 6))
    return [sw.User(own, None if base is None else base[at]) for at, own in enumerate(heads)]


@pytest.fixture(scope="module", params=["one head", "two heads"])
def index(request: pytest.FixtureRequest) -> sw.Index:
    return sw.Index.build(catalog_of(request.param), cells=12, backend="gpu", device=DEVICE)


@pytest.mark.parametrize("most", [40, 150])
@pytest.mark.parametrize("where", [None, {"even": 1}])
def test_candidates_are_those_of_the_processor(index: sw.Index, most: int, where: dict[str, int] | None) -> None:
    rec = sw.Recommender(index, certify=False, candidates=most)
    snapshot = rec._current(False)
    assert snapshot.device is not None
    rng = np.random.default_rng(2)
    shared = index.eligible(where=where)
    queries = [
        Query.parse(index, user, k=5, certify=False, where=where, filtered=shared, exclude=rng.choice(N, size=at * 7))
        for at, user in enumerate(users_of(index.catalog, 5))
    ]
    assert all(snapshot.device.answers(query) for query in queries)
    depths = device_candidates.Depths.of(5, most, index.catalog.heads, index.partition.n_cells)
    for some, excluded, extra, mask in snapshot.device._sharing(queries):
        users = [queries[at].user for at in some]
        found = device_candidates.candidates(
            snapshot.device.backend, snapshot.device.catalog, users, excluded, extra, mask, depths
        )
        for at, rows in zip(some, found.cpu().numpy(), strict=True):
            np.testing.assert_array_equal(rows[rows < device_candidates.NO_ROW], retrieve(queries[at], snapshot).rows)


def test_slates_are_feasible_and_as_good_as_those_of_the_processor(index: sw.Index) -> None:
    users = users_of(index.catalog, 6)
    rec = sw.Recommender(index, certify=False, candidates=100)
    other = sw.Recommender(sw.Index.build(index.catalog, partition=index.partition), certify=False, candidates=100)
    seen = [3, 5, 8, 13]
    slates = rec.recommend_many(users, k=6, where={"even": 1}, exclude=seen)
    for user, slate in zip(users, slates, strict=True):
        assert len(set(slate.indices.tolist())) == len(slate) <= 6
        assert (slate.indices % 2 == 1).all()
        assert not np.isin(slate.indices, seen).any()
        rewards = objective.item_rewards(index.catalog, user, slate.indices)
        np.testing.assert_allclose(slate.rewards, rewards, rtol=1e-12)
        assert slate.value == pytest.approx(float(rewards.sum()), rel=1e-12)
        assert (np.diff(slate.rewards) <= 0).all()
        assert slate.value >= 0.999 * other.recommend(user, k=6, where={"even": 1}, exclude=seen).value
        alone = rec.recommend(user, k=6, where={"even": 1}, exclude=seen)
        np.testing.assert_array_equal(alone.indices, slate.indices)


def test_queries_that_need_the_processor_are_answered_there(index: sw.Index) -> None:
    user = users_of(index.catalog, 1)[0]
    rec = sw.Recommender(index, certify=False, candidates=50)
    device, parse = rec._current(False).device, lambda **more: Query.parse(index, user, certify=False, **more)
    assert device is not None
    assert device.answers(parse(k=5))
    few = np.arange(N)[:-40]
    for more in (
        {"include": [1]},
        {"at_most": {"even": 3}},
        {"budget_ms": 1e-3},
        {"ranker": "greedy"},
        {"scores": np.zeros(N)},
        {"exclude": few},
        {"k": 26},
    ):
        assert not device.answers(parse(**{"k": 5, **more})), more
    slates = rec.recommend_many([user, user], k=5, include=[1])
    assert all(1 in slate.indices for slate in slates)


def test_added_items_are_answered_on_the_processor_until_compacted() -> None:
    catalog = catalog_of("one head", 300)
    index = sw.Index.build(catalog, cells=4, backend="gpu", device=DEVICE)
    assert DeviceRequests.of(index, 50) is not None
    index.remove([7])
    assert DeviceRequests.of(index, 50) is not None
    rng = np.random.default_rng(3)
    added = sw.Catalog(*rng.normal(size=(2, 9, 4)), rng.normal(size=(9, 6)), attributes={"even": np.arange(9) % 2})
    index.add(added)
    assert DeviceRequests.of(index, 50) is None
    assert len(sw.Recommender(index, certify=False, candidates=50).recommend(users_of(catalog, 1)[0], k=4)) == 4
    index.compact()
    assert DeviceRequests.of(index, 50) is not None


def test_a_catalogue_in_float64_is_answered_on_the_processor() -> None:
    rng = np.random.default_rng(4)
    catalog = sw.Catalog(*rng.normal(size=(3, 200, 3)), dtype=np.float64)
    assert DeviceRequests.of(sw.Index.build(catalog, cells=4, backend="gpu", device=DEVICE), 50) is None


def held_bytes() -> int:
    """Bytes of all tensors that are alive."""
    gc.collect()
    return sum(each.nbytes for each in gc.get_objects() if type(each) is torch.Tensor)


@pytest.mark.nightly
def test_requests_and_reloads_leave_no_tensors(tmp_path: Path) -> None:
    """As benchmarks/gpu_requests.py counts on a device for 10,000 requests and 20 reloads."""
    catalog = catalog_of("two heads", 400)
    index = sw.Index.build(catalog, cells=4, backend="gpu", device=DEVICE)
    users, sizes = users_of(catalog, 3), []
    rec = sw.Recommender(index, certify=False, candidates=60)
    for count in range(6):
        rec.recommend(users[0], k=4, exclude=[count])
        rec.recommend_many(users, k=4, where={"even": 1})
        sizes.append(held_bytes())
    assert len(set(sizes[1:])) == 1
    index.save(tmp_path / "index")
    del index, rec
    reloaded = []
    for _ in range(4):
        fresh = sw.Recommender(sw.Index.load(tmp_path / "index", device=DEVICE), certify=False, candidates=60)
        fresh.recommend(users[0], k=4)
        reloaded.append(held_bytes())
        del fresh
    assert len(set(reloaded[1:])) == 1


def test_out_of_memory_in_a_request_is_an_error_and_the_next_one_is_answered(
    index: sw.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = users_of(index.catalog, 1)[0]
    rec = sw.Recommender(index, certify=False, candidates=50)
    before = rec.recommend(user, k=4)

    def full(*arguments: object) -> None:
        raise torch.cuda.OutOfMemoryError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(device_pipeline, "swap", full)
        with pytest.raises(TooLarge, match="does not suffice"):
            rec.recommend(user, k=4)
    np.testing.assert_array_equal(rec.recommend(user, k=4).indices, before.indices)


def test_queries_and_keys_that_do_not_fit_leave_requests_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    index = sw.Index.build(catalog_of("one head", 300), cells=4, backend="gpu", device=DEVICE)
    monkeypatch.setattr(gpu, "_has_room", lambda needed, device: False)
    rec = sw.Recommender(index, certify=False, candidates=50)
    assert rec._current(False).device is None
    assert len(rec.recommend(users_of(index.catalog, 1)[0], k=4)) == 4


def test_a_large_catalogue_is_bounded_on_the_device(index: sw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = sw.Recommender(index, candidates=60)
    monkeypatch.setattr(device_pipeline, "LEAST_BOUNDED", 1)
    rec = sw.Recommender(index, candidates=60)
    assert rec._current(True).cell_bounds is None
    for user in users_of(index.catalog, 3):
        slate = rec.recommend(user, k=4)
        assert np.isfinite(slate.upper_bound)
        assert max(slate.value, cells.recommend(user, k=4).value) <= slate.upper_bound
        assert 0.0 <= slate.gap < 1.0
        again = slate.improve(0.1)
        assert again.value == pytest.approx(slate.value, rel=1e-12)
        assert again.upper_bound == slate.upper_bound
        pinned = rec.recommend(user, k=4, include=[3])
        assert 3 in pinned.indices
        assert pinned.upper_bound == np.inf
    assert rec.recommend(users_of(index.catalog, 1)[0], k=4, certify=False).upper_bound == np.inf
