"""Results in a notebook: short texts, and tables in which every text is escaped."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from worlds import random_catalog

TITLE = "<b>Über & über</b>"


@pytest.fixture(scope="module")
def recommender() -> sw.Recommender:
    catalog, _ = random_catalog(1, n=30, ids=[f"<{row}>" for row in range(30)], attributes={"title": [TITLE] * 30})
    return sw.Recommender(sw.Index.build(catalog, cells=3), certify=False)


@pytest.fixture(scope="module")
def slate(recommender: sw.Recommender) -> sw.Slate:
    return recommender.recommend(np.ones(3), k=4)


def test_a_slate_is_a_sequence_of_ids(slate: sw.Slate) -> None:
    assert [slate[0], slate[-1]] == [slate.items[0], slate.items[3]]
    assert isinstance(slate[0], str)
    with pytest.raises(IndexError):
        slate[4]


def test_a_slate_as_a_table(slate: sw.Slate) -> None:
    table = slate._repr_html_()
    assert table.count("<tr>") == 5
    assert f"value={slate.value:.6g}" in table
    assert f"&lt;{slate[0][1:-1]}&gt;" in table
    assert "<b>" not in table
    assert "&lt;b&gt;Über &amp; über" in table
    assert f"<td>{slate.rewards[0]:.4g}</td>" in table


def test_an_explanation_as_two_tables(recommender: sw.Recommender, slate: sw.Slate) -> None:
    explanation = recommender.explain(slate)
    tables = explanation._repr_html_()
    assert tables.count("<table>") == 2
    assert all(f"<td>{rival.ranker}</td>" in tables for rival in explanation.rivals)
    received = explanation.lent.sum(axis=1)[0] - explanation.lent[0, 0]
    assert f"<td>{received:.4g}</td>" in tables
    assert len(repr(explanation)) < 400


def test_a_ranking_as_a_table(recommender: sw.Recommender) -> None:
    instance = sw.Instance.from_catalog(recommender.index.catalog, np.ones(3), np.arange(30))
    ranking = sw.rank(instance, 3)
    assert repr(ranking) == f"Ranking(indices={ranking.indices.tolist()}, value={ranking.value:.6g})"
    assert ranking._repr_html_().count("<tr>") == 4
    exact = sw.rank(instance, 3, ranker="exact")
    assert "proven optimal" in repr(exact)
