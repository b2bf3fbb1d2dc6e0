"""Descriptions of users that recommenders of all kinds share: many of them at once, and users of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from setwise._validation import listed
from setwise.errors import InvalidInput
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.users import User
from setwise.recommend.arguments import description, slate_size


def descriptions(scores: Any, **many: Any) -> tuple[str | None, list[Any], list[Any]]:
    """Of ``recommend_many``: the name of what describes the users, that of each user, and the scores of each.

    ``many`` are users, histories and features; one of them is a list, or scores are alone.
    """
    name = description(many, scores is not None)
    of_user = None if scores is None else listed("scores", scores, "scores")
    if name is None:
        return None, [None] * len(of_user or ()), of_user or []
    people = listed(name, many[name], name)
    if of_user is not None and len(of_user) != len(people):
        must = f"one entry for each of the {len(people)} {name}"
        raise InvalidInput("scores", must, f"{len(of_user)}", "pass an array or a mapping for each")
    return name, people, of_user or [None] * len(people)


def featured(encoder: FeatureEncoder | None, features: Mapping[str, Any] | Sequence[Any], k: Any, n: int) -> User:
    """The user of these features, for sets of k of n items."""
    if encoder is None:
        todo = "train with user columns, or pass a user or a history"
        raise InvalidInput("features", "left out, as this recommender has no encoder for them", "some", todo)
    return encoder.user(features, min(slate_size(k), n))
