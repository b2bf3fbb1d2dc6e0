"""Every door takes the arguments of recommend/arguments.py, with the same defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import typer.main

import setwise as sw
from setwise import cli
from setwise.model.limits import LIMITS
from setwise.recommend.arguments import ARGUMENTS, DESCRIPTIONS, OPTIONS, Options
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.query import Query
from setwise.service.field_notes import NOTES
from setwise.service.schemas import RecommendRequest

DEFAULTS = {name: argument.default for name, argument in ARGUMENTS.items()}
NOT_IN_TABLES = {"include", "scores", "scores_floor"}  # of setwise batch
OTHER_NAMES = {"recommend": {"user": "user_json"}, "batch": {"user": "vector"}}
OTHER_DEFAULTS = {"batch": {"certify": False}}  # bounds take longer than slates


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    stated = inspect.signature(function).parameters.items()
    return {name: parameter.default for name, parameter in stated if name != "self"}


@pytest.mark.parametrize("door", [sw.Recommender.recommend, ClusterRecommender.recommend])
def test_in_python(door: Callable[..., Any]) -> None:
    assert parameters(door) == DEFAULTS


@pytest.mark.parametrize("door", [sw.Recommender.recommend_many, ClusterRecommender.recommend_many])
def test_for_many_users(door: Callable[..., Any]) -> None:
    """``scores`` and what describes a user are lists there."""
    shared = {name: default for name, default in DEFAULTS.items() if name in Options.__annotations__ or name == "k"}
    assert parameters(door).items() >= shared.items()
    assert parameters(door).keys() - shared.keys() == {"users", "histories", "features", "scores", "threads"}


def test_in_a_query() -> None:
    """Limits are checked by their registry."""
    stated = parameters(Query.parse)
    assert stated.keys() >= set(OPTIONS) - LIMITS.keys()
    assert all(stated[name] == DEFAULTS[name] for name in ("k", "unknown", "filter_seen", "exclude", "include"))


def test_over_http() -> None:
    fields = RecommendRequest(history=[])
    assert set(RecommendRequest.__struct_fields__) == ARGUMENTS.keys() | {"vector", "key", "log"}
    for name in set(OPTIONS) - {"unknown"}:
        assert (getattr(fields, name) or None) == (DEFAULTS[name] or None), name
    assert fields.arguments() == {"history": []}, "what is left out has the defaults of recommend"
    assert all(NOTES["RecommendRequest"][name] == argument.meaning for name, argument in ARGUMENTS.items())


@pytest.mark.parametrize("door", ["recommend", "batch"])
def test_on_the_command_line(door: str) -> None:
    options = {option.name: option.default for option in typer.main.get_command(cli.app).commands[door].params}
    for name in ARGUMENTS.keys() - (NOT_IN_TABLES if door == "batch" else set()):
        default = options[OTHER_NAMES[door].get(name, name)]
        if name in OPTIONS and name != "unknown":
            usual = OTHER_DEFAULTS.get(door, {}).get(name, DEFAULTS[name])
            assert (default or None) == (usual or None), name


def test_every_argument_says_what_it_means() -> None:
    assert ARGUMENTS.keys() == {*DESCRIPTIONS, *OPTIONS}
    assert all(argument.meaning.endswith(".") for argument in ARGUMENTS.values())
