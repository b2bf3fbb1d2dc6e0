"""The blend and the search for settings."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.datasets import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged
from setwise.training.base import blend, search
from setwise.training.base.search import ALS, EASE, SIMILARITIES, fit_base, padded
from setwise.training.base.two_tower import fit_two_tower

N, GROUP = 60, 10


def grouped(count: int, seed: int = 0) -> Sessions:
    """Sessions of eight items of one group of ten."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(GROUP)[:8] + GROUP * rng.integers(N // GROUP) for _ in range(count)]
    return Sessions(Ragged.of(rows), list(range(N)))


def base_scores(terms, history: Ragged) -> np.ndarray:
    rows, filled = padded(history)
    total = np.zeros((len(history), N))
    if terms.items is not None:
        total += terms.vectors(rows, filled) @ terms.items.T
    for row, added in enumerate(terms.added(rows, filled, N) or ()):
        total[row] += added.whole()
    return total


def test_the_search_learns_the_groups() -> None:
    found = fit_base(grouped(200), k=4, progress=False)
    split = HistorySplit.first(grouped(50, seed=1))
    for terms in (found.final, found.trial):
        scores = base_scores(terms, split.history)
        for row, history in enumerate(split.history):
            scores[row, history] = -np.inf
            best = np.argsort(-scores[row])[:4]
            assert set(best // GROUP) == {history[0] // GROUP}
    assert found.tried[-1]["model"] == "blend"
    assert len(found.held_out) == 40


def test_settings_are_compared_on_some_of_many_held_out_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_COMPARED", 10)
    few = fit_base(grouped(200), k=4, progress=False)
    monkeypatch.setattr(search, "MOST_COMPARED", 40)
    all_of_them = fit_base(grouped(200), k=4, progress=False)
    np.testing.assert_array_equal(few.held_out, all_of_them.held_out)
    assert [row["hits"] for row in few.tried] != [row["hits"] for row in all_of_them.tried]


def test_the_same_seed_gives_the_same_base() -> None:
    one, same = (fit_base(grouped(60), k=4, seed=3, progress=False) for _ in range(2))
    for name, array in one.final.packed().items():
        np.testing.assert_array_equal(array, same.final.packed()[name])


def test_a_spent_budget_leaves_one_setting_of_each_model() -> None:
    tried = fit_base(grouped(60), k=4, minutes=1e-9, progress=False).tried
    settings = {model: {str(row["setting"]) for row in tried if row["model"] == model} for model in ("EASE", "ALS")}
    assert all(len(of_model) == 1 for of_model in settings.values())
    everything = fit_base(grouped(60), k=4, progress=False).tried
    counted = {model: len({str(row["setting"]) for row in everything if row["model"] == model}) for model in settings}
    assert counted == {"EASE": len(EASE), "ALS": len(ALS)}
    assert len({str(row["setting"]) for row in everything if row["model"] == "item-kNN"}) == len(SIMILARITIES)


def test_smoothed_hits_by_rank() -> None:
    scores = -np.arange(40, dtype=np.float32)[None, :]
    credit = [blend.smoothed_hits(scores, np.arange(40)[None, :] == rank, k=4) for rank in range(40)]
    assert credit[:3] == [1.0, 1.0, 1.0]
    assert (np.diff(credit) <= 0).all()
    assert credit[15] > 0 == credit[16]


def test_hits_are_targets_among_the_best() -> None:
    scores = np.array([[3.0, 1.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0]], np.float32)
    target = np.array([[True, True, False, False], [True, True, False, False]])
    assert blend.hits(scores, target, 2).tolist() == [1.0, 0.0]


def test_the_pool_leaves_out_what_was_seen() -> None:
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(3, 8)).astype(np.float32) for _ in range(2)]
    seen, target = rng.random((3, 8)) < 0.3, rng.random((3, 8)) < 0.4
    pool = blend.pooled(scores, seen, target)
    combined = blend.combined(pool, np.array([1.0, 2.0]))
    wanted = np.where(seen, -np.inf, scores[0] + 2 * scores[1]).astype(np.float32)
    for k in (1, 2, 3):
        np.testing.assert_array_equal(blend.hits(combined, pool.target, k), blend.hits(wanted, target & ~seen, k))


