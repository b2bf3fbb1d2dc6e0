"""Is a saved slate what it claims to be? Checked by code that shares nothing with what made it.

Feasibility is read off the catalogue, value and rewards are the judge's (objective.py), and that no feasible set of the
whole catalogue is worth more than ``upper_bound`` is proven once more, slowly and item by item (item_proof.py).

Numbers may differ from the judge's by 1e-9 of Σ |f_i|, the sum of the slate's rewards in size; a slate that is called
optimal may be 1e-8 of it below its bound. The bound that is proven is the one claimed plus 1e-9 of its own size or of
Σ |f_i|, whichever is larger.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.verification.reference_proof import Proof
from setwise.verification.slate_file import read_slate

Verdict = tuple[bool, str]

WITHIN = 1e-9  # relative to Σ |f_i|: how far numbers may be from the judge's
OPTIMAL_WITHIN = 1e-8  # likewise: how far above a slate that is called optimal its bound may be
NODES = 20_000  # families looked at before the proof is given up


@dataclass(frozen=True)
class Check:
    """One question about the slate, and the answer in a sentence."""

    name: str
    ok: bool
    sentence: str


@dataclass(frozen=True)
class Verification:
    """All checks; ``value`` is the judge's (NaN where it could not be computed), ``upper_bound`` the one claimed."""

    checks: tuple[Check, ...]
    value: float
    upper_bound: float

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def verify(
    path: str | os.PathLike[str], catalog: Catalog, user: ArrayLike | User | None = None, nodes: int = NODES
) -> Verification:
    """Check the slate saved in ``path`` against the catalogue and, when one is given, the user it is meant for.

    A file that is damaged or no slate is refused by an error. ``nodes`` limits the proof of the bound; each costs a
    pass over the items.
    """
    claim = _Claim(read_slate(path), catalog, user, whole_number("nodes", nodes))
    with np.errstate(all="ignore"):  # rewards may be infinite; what comes of it fails its check
        checks = tuple(_answer(claim, question) for question in QUESTIONS)
        return Verification(checks, claim.total if _answer(claim, "judge").ok else math.nan, claim.slate["upper_bound"])


QUESTIONS = ("file", "catalogue", "user", "ids", "feasible", "value", "order", "above", "proven", "bound")


def _answer(claim: _Claim, question: str) -> Check:
    try:
        ok, sentence = getattr(claim, question)()
    except InvalidInput as error:
        ok, sentence = False, str(error)
    return Check(question, bool(ok), sentence)


