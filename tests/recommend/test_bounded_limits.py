"""Constraints inside the bound of a request: it holds for every feasible set, and ``verify`` proves it again."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import Infeasible
from setwise.recommend.bounded_limits import tightest_limit
from setwise.recommend.recommender import Recommender
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

N = 9
ATTRIBUTES = {"artist": ["a", "b", "c", None, "a", "b", "c", "a", "b"], "site": [0, 1] * 4 + [0]}


@examples(40)
@given(
    st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.integers(1, 5), st.sets(st.integers(0, N - 1), max_size=2),
    st.sampled_from([{}, {"at_most": {"artist": 1}}, {"at_most": {"artist": 2, "site": 1}}]),
    st.sampled_from([{}, {"at_least": {"artist": {"c": 2}}}, {"exactly": {"site": 1}}, {"at_least": {"site": {1: 3}}}]),
)  # fmt: skip
def test_no_feasible_set_beats_the_bound(tmp_path_factory, seed, heads, mixed, k, pins, upper, lower) -> None:
    rewards = REWARDS if mixed else REWARDS[:1]
    catalog, user = random_catalog(seed, n=N, heads=heads, rewards=rewards, sharpness=2.0, attributes=ATTRIBUTES)
    rec = Recommender(sw.Index.build(catalog, cells=2), candidates=2)
    try:
        slate = rec.recommend(user, k=k, include=sorted(pins), **upper, **lower)
    except Infeasible:
        return
    sets = (np.array(rows) for size in range(1, k + 1) for rows in itertools.combinations(range(N), size))
    best = max(sw.set_value(catalog, user, rows) for rows in sets if slate.query.admits(rows))
    assert best <= slate.upper_bound + 1e-8 * (1 + abs(best))
    path = tmp_path_factory.mktemp("slates") / "slate.json"
    slate.save(path)
    result = verify(path, catalog)
    assert result.ok or np.isinf(slate.upper_bound) or not np.isfinite(slate.value), result.checks


def test_the_tightest_limit_counts() -> None:
    catalog, user = random_catalog(1, n=N, attributes=ATTRIBUTES)
    rec = Recommender(sw.Index.build(catalog, cells=2))
    free = rec.recommend(user, k=4, at_most={"site": 4}, certify=False)
    assert tightest_limit(free.query) is None
    both = rec.recommend(user, k=4, at_most={"site": 2}, at_least={"artist": {"c": 1}}, certify=False)
    found = tightest_limit(both.query)
    assert found is not None
    assert found.most == 2
    np.testing.assert_array_equal(found.labels, [0, 1] * 4 + [0])
    lower = rec.recommend(user, k=4, at_least={"artist": {"b": 3}}, certify=False)
    outside = tightest_limit(lower.query)
    assert outside is not None
    assert outside.most == 1
    np.testing.assert_array_equal(outside.labels == -1, [name == "b" for name in ATTRIBUTES["artist"]])


def test_constraints_tighten_the_bound() -> None:
    """Pins and limits that exclude the best set lower its bound."""
    n = 300
    attributes = {"artist": [f"artist {i % 3}" for i in range(n)]}
    catalog, user = random_catalog(3, n=n, rewards=[sw.Logistic(0.3, -2.0)], attributes=attributes, base=True)
    rec = Recommender(sw.Index.build(catalog, cells=16), candidates=60)
    free = rec.certify(rec.recommend(user, k=4), 20.0)
    assert free.proven
    worst = int(np.argmin([sw.set_value(catalog, user, [row]) for row in range(n)]))
    pinned = rec.certify(rec.recommend(user, k=4, include=[worst]), 20.0)
    assert pinned.upper_bound < free.value
    single = rec.certify(rec.recommend(user, k=4, at_most={"artist": 1}), 20.0)
    assert len(single) <= 3
    assert single.upper_bound < free.upper_bound
