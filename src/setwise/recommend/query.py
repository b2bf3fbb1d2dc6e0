"""Query: one request, parsed and checked once, whether it comes from Python, the command line, HTTP or a slate file.

A query belongs to one catalogue. Ids have become rows, a history or vector has become a user, and the items that may be
shown are known: retrieval, ranking and bounds read that from the query and compute none of it again.

**JSON form.** ``to_json`` writes, and ``arguments_from_json`` reads, one object:

    user         {"heads": [[…]], "base": […] or null}, or in its place  history [ids],  vector […] (one head),
                 or  features {name: number}
    scores       [one number per item] or {id: number}, added to the items' arguments; without a user they count alone
    scores_floor the score of items that ``scores`` does not name; null: these are not eligible
    k            the most items of the slate
    exclude      ids not to show; left out: the items of the history
    include      ids that must be in the slate
    where        {attribute: condition}; a condition is a value, a list of values, or {"from": low, "to": high}
    at_most      {attribute: n}: at most n items with the same value of the attribute
    at_least     {attribute: {value: n}}: at least n items with this value; a number is written as a text
    exactly      {attribute: n}: n items of every value of the attribute that eligible items have
    budget_ms    milliseconds for the whole request, or null
    ranker       the name of a ranker; left out: the recommender's
    certify      whether to compute an upper bound; left out: as the recommender does
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Rows
from setwise._validation import milliseconds, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.ids import IdChoice
from setwise.model.users import User
from setwise.ranking import DEFAULT, Ranker, ranker_named
from setwise.recommend.caller_scores import Given, caller_scores, scores_to_json
from setwise.recommend.lower_limits import Required, parsed_at_least, parsed_exactly, requirements
from setwise.retrieval import Index

NO_ROWS: Rows = np.zeros(0, np.intp)
USER_KEYS = ("history", "user", "vector", "features")
SCORE_KEYS = ("scores", "scores_floor")
LIMIT_KEYS = ("at_most", "at_least", "exactly")
JSON_KEYS = (
    *USER_KEYS, *SCORE_KEYS, "k", "exclude", "include", "where", *LIMIT_KEYS, "budget_ms", "ranker", "certify"
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of a catalogue for one user.

    user      with the added scores of the request (``user.scores``), the caller's and the user's own in one
    exclude   rows that must not be shown, those of removed items among them; ascending
    include   rows that must be in the slate; ascending
    eligible  the items that may be shown: neither removed, nor excluded, nor filtered out by ``where``, nor without
              a score where ``only_scored``
    required  the groups of eligible rows that the lower limits require
    """

    catalog: Catalog = field(repr=False)
    user: User = field(repr=False)
    k: int
    exclude: Rows
    include: Rows
    where: Mapping[str, Any] | None
    at_most: Mapping[str, int]
    at_least: Mapping[str, Mapping[Any, int]]
    exactly: Mapping[str, int]
    budget_ms: float | None
    ranker: Ranker
    certify: bool
    eligible: Eligibility = field(repr=False)
    required: tuple[Required, ...] = field(default=(), repr=False)
    only_scored: bool = False  # whether an item without an added score is not eligible

    @classmethod
    def parse(
        cls,
        index: Index,
        user: ArrayLike | User,
        seen: Rows = NO_ROWS,
        *,
        k: int = 10,
        scores: Given | None = None,
        scores_floor: float | None = None,
        exclude: IdChoice | None = None,
        include: IdChoice = (),
        where: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
        at_least: Mapping[str, Mapping[Any, int]] | None = None,
        exactly: Mapping[str, int] | None = None,
        budget_ms: float | None = None,
        ranker: str = DEFAULT.name,
        certify: bool = True,
        filtered: Eligibility | None = None,
    ) -> Query:
        """Check everything that can be checked before retrieval; ``seen`` are the rows of the user's history.

        Seen items are excluded unless ``exclude`` names others or ``include`` pins them. ``filtered`` is
        ``index.eligible(where=where)`` if it is known already: queries that share it share their passes.
        """
        catalog = index.catalog
        pinned = np.unique(catalog.rows_of(include)).astype(np.intp)
        unwanted = np.setdiff1d(seen, pinned) if exclude is None else catalog.rows_of(exclude)
        excluded = np.union1d(unwanted, index.removed).astype(np.intp)
        for name, given in (("where", where), ("at_most", at_most), ("at_least", at_least), ("exactly", exactly)):
            if given is not None and not isinstance(given, Mapping):
                must = "a mapping of attributes, or left out"
                raise InvalidInput(name, must, repr(given), f"write {name}={{'artist': …}}")
        fitting, own = catalog.user(user), caller_scores(catalog, scores, scores_floor)
        shared = index.eligible(where=where) if filtered is None else filtered
        if own is not None:
            fitting = fitting.with_scores(own.combined(fitting.scores))
            shared = shared if own.named is None else shared.within(own.named)
        size, eligible = whole_number("k", k), _eligible(catalog, shared, unwanted, pinned)
        lower = parsed_at_least(catalog, at_least), parsed_exactly(catalog, exactly)
        return cls(
            catalog=catalog,
            user=fitting,
            k=size,
            exclude=excluded,
            include=pinned,
            where=where,
            at_most=dict(at_most or {}),
            at_least=lower[0],
            exactly=lower[1],
            budget_ms=milliseconds(budget_ms),
            ranker=ranker_named(ranker),
            certify=bool(certify),
            eligible=eligible,
            required=requirements(catalog, eligible, size, *lower),
            only_scored=own is not None and own.named is not None,
        )

    @property
    def constraints(self) -> dict[str, Any]:
        """Whatever limits a set beside its size and its items, as keyword arguments of ``rank``."""
        return {"at_most": self.at_most, "at_least": self.at_least, "exactly": self.exactly}

    @property
    def upper_limits(self) -> dict[str, int]:
        """The limits of ``at_most`` and of ``exactly`` from above: they hold for every feasible set."""
        both = self.at_most.keys() & self.exactly.keys()
        return {**self.at_most, **self.exactly} | {name: min(self.at_most[name], self.exactly[name]) for name in both}

    @property
    def is_limited(self) -> bool:
        """Whether some sets of at most k eligible items are not feasible."""
        return bool(len(self.include) or self.at_most or self.at_least or self.exactly)

    def keeps_lower_limits(self, rows: Rows) -> bool:
        """Whether a set has as many items of every required group as it needs."""
        return all(np.isin(one.rows, rows).sum() >= one.least for one in self.required)

    def to_json(self) -> dict[str, Any]:
        """The query as plain data, ids instead of rows; ``arguments_from_json`` reads it back."""
        ids, user = self.catalog.ids, self.user
        return {
            "user": {"heads": user.heads.tolist(), "base": None if user.base is None else user.base.tolist()},
            **scores_to_json(self.catalog, user.scores, not self.only_scored),
            "k": self.k,
            "exclude": ids[self.exclude].tolist(),
            "include": ids[self.include].tolist(),
            "where": {name: condition_to_json(condition) for name, condition in (self.where or {}).items()},
            "at_most": {name: int(limit) for name, limit in self.at_most.items()},
            "at_least": {name: {str(value): n for value, n in least.items()} for name, least in self.at_least.items()},
            "exactly": dict(self.exactly),
            "budget_ms": self.budget_ms,
            "ranker": self.ranker.name,
            "certify": self.certify,
        }


