"""A slate of hugely negative rewards: its size leaves no room for a false bound."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.verification.rounding import size_above
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.promise("certificates")

SETTINGS = [(sw.Linear(1.0, 0.0), 1e15), (sw.Exp(-1.0, 0.0), 40.0), (sw.LeakyReLU(1.0, 0.0, 0.5), 1e30)]


@pytest.mark.parametrize(("reward", "loss"), SETTINGS)
def test_a_false_bound_above_a_slate_of_huge_losses_is_refused(reward: sw.Linear, loss: float, tmp_path: Path) -> None:
    catalog, user = random_catalog(3, n=8, heads=2, sink=True, rewards=[reward], dtype=np.float64)
    path, recommender = tmp_path / "slate.json", sw.Recommender(sw.Index.build(catalog, cells=2))
    scores = np.append(np.zeros(7), -loss)
    recommender.recommend(user, k=2, scores=scores, include=[7]).save(path)
    best = recommender.recommend(user, k=2, scores=scores, ranker="exhaustive").value
    content = {key: part for key, part in read_slate(path).items() if key != "digest"} | {"proven": False}
    content["query"] = content["query"] | {"include": []}
    write_slate(path, content | {"upper_bound": best - 1e-3 * abs(best)})
    assert [check.name for check in verify(path, catalog).checks if not check.ok] == ["bound"]
    write_slate(path, content | {"upper_bound": best + 1e-6 * abs(best)})
    assert verify(path, catalog).ok


def test_no_set_above_a_bound_is_larger(count) -> None:
    for seed in range(count(1000, 60)):
        rng = np.random.default_rng(seed)
        rewards, places = [REWARDS[number] for number in rng.choice(len(REWARDS), size=2, replace=False)], seed % 2 * 2
        catalog, user = random_catalog(seed, n=6, heads=2, sink=seed % 3 == 0, rewards=rewards, positions=places)
        sets = list(itertools.permutations(range(6), 2)) if places else list(itertools.combinations(range(6), 2))
        found = [sw.item_rewards(catalog, user, rows, [0, 1] if places else None) for rows in sets]
        bound = float(rng.choice([each.sum() for each in found]))
        most = size_above(catalog, user, 2, np.arange(6), bound)
        assert max(np.abs(each).sum() for each in found if each.sum() >= bound) <= most * (1 + 1e-12) + 1e-12
