"""Verify a saved slate with code that shares nothing with the recommender but the reference objective.

Feasibility is checked against the catalogue, value and rewards against the reference objective (objective.py). That no
feasible set of the whole catalogue is worth more than ``upper_bound`` is proven again, slowly and item by item
(reference_proof.py).

Numbers may differ from the reference by 1e-9 of Σ |f_i|, the sum of the absolute rewards of the slate. A slate that is
stated to be optimal may be 1e-8 of that below its bound; where all rewards are 0, of what they could be. The proven
bound is the claimed one plus 1e-9 of its own absolute value or of Σ |f_i|, whichever is larger. There Σ |f_i| counts no
further than it can go for a set above the bound: a slate of hugely negative rewards leaves no room for a false bound.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._progress import Progress
from setwise._types import Floats
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.verification.asked import Asked
from setwise.verification.conditions import eligible_items
from setwise.verification.reference_proof import ReferenceProof
from setwise.verification.rounding import largest_change, largest_logits, largest_rewards, rounding_error, size_above
from setwise.verification.slate_file import read_slate
from setwise.verification.sum_checks import LARGEST, offsets

Outcome = tuple[bool, str]

TOLERANCE = 1e-9  # relative to Σ |f_i|: how far numbers may be from the reference
ROUNDING = 1e-6  # likewise: where rounding may change a value by more, no bound is proven
OPTIMAL_TOLERANCE = 1e-8  # likewise: how far a slate that is stated to be optimal may be below its bound
MAX_NODES = 20_000  # of the proof


@dataclass(frozen=True)
class Check:
    """One check of the slate, with its result in a sentence."""

    name: str
    ok: bool
    sentence: str


@dataclass(frozen=True)
class Verification:
    """All checks; ``value`` is the reference value (NaN if not computable), ``upper_bound`` the claimed one."""

    checks: tuple[Check, ...]
    value: float
    upper_bound: float

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def verify(
    path: str | os.PathLike[str], catalog: Catalog, user: ArrayLike | User | None = None, nodes: int = MAX_NODES
) -> Verification:
    """Check the slate saved in ``path`` against the catalogue and, if given, the user it was made for.

    Raises DamagedArtifact for a file that is damaged or not a slate. ``nodes`` limits the proof of the bound; each node
    costs a pass over the items.
    """
    claim = _Claim(read_slate(path), catalog, user, whole_number("nodes", nodes))
    with np.errstate(all="ignore"):  # rewards may be infinite; the checks then fail
        checks = tuple(_run_check(claim, name) for name in CHECKS)
        value = claim.reference_value if _run_check(claim, "evaluable").ok else math.nan
        return Verification(checks, value, claim.slate["upper_bound"])


CHECKS = ("file", "catalogue", "user", "ids", "feasible", "value", "order", "above", "proven", "bound")


def _run_check(claim: _Claim, name: str) -> Check:
    try:
        ok, sentence = getattr(claim, name)()
    except InvalidInput as error:
        ok, sentence = False, str(error)
    except OverflowError:
        ok, sentence = False, "a whole number of the slate is too large to compute with"
    return Check(name, bool(ok), sentence)


class _Claim(Asked):
    """A slate file and the catalogue; one method per check."""

    def __init__(self, slate: dict[str, Any], catalog: Catalog, user: ArrayLike | User | None, nodes: int) -> None:
        super().__init__(slate["query"], catalog)
        self.slate, self.given, self.nodes = slate, user, nodes

    @property
    def members(self) -> list[int]:
        """The rows of the slate, and those shown before."""
        return [*self.slate["indices"], *self.before]

    @cached_property
    def reference_rewards(self) -> Floats:
        """The rewards by the reference objective, in the order of the slate."""
        rewards = objective.item_rewards(self.catalog, self.slate_user, self.members, self.slate["positions"])
        return rewards[: len(self.slate["indices"])]

    @cached_property
    def reference_value(self) -> float:
        """F(S) by the reference objective."""
        return objective.set_value(self.catalog, self.slate_user, self.members, self.slate["positions"])

    @cached_property
    def scale(self) -> float:
        """Σ |f_i|."""
        return float(np.abs(self.reference_rewards).sum())

    def evaluable(self) -> Outcome:
        """Whether the reference objective can be computed."""
        return True, f"the value is {self.reference_value:.9g}"

    def file(self) -> Outcome:
        """Whether the content matches its digest; ``read_slate`` has checked it."""
        return True, f"the file matches its digest {self.slate['digest'][:12]}…"

    def catalogue(self) -> Outcome:
        """Whether the slate is about this catalogue."""
        theirs, ours = self.slate["catalog"], self.catalog.digest
        if theirs != ours:
            return False, f"the slate is about another catalogue ({theirs[:12]}…, not {ours[:12]}…)"
        return True, f"the catalogue is the one with digest {ours[:12]}…"

    def user(self) -> Outcome:
        """Whether the slate is for this user."""
        if self.given is None:
            heads = len(self.slate_user.heads)
            size = "1 head" if heads == 1 else f"{heads} heads"
            return True, f"a user with {size} fits the catalogue; none was given to compare"
        given, own = self.catalog.user(self.given), self.slate_user
        mine, theirs = (np.zeros(0) if user.base is None else user.base for user in (own, given))
        same = np.array_equal(given.heads, own.heads) and np.array_equal(mine, theirs)
        if given.scores is not None:  # a user without scores says nothing about those of the request
            same &= own.scores is not None and np.array_equal(given.scores.whole(), own.scores.whole())
        return same, "the user is the one given" if same else "the slate is for another user than the one given"

    def ids(self) -> Outcome:
        """Whether the ids eligible are those of the rows."""
        right = self.catalog.ids[self.catalog.items(self.slate["indices"])].tolist()
        if self.slate["items"] != right:
            return False, "the ids are not those of the rows"
        return True, f"{len(right)} ids are those of the rows"

    def feasible(self) -> Outcome:
        """Whether the slate keeps every constraint."""
        fault = next(self._broken_constraints(), None)
        return fault is None, fault or f"the slate has {len(self.slate['indices'])} of at most {self.query['k']} items"

    def _broken_constraints(self) -> Iterator[str]:
        query, rows = self.query, self.catalog.items(self.slate["indices"]).tolist()
        if not (0 if self.before else 1) <= len(rows) <= query["k"]:
            yield f"the slate has {len(rows)} items, not 1 to {query['k']}"
        places = self.slate["positions"]
        if (places is None) != (self.catalog.positions is None):
            yield "a slate has places exactly when the catalogue has positions"
        if places is not None and (len(set(places)) < len(rows) or len(places) != len(rows)):
            yield "every item must have a place of its own"
        if set(rows) & set(self.before):
            yield "an item that was shown before is in the slate"
        if set(rows) & set(self._rows_of("exclude")):
            yield "an excluded item is in the slate"
        if not set(self._rows_of("include")) <= set(rows):
            yield "a pinned item is not in the slate"
        if not eligible_items(self.catalog, [], query["where"])[rows].all():
            yield "an item does not meet the filter"
        if self._unscored()[rows].any():
            yield "an item has no score, and the query states no floor"
        if self._unweighed()[rows].any():
            yield "an item has no weight"
        yield from self._broken_limits(self.members)

    def value(self) -> Outcome:
        """Whether value and rewards are those of the reference objective."""
        rewards = self.slate["rewards"]
        if len(rewards) != len(self.reference_rewards):
            return False, f"there are {len(rewards)} rewards for {len(self.reference_rewards)} items"
        if not all(map(self._close, rewards, self.reference_rewards.tolist())):
            return False, "a reward differs from the reference objective"
        if not self._close(self.slate["value"], self.reference_value):
            return False, f"the value is {self.reference_value:.9g}, not {self.slate['value']:.9g}"
        return True, f"value {self.reference_value:.9g} and rewards are those of the reference objective"

    def _close(self, claimed: float, reference: float, tolerance: float = TOLERANCE) -> bool:
        difference = abs(claimed - reference)
        return claimed == reference or (math.isfinite(self.scale) and difference <= tolerance * self.scale)

    def order(self) -> Outcome:
        """Whether the slate is in order: best first, or by place."""
        places = self.slate["positions"]
        if places is not None:
            rises = places == sorted(places)
            return rises, f"the items are {'' if rises else 'not '}listed by place"
        falls = bool((self.reference_rewards[1:] <= self.reference_rewards[:-1] + TOLERANCE * self.scale).all())
        return falls, "the items are listed best first" if falls else "a better item is listed later"

    def above(self) -> Outcome:
        """Whether the claimed bound is above the value."""
        bound = self.slate["upper_bound"]
        ok = bound >= self.reference_value or self._close(bound, self.reference_value)
        return ok, f"the upper bound {bound:.9g} is {'not below' if ok else 'below'} the value"

    def proven(self) -> Outcome:
        """Whether a slate that is stated to be optimal reaches its bound."""
        if not self.slate["proven"]:
            return True, "the slate is not stated to be optimal"
        bound, placed = self.slate["upper_bound"], (self.slate["indices"], self.slate["positions"])
        ok = self._close(bound, self.reference_value, OPTIMAL_TOLERANCE) or (
            self.scale == 0
            and abs(bound) <= OPTIMAL_TOLERANCE * largest_rewards(self.catalog, self.slate_user, *placed)
        )
        return ok, "the slate is stated to be optimal and " + ("reaches its bound" if ok else "is below its bound")

    def bound(self) -> Outcome:
        """Whether no feasible set of the catalogue exceeds the claimed bound."""
        bound, size = self.slate["upper_bound"], self.scale
        if bound == math.inf:
            return True, "an infinite bound claims nothing"
        if not self.catalogue()[0]:
            return False, "the bound is about another catalogue"
        if not math.isfinite(bound) or not math.isfinite(size):
            return False, "a finite bound on infinite rewards cannot be proven"
        size = min(size, self._size_above(bound))
        limit = bound + TOLERANCE * max(abs(bound), size)
        if self.feasible()[0] and self.reference_value > limit:
            return False, f"refuted: the slate itself is worth {self.reference_value:.9g}"
        uncertain = self._uncertain(max(abs(bound), size))
        return (
            (False, f"the bound {bound:.9g} could not be proven: {uncertain}")
            if uncertain
            else self._proof(bound, limit)
        )

    def _size_above(self, bound: float) -> float:
        rows = np.flatnonzero(self._shown())
        return size_above(self.catalog, self.slate_user, self._size, rows, bound) if len(rows) else 0.0

    def _uncertain(self, size: float) -> str:
        """Why rounding may decide the bound, or nothing. In place of a size of 0: the largest change."""
        subject = (self.catalog, self.slate_user, self._size)
        change = rounding_error(*subject, size)
        if change <= ROUNDING * (size or largest_change(*subject)):
            return ""
        logits, terms = largest_logits(self.catalog).max(), largest_change(*subject)
        return (
            f"with inner products of queries and keys up to {logits:.2g} and terms that may add up to {terms:.2g}, "
            f"rounding may change it by {change:.2g}"
        )

    def _proof(self, bound: float, limit: float) -> Outcome:
        shown = self._shown()
        groups = [
            (labels, min(n, len(self.catalog)))
            for limit, name, numbers in self._limits()
            if limit.upper
            for _, n, labels in self._counted(limit, name, numbers)
        ]
        for outside, most in self._outside(shown):
            if most <= 0:
                shown &= ~outside
            groups.append((np.where(outside, 0, -1), most))
        eligible, groups = np.flatnonzero(shown), [(labels, most) for labels, most in groups if most > 0]
        if not len(eligible):
            return True, "no set keeps every constraint, so none exceeds the bound"
        pinned = [*self._rows_of("include"), *self.before]
        subject = (self.catalog, self.slate_user, self._size, eligible, pinned, groups)
        offset, constant = offsets(self._sums, self.slate.get("prices", {}), len(self.catalog))
        sizes = [abs(constant), self._size * float(np.abs(offset).max())]
        if not max(sizes) <= LARGEST * max(abs(bound), self.scale):
            return False, "the prices of the sums are too large, or of limits that the query does not state"
        with Progress(f"proving the upper bound again, with at most {self.nodes:,} nodes", self.nodes) as bar:
            proof = ReferenceProof(
                *subject, lambda rows: not any(self._broken_limits(rows)), bar.advance, self._sums, offset, constant
            )
            end = proof.run(limit, self.nodes)
        if end.better is not None:
            return False, f"refuted: the rows {end.better} are worth {end.value:.9g}, more than {bound:.9g}"
        if not end.complete:
            came = f"{end.closed:,} of {end.parts:,} parts of the search were complete"
            return False, f"the bound {bound:.9g} could not be proven within {self.nodes:,} nodes; {came}"
        return True, f"no feasible set exceeds {bound:.9g}, proven again with {end.nodes:,} nodes"