def _eligible(catalog: Catalog, filtered: Eligibility, exclude: Rows, include: Rows) -> Eligibility:
    """The filtered items without ``exclude``; refuse a query that pins others or leaves none."""
    eligible = filtered.without(exclude)
    admitted = eligible.admits(include)
    if not admitted.all():
        first = repr(catalog.ids[include[~admitted]].tolist()[0])
        todo = "drop it from include, or loosen exclude and where"
        raise Infeasible("include", "items that may be shown", f"{first}, excluded or filtered out", todo)
    return eligible


# --- JSON ---


def arguments_from_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of ``Recommender.recommend`` from the JSON form; a value of null counts as left out."""
    unknown = [key for key in content if key not in JSON_KEYS]
    if unknown:
        raise InvalidInput("the query", f"an object with keys among {', '.join(JSON_KEYS)}", unknown[0], "drop it")
    given = {key: part for key, part in content.items() if part is not None}
    stated = [key for key in USER_KEYS if key in given]
    if len(stated) > 1 or not (stated or "scores" in given):
        got = " and ".join(stated) or "none of them"
        must = "an object with exactly one of history, user, vector and features, or with scores alone"
        raise InvalidInput("the query", must, got, "send one")
    if "vector" in given:
        given["user"] = User(given.pop("vector"))
    elif "user" in given:
        given["user"] = _user_from_json(given["user"])
    if "where" in given:
        given["where"] = {name: condition_from_json(one) for name, one in given["where"].items()}
    return given


def _user_from_json(content: Any) -> User:
    if not isinstance(content, Mapping) or "heads" not in content or not content.keys() <= {"heads", "base"}:
        must, got = 'an object {"heads": [[…]], "base": […]}', type(content).__name__
        raise InvalidInput("user", must, got, "leave base out where the catalogue has none")
    return User(content["heads"], content.get("base"))


def condition_from_json(condition: Any) -> Any:
    """A condition of ``where`` as ``Attributes.matching`` takes it: a range becomes a pair."""
    if not isinstance(condition, Mapping):
        return condition
    if not condition.keys() <= {"from", "to"}:
        raise InvalidInput(
            "a range in where", 'an object {"from": low, "to": high}', sorted(condition), "use those keys"
        )
    return condition.get("from"), condition.get("to")


def condition_to_json(condition: Any) -> Any:
    """The inverse of ``condition_from_json``."""
    if isinstance(condition, (set, frozenset)):
        condition = sorted(condition, key=repr)
    if isinstance(condition, (np.ndarray, np.generic)):
        return condition.tolist()
    if isinstance(condition, list):
        return [condition_to_json(one) for one in condition]
    if not isinstance(condition, tuple):
        return condition
    ends = [None if end is None or math.isinf(end) else condition_to_json(end) for end in condition]
    return dict(zip(("from", "to"), ends, strict=True))
