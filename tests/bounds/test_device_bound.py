"""The bound on a device holds for the best of all sets, and is no smaller than the tightest bound over cells allows."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from torch_device import DEVICE

torch = pytest.importorskip("torch")

from setwise.bounds.catalog import device_bound  # noqa: E402
from setwise.bounds.catalog.device_bound import DeviceBound  # noqa: E402

REWARDS = (sw.Logistic(2.0, -1.0), sw.Linear(1.0, -0.5), sw.ReLU(1.0, 0.1))


def bound_of(catalog: sw.Catalog) -> DeviceBound:
    index = sw.Index.build(catalog, cells=2, backend="gpu", device=DEVICE)
    device = index.state.neighbors.on_device(catalog)
    assert device is not None
    return DeviceBound.of(device)


@pytest.mark.parametrize("seed", range(12))
def test_no_set_is_above_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_bound, "_TOGETHER", 37)
    rng = np.random.default_rng(seed)
    heads, n, more = 1 + seed % 2, 11, {}
    if seed % 3:
        more["sink"] = sw.Sink(*rng.normal(size=(2, heads, 3)))
    if seed % 4 > 1:
        more["base"] = rng.normal(size=(n, 2))
    reward = (list(REWARDS), rng.integers(3, size=n)) if seed % 5 else REWARDS[0]
    size = 10.0 ** rng.integers(-1, 2)
    catalog = sw.Catalog(*(size * rng.normal(size=(3, n, heads, 3))), reward=reward, **more)
    user = sw.User(rng.normal(size=(heads, 3)), rng.normal(size=2) if "base" in more else None)
    bound = bound_of(catalog)
    for k in (1, 2, 4):
        instance = sw.Instance.from_catalog(catalog, user, np.arange(n))
        best = sw.rank(instance, k, "exhaustive").value
        assert best <= bound.upper(user, k)


def test_the_bound_of_items_that_attend_to_themselves_alone_is_tight() -> None:
    rng = np.random.default_rng(0)
    points = 9.0 * np.eye(6)
    catalog = sw.Catalog(points, points, rng.normal(size=(6, 3)))
    user = rng.normal(size=3)
    best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(6)), 2, "exhaustive").value
    scores = np.sort(catalog.value[:, 0] @ user)[::-1]
    loose = 2 * float(sw.Logistic().value(scores[0]))
    assert best <= bound_of(catalog).upper(sw.User(user), 2) < loose
