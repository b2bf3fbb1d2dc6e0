"""Order: the chosen candidates, best first, as an array of their ids or positions that knows its value and a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from setwise._types import Array, Floats, Rows
from setwise.bounds.gap import relative_gap
from setwise.errors import InvalidInput
from setwise.recommend.rerank.candidates import Candidates, Notes

SAME = 1e-9  # a relative gap that is rounding


@dataclass(eq=False)
class Answer:
    """What an order can be asked for; it is computed when it is first read.

    candidates  those that could be chosen
    chosen      places among them, best first
    given_up    the share of the scores' advantage over average candidates that the set gives up
    rewards_of  v_i f(a_i(S)) of chosen candidates, by the reference objective
    bound       computes an upper bound on the value of every set that keeps the rules, from that of a known set
    """

    candidates: Candidates
    chosen: Rows
    given_up: float
    rewards_of: Callable[[Rows], Floats] = field(repr=False)
    bound: Callable[[float], float] = field(repr=False)

    @cached_property
    def rewards(self) -> Floats:
        """What each of the chosen ones is worth in the set."""
        return self.rewards_of(self.chosen)

    @cached_property
    def value(self) -> float:
        """F(S)."""
        return float(self.rewards.sum())

    @cached_property
    def upper_bound(self) -> float:
        """A bound on F over all sets that keep the rules."""
        bound = max(self.bound(self.value), self.value)
        return self.value if bound <= self.value + SAME * abs(self.value) else bound


class Order(np.ndarray[Any, np.dtype[Any]]):
    """The ids (or positions) of the best set, best first: an array, with what is known of the set.

    Value, rewards and bound are computed when they are first read, the bound in about 20 ms. A part of the array, or a
    copy, does not have them.
    """

    _answer: Answer | None = None

    @classmethod
    def of(cls, answer: Answer) -> Order:
        """The chosen candidates by their ids; by their positions where they have none."""
        candidates, chosen = answer.candidates, answer.chosen
        if candidates.ids is not None:
            names: Array = candidates.ids[chosen]
        else:
            names = chosen if candidates.rows is None else candidates.rows[chosen]
        order = names.view(cls)
        order._answer = answer
        return order

    def _known(self) -> Answer:
        if self._answer is None:
            todo = "read it from what rerank returned"
            raise InvalidInput("this array", "a whole order", "a part or a copy of one", todo)
        return self._answer

    @property
    def indices(self) -> Rows:
        """The positions of the chosen candidates in what was passed."""
        answer = self._known()
        rows = answer.candidates.rows
        return answer.chosen if rows is None else rows[answer.chosen]

    @property
    def rewards(self) -> Floats:
        """What each chosen candidate is worth in this set."""
        return self._known().rewards

    @property
    def scores(self) -> Floats:
        """The scores of the chosen candidates."""
        answer = self._known()
        return np.asarray(answer.candidates.scores[answer.chosen])

    @property
    def value(self) -> float:
        """F(S), the sum of the rewards, by the reference objective."""
        return self._known().value

    @property
    def upper_bound(self) -> float:
        """No set that keeps the rules is worth more."""
        return self._known().upper_bound

    @property
    def gap(self) -> float:
        """(upper_bound − value) / upper_bound: the share of the bound that the value does not reach."""
        return relative_gap(self.value, self.upper_bound, self.proven)

    @property
    def proven(self) -> bool:
        """Whether no set is better."""
        return self._known().upper_bound == self.value

    @property
    def given_up(self) -> float:
        """The share of the highest scores' advantage over average candidates that this set gives up."""
        return self._known().given_up

    @property
    def notes(self) -> Notes:
        """The candidates that were left out or lack something, by the reason (``candidates.py``)."""
        return self._known().candidates.notes

    def to_dict(self, certify: bool = False) -> dict[str, Any]:
        """The order as plain data; with its bound if ``certify``."""
        result: dict[str, Any] = {
            "items": [
                {"id": id_, "reward": reward, "score": score}
                for id_, reward, score in zip(self.tolist(), self.rewards.tolist(), self.scores.tolist(), strict=True)
            ],
            "value": self.value,
            "given_up": self.given_up,
            "notes": {reason: list(ids) for reason, ids in self.notes.items()},
        }
        if certify:
            result |= {"upper_bound": self.upper_bound, "gap": self.gap, "proven": self.proven}
        return result