class _Claim:
    """A slate file beside the catalogue; a method a question."""

    def __init__(self, slate: dict[str, Any], catalog: Catalog, user: ArrayLike | User | None, nodes: int) -> None:
        self.slate, self.catalog, self.given, self.nodes = slate, catalog, user, nodes

    @cached_property
    def who(self) -> User:
        """The user of the file."""
        return self.catalog.user(User(**self.slate["user"]))

    @cached_property
    def judged(self) -> Floats:
        """The judge's rewards, in the order of the slate."""
        return objective.item_rewards(self.catalog, self.who, self.slate["indices"], self.slate["positions"])

    @cached_property
    def total(self) -> float:
        """F(S), the judge's."""
        return objective.set_value(self.catalog, self.who, self.slate["indices"], self.slate["positions"])

    @cached_property
    def size(self) -> float:
        """Σ |f_i|."""
        return float(np.abs(self.judged).sum())

    def judge(self) -> Verdict:
        """Whether there is a value at all."""
        return True, f"the value is {self.total:.9g}"

    def file(self) -> Verdict:
        """Whether the content matches its digest, which reading has established."""
        return True, f"the file matches its digest {self.slate['digest'][:12]}…"

    def catalogue(self) -> Verdict:
        """Whether the slate is about this catalogue."""
        theirs, ours = self.slate["catalog"], self.catalog.digest
        if theirs != ours:
            return False, f"the slate is about another catalogue ({theirs[:12]}…, not {ours[:12]}…)"
        return True, f"the catalogue is the one with digest {ours[:12]}…"

    def user(self) -> Verdict:
        """Whether the slate is for this user."""
        if self.given is None:
            return True, f"a user with {len(self.who.heads)} heads fits the catalogue; none was given to compare"
        given = self.catalog.user(self.given)
        same = np.array_equal(given.heads, self.who.heads) and np.array_equal(
            np.zeros(0) if given.base is None else given.base, np.zeros(0) if self.who.base is None else self.who.base
        )
        return same, "the user is the one given" if same else "the slate is for another user than the one given"

    def ids(self) -> Verdict:
        """Whether the ids shown are those of the rows."""
        right = self.catalog.ids[self.catalog.items(self.slate["indices"])].tolist()
        if self.slate["items"] != right:
            return False, "the ids are not those of the rows"
        return True, f"{len(right)} ids are those of the rows"

    def feasible(self) -> Verdict:
        """Whether the slate keeps every wish."""
        fault = next(self._broken_wishes(), None)
        return fault is None, fault or f"the slate has {len(self.slate['indices'])} of at most {self.slate['k']} items"

    def _broken_wishes(self) -> Iterator[str]:
        slate, rows = self.slate, self.catalog.items(self.slate["indices"]).tolist()
        if not 1 <= len(rows) <= slate["k"]:
            yield f"the slate has {len(rows)} items, not 1 to {slate['k']}"
        places = slate["positions"]
        if (places is None) != (self.catalog.positions is None):
            yield "places must be there exactly when the catalogue orders its slates"
        if places is not None and (len(set(places)) < len(rows) or len(places) != len(rows)):
            yield "every item must have a place of its own"
        if set(rows) & set(slate["exclude"]):
            yield "an excluded item is in the slate"
        if not set(slate["include"]) <= set(rows):
            yield "a pinned item is not in the slate"
        if not _shown(self.catalog, [], slate["where"])[rows].all():
            yield "an item does not meet the filter"
        for name, limit in slate["at_most"].items():
            label = _labels(self.catalog.attributes[name])[rows]
            if label[label >= 0].size and np.bincount(label[label >= 0]).max() > limit:
                yield f"more than {limit} items have the same '{name}'"

    def value(self) -> Verdict:
        """Whether value and rewards are the judge's."""
        rewards = self.slate["rewards"]
        if len(rewards) != len(self.judged):
            return False, f"there are {len(rewards)} rewards for {len(self.judged)} items"
        if not all(self._close(mine, judged) for mine, judged in zip(rewards, self.judged.tolist(), strict=True)):
            return False, "a reward is not the judge's"
        if not self._close(self.slate["value"], self.total):
            return False, f"the value is {self.total:.9g}, not {self.slate['value']:.9g}"
        return True, f"value {self.total:.9g} and rewards are the judge's"

    def _close(self, mine: float, judged: float, within: float = WITHIN) -> bool:
        return mine == judged or (math.isfinite(self.size) and abs(mine - judged) <= within * self.size)

    def order(self) -> Verdict:
        """Whether the slate is in order: best first, or by place."""
        places = self.slate["positions"]
        if places is not None:
            rises = places == sorted(places)
            return rises, f"the items are {'' if rises else 'not '}listed by place"
        falls = bool((self.judged[1:] <= self.judged[:-1] + WITHIN * self.size).all())
        return falls, "the items are listed best first" if falls else "a better item is listed later"

    def above(self) -> Verdict:
        """Whether the claimed bound is above the value."""
        bound = self.slate["upper_bound"]
        ok = bound >= self.total or self._close(bound, self.total)
        return ok, f"the upper bound {bound:.9g} is {'not below' if ok else 'below'} the value"

    def proven(self) -> Verdict:
        """Whether a slate called optimal reaches its bound."""
        if not self.slate["proven"]:
            return True, "the slate is not called optimal"
        ok = self._close(self.slate["upper_bound"], self.total, OPTIMAL_WITHIN)
        return ok, "the slate is called optimal and " + ("reaches its bound" if ok else "is below its bound")

    def bound(self) -> Verdict:
        """Whether no feasible set of the catalogue exceeds the claimed bound."""
        bound, size = self.slate["upper_bound"], self.size
        if bound == math.inf:
            return True, "an infinite bound promises nothing"
        if not self.catalogue()[0]:
            return False, "the bound is about another catalogue"
        if not math.isfinite(bound) or not math.isfinite(size):
            return False, "a finite bound on infinite rewards cannot be proven"
        limit = bound + WITHIN * max(abs(bound), size)
        if self.feasible()[0] and self.total > limit:
            return False, f"refuted: the slate itself is worth {self.total:.9g}"
        return self._proof(bound, limit)

    def _proof(self, bound: float, limit: float) -> Verdict:
        slate, columns = self.slate, self.catalog.attributes
        shown = np.flatnonzero(_shown(self.catalog, slate["exclude"], slate["where"]))
        groups = [(_labels(columns[name]), min(most, len(self.catalog))) for name, most in slate["at_most"].items()]
        if not len(shown):
            return True, "no set keeps every wish, so none exceeds the bound"
        proof = Proof(self.catalog, self.who, slate["k"], shown, slate["include"], groups)
        end = proof.run(limit, self.nodes)
        if end.better is not None:
            return False, f"refuted: the rows {end.better} are worth {end.value:.9g}, more than {bound:.9g}"
        if not end.complete:
            return False, f"the bound {bound:.9g} could not be proven within {self.nodes:,} nodes"
        return True, f"no feasible set exceeds {bound:.9g}, proven again with {end.nodes:,} nodes"


# --- wishes ----------------------------------------------------------------------------------------------------------


def _shown(catalog: Catalog, exclude: list[int], where: dict[str, Any] | None) -> NDArray[np.bool_]:
    """Which items are neither excluded nor filtered out."""
    shown = np.ones(len(catalog), bool)
    if exclude and max(exclude) >= len(catalog):
        must = f"rows of the catalogue, 0 to {len(catalog) - 1}"
        raise InvalidInput("exclude", must, max(exclude), "check that slate and catalogue belong together")
    shown[exclude] = False
    for name, condition in (where or {}).items():
        shown &= _meets(name, catalog.attributes[name], condition)
    return shown


def _meets(name: str, column: Any, condition: Any) -> NDArray[np.bool_]:
    """Which cells are in a range (low, high), or equal to a value or one of a list; a missing cell is not."""
    wanted = list(condition) if isinstance(condition, (tuple, list)) else [condition]
    text = hasattr(column, "codes")
    if any(isinstance(one, str) != text for one in wanted if one is not None):
        raise InvalidInput(f"where['{name}']", "of the type of the attribute", repr(condition), "correct the filter")
    if isinstance(condition, tuple):
        low, high = (-math.inf if wanted[0] is None else wanted[0]), (math.inf if wanted[1] is None else wanted[1])
        return np.asarray((column >= low) & (column <= high))
    met = np.zeros(len(column), bool)
    for one in [code for code, value in enumerate(column.values) if value in wanted] if text else wanted:
        met |= (column.codes if text else column) == one
    return met


def _labels(column: Any) -> NDArray[np.int64]:
    """Equal numbers for equal cells, −1 for missing ones."""
    if hasattr(column, "codes"):
        return np.asarray(column.codes, np.int64)
    label = np.unique(column, return_inverse=True)[1].astype(np.int64)
    return np.where(column == column, label, -1)  # NaN is missing
