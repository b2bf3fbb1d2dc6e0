"""Slates with lower limits verify, also where sets that break the limits are worth more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.verification.verify import verify


@pytest.mark.parametrize("limit", [{"at_least": {"genre": {"jazz": 2}}}, {"exactly": {"genre": 1}}])
def test_one_item_is_worth_more_than_the_limits_allow(tmp_path: Path, limit: dict[str, Any]) -> None:
    """Rewards are negative, so every further item that a limit requires costs value."""
    rng = np.random.default_rng(0)
    genre = ["jazz", "jazz", "jazz", "soul"]
    catalog = sw.Catalog(*rng.normal(size=(3, 4, 2)), reward=sw.Linear(0.1, -1.0), attributes={"genre": genre})
    user = rng.normal(size=2)
    slate = sw.Recommender(sw.Index.build(catalog)).recommend(user, k=3, **limit)
    assert slate.proven
    assert len(slate.items) == 2
    assert max(sw.set_value(catalog, user, [row]) for row in range(4)) > slate.value
    slate.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", catalog).ok


def test_a_bound_below_the_optimum_is_refuted_by_a_set_that_keeps_the_limits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    catalog = sw.Catalog(*rng.normal(size=(3, 6, 2)), reward=sw.Linear(0.1, -1.0), attributes={"genre": ["jazz"] * 6})
    recommender = sw.Recommender(sw.Index.build(catalog))
    user, limit = rng.normal(size=2), {"genre": {"jazz": 2}}
    best = recommender.recommend(user, k=3, at_least=limit)
    other = recommender.recommend(user, k=3, at_least=limit, exclude=best.items[:1])
    false = replace(other, query=best.query, upper_bound=other.value, proven=True)
    false.save(tmp_path / "slate.json")
    refuted = [check.sentence for check in verify(tmp_path / "slate.json", catalog).checks if not check.ok]
    assert len(refuted) == 1
    assert refuted[0].startswith("refuted: the rows")
