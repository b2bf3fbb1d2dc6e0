"""Upper bounds are never below the optimum, for every registered reward family alone and mixed with another."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from reward_families import random_reward, random_rewards
from setwise.bounds.candidates.branch_and_bound import BranchAndBound
from setwise.bounds.candidates.upper_bound import upper_bound
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.model.constraints import Constraints
from setwise.model.rewards import FAMILIES
from worlds import random_catalog

pytestmark = pytest.mark.promise("bounds")

FOREVER = 1e6  # milliseconds


@pytest.mark.parametrize("family", FAMILIES)
def test_no_set_exceeds_the_bounds(family: str, count) -> None:
    """The search is also stopped after 0 to 3 nodes, with nothing offered and so nothing pruned."""
    for seed in range(count(800)):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        rewards = [random_reward(family, rng), *random_rewards(rng, seed % 2)]
        heads, sharpness = int(rng.integers(1, 4)), float(rng.choice([0.3, 1.0, 5.0, 100.0]))
        catalog, user = random_catalog(
            seed, n=n, heads=heads, base=seed % 3 == 0, sink=seed % 5 == 0, sharpness=sharpness, rewards=rewards
        )
        instance = sw.Instance.from_catalog(catalog, user, np.arange(n))
        best = sw.rank(instance, k, "exhaustive").value
        search = BranchAndBound(instance, Constraints.of(instance, k), 1000)
        search.run(seed % 4)
        assert search.bound >= best, seed
        assert upper_bound(instance, k) >= best, seed
        cells = CellBounds.build(catalog, cells=int(rng.integers(1, n + 1)))
        root = whole_catalog_bound(cells, user, k, budget_ms=0.0)
        ended = whole_catalog_bound(cells, user, k, budget_ms=FOREVER)
        assert root.upper_bound >= best, seed
        assert ended.upper_bound >= best, seed
        assert ended.proven
        assert ended.value == pytest.approx(best, rel=1e-9, abs=1e-9), seed
