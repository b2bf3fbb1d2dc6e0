"""At least one of the set succeeds: portfolios of solvers, lists in which the user needs one answer.

Independent probabilities of success make the k items of the largest probabilities optimal for one user, although the
best item's failures may be the second's failures too. What decides is which items fail *together*. Known cases carry
that: row t of ``outcomes`` says which items succeeded on case t, and a user is a weight α_t ≥ 0 for every case, its
similarity to the case at hand (leaves shared in a random forest, a kernel, a posterior over types). With m_t(S) the
number of members that succeed on case t,

    value(α, S) = Σ_t α_t g(m_t(S)),        g(m) = (1 + ρ) m / (ρ + m)

For ρ → 0, g is 1 for every m ≥ 1: the weighted share of cases on which at least one member succeeds, as if cases would
repeat exactly. For ρ → ∞, g(m) → m: the sum of the members' own probabilities, so top-k is optimal. In between a second
success on a similar case counts, because the case at hand is not quite that case: ρ is the ``redundancy``.

**As a simple transformer.** One head a case. Its logits do not depend on i: 0 for a member that succeeds on the case,
−L for one that fails, log ρ for the sink. The value of a member is 1 + ρ where it succeeds and 0 otherwise, so that

    a_i(S) = Σ_t α_t (1 + ρ) m_t / ( ρ + m_t + (|S| − m_t) e^−L )

for every i: an item attends to the members that succeed, and a further one adds the less the more there are. With the
reward x/k, F(S) is |S|/k times the value, up to e^−L/ρ of it. It grows with every item, so the best set has k items.
Equal cases share a head, and cases on which all items fail have none.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import index_array, real_array, whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog, Sink
from setwise.model.ids import IdChoice
from setwise.model.instance import Instance
from setwise.model.rewards import Linear
from setwise.model.users import User
from setwise.preferences.model_parts import positive

FAILED = -40.0  # −L: e^−40 is 4·10^−18
LEAST = 1e-6  # of ρ: the error e^−L/ρ stays below 10^−11


class AtLeastOne:
    """``outcomes`` (cases, n) of 0 and 1: which item succeeded on which known case; ``redundancy`` ρ > 0."""

    def __init__(self, outcomes: ArrayLike, redundancy: float = 1.0) -> None:
        solved = real_array("outcomes", outcomes, ("cases", "n"), np.float64)
        if not np.isin(solved, (0.0, 1.0)).all():
            raise InvalidInput("outcomes", "0 or 1", "other numbers", "compare them with a threshold")
        if not solved.any():
            raise InvalidInput("outcomes", "with a success", "none", "pass cases on which some item succeeds")
        self.outcomes = solved
        self.redundancy = positive("redundancy", redundancy)
        if self.redundancy < LEAST:
            raise InvalidInput("redundancy", f"at least {LEAST:g}", self.redundancy, "use a small positive number")
        patterns, self._pattern = np.unique(solved, axis=0, return_inverse=True)
        self._kept = np.flatnonzero(patterns.any(axis=1))
        self._patterns = patterns

    @property
    def n_items(self) -> int:
        """The number of items."""
        return int(self.outcomes.shape[1])

    @property
    def head_of_case(self) -> NDArray[np.int64]:
        """The head of each case in ``to_catalog``; −1 for a case on which all items fail."""
        head = np.full(len(self._patterns), -1)
        head[self._kept] = np.arange(len(self._kept))
        return head[self._pattern.ravel()]

    def value(self, weights: ArrayLike, items: ArrayLike) -> float:
        """Σ_t α_t g(m_t(S)) for the rows ``items``."""
        chosen = index_array("items", items, self.n_items, "the model")
        count = self.outcomes[:, chosen].sum(axis=1)
        return float(self._weights(weights) @ ((1 + self.redundancy) * count / (self.redundancy + count)))

    def success(self, weights: ArrayLike, items: ArrayLike) -> float:
        """The weighted share of cases on which at least one of ``items`` succeeds."""
        chosen = index_array("items", items, self.n_items, "the model")
        return float(self._weights(weights) @ self.outcomes[:, chosen].any(axis=1))

    # --- the same as a simple transformer ---

    def user(self, weights: ArrayLike) -> User:
        """The user whose similarities to the known cases are ``weights`` (cases,)."""
        return User(heads=self._of_patterns(weights)[self._kept][:, None])

    def to_catalog(self, k: int, ids: IdChoice | None = None) -> Catalog:
        """The catalogue whose F of k items is ``value``, with one head for every distinct case."""
        return self._catalog(self._kept, whole_number("k", k), ids)

    def instance(self, weights: ArrayLike, k: int) -> Instance:
        """The instance of one user on all items, with heads for the cases of positive weight only."""
        of_patterns = self._of_patterns(weights)
        used = self._kept[of_patterns[self._kept] > 0]
        if not len(used):
            todo = "give some case of success a positive weight"
            raise InvalidInput("weights", "positive for a case on which some item succeeds", "none", todo)
        user = User(heads=of_patterns[used][:, None])
        return Instance.from_catalog(self._catalog(used, whole_number("k", k), None), user, np.arange(self.n_items))

    def _catalog(self, used: np.ndarray, k: int, ids: IdChoice | None) -> Catalog:
        succeeds = self._patterns[used].T[:, :, None]  # (n, heads, 1)
        sink = Sink(np.full((len(used), 1), math.log(self.redundancy)), np.zeros((len(used), 1)))
        return Catalog(
            np.ones_like(succeeds),
            np.where(succeeds > 0, 0.0, FAILED),
            (1 + self.redundancy) * succeeds,
            reward=Linear(scale=1 / k),
            sink=sink,
            ids=ids,
            dtype=np.float64,
        )

    def _weights(self, weights: ArrayLike) -> Floats:
        checked = real_array("weights", weights, (len(self.outcomes),), np.float64)
        if (checked < 0).any():
            raise InvalidInput("weights", "at least 0", float(checked.min()), "pass similarities")
        return checked

    def _of_patterns(self, weights: ArrayLike) -> Floats:
        total = np.zeros(len(self._patterns))
        np.add.at(total, self._pattern.ravel(), self._weights(weights))
        return total
