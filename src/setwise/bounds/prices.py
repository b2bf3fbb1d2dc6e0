"""Prices: sums over a set as offsets of its items' rewards, so that a bound without them counts them.

Every feasible set keeps low_r ≤ Σ_{i∈S} c_ri ≤ high_r. With a price λ_r of each sum, positive for its upper limit and
negative for its lower one, λ⁺ = max(λ, 0) and λ⁻ = max(−λ, 0),

    F(S)  ≤  Σ_{i∈S} ( ω_i f_i(a_i(S)) + δ_i )  +  λ⁺ · high − λ⁻ · low,        δ_i = −Σ_r λ_r c_ri,

because what is added is not negative (Lagrange). A bound on the first part over all sets, whether they keep the sums or
not, plus the constant bounds F over the feasible ones. It holds for all prices; good prices make it tight.

Good prices are those of a linear program in which every item has one worth, what it adds to a good set:

    max Σ_i v_i x_i    subject to    Σ_i x_i ≤ k,   low ≤ C x ≤ high,   0 ≤ x ≤ 1,

where v_i is F(S ∪ {i}) − F(S) outside of the set S, and F(S) − F(S ∖ {i}) in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Mask, Rows
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.model.sums import Sums

_ROUNDING = 1e-14  # relative, of a sum of products
_TINY = 1e-305
_HALVINGS = 40


class Prices(NamedTuple):
    """The prices of sums, what they add to each item, and the constant."""

    price: Floats  # (R,)
    offset: Floats  # (n,)
    constant: float

    @classmethod
    def of(cls, price: Floats, cost: Floats, low: Floats, high: Floats) -> Prices:
        """These prices (R,) of sums of ``cost`` (R, n); the price of an end that is not limited is 0."""
        ends = np.where(price > 0, high, low)
        stated = np.where(np.isfinite(ends), np.nan_to_num(price), 0.0)
        parts, constants = stated[:, None] * cost, stated * np.where(np.isfinite(ends), ends, 0.0)
        offset = _ROUNDING * np.abs(parts).sum(axis=0) - parts.sum(axis=0)
        return cls(stated, offset, float(constants.sum() + _ROUNDING * np.abs(constants).sum()))

    @classmethod
    def of_sums(cls, price: Floats, sums: Sums) -> Prices:
        """These prices, for the candidates of an instance, in the units of its sums."""
        return cls.of(price, sums.cost, sums.low, sums.high)


def good_prices(instance: Instance, constraints: Constraints, members: Rows) -> Floats:
    """Prices (R,) by what each candidate adds to the set of these members."""
    worth = added_values(instance, np.asarray(members, np.intp))
    lower = np.zeros(instance.m)
    lower[constraints.pinned] = 1.0
    return prices_of_worths(worth, constraints.open, lower, constraints.k, constraints.sums)


def added_values(instance: Instance, members: Rows) -> Floats:
    """What each candidate adds to a set, or adds as one of its members: (m,)."""
    weight, score = instance.weight, instance.score
    sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
    below = instance.sink_weight + weight[:, :, members].sum(axis=2)
    above = instance.sink_weight * sink_score[:, None] + np.einsum(
        "him,hm->hi", weight[:, :, members], score[:, members]
    )
    own = np.diagonal(weight, axis1=1, axis2=2)
    sign = np.where(np.isin(np.arange(instance.m), members), -1.0, 1.0)  # a member is taken out
    inside = sign < 0
    argument = instance.base + _ratio(
        above + np.where(inside, 0.0, own * score), below + np.where(inside, 0.0, own)
    ).sum(axis=0)
    value = evaluate(instance.rewards, instance.reward_class, argument, instance.reward_weight)
    if len(members):
        given = weight[:, members] * sign  # (H, members, m): what changes in the row of each member
        beside = _ratio(above[:, members, None] + given * score[:, None], below[:, members, None] + given).sum(axis=0)
        classes, weights = (
            np.repeat(instance.reward_class[members], instance.m),
            np.repeat(instance.weights[members], instance.m),
        )
        changed = (instance.base[members, None] + beside).ravel()
        rewards = evaluate(instance.rewards, classes, changed, weights).reshape(beside.shape)
        rewards[np.arange(len(members)), members] = value[members]  # its own reward, which it adds
        value = np.where(inside, 0.0, value) + sign * (rewards.sum(axis=0) - value[members].sum())
        value[members] += rewards[np.arange(len(members)), members]
    return np.nan_to_num(value, nan=0.0, posinf=1e30, neginf=-1e30)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / np.maximum(below, _TINY))


def _single_price(worth: Floats, open_: Mask, pinned: Mask, k: int, sums: Sums) -> float:
    """The price of a single sum, by bisection: the sum of the k items of largest worth less price falls with it."""
    cost, least, most = sums.cost[0], float(sums.least[0]), float(sums.most[0])
    spent, free = float(cost[pinned].sum()), np.flatnonzero(open_ & ~pinned)
    cost, worth, k = cost[free], worth[free], min(k - int(pinned.sum()), len(free))

    def total(price: float) -> float:
        gain = worth - price * cost
        best = np.argpartition(-gain, k - 1)[:k] if 0 < k < len(gain) else np.arange(len(gain) if k else 0)
        return spent + float(cost[best[gain[best] > 0]].sum())

    at_zero = total(0.0)
    if least <= at_zero <= most or not len(free):
        return 0.0
    sign, target = (1.0, most) if at_zero > most else (-1.0, least)
    positive = cost > 0
    low, high = 0.0, float((np.abs(worth[positive]) / cost[positive]).max(initial=0.0)) + _TINY
    while sign * (total(sign * high) - target) > 0 and high < 1e300 and sign < 0:
        high *= 4.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if sign * (total(sign * middle) - target) > 0:
            low = middle
        else:
            high = middle
    return sign * high


def prices_of_worths(worth: Floats, open_: Mask, lower: Floats, k: int, sums: Sums) -> Floats:
    """The prices (R,) of the linear program; 0 where it has no solution."""
    if len(sums) == 1:
        return np.array([_single_price(worth, open_, lower > 0, k, sums)])
    import highspy

    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", 1.0)
    chosen = np.flatnonzero(open_)
    m, rows = len(chosen), 1 + len(sums)
    unit = np.maximum(np.abs(worth[chosen]).max(initial=0.0), _TINY)
    size = np.maximum(sums.cost[:, chosen].max(axis=1, initial=0.0), _TINY)
    numbers = np.concatenate([np.ones(m), (sums.cost[:, chosen] / size[:, None]).ravel()])
    low, high = np.append(-np.inf, sums.least / size), np.append(float(k), sums.most / size)
    solver.passModel(
        m, rows, len(numbers), 2, 1, 0.0,  # 2: by rows; 1: minimise; no constant term
        -worth[chosen] / unit, lower[chosen], np.ones(m), low, high, np.arange(rows, dtype=np.int32) * m,
        np.tile(np.arange(m, dtype=np.int32), rows), numbers, np.zeros(m, np.int32),
    )  # fmt: skip
    solver.run()
    dual = np.asarray(solver.getSolution().row_dual, np.float64)
    return -dual[1:] * unit / size if len(dual) == rows else np.zeros(len(sums))
