"""Errors cross processes as they are: those of workers, of hosts and of tasks."""

from __future__ import annotations

import pickle

import pytest

from setwise import errors

EVERY = [
    errors.SetwiseError("a sentence"),
    errors.InvalidInput("k", "a number", "a text", "pass a number"),
    errors.UnknownId("an id", "known", "'x'", "check it"),
    errors.Infeasible("where", "met", "nothing", "loosen it"),
    errors.TooLarge("a sentence"),
    errors.MalformedFile("users.csv", 3, "no cells"),
    errors.DamagedArtifact("shop", "it is empty", "save it again"),
    errors.SaveFailed("shop", "the disk is full"),
    errors.StartTimeout("shop", 300),
    errors.ShardUnavailable(2, "it ended"),
    errors.MissingDependency("pyarrow", "a table", "data"),
]


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_pickling(error: errors.SetwiseError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.args, vars(found)) == (type(error), str(error), error.args, vars(error))
