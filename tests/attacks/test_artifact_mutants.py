"""Digest-correct hostile mutants of every kind of artifact: refused as damaged, or opened and used without harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from attacks.artifact_mutants import outcomes
from saved_songs import model
from setwise.recommend.recommender import zero_user
from setwise.training import SimpleTransformer
from setwise.training.portfolio import KIND as PORTFOLIO
from setwise.training.portfolio import PortfolioModel
from storage.test_artifact import full_catalog
from training.test_portfolio import cases

pytestmark = pytest.mark.nightly


def use_catalog(catalog: sw.Catalog) -> None:
    rows = np.arange(len(catalog))
    list(catalog.ids[rows])
    catalog.ids.rows_of(catalog.ids[rows[:3]])
    for column in catalog.attributes.values():
        column[rows]
    instance = sw.Instance.from_catalog(catalog, zero_user(catalog), rows[: min(len(rows), 12)])
    sw.rank(instance, min(3, len(instance.candidates)), "swap")


def use_index(index: sw.Index) -> None:
    use_catalog(index.catalog)
    index.candidates(zero_user(index.catalog), per_cell=2)


def use_recommender(recommender: sw.Recommender) -> None:
    use_index(recommender.index)
    catalog = recommender.index.catalog
    recommender.recommend(zero_user(catalog), k=3, budget_ms=30)
    recommender.recommend(history=list(catalog.ids[np.arange(2)]), k=3, budget_ms=30)


def use_model(trained: SimpleTransformer) -> None:
    use_catalog(trained.catalog())
    trained.user(list(trained.catalog().ids[np.arange(2)]))


def saved_recommender(folder: Path) -> None:
    sw.Recommender.from_model(model(), cells=4).save(folder)


def saved_index(backend: str) -> Callable[[Path], None]:
    return lambda folder: sw.Index.build(model().catalog(), cells=4, backend=backend, progress=False).save(folder)


def saved_portfolio(folder: Path) -> None:
    outcomes, features = cases(60)
    PortfolioModel.fit(outcomes, 2, features, ("a", "b", "c"), trees=4).save(folder)


def use_portfolio(portfolio: PortfolioModel) -> None:
    use_catalog(portfolio.catalog)
    for features in ([0.5, None, 0.2], [1e9, -1e9, None]):
        portfolio.encoder.user(features)


KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any], Callable[[Any], None]]] = {
    "catalog": ("catalog", full_catalog().save, sw.Catalog.load, use_catalog),
    "scan": ("index", saved_index("scan"), sw.Index.load, use_index),
    "tree": ("index", saved_index("tree"), sw.Index.load, use_index),
    "recommender": ("recommender", saved_recommender, sw.Recommender.load, use_recommender),
    "portfolio": (PORTFOLIO, saved_portfolio, PortfolioModel.load, use_portfolio),
    "model": ("model", model().save, SimpleTransformer.load, use_model),
}


@pytest.mark.promise("mutants")
@pytest.mark.parametrize("name", KINDS)
def test_mutants_are_refused_or_harmless(name: str, tmp_path: Path, count, record_property) -> None:
    kind, save, opened, used = KINDS[name]
    source = tmp_path / "intact"
    save(source)
    used(opened(source))
    found = outcomes(range(count(1430, 14)), source, kind, tmp_path, opened, used)
    wrong = {seed: said for seed, said in found.items() if not said.startswith(("refused |", "accepted |"))}
    assert not wrong, f"{len(wrong)} of {len(found)}, such as {list(wrong.items())[:3]}"
    refused = sum(said.startswith("refused") for said in found.values())
    record_property("seen", f"{name}: {len(found)} mutants, {refused} refused")
    assert refused > len(found) // 4
