"""What a request gives: a user, a history or features, and scores; checks that recommenders of all kinds share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from setwise._validation import listed, whole_number
from setwise.errors import InvalidInput
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.users import User

_COUNTS = {2: "two", 3: "three"}


def one_of(unless: Any = None, **either: Any) -> Any:
    """The one of the two arguments that was given; None is fine where ``unless`` was."""
    given = [one for one in either.values() if one is not None]
    if len(given) > 1 or (not given and unless is None):
        got = "both" if given else "neither"
        raise InvalidInput(" or ".join(either), "given, and not both", got, f"pass one of the {_COUNTS[len(either)]}")
    return given[0] if given else None


def requests_of(users: Any, histories: Any, scores: Any) -> tuple[list[Any], list[Any]]:
    """The users or histories of ``recommend_many``, and the scores of each: two lists of one length."""
    given = one_of(users=users, histories=histories, unless=scores)
    name = "users" if histories is None else "histories"
    added = None if scores is None else listed("scores", scores, "scores")
    every = [None] * len(added or ()) if given is None else listed(name, given, name)
    if added is not None and len(added) != len(every):
        must = f"one entry for each of the {len(every)} {name}"
        raise InvalidInput("scores", must, f"{len(added)}", "pass an array or a mapping for each")
    return every, added or [None] * len(every)


def featured(encoder: FeatureEncoder | None, features: Mapping[str, Any] | Sequence[Any], k: Any, n: int) -> User:
    """The user of these features, for sets of k of n items."""
    if encoder is None:
        todo = "train with user columns, or pass a user or a history"
        raise InvalidInput("features", "left out, as this recommender has no encoder for them", "some", todo)
    return encoder.user(features, min(whole_number("k", k), n))
