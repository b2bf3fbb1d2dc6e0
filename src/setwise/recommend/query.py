"""Query: one request, parsed and checked once, whether it comes from Python, the command line, HTTP or a slate file.

A query belongs to one catalogue. Ids have become rows, a history or vector has become a user, and the items that may be
shown are known: retrieval, ranking and bounds read that from the query and compute none of it again.

**JSON form.** ``to_json`` writes, and ``arguments_from_json`` reads, one object:

    user         {"heads": [[…]], "base": […] or null}, or in its place  history [ids],  vector […] (one head),
                 or  features {name: number}
    scores       [one number per item] or {id: number}, added to the items' arguments; without a user they count alone
    weights      null, an attribute's name, [one number per item] or {id: number}: what a unit of reward is worth
    value_unit   the unit of the value, or null
    sum_at_most, sum_at_least  {name: limit} or {name: {"limit": limit, "of": numbers}}, the numbers as those of weights
    scores_floor the score of items that ``scores`` does not name; null: these are not eligible
    k            the most items of the slate
    unknown      "ignore" (left out) or "error": what happens to ids of history, exclude and scores that the catalogue
                 does not have
    filter_seen  whether items of the history are not shown again, unless ``include`` names them; left out: true
    after        ids that were shown before, and after_counts, whether limits count them; left out: none
    exclude      further ids not to show
    include      ids that must be in the slate
    where        {attribute: condition}; a condition is a value, a list of values, or {"from": low, "to": high}
    at_most …    every limit of ``setwise.model.limits``; a value that is a number is written as a text
    budget_ms    milliseconds for the whole request, or null
    ranker       the name of a ranker; left out: the recommender's
    certify      whether to compute an upper bound; left out: as the recommender does
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import frozen, milliseconds, text
from setwise.errors import Infeasible, InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.ids import IdChoice
from setwise.model.limits import LIMITS, Limit, Limits, catalog_limits, limits_to_json
from setwise.model.sums import SumLimit, Sums
from setwise.model.users import User
from setwise.ranking import DEFAULT, Ranker, ranker_named
from setwise.recommend.arguments import DESCRIPTIONS, IGNORE, OPTIONS, SLATE_SIZE, Given, description
from setwise.recommend.caller_scores import caller_scores, scores_to_json
from setwise.recommend.histories import known_items, refuses_unknown, rows_named
from setwise.recommend.item_numbers import item_numbers, numbers_to_json
from setwise.recommend.lower_limits import Required, requirements
from setwise.recommend.request_sums import before, request_sums, size_within, sums_to_json
from setwise.retrieval import Index

NO_ROWS: Rows = np.zeros(0, np.intp)
USER_KEYS = (*DESCRIPTIONS, "vector")


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of a catalogue for one user.

    user      with the added scores of the request (``user.scores``), the caller's and the user's own in one
    exclude   rows that must not be shown, those of removed items among them; ascending
    include   rows that must be in the set: those that the slate must contain, and ``after``; ascending
    after     rows that were shown before: members of the set whose rewards do not count; ascending
    k         the most items of the set, those of ``after`` included
    eligible  the items that may be shown: neither removed, nor excluded, nor filtered out by ``where``, nor without
              a score where ``only_scored``
    limits    by name and attribute, as arguments of ``rank``; those not stated are left out
    required  the groups of eligible rows of which the lower limits require some
    """

    catalog: Catalog = field(repr=False)
    user: User = field(repr=False)
    k: int
    exclude: Rows
    include: Rows
    where: Mapping[str, Any] | None
    limits: Limits
    budget_ms: float | None
    ranker: Ranker
    certify: bool
    eligible: Eligibility = field(repr=False)
    required: tuple[Required, ...] = field(default=(), repr=False)
    only_scored: bool = False  # whether an item without an added score is not eligible
    ignored: tuple[Any, ...] = ()  # ids of history, exclude and scores that the catalogue does not have
    weights: Any = None  # as the request states them, in JSON's form; ``user.weights`` has the numbers
    value_unit: str | None = None
    sums: tuple[SumLimit, ...] = field(default=(), repr=False)
    stated_sums: Mapping[str, Any] = field(default_factory=dict)  # in JSON's form, by argument
    after: Rows = field(default_factory=lambda: NO_ROWS, repr=False)
    after_counts: bool = False

    @classmethod
    def parse(
        cls,
        index: Index,
        user: ArrayLike | User,
        seen: Rows = NO_ROWS,
        *,
        k: int | None = SLATE_SIZE,
        scores: Given | None = None,
        scores_floor: float | None = None,
        unknown: str = IGNORE,
        filter_seen: bool = True,
        exclude: IdChoice = (),
        include: IdChoice = (),
        after: IdChoice = (),
        after_counts: bool = False,
        where: Mapping[str, Any] | None = None,
        sum_at_most: Mapping[str, Any] | None = None,
        sum_at_least: Mapping[str, Any] | None = None,
        weights: Any = None,
        value_unit: str | None = None,
        budget_ms: float | None = None,
        ranker: str = DEFAULT.name,
        certify: bool = True,
        filtered: Eligibility | None = None,
        ignored: tuple[Any, ...] = (),
        **stated: Any,
    ) -> Query:
        """Check everything that can be checked before retrieval; ``seen`` are the rows of the user's history.

        Seen items are excluded with ``filter_seen`` unless ``include`` pins them; ``ignored`` are their unknown ids.
        ``filtered`` is ``index.eligible(where=where)`` if it is known already: queries that share it share their
        passes. ``stated`` are the limits.
        """
        refuses_unknown(unknown)  # where no list of ids is named, too
        catalog = index.catalog
        pinned = np.unique(rows_named(catalog, "include", include)).astype(np.intp) if _any_named(include) else NO_ROWS
        shown, strange = _shown_before(index, after, unknown, pinned)
        unwanted = np.setdiff1d(seen, pinned) if filter_seen and len(seen) else NO_ROWS
        if _any_named(exclude):
            named, unknown_ids = known_items(catalog, "exclude", exclude, unknown)
            unwanted, strange = np.union1d(unwanted, named), (*strange, *unknown_ids)
        excluded = np.union1d(unwanted, index.removed).astype(np.intp) if len(unwanted) else index.removed
        require_conditions(where)
        checked_user, added = catalog.user(user), caller_scores(catalog, scores, scores_floor, unknown)
        shared = index.eligible(where=where) if filtered is None else filtered
        if added is not None:
            checked_user = checked_user.with_scores(added.combined(checked_user.scores))
            shared = shared if added.named is None else shared.within(added.named)
            strange = (*strange, *added.ignored)
        if weights is not None:
            numbers, unknown_ids = item_numbers(catalog, "weights", weights, unknown)
            shared, strange = _with_numbers(shared, "weights", numbers), (*strange, *unknown_ids)
            checked_user = checked_user.with_weights(frozen(np.nan_to_num(numbers)))
        stated_sums = {"sum_at_most": sum_at_most, "sum_at_least": sum_at_least}
        sums, unknown_ids = request_sums(catalog, stated_sums, unknown)
        for limit in sums:
            shared = _with_numbers(shared, limit.name, limit.cost)
        size = size_within(k, sums)
        limited = catalog_limits(stated, catalog.attributes)
        if len(shown):
            checked_user, sums = before(checked_user, sums, shown, len(catalog), bool(after_counts))
            shared, excluded = shared.joined(shown), np.setdiff1d(excluded, shown)
            unwanted = np.setdiff1d(unwanted, shown)
            size, pinned = size + len(shown), np.union1d(pinned, shown).astype(np.intp)
        eligible = _eligible(catalog, shared, unwanted, pinned)
        counted = eligible.rows if not len(shown) or after_counts else np.setdiff1d(eligible.rows, shown)
        return cls(
            catalog=catalog,
            user=checked_user,
            k=size,
            exclude=excluded,
            include=pinned,
            where=where,
            limits=limited,
            budget_ms=milliseconds(budget_ms),
            ranker=ranker_named(ranker),
            certify=bool(certify),
            eligible=eligible,
            required=requirements(catalog, counted, size if after_counts else size - len(shown), limited),
            only_scored=added is not None and added.named is not None,
            ignored=(*ignored, *strange, *unknown_ids),
            weights=numbers_to_json(weights),
            after=shown,
            after_counts=bool(after_counts),
            sums=sums,
            stated_sums=sums_to_json(stated_sums),
            value_unit=None if value_unit is None else text("value_unit", value_unit),
        )

    @property
    def upper_limits(self) -> dict[str, int]:
        """The smallest upper limit on every value of an attribute: it holds for every feasible set."""
        result: dict[str, int] = {}
        for name, stated in self.limits.items():
            if LIMITS[name].upper and not LIMITS[name].by_value:
                result |= {attribute: min(n, result.get(attribute, n)) for attribute, n in stated.items()}
        return result

    def sums_of(self, rows: Rows) -> list[SumLimit]:
        """The limits on sums, over these rows only."""
        return [limit.taken(rows) for limit in self.sums]

    @cached_property
    def eligible_sums(self) -> Sums:
        """The limits on sums over the eligible rows."""
        return Sums.of(self.sums_of(self.eligible.rows), self.eligible.count)

    @property
    def is_limited(self) -> bool:
        """Whether some sets of at most k eligible items are not feasible."""
        return bool(len(self.include) or self.limits or self.sums)

    def admits(self, rows: Rows) -> bool:
        """Whether a set of at most k eligible items is feasible: it has the pinned items and keeps every limit."""
        return not self.is_limited or (bool(np.isin(self.include, rows).all()) and self.keeps_limits(rows))

    @property
    def uncounted(self) -> Rows:
        """The rows that limits do not count."""
        return NO_ROWS if self.after_counts else self.after

    def keeps_limits(self, rows: Rows) -> bool:
        """Whether a set of eligible items keeps every limit."""
        rows = np.setdiff1d(rows, self.uncounted) if len(self.uncounted) else rows
        if self.sums and not self._keeps_sums(rows):
            return False
        if not all(np.isin(group.rows, rows).sum() >= group.least for group in self.required):
            return False
        return all(
            self._keeps_upper(LIMITS[name], attribute, numbers, rows)
            for name, stated in self.limits.items()
            for attribute, numbers in stated.items()
            if LIMITS[name].upper
        )

    def _keeps_sums(self, rows: Rows) -> bool:
        sums, members = Sums.of(self.sums_of(rows), len(rows)), np.arange(len(rows))
        return sums.within(members) and sums.reached(members)

    def _keeps_upper(self, limit: Limit, attribute: str, numbers: Any, rows: Rows) -> bool:
        attributes = self.catalog.attributes
        if limit.by_value:
            return all(attributes.matching({attribute: value})[rows].sum() <= n for value, n in numbers.items())
        labels = attributes.labels(attribute, rows)
        return bool(np.bincount(labels[labels >= 0], minlength=1).max() <= numbers)

    def to_json(self) -> dict[str, Any]:
        """The query as plain data, ids instead of rows; ``arguments_from_json`` reads it back."""
        ids, user = self.catalog.ids, self.user
        return {
            "user": {"heads": user.heads.tolist(), "base": None if user.base is None else user.base.tolist()},
            **scores_to_json(self.catalog, user.scores, not self.only_scored),
            "k": self.k - len(self.after),
            "exclude": ids[self.exclude].tolist(),
            "include": ids[np.setdiff1d(self.include, self.after)].tolist(),
            "where": where_to_json(self.where),
            **limits_to_json(self.limits),
            "budget_ms": self.budget_ms,
            "ranker": self.ranker.name,
            "certify": self.certify,
            **({"after": ids[self.after].tolist(), "after_counts": self.after_counts} if len(self.after) else {}),
            **self.stated_sums,
            **({} if self.weights is None else {"weights": self.weights}),
            **({} if self.value_unit is None else {"value_unit": self.value_unit}),
        }


