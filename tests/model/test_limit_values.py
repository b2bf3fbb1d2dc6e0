"""Values of every type in limits and filters: truth values, and whole numbers that no float can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import setwise as sw
from setwise.errors import SetwiseError
from setwise.recommend.query import arguments_from_json
from setwise.service.schemas import RecommendRequest
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import verify
from worlds import random_catalog

LARGE = 2**53  # LARGE + 1 is rounded to it by a float
N = 9


def world() -> tuple[sw.Recommender, sw.User]:
    attributes = {
        "vegan": np.arange(N) % 2 == 0,
        "number": np.arange(N) + LARGE,
        "weight": np.float32(0.1) * np.arange(N),
    }
    catalog, user = random_catalog(3, n=N, heads=2, d=2, attributes=attributes, dtype=np.float64)
    return sw.Recommender(sw.Index.build(catalog, cells=2)), user


@pytest.mark.parametrize(
    "limit",
    [
        {"vegan": {True: 2}},
        {"vegan": {np.False_: 3}},
        {"number": {LARGE + 1: 1}},
        {"number": {LARGE + 3: 1}},
        {"number": {np.int64(LARGE + 5): 1}},
        {"weight": {np.float32(0.1): 1}},
    ],
)
def test_the_json_form_states_the_same_limit(tmp_path: Path, limit: dict[str, Any]) -> None:
    recommender, user = world()
    slate = recommender.recommend(user, k=3, at_least=limit)
    for name, stated in limit.items():
        column = recommender.index.catalog.attributes[name]
        assert all((column[slate.indices] == value).sum() >= n for value, n in stated.items())
    slate.save(tmp_path / "slate.json")
    again = recommender.recommend(**arguments_from_json(read_slate(tmp_path / "slate.json")["query"]))
    assert again.items.tolist() == slate.items.tolist()
    failed = [
        check.sentence for check in verify(tmp_path / "slate.json", recommender.index.catalog).checks if not check.ok
    ]
    assert all("could not be proven" in sentence for sentence in failed)


@pytest.mark.parametrize("value", ["true", "True", "1"])
def test_truth_values_over_http(value: str) -> None:
    recommender, user = world()
    body = {"user": {"heads": user.heads.tolist()}, "k": 3, "at_least": {"vegan": {value: 3}}}
    request = msgspec.json.decode(msgspec.json.encode(body), type=RecommendRequest)
    assert set(recommender.recommend(**request.arguments()).indices.tolist()) <= set(range(0, N, 2))


@pytest.mark.parametrize("value", ["1_0", " 10", "10 ", "\u0661", "ten", "", "1__0"])
def test_texts_that_json_would_not_write_as_numbers_are_refused(value: str) -> None:
    recommender, user = world()
    with pytest.raises(SetwiseError, match="about numbers, which the attribute holds"):
        recommender.recommend(user, k=3, at_least={"number": {value: 1}})


@pytest.mark.promise("certificates")
def test_a_lie_about_a_large_number_is_refused(tmp_path: Path) -> None:
    """A slate without the item of this number: as floats both numbers are equal."""
    recommender, user = world()
    catalog = recommender.index.catalog
    recommender.recommend(user, k=1, include=[0], at_least={"number": {LARGE: 1}}).save(tmp_path / "slate.json")
    content = read_slate(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", catalog).checks[4].ok
    content.pop("digest")
    content["query"]["at_least"] = {"number": {str(LARGE + 1): 1}}
    write_slate(tmp_path / "slate.json", content)
    check = verify(tmp_path / "slate.json", catalog).checks[4]
    assert (check.name, check.ok) == ("feasible", False)


@pytest.mark.parametrize(
    ("key", "value"),
    [("k", 10**320), ("where", {"weight": {"from": None, "to": 10**320}}), ("where", {"weight": 10**320})],
    ids=["k", "range", "value"],
)
@pytest.mark.promise("certificates")
def test_numbers_that_no_float_can_hold_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    recommender, user = world()
    recommender.recommend(user, k=2).save(tmp_path / "slate.json")
    content = read_slate(tmp_path / "slate.json")
    content.pop("digest")
    content["query"][key] = value
    write_slate(tmp_path / "slate.json", content)
    failed = [
        check.sentence for check in verify(tmp_path / "slate.json", recommender.index.catalog).checks if not check.ok
    ]
    assert "a whole number of the slate is too large to compute with" in failed


@pytest.mark.parametrize("other", [0.5, 2**63, 10**400, -np.inf, True, np.float32(2.5)])
def test_a_filter_does_not_round_whole_numbers(other: Any) -> None:
    recommender, user = world()
    assert recommender.recommend(user, where={"number": [LARGE + 1, other]}).items.tolist() == [1]
    with pytest.raises(SetwiseError, match="met by an item"):
        recommender.recommend(user, where={"number": [LARGE + N, other]})


def test_a_range_over_http_does_not_round_whole_numbers() -> None:
    recommender, user = world()
    where = {"number": {"from": LARGE + 1, "to": LARGE + 1}}
    body = {"user": {"heads": user.heads.tolist()}, "where": where}
    request = msgspec.json.decode(msgspec.json.encode(body), type=RecommendRequest)
    assert recommender.recommend(**request.arguments()).items.tolist() == [1]
