"""The gpu backend where torch runs on the processor: the same layout and steps as on a device, without its kernels."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from cells import agree, random_cells, trained_kind
from setwise._validation import frozen
from setwise.errors import InvalidInput, TooLarge
from setwise.retrieval.backends.brute_force import BruteForce
from torch_device import DEVICE

torch = pytest.importorskip("torch")

from setwise.retrieval import device_layout, device_search  # noqa: E402
from setwise.retrieval.backends import gpu  # noqa: E402


def layout_of(vectors, cell_of, cells) -> device_layout.DeviceLayout:
    return gpu.GPU.build(vectors, cell_of, cells, device="cpu")._layout


def test_every_approximate_score_is_within_its_margin(count) -> None:
    for seed in range(count(200)):
        vectors, cell_of, cells, users, _, _ = random_cells(seed)
        layout = layout_of(vectors, cell_of, cells)
        small = (users / np.exp2(np.ceil(np.log2(np.abs(users).max(axis=1, keepdims=True))))).astype(np.float32)
        asked = device_layout.quantised_users(small, layout.device)
        held = (layout.order >= 0).cpu().numpy()
        exact = vectors[layout.order[held]].astype(np.float64) @ small.T
        off = device_search.margins(layout, asked).double().cpu().numpy().T.repeat(device_layout.BLOCK, axis=0)[held]
        coarse = asked._replace(low=torch.zeros_like(asked.low), margin=asked.coarse)
        every = torch.arange(layout.blocks)
        for one, margin in ((asked, off), (coarse, None)):
            if margin is None:
                margin = (
                    device_search.margins(layout, one)
                    .double()
                    .cpu()
                    .numpy()
                    .T.repeat(device_layout.BLOCK, axis=0)[held]
                )
            for user in range(len(users)):
                found = device_search.item_scores(layout, one, torch.full_like(every, user), every, None)
                approximate = found.reshape(-1).double().cpu().numpy()[held]
                assert (np.abs(approximate - exact[:, user]) <= margin[:, user]).all()


def test_a_place_without_a_row_repeats_codes_of_its_block() -> None:
    vectors, cell_of, cells, *_ = random_cells(3)
    layout = layout_of(vectors, cell_of, cells)
    empty = torch.nonzero(layout.order < 0)[:, 0]
    assert len(empty)
    assert torch.equal(layout.codes[empty], layout.codes[empty // device_layout.BLOCK * device_layout.BLOCK])
    assert sorted(layout.order[layout.order >= 0].tolist()) == list(range(len(vectors)))


def test_few_exact_rows_are_read() -> None:
    vectors, cell_of, users = trained_kind(20_000, 8, 0)
    layout = layout_of(vectors, cell_of, 8)
    asked = device_layout.quantised_users((users / 64).astype(np.float32), layout.device)
    peak, margin = device_search.peaks(layout, asked, None), device_search.margins(layout, asked)
    cell = torch.repeat_interleave(torch.arange(8), layout.block_start.diff())
    group = (torch.arange(len(users))[:, None] * 8 + cell).reshape(-1)
    floor = device_search.kth_largest((peak - margin).reshape(-1), group, 8 * len(users), 10)
    may = (peak + margin).reshape(-1) >= floor[group]
    assert may.float().mean() < 0.25


def test_rows_of_all_sizes_users_of_all_sizes() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 6)).astype(np.float32) * np.float32(10.0) ** rng.integers(-40, 17, size=(400, 1))
    cell_of = (np.arange(400) % 3).astype(np.int32)
    users = (rng.normal(size=(5, 6)) * 10.0 ** np.array([-30, -3, 0, 3, 15])[:, None]).astype(np.float32)
    users[2] = 0.0
    hits = gpu.GPU.build(vectors, cell_of, 3).search(users, 7)
    agree(hits, BruteForce.build(vectors, cell_of, 3).search(users, 7), vectors, cell_of, users)


def test_a_mask_that_cannot_change_is_copied_once() -> None:
    vectors, cell_of, cells, users, *_ = random_cells(8)
    backend, mask = gpu.GPU.build(vectors, cell_of, cells), np.arange(len(vectors)) % 3 > 0
    first = backend.search(users, 3, mask)
    assert not backend._masks  # it could be changed before the next search
    mask[:] = True
    np.testing.assert_array_equal(backend.search(users, 3, mask).rows, backend.search(users, 3).rows)
    kept = frozen(np.arange(len(vectors)) % 3 > 0)
    for _ in range(2):
        np.testing.assert_array_equal(backend.search(users, 3, kept[: len(kept)]).rows, first.rows)
        assert len(backend._masks) == 1
    others = [frozen(np.arange(len(vectors)) % step > 0) for step in range(4, 12)]
    for other in others:
        backend.search(users, 3, other)
    assert len(backend._masks) == gpu._MASKS
    del others, other
    backend.search(users, 3, kept)
    assert len(backend._masks) == 1


def test_devices_that_torch_does_not_have() -> None:
    vectors, cell_of = np.ones((4, 2), np.float32), np.zeros(4, np.int32)
    for device in ("gpu please", "meta", 1.5):
        with pytest.raises(InvalidInput, match="device must be"):
            gpu.GPU.build(vectors, cell_of, 1, device=device)
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="device must be one that torch can use here, got 'cuda'"):
            gpu.GPU.build(vectors, cell_of, 1, device="cuda")


def test_what_does_not_fit_is_refused_with_what_fits() -> None:
    device_layout.require_room(1 << 20, 64, device_layout.needed_bytes(1 << 20, 64))
    with pytest.raises(TooLarge, match=r"1,048,576 rows of 64 numbers needs 0\.3 GB .* about 524,288 rows fit"):
        device_layout.require_room(1 << 20, 64, device_layout.needed_bytes(1 << 19, 64))


def test_out_of_memory_leaves_the_index_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    catalog = sw.Catalog(*rng.normal(size=(3, 300, 4)), ids=[f"item {row}" for row in range(300)])
    index = sw.Index.build(catalog, cells=5, backend="gpu")
    user = rng.normal(size=4)
    index.remove(["item 7"])
    before = index.candidates(user, per_cell=3)

    def full(*arguments: object) -> None:
        raise torch.cuda.OutOfMemoryError("no memory")

    monkeypatch.setattr(gpu, "filled", full)
    with pytest.raises(TooLarge, match=r"The memory of the device (cpu|cuda) does not suffice"):
        index.compact()
    np.testing.assert_array_equal(index.candidates(user, per_cell=3), before)


def all_memory_but(left: int) -> list[torch.Tensor]:
    """Take the memory of the device in blocks that are halved: it has no block as large as all of it."""
    taken, size = [], 1 << 36
    while size >= 1 << 20:
        try:
            assert torch.cuda.mem_get_info()[0] >= left + size
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except (AssertionError, torch.OutOfMemoryError):
            size //= 2
    return taken


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "left", [1 << 20, 48 << 20]
)  # bytes: less than a copy of the index, and less than its building
def test_a_full_device_leaves_the_index_as_it_was(left: int) -> None:
    rng = np.random.default_rng(4)
    catalog = sw.Catalog(*rng.normal(size=(3, 200_000, 16)).astype(np.float32))
    index = sw.Index.build(catalog, cells=64, backend="gpu", device="cuda")
    user = rng.normal(size=16)
    index.remove([7])
    before = index.candidates(user, per_cell=3)
    torch.cuda.empty_cache()
    taken = all_memory_but(left)
    with pytest.raises(TooLarge):
        index.compact()
    del taken
    torch.cuda.empty_cache()
    np.testing.assert_array_equal(index.candidates(user, per_cell=3), before)
    index.compact()
    assert len(index.catalog) == 199_999


def test_an_index_and_its_recommender_as_on_the_processor() -> None:
    """Several heads, base, scores, exclusions, filters, removed and added items: the candidates and slates of scan."""
    rng = np.random.default_rng(2)
    year = rng.integers(1990, 2020, size=900)
    parts = [rng.normal(size=(900, 2, 5)) for _ in range(3)]
    catalog = sw.Catalog(*parts, base=rng.normal(size=(900, 3)), attributes={"year": year})
    more = sw.Catalog(*(part[:40] + 1.0 for part in parts), base=np.ones((40, 3)), attributes={"year": year[:40]})
    user = sw.User(rng.normal(size=(2, 5)), rng.normal(size=3))
    scores = {int(row): float(rng.normal()) for row in rng.choice(900, size=50, replace=False)}
    found = []
    for backend in ("scan", "gpu"):
        index = sw.Index.build(catalog, cells=20, backend=backend)
        index.add(more)
        index.remove([5, 17, 901])
        rows = index.candidates(user, 4, exclude=[1, 2, 3], where={"year": (2000, None)}, per_head=2)
        many = index.candidates_many([user, user], 4, exclude=[[1], [800, 2]])
        rec = sw.Recommender(index, certify=False, candidates=100)
        slate = rec.recommend(user, k=5, exclude=[4], scores=scores, scores_floor=-1.0)
        dense = rec.recommend(user, k=5, scores=np.arange(940) / 940)
        found.append((rows, *many, slate.indices, dense.indices, rec.recommend_many([user], k=4)[0].indices))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_index_is_restored(tmp_path) -> None:
    rng = np.random.default_rng(3)
    catalog, user = sw.Catalog(*rng.normal(size=(3, 500, 6))), rng.normal(size=6)
    index = sw.Index.build(catalog, cells=9, backend="gpu", device=DEVICE)
    index.save(tmp_path / "index")
    for options in ({}, {"device": DEVICE}):
        again = sw.Index.load(tmp_path / "index", **options)
        assert again.statistics.backend == "gpu"
        np.testing.assert_array_equal(again.candidates(user, 5), index.candidates(user, 5))