def require_conditions(where: object) -> None:
    """Refuse what is not conditions by attribute; the attributes themselves check each condition."""
    if where is not None and not isinstance(where, Mapping):
        raise InvalidInput("where", "a mapping of attributes, or left out", repr(where), "write where={'artist': …}")


def _any_named(ids: IdChoice | None) -> bool:
    """Whether ids are named: most requests name none, and looking up none takes as long as looking up some."""
    return not (ids is None or (isinstance(ids, (tuple, list)) and not ids))


def _shown_before(index: Index, after: IdChoice, unknown: str, pinned: Rows) -> tuple[Rows, tuple[Any, ...]]:
    """The rows that were shown before, none of which is pinned, and the ids that the catalogue does not have."""
    if not _any_named(after):
        return NO_ROWS, ()
    named, strange = known_items(index.catalog, "after", after, unknown, index.removed)
    shown = np.unique(named).astype(np.intp)
    if len(again := np.intersect1d(shown, pinned)):
        got = f"{index.catalog.ids[again].tolist()[0]!r} in both"
        raise Infeasible("include", "free of ids of after, which are not shown again", got, "drop it from one")
    return shown, strange


def _with_numbers(eligible: Eligibility, parameter: str, numbers: Floats) -> Eligibility:
    """The items that have a number; they are all of them where none is missing."""
    missing = np.isnan(numbers)
    return eligible.within(np.flatnonzero(~missing), parameter) if missing.any() else eligible


