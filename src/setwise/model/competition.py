"""Competition: the objective of re-ranking, in which similar candidates lower each other's rewards.

    F(S) = Σ_{i∈S} v_i f(t_i − s W_i / (1 + W_i)),     W_i = Σ_{j∈S, j≠i} w_ij,     f logistic

    t_i   what candidate i is worth alone, as log-odds
    w_ij  how much i and j are alike, from 0 to 1, by vectors or by attributes (``likeness.py``)
    s     the strength: the penalty for many copies; half of it for one
    v_i   what a hit of i is worth

It is a simple transformer with one head and a sink (``instance``): the general rankers, bounds and the reference
objective apply. Since W_i is a plain sum, a search and a bound of their own are much faster: ``competition_search.py``
among the rankers, ``competition.py`` among the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import frozen
from setwise.model.instance import Instance
from setwise.model.likeness import Likeness
from setwise.model.rewards import Logistic, Reward

LOGISTIC = Logistic()


@dataclass(frozen=True, eq=False)
class Competition:
    """A list of m candidates in which those that are alike compete; the module's docstring has the objective."""

    argument: Floats
    likeness: Likeness
    strength: float
    reward: Reward = LOGISTIC  # f; only a logistic one is searched here
    factor: Floats | None = None  # v; None: all 1

    @property
    def m(self) -> int:
        """The number of candidates."""
        return len(self.argument)

    @property
    def alone(self) -> Floats:
        """v_i f(t_i): what each candidate is worth alone."""
        rewards = np.asarray(self.reward.value(self.argument))
        return rewards if self.factor is None else self.factor * rewards

    def rewards_of(self, indices: Rows) -> Floats:
        """v_i f(a_i(S)) of these candidates, by the reference objective."""
        plain = replace(self, factor=None)
        rewards = plain.instance(indices).rewards_of(np.arange(len(indices)))
        return rewards if self.factor is None else self.factor[indices] * rewards

    def instance(self, rows: Rows | None = None) -> Instance:
        """These candidates as an instance of a simple transformer; it takes v ≥ 0 only."""
        part = self.likeness if rows is None else self.likeness.taken(rows)
        argument = self.argument if rows is None else self.argument[rows]
        m = len(argument)
        value = np.full(m, -float(self.strength))
        weight = None if self.factor is None else self.factor if rows is None else self.factor[rows]
        logits = frozen(part.logits())
        return Instance(logits, value, self.reward, argument, np.zeros(m), np.zeros(1), reward_weight=weight)
