"""Certificates that go on after the request: the bound never rises and holds, and no proof is computed twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput
from setwise.recommend import pipeline, proofs
from setwise.recommend.proofs import SEARCHES, query_key
from setwise.recommend.recommender import Recommender
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

SHORT = 1e-3  # milliseconds and seconds: a search that ends after its first bound


def world(seed: int, n: int = 300, **parts) -> tuple[sw.Recommender, sw.User]:
    attributes = {"artist": [f"artist {i % 40}" for i in range(n)]}
    catalog, user = random_catalog(seed, n=n, attributes=attributes, **{"rewards": [sw.Logistic(0.3, -2.0)]} | parts)
    return Recommender(sw.Index.build(catalog, cells=16), candidates=60), user


def started(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The value known at the start of every search over the whole catalogue from now on."""
    values: list[float] = []
    original = proofs.catalog_search

    def counting(query, cells, value, scored=None):
        values.append(value)
        return original(query, cells, value, scored)

    monkeypatch.setattr(proofs, "catalog_search", counting)
    return values


@pytest.mark.parametrize("heads", [1, 2])
def test_the_bound_falls_until_it_is_a_proof_that_verify_accepts(heads, tmp_path) -> None:
    rec, user = world(3, heads=heads)
    slate = rec.recommend(user, k=3, budget_ms=SHORT)
    bounds, values = [slate.upper_bound], [slate.value]
    for step in range(400):
        if slate.proven:
            break
        slate = slate.improve(0.05 if step < 100 else 5.0)  # more on a busy machine
        bounds.append(slate.upper_bound)
        values.append(slate.value)
    assert slate.proven
    assert slate.gap == 0.0
    assert (np.diff(bounds) <= 0).all()
    assert (np.diff(values) >= 0).all()
    assert slate.value == pytest.approx(sw.set_value(rec.index.catalog, user, slate.indices), rel=1e-12)
    slate.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", rec.index.catalog).ok


@examples(15)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.integers(1, 4))
def test_no_feasible_set_beats_a_longer_certificate(seed, heads, mixed, k) -> None:
    rewards = REWARDS if mixed else REWARDS[:1]
    catalog, user = random_catalog(seed, n=9, heads=heads, rewards=rewards, sharpness=2.0)
    rec = Recommender(sw.Index.build(catalog, cells=2), candidates=2)
    slate = rec.certify(rec.recommend(user, k=k, budget_ms=SHORT), seconds=SHORT)
    sets = (list(rows) for size in range(1, k + 1) for rows in itertools.combinations(range(9), size))
    best = max(sw.set_value(catalog, user, rows) for rows in sets)
    assert best <= slate.upper_bound + 1e-9 * (1 + abs(best))


def test_a_search_goes_on_and_a_complete_proof_is_not_repeated(monkeypatch) -> None:
    rec, user = world(3, heads=2)
    first = rec.recommend(user, k=3, budget_ms=SHORT)
    searches = started(monkeypatch)
    slate = rec.certify(rec.certify(first, SHORT), 60.0)
    assert slate.proven
    assert len(searches) == 1, "the second call continues the search of the first"
    again = rec.recommend(user, k=3, budget_ms=SHORT, ranker="greedy")
    searches.clear()
    certified = rec.certify(again, SHORT)
    assert certified.proven
    assert certified.value == slate.value
    assert not searches


def test_other_queries_and_a_changed_index_have_proofs_of_their_own(monkeypatch) -> None:
    rec, user = world(5)
    base = rec.recommend(user, k=3, budget_ms=SHORT, certify=False)
    others = [
        rec.recommend(user, k=4, budget_ms=SHORT, certify=False),
        rec.recommend(user, k=3, budget_ms=SHORT, certify=False, exclude=base.items[:1].tolist()),
        rec.recommend(user, k=3, budget_ms=SHORT, certify=False, at_most={"artist": 1}),
        rec.recommend(user.heads * 2, k=3, budget_ms=SHORT, certify=False),
    ]
    assert len({query_key(slate.query) for slate in [base, *others]}) == 5
    searches = started(monkeypatch)
    for slate in [base, *others]:
        rec.certify(slate, SHORT)
    assert len(searches) == 5
    rec.certify(base, SHORT)
    assert len(searches) == 6 or rec.certify(base, SHORT).proven, f"only {SEARCHES} searches are kept"
    rec.index.remove(base.items[:1].tolist())
    with pytest.raises(InvalidInput, match="unchanged"):
        rec.certify(base)


def test_a_certificate_respects_pins_and_limits() -> None:
    rec, user = world(7)
    slate = rec.recommend(user, k=4, include=[11], at_most={"artist": 1}, budget_ms=SHORT)
    certified = slate.improve(0.2)
    assert 11 in certified.indices
    artists = [int(row) % 40 for row in certified.indices]
    assert len(set(artists)) == len(artists)
    assert certified.upper_bound <= slate.upper_bound


@pytest.mark.parametrize("settled", [False, True])
def test_a_certified_slate_keeps_its_times_and_can_be_explained(settled) -> None:
    rec, user = world(7)
    slate = rec.recommend(user, k=4, budget_ms=SHORT)
    certified = rec.certify(slate, SHORT)
    if settled:  # nothing is left to search
        rec._proofs._proof(slate, rec._current(True)).settled = True
        certified = rec.certify(slate, SHORT)
    assert certified.timings == slate.timings | {"certify": certified.timings["certify"]}
    assert certified.timings["certify"] >= slate.timings["certify"]
    why = rec.explain(certified)
    assert next(one for one in why.rivals if one.ranker == "swap").value == pytest.approx(certified.value)


def test_few_eligible_items_are_searched_as_candidates() -> None:
    rec, user = world(9, heads=2)
    slate = rec.recommend(user, k=3, exclude=list(range(40, 300)), certify=False)
    certified = rec.certify(slate, 30.0)
    assert certified.proven
    assert certified.value >= slate.value


def test_a_catalogue_without_attention_is_proven_at_once() -> None:
    n = 50
    zeros = np.zeros((n, 1, 1))
    base = np.random.default_rng(0).normal(size=(n, 3))
    catalog = sw.Catalog(zeros, zeros, zeros, sw.Linear(), base=base)
    rec = Recommender(sw.Index.build(catalog, cells=4))
    slate = rec.recommend(sw.User(np.zeros((1, 1)), np.ones(3)), k=3, certify=False)
    assert not slate.proven
    assert slate.improve().proven


def test_what_cannot_be_certified_is_refused() -> None:
    rec, user = world(1)
    slate = rec.recommend(user, k=3)
    for wrong in (0, -1.0, float("nan"), "long"):
        with pytest.raises(InvalidInput, match="seconds"):
            rec.certify(slate, wrong)
    with pytest.raises(InvalidInput, match="slate"):
        rec.certify("a slate")
    with pytest.raises(InvalidInput, match="recommender"):
        pipeline.run(slate.query, rec._current(True)).improve()