def _eligible(catalog: Catalog, filtered: Eligibility, exclude: Rows, include: Rows) -> Eligibility:
    """The filtered items without ``exclude``; refuse a query that pins others or leaves none."""
    eligible = filtered.without(exclude)
    if not len(include):
        return eligible
    admitted = eligible.admits(include)
    if not admitted.all():
        first = repr(catalog.ids[include[~admitted]].tolist()[0])
        todo = "drop it from include, or loosen exclude and where"
        raise Infeasible("include", "items that may be shown", f"{first}, excluded or filtered out", todo)
    return eligible


# --- JSON ---


def arguments_from_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of ``Recommender.recommend`` from the JSON form; a value of null counts as left out."""
    known = tuple(dict.fromkeys((*USER_KEYS, *OPTIONS, *LIMITS)))
    unknown = [key for key in content if key not in known]
    if unknown:
        raise InvalidInput("the query", f"an object with keys among {', '.join(known)}", unknown[0], "drop it")
    arguments = {key: part for key, part in content.items() if part is not None}
    if "vector" in arguments:  # a name of this form alone; ``recommend`` checks the others
        description({key: arguments.get(key) for key in USER_KEYS}, "scores" in arguments)
        arguments["user"] = User(arguments.pop("vector"))
    elif "user" in arguments:
        arguments["user"] = _user_from_json(arguments["user"])
    if "where" in arguments:
        where = arguments["where"].items()
        arguments["where"] = {name: condition_from_json(condition) for name, condition in where}
    return arguments


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


def where_to_json(where: Mapping[str, Any] | None) -> dict[str, Any]:
    """The conditions by attribute as plain JSON data, in which a range and a list of two numbers differ."""
    return {name: condition_to_json(condition) for name, condition in (where or {}).items()}


def condition_to_json(condition: Any) -> Any:
    """The inverse of ``condition_from_json``."""
    if isinstance(condition, (set, frozenset)):
        condition = sorted(condition, key=repr)
    if isinstance(condition, (np.ndarray, np.generic)):
        return condition.tolist()
    if isinstance(condition, list):
        return [condition_to_json(value) for value in condition]
    if not isinstance(condition, tuple):
        return condition
    ends = [None if end is None or math.isinf(end) else condition_to_json(end) for end in condition]
    return dict(zip(("from", "to"), ends, strict=True))