@pytest.mark.parametrize("good", [0, 1, 2])
def test_the_weights_prefer_the_model_that_knows(good: int) -> None:
    rng = np.random.default_rng(good)
    target = rng.random((80, 50)) < 0.2
    scores = [rng.normal(size=target.shape).astype(np.float32) for _ in range(3)]
    scores[good] += 2 * target.astype(np.float32)
    pool = blend.pooled(scores, np.zeros_like(target), target)
    weights = blend.blend_weights(pool, 5) * blend.spread(pool.scores)
    assert weights.argmax() == good
    alone = blend.hits(blend.combined(pool, np.eye(3)[good]), pool.target, 5).mean()
    assert blend.hits(blend.combined(pool, weights / blend.spread(pool.scores)), pool.target, 5).mean() >= alone - 0.1


def test_scores_without_differences_have_no_huge_weight() -> None:
    """The spread of equal scores, or of scores that differ by rounding, is their size and not almost zero."""
    equal = np.full((4, 6), 0.5, np.float32)
    noisy = equal + np.array([0, 1, 0, 1, 0, 1], np.float32) * np.float32(6e-8)
    wide = np.linspace(-1, 1, 6, dtype=np.float32) + np.zeros((4, 1), np.float32)
    found = blend.spread(np.stack([equal, noisy, np.zeros_like(equal), wide]))
    assert found == pytest.approx([0.5, 0.5, 1.0, wide[0].std()])


def test_large_data_has_one_setting_of_the_slow_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setwise.training.base.search.MOST_INVERTED", 10)
    monkeypatch.setattr("setwise.training.base.search.MOST_FACTORISED", 10)
    for minutes, count in ((None, 1), (10, 3)):
        tried = fit_base(grouped(60), k=4, minutes=minutes, progress=False).tried
        for model in ("EASE", "ALS"):
            assert len({str(row["setting"]) for row in tried if row["model"] == model}) == count


# --- order ---


def ordered(count: int, seed: int = 0) -> Sessions:
    """Walks over a ring: the next item is one of the three that follow the last one."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 4, (count, 6))
    return Sessions(Ragged.of((rng.integers(N, size=(count, 1)) + np.cumsum(steps, axis=1)) % N), list(range(N)))


def test_the_two_tower_network_learns_what_follows() -> None:
    model = fit_two_tower(ordered(400).items, N, 0.8)
    last = np.arange(N)
    rows = np.column_stack([(last - 2) % N, last])
    scores = model.vectors(rows, np.ones(rows.shape, bool)) @ model.items.T
    scores[np.arange(N)[:, None], rows] = -np.inf
    ahead = (np.argsort(-scores, axis=1)[:, :3] - last[:, None]) % N
    assert (ahead < 10).mean() > 0.9


@pytest.mark.nightly
def test_the_two_tower_network_joins_where_order_matters() -> None:
    joined = {row["model"] for row in fit_base(ordered(200), k=4, progress=False).chosen}
    assert joined == {"item-kNN", "EASE", "ALS", "two-tower"}
    assert "two-tower" not in {row["model"] for row in fit_base(grouped(200), k=4, progress=False).chosen}
    assert "two-tower" not in {row["model"] for row in fit_base(ordered(200), k=4, minutes=1e-9, progress=False).chosen}


def test_the_same_seed_gives_the_same_two_tower_network() -> None:
    one, same = (fit_two_tower(ordered(50).items, N, 0.8, seed=2, device="cpu") for _ in range(2))
    np.testing.assert_array_equal(one.items, same.items)
