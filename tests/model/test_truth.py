"""Conditions on truth values, on texts of yes and no, and the message that lists the texts of an attribute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.model.attributes import Attributes
from setwise.recommend.query_texts import condition
from setwise.verification.conditions import eligible_items
from setwise.verification.verify import verify
from worlds import random_catalog

TABLE = {
    "sold": [True, False, True, False],
    "new": ["yes", "No", None, "YES"],
    "kind": ["jazz", "rock", "jazz", "folk"],
    "flag": ["0", "1", "0", "0"],
}


@pytest.mark.parametrize(
    ("where", "met"),
    [
        ({"sold": True}, [0, 2]),
        ({"sold": "yes"}, [0, 2]),
        ({"sold": "False"}, [1, 3]),
        ({"sold": ["yes", "no"]}, [0, 1, 2, 3]),
        ({"sold": 1}, [0, 2]),
        ({"new": True}, [0, 3]),
        ({"new": False}, [1]),
        ({"new": "yes"}, [0]),
        ({"flag": True}, [1]),
        ({"flag": [False, True]}, [0, 1, 2, 3]),
    ],
)
def test_truth_values_and_the_words_for_them_are_met(where, met) -> None:
    table = Attributes.of(TABLE, 4)
    assert np.flatnonzero(table.matching(where)).tolist() == met
    catalog, _ = random_catalog(0, n=4, attributes=TABLE)
    assert np.flatnonzero(eligible_items(catalog, [], where)).tolist() == met


def test_a_slate_of_such_conditions_is_verified(tmp_path: Path) -> None:
    catalog, user = random_catalog(0, n=4, attributes=TABLE)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2)).prepare()
    for where in ({"sold": "yes"}, {"new": True}):
        recommender.recommend(user, 2, where=where).save(tmp_path / "slate.json")
        assert verify(tmp_path / "slate.json", catalog).ok


def test_other_values_are_refused_with_the_texts_of_the_attribute() -> None:
    table = Attributes.of(TABLE, 4)
    with pytest.raises(InvalidInput, match="'jazz', 'rock', 'folk'"):
        table.matching({"kind": True})
    with pytest.raises(InvalidInput, match="where"):
        table.matching({"sold": "perhaps"})
    catalog, user = random_catalog(0, n=4, attributes=TABLE)
    with pytest.raises(Infeasible, match="name one of its texts: 'jazz', 'rock', 'folk'"):
        sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, 2, where={"kind": "zydeco"})


def test_words_as_typed() -> None:
    catalog, _ = random_catalog(0, n=4, attributes=TABLE)
    assert condition(catalog, "sold", ["yes"], "--where") == [True]
    with pytest.raises(InvalidInput, match="yes or no"):
        condition(catalog, "sold", ["maybe"], "--where")
