"""Swap search in torch: values of all moves against the reference, and sets against swap search and brute force."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from torch_device import DEVICE

torch = pytest.importorskip("torch")

from setwise.ranking import device_swap  # noqa: E402
from setwise.ranking.device_instances import instances  # noqa: E402
from setwise.ranking.device_swap import Climbs, exchanges, swap  # noqa: E402

KINDS = ("single precision", "wide logits", "heads, base, sink and classes")


def problem_of(kind: str, m: int, seed: int = 0):
    """A device problem of two users with their own candidates, and the same as two instances."""
    rng, n = np.random.default_rng(seed), 3 * m
    width = (n, 1, 4) if kind != KINDS[2] else (n, 2, 4)
    size = 12.0 if kind == KINDS[1] else 1.0
    more = {}
    if kind == KINDS[2]:
        more["base"], more["sink"] = rng.normal(size=(n, 3)), sw.Sink(*rng.normal(size=(2, 2, 4)))
        more["reward"] = ([sw.Linear(), sw.ReLU(1.0, -0.5), sw.Logistic(2.0, -1.0)], rng.integers(3, size=n))
    catalog = sw.Catalog(size * rng.normal(size=width), rng.normal(size=width), rng.normal(size=width), **more)
    index = sw.Index.build(catalog, cells=3, backend="gpu", device=DEVICE)
    users = [sw.User(rng.normal(size=width[1:]), rng.normal(size=3) if "base" in more else None) for _ in range(2)]
    rows = np.stack([np.sort(rng.choice(n, m, replace=False)) for _ in users])
    held = torch.ones(rows.shape, dtype=torch.bool, device=DEVICE)
    held[1, -2:] = False
    device = index.state.neighbors.on_device(catalog)
    problem = instances(device, torch.from_numpy(rows).to(DEVICE), held, device.users(users))
    own = [rows[0], rows[1][:-2]]
    return problem, [sw.Instance.from_catalog(catalog, *pair) for pair in zip(users, own, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_of_every_exchange_addition_and_removal(kind: str) -> None:
    problem, reference = problem_of(kind, 12)
    assert problem.score.dtype == (torch.float32 if kind == KINDS[0] else torch.float64)
    members = torch.tensor([[3, 0, 7, 5], [1, 2, 1, 9]], device=DEVICE)
    filled = torch.tensor([[True, True, True, True], [True, True, False, True]], device=DEVICE)
    climbs = Climbs(torch.tensor([0, 1], device=DEVICE), members, filled, torch.zeros(2, device=DEVICE))
    others = 1 - torch.eye(4, dtype=problem.score.dtype, device=DEVICE)
    exchanged, removed = exchanges(problem, climbs, others)
    near = 1e-5 if kind == KINDS[0] else 1e-9
    for user, instance in enumerate(reference):
        for slot in range(4):
            left = [int(members[user, p]) for p in range(4) if p != slot and filled[user, p]]
            assert float(removed[user, slot]) == pytest.approx(instance.value(left), rel=near, abs=near)
            present = members[user][filled[user]].tolist()
            for c in range(12):
                found = float(exchanged[user, slot, c])
                if c in present or c >= instance.m:
                    assert found == -np.inf
                else:
                    assert found == pytest.approx(instance.value([*left, c]), rel=near, abs=near)


@pytest.mark.parametrize("kind", KINDS)
def test_sets_are_as_good_as_the_best(kind: str) -> None:
    for seed in range(3):
        problem, reference = problem_of(kind, 14, seed)
        found = swap(problem, 4)
        for user, instance in enumerate(reference):
            own = found.members[user][found.filled[user]].tolist()
            assert len(set(own)) == len(own) <= 4
            assert max(own) < instance.m
            best = sw.rank(instance, 4, "exhaustive").value
            assert instance.value(own) >= best - 1e-6 * abs(best)
            assert float(found.value[user]) == pytest.approx(instance.value(own), rel=1e-5)


def test_a_smaller_set_may_be_the_best() -> None:
    problem, reference = problem_of(KINDS[2], 10, 5)
    found = swap(problem, 8)
    sizes = found.filled.sum(1).tolist()
    assert sizes == [len(sw.rank(instance, 8, "exhaustive").indices) for instance in reference]
    assert min(sizes) < 8


def test_a_user_alone_or_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = problem_of(KINDS[0], 30)
    together = swap(problem, 5)
    monkeypatch.setattr(device_swap, "_NUMBERS", 1)
    for whole, apart in zip(together, swap(problem, 5), strict=True):
        torch.testing.assert_close(whole, apart)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_growth_adds_the_best_candidate_at_a_time(kind: str, k: int) -> None:
    problem, reference = problem_of(kind, 12, seed=3)
    starts = torch.tensor([[3, 0, 7], [1, 2, 9]], device=DEVICE)
    climbs = device_swap._grown(problem, starts, k)
    near = 1e-5 if kind == KINDS[0] else 1e-9
    for number, (owner, members) in enumerate(zip(climbs.owner.tolist(), climbs.members.tolist(), strict=True)):
        instance = reference[owner]
        assert members[0] == starts.flatten()[number]
        assert len(set(members)) == k
        for size in range(1, k):
            others = [c for c in range(instance.m) if c not in members[:size]]
            most = max(instance.value([*members[:size], c]) for c in others)
            assert instance.value(members[: size + 1]) == pytest.approx(most, rel=near, abs=near)
        if k > 1:
            assert float(climbs.value[number]) == pytest.approx(instance.value(members), rel=near, abs=near)
