"""Phase Two as the paper's experiments run it: valid tuples and auxiliary problems solved greedily, nothing else.

**Valid tuples.** Candidates are sorted by their reward alone. Any c of them, X, may be the highest members of a
solution: X is in it, and of the other candidates only those after the last of X. So every set of c members or more
belongs to one X. The tuples come in the order of the sum of their places: (1, 2), (1, 3), (1, 4), (2, 3), …

**Auxiliary problems.** For denominators t_i^h, with scores s shifted to be at least 0 (least^h is added again) and the
weight z_i^h of the sink, P(X, t) is

    max Σ_i x_i f_i(base_i + Σ_h (least^h + (z_i^h s_0^h + Σ_j w_ij^h s_j^h x_j) / t_i^h))
    s.t. z_i^h + Σ_j w_ij^h x_j ≤ t_i^h for all i and h,   Σx ≤ k,   x = 1 on X,   x = 0 before the last of X.

It is solved greedily: the feasible candidate of the largest objective is added until k are chosen, none is feasible or
none increases the objective. The result is a candidate solution; the best by F is returned. The last candidate solution
is the best single item, because a tuple is not a valid start where rewards are so negative that one item is best.

**Which t.** The paper solves "a fixed number" of auxiliary problems and does not say which. Here t lies between the
denominators D_i of X alone and T_i, the largest that k members can have: t = D^(1 − α) T^α for α = 1, 1/2, 3/4, 1/4 in
turn. With α = 1 no denominator is restricted. The weights are the exact ones: W' = W.

``literal=True`` runs the algorithm of the proofs (phase_two/). Our own search over linear programs is lp_search.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count, islice
from typing import Any

import numpy as np

from setwise._types import Floats, Mask, Rows
from setwise._validation import whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.ranking.phase_two.algorithm import phase_two
from setwise.ranking.ranker import Ranker, Ranking

SOLUTIONS, TOP = 100, 2
ALPHAS = (1.0, 0.5, 0.75, 0.25)  # where t lies between D and T, in the order in which problems are added
ROUNDING = 1e-9  # relative slack of the constraints on denominators


class AuxiliaryProblems:
    """P(X, t) of an instance: the arrays that all of them share."""

    def __init__(self, instance: Instance, constraints: Constraints) -> None:
        self.instance, self.constraints = instance, constraints
        sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
        lowest = instance.score.min(axis=1)
        self.least = lowest if instance.sink_logit is None else np.minimum(lowest, sink_score)
        self.score = instance.score - self.least[:, None]  # (H, m), at least 0
        self.sink = instance.sink_weight * (sink_score - self.least)[:, None]  # (H, m), the sink's part of numerators
        k = min(constraints.k, instance.m)
        self.largest = instance.sink_weight + np.sort(instance.weight, axis=2)[:, :, -k:].sum(axis=2)  # T
        self.evaluations = 0

    def denominators(self, members: Rows, alpha: float) -> Floats:
        """T (H, m) for the tuple ``members``."""
        own = self.instance.sink_weight + self.instance.weight[:, :, members].sum(axis=2)
        return np.asarray(own ** (1 - alpha) * self.largest**alpha)

    def greedy(self, members: Rows, free: Mask, t: Floats) -> Rows:
        """The set that greedy finds for P(X, t) with X = ``members`` and the candidates ``free`` beside it."""
        chosen, value = members, self._objective(members, t)
        while len(chosen) < self.constraints.k:
            allowed = free & self.constraints.joinable(chosen) & self._feasible(chosen, t)
            if not allowed.any():
                break
            after = np.where(allowed, self._objectives_after(chosen, t), -np.inf)
            best = int(np.argmax(after))
            if len(chosen) and after[best] <= value:
                break
            chosen, value = np.append(chosen, best), after[best]
        return chosen

    def _numerators(self, chosen: Rows) -> Floats:
        attended = self.instance.weight[:, :, chosen] * self.score[:, None, chosen]
        return np.asarray(self.sink + attended.sum(axis=2))

    def _feasible(self, chosen: Rows, t: Floats) -> Mask:
        """The candidates that keep every denominator at most t when they are added: (m,)."""
        room = t * (1 + ROUNDING) - self.instance.sink_weight - self.instance.weight[:, :, chosen].sum(axis=2)
        return np.asarray((self.instance.weight <= room[:, :, None]).all(axis=(0, 1)))

    def _average(self, numerator: Floats, t: Floats) -> Floats:
        """Σ_h (least + numerator / t) over the leading axis; 0 where no weight can be attended."""
        share = np.divide(numerator, t, out=np.zeros_like(numerator), where=t > 0)
        least = self.least.reshape(-1, *[1] * (numerator.ndim - 1))
        return np.asarray(np.where(t > 0, least + share, 0.0).sum(axis=0))

    def _objective(self, chosen: Rows, t: Floats) -> float:
        it = self.instance
        argument = it.base[chosen] + self._average(self._numerators(chosen)[:, chosen], t[:, chosen])
        return float(evaluate(it.rewards, it.reward_class[chosen], argument).sum())

    def _objectives_after(self, chosen: Rows, t: Floats) -> Floats:
        """The objective of P(X, t) with each candidate added: (m,)."""
        it, every = self.instance, np.arange(self.instance.m)
        self.evaluations += it.m
        numerator = self._numerators(chosen)
        own = it.base + self._average(numerator + it.weight[:, every, every] * self.score, t)
        total = evaluate(it.rewards, it.reward_class, own)
        if len(chosen):
            added = numerator[:, chosen, None] + it.weight[:, chosen] * self.score[:, None]
            wide = np.broadcast_to(t[:, chosen, None], added.shape)
            argument = it.base[chosen, None] + self._average(added, wide)
            classes = np.repeat(it.reward_class[chosen], it.m)
            total = total + evaluate(it.rewards, classes, argument.ravel()).reshape(argument.shape).sum(axis=0)
        return np.nan_to_num(total, nan=-np.inf, posinf=1e300, neginf=-1e300)


def valid_tuples(m: int, c: int) -> Iterator[tuple[int, ...]]:
    """All c of the places 0 … m − 1, ascending, in the order of their sum."""
    most = sum(range(m - c, m))
    for total in range(c * (c - 1) // 2, most + 1):
        yield from _of_sum(total, c, m)


def _of_sum(total: int, c: int, below: int) -> Iterator[tuple[int, ...]]:
    """C places below ``below`` with this sum, the largest last place first."""
    if c == 1:
        if 0 <= total < below:
            yield (total,)
        return
    least = (c - 1) * (c - 2) // 2
    for last in range(min(below - 1, total - least), c - 2, -1):
        yield from ((*rest, last) for rest in _of_sum(total - last, c - 1, last))


def _partial_solutions(instance: Instance, constraints: Constraints, c: int) -> Iterator[tuple[Rows, Mask]]:
    """Every valid tuple with the pinned items, and the candidates that may be added to it."""
    ranked = _by_reward_alone(instance, constraints)
    c = min(c, constraints.k - len(constraints.pinned), len(ranked))
    for places in valid_tuples(len(ranked), c) if c else [()]:
        members = _joined(constraints, ranked[list(places)])
        if members is not None:
            after = np.zeros(instance.m, bool)
            after[ranked[places[-1] + 1 :] if places else ranked] = True
            yield members, after


def _by_reward_alone(instance: Instance, constraints: Constraints) -> Rows:
    """The candidates that may be added to the pinned items, best first."""
    free = np.flatnonzero(constraints.joinable(constraints.pinned))
    return np.asarray(free[np.argsort(-instance.alone[free], kind="stable")])


def _smallest(instance: Instance, constraints: Constraints) -> Rows:
    """The best set of fewest members: the pinned items, or the item of largest reward alone."""
    return constraints.pinned if len(constraints.pinned) else _by_reward_alone(instance, constraints)[:1]


def _joined(constraints: Constraints, rows: Rows) -> Rows | None:
    """The pinned items and ``rows``, or None where a constraint forbids them together."""
    members = constraints.pinned
    for row in rows:
        if not constraints.joinable(members)[row]:
            return None
        members = np.append(members, row)
    return members


def candidate_solutions(problems: AuxiliaryProblems, c: int, per_tuple: int) -> Iterator[Rows]:
    """The sets that the auxiliary problems of all valid tuples lead to, tuple by tuple."""
    for members, free in _partial_solutions(problems.instance, problems.constraints, c):
        for alpha in ALPHAS[:per_tuple]:
            yield problems.greedy(members, free, problems.denominators(members, alpha))


def paper(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int | None = None,
    top: int | None = None,
    problems: int | None = None,
    literal: bool = False,
    epsilon: float | None = None,
    rank: int | None = None,
    lam: int | None = None,
    lam_prime: int | None = None,
) -> Ranking:
    """The best of ``solutions`` (100) candidate solutions: ``problems`` (4) for each valid tuple of ``top`` (2) items.

    ``literal`` runs the algorithm of the proofs instead, for small instances; ``epsilon``, ``rank``, ``lam`` and
    ``lam_prime`` (λ and λ') are the options of ``phase_two``.
    """
    own_options = {"solutions": solutions, "top": top, "problems": problems}
    literal_options = {"epsilon": epsilon, "rank": rank, "lam": lam, "lam_prime": lam_prime}
    if not isinstance(literal, bool):
        raise InvalidInput("literal", "True or False", repr(literal), "pass one of the two")
    _refuse(own_options if literal else literal_options, literal)
    if literal:
        given: dict[str, Any] = {name: option for name, option in literal_options.items() if option is not None}
        found = phase_two(instance, constraints, **given)
        return Ranking(found.indices, found.value, evaluations=found.evaluations)
    per_tuple = len(ALPHAS) if problems is None else whole_number("problems", problems)
    if per_tuple > len(ALPHAS):
        raise InvalidInput("problems", f"at most {len(ALPHAS)}", per_tuple, "raise solutions instead")
    most = SOLUTIONS if solutions is None else whole_number("solutions", solutions)
    every = AuxiliaryProblems(instance, constraints)
    sets = islice(candidate_solutions(every, _top(top), per_tuple), max(1, most - 1))
    return _best_of(every, chain(sets, [_smallest(instance, constraints)][: most - 1]))


def _top(given: int | None) -> int:
    return TOP if given is None else whole_number("top", given)


def _best_of(problems: AuxiliaryProblems, sets: Iterator[Rows]) -> Ranking:
    """The set of largest F, with the values of all."""
    best: Rows | None = None
    values: list[float] = []
    for number, chosen in zip(count(), (one for one in sets if len(one)), strict=False):
        values.append(problems.instance.value(chosen))
        if best is None or values[number] > max(values[:number]):
            best = chosen
    if best is None:
        raise Infeasible("the constraints", "such that some set meets them", "none found", "loosen them")
    return Ranking(
        best,
        max(values),
        evaluations=problems.evaluations + len(values),
        trace=np.maximum.accumulate(values),
        solutions=np.array(values),
    )


def _refuse(options: Mapping[str, float | None], literal: bool) -> None:
    for name, given in options.items():
        if given is not None:
            must = f"absent with literal={literal}"
            raise InvalidInput(name, must, repr(given), f"drop it or pass literal={not literal}")


PAPER = Ranker("paper", paper, "Phase Two")
