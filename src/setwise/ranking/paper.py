"""Phase Two as the paper's experiments run it: valid tuples and auxiliary problems solved greedily, nothing else.

The paper (Section 5 and Figure 4) says four things. Each is quoted with what is done here; what the paper leaves open
and is our choice is marked *ours*.

**Valid tuples.** "Enumerates all possible combinations of the top c highest-reward items to include in a candidate
solution, … c is a tunable hyperparameter." Candidates are sorted by their reward alone. Any c of them, X, may be the
highest members of a solution: X is in it, and of the other candidates only those after the last of X (x = 0 on X̂ in
Appendix F). So every set of c members or more belongs to one X. *Ours*: c = 1, because good sets are often one item of
high reward with partners that attend to it and are of low reward alone, so that a second item of high reward as a
forced member costs more than it brings; and the order of the tuples, by the sum of their places.

**Auxiliary problems.** "For the remaining items, the algorithm solves the residual subproblem by evaluating a fixed
number of auxiliary problems P(X, t)." For denominators t_i^h, levels μ^h and the weight z_i^h of the sink, P(X, t) is

    max Σ_i x_i f_i(base_i + Σ_h (μ^h + (z_i^h (s_0^h − μ^h) + Σ_j w_ij^h (s_j^h − μ^h) x_j) / t_i^h))
    s.t. z_i^h + Σ_j w_ij^h x_j ≤ t_i^h for all h and all i with x_i = 1,   Σx ≤ k,   x = 1 on X,   x = 0 on X̂.

With t = Wx this is F(x), whatever μ is. The lemma on auxiliary problems needs scores of at least 0: then a larger t
never increases the objective, and the best t is Wx* of an optimal set x*. μ = min s satisfies that. *Ours*: μ is a
high quantile of the scores in most problems. So the lemma's condition holds for the scores above μ only, and the
problem is a heuristic; but with μ = min s the objective is nearly the same for all sets, because the difference μ is
divided by t as well. Constraints of items that are not chosen are left out: their denominators have no part in F.

**Solved greedily.** "Phase Two then generated candidate solutions by greedily solving a fixed number of auxiliary
problems." The feasible candidate of the largest objective is added until k are chosen, none is feasible or, after
the first, none increases the objective (that last rule is *ours*). The result is a candidate solution; the best by F is
returned. Two problems may lead to one set, and both count. *Ours*: the last candidate solution is the best single item,
because rewards may be so negative that one item is best.

**Which t.** The paper does not say. The lemma does what a search can use: t* = Wx*. So t is made from D_i(Y), the
denominators of every i beside a set Y that contains X (its own weight included). *Ours*, eight problems for each X:

    1  t = Wx, which follows x: greedy for F itself from X. By the lemma this is greedy over t and x at once
    2  t = 2 D(X), μ the 0.9-quantile                          4  t = 2 D(solution 2), 0.9
    3  t = 1.1 D(X), 0.5                                       6  t = 1.1 D(solution 3), 0.5
    5  t = 1.1 D(X), 0.9                                       7  t = 1.1 D(solution 5), 0.9
    8  t = 1.1 D(X), 0: the scores are at least μ

With Y = X the items of X have no constraint: there t_i is the largest denominator that k members can have, as X alone
says little about it. All weights are the exact ones: W' = W. With several heads nearly all of the result is due to
problem 1; without it, no choice of t that was tried came closer than 2 % to beam search there.

After three X the solutions rarely get better, so a second round comes then (*ours*), and the other X after it:

* t = 1.1 D(best solution so far) for its X, at four μ, again from each better one: the lemma's t* = Wx* step by step;
* t = 2 D(X ∪ {j}) for the first X and every j after it, in the order of F(X ∪ {j}), μ the 0.9-quantile.

With ``problems`` there is no second round: every X has so many of the eight.

**Pinned items.** "We fixed the top two highest-reward items to be included in each candidate solution": pinned items
are X, nothing is added to it, and every other candidate may join. Then t is Wx first, and 2 D(X ∪ {j}) for the
candidates j in the order of F(X ∪ {j}), μ the 0.97-quantile and the median in turn (*ours*).

The algorithm of the paper's proofs, for small instances, is in experiments/proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, cycle, islice
from typing import NamedTuple

import numpy as np

from setwise._types import Floats, Mask, Rows
from setwise._validation import whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.ranking.partial_set import PartialSet, best_set
from setwise.ranking.ranker import Ranker, Ranking

SOLUTIONS, TOP = 100, 1
ROUNDING = 1e-9  # relative slack of the constraints on denominators


class Guess(NamedTuple):
    """t = ``factor`` · D(Y), Y being X or an earlier solution of the same X; μ is the ``quantile`` of the scores."""

    factor: float
    quantile: float
    solution: int | None = None  # the number of the solution, from 1 on; None is X


GUESSES = (  # after the first solution, greedy for F
    Guess(2.0, 0.9),
    Guess(1.1, 0.5),
    Guess(2.0, 0.9, 2),
    Guess(1.1, 0.9),
    Guess(1.1, 0.5, 3),
    Guess(1.1, 0.9, 5),
    Guess(1.1, 0.0),
)
PROBLEMS = 1 + len(GUESSES)
EARLY = 3  # tuples before the second round
AGAIN = tuple(Guess(1.1, quantile) for quantile in (0.9, 0.5, 0.97, 0.0))  # with Y the best solution
PARTNERS = (Guess(2.0, 0.9),)  # in turn, with Y = X and one more item
PINNED_PARTNERS = (Guess(2.0, 0.97), Guess(2.0, 0.5))


class AuxiliaryProblems:
    """P(X, t) of an instance: the arrays that all of them share."""

    def __init__(self, instance: Instance, constraints: Constraints) -> None:
        self.instance, self.constraints = instance, constraints
        self.own = np.diagonal(instance.weight, axis1=1, axis2=2)  # (H, m)
        sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
        self.sink = instance.sink_weight * sink_score[:, None]  # (H, m)
        self.evaluations = 0

    def level(self, quantile: float) -> Floats:
        """μ (H,)."""
        return np.asarray(np.quantile(self.instance.score, quantile, axis=1))

    def denominators(self, members: Rows) -> Floats:
        """D (H, m): of every candidate beside ``members``, its own weight included."""
        total = self._weights_of(members) + self.own
        total[:, members] -= self.own[:, members]
        return total

    def largest(self, members: Rows) -> Floats:
        """The largest denominators that ``members`` can have in a set of k: (H, |X|)."""
        others = np.delete(self.instance.weight[:, members], members, axis=2)
        room = min(self.constraints.k - len(members), others.shape[2])
        most = np.sort(others, axis=2)[:, :, others.shape[2] - room :].sum(axis=2)
        return np.asarray(self._weights_of(members)[:, members] + most)

    def exact(self, members: Rows, free: Mask, alone: bool = False) -> Rows:
        """The set that greedy finds for F, the best on the way: P(X, t) with t = Wx, whichever x is.

        X itself is not it, where anything may be added, but with ``alone``.
        """
        start = self.partial(members, free)
        path = [start, *start.greedy_extensions(1)]
        self.evaluations += sum(partial.evaluations for partial in path)
        return best_set(path if alone and len(members) else path[1:] or path).chosen

    def partial(self, members: Rows, free: Mask) -> PartialSet:
        """X as a partial set to which the candidates ``free`` may be added."""
        available = free.copy()
        available[members] = True
        return PartialSet.from_pinned(self.instance, replace(self.constraints, open=available, pinned=members))

    def greedy(self, members: Rows, free: Mask, t: Floats, level: Floats) -> Rows:
        """The set that greedy finds for P(X, t) with X = ``members`` and the candidates ``free`` beside it."""
        chosen, value = members, -np.inf
        while len(chosen) < self.constraints.k:
            allowed = free & self.constraints.joinable(chosen) & self._feasible(chosen, t)
            if not allowed.any():
                break
            after = np.where(allowed, self._objectives_after(chosen, t, level), -np.inf)
            best = int(np.argmax(after))
            if after[best] <= value:
                break
            chosen, value = np.append(chosen, best), after[best]
        return chosen

    def _weights_of(self, members: Rows) -> Floats:
        """The weight of the sink and of ``members``, for every candidate: (H, m)."""
        return np.asarray(self.instance.sink_weight + self.instance.weight[:, :, members].sum(axis=2))

    def _feasible(self, chosen: Rows, t: Floats) -> Mask:
        """The candidates with which no denominator of a chosen item is above t: (m,)."""
        room = t * (1 + ROUNDING) - self._weights_of(chosen)
        mine = (self.instance.weight[:, chosen] <= room[:, chosen, None]).all(axis=(0, 1))
        return np.asarray(mine & (self.own <= room).all(axis=0))

    def _average(self, numerator: Floats, t: Floats, level: Floats) -> Floats:
        """Σ_h (μ + numerator / t) over the leading axis; 0 where no weight can be attended."""
        share = np.divide(numerator, t, out=np.zeros_like(numerator), where=t > 0)
        shift = level.reshape(-1, *[1] * (numerator.ndim - 1))
        return np.asarray(np.where(t > 0, shift + share, 0.0).sum(axis=0))

    def _objectives_after(self, chosen: Rows, t: Floats, level: Floats) -> Floats:
        """The objective of P(X, t) with each candidate added: (m,)."""
        it, score = self.instance, self.instance.score - level[:, None]
        self.evaluations += it.m
        numerator = self.sink - it.sink_weight * level[:, None]
        numerator = numerator + (it.weight[:, :, chosen] * score[:, None, chosen]).sum(axis=2)
        own = it.base + self._average(numerator + self.own * score, t, level)
        total = evaluate(it.rewards, it.reward_class, own, it.reward_weight)
        if len(chosen):
            added = numerator[:, chosen, None] + it.weight[:, chosen] * score[:, None]
            wide = np.broadcast_to(t[:, chosen, None], added.shape)
            argument = it.base[chosen, None] + self._average(added, wide, level)
            classes = np.repeat(it.reward_class[chosen], it.m)
            weights = np.repeat(it.weights[chosen], it.m)
            rewards = evaluate(it.rewards, classes, argument.ravel(), weights).reshape(argument.shape)
            with np.errstate(invalid="ignore"):  # ∞ − ∞
                total = total + rewards.sum(axis=0)
        return np.nan_to_num(total, nan=-np.inf, posinf=1e300, neginf=-1e300)


# --- valid tuples ---


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


def _joined(constraints: Constraints, rows: Rows) -> Rows | None:
    """The pinned items and ``rows``, or None where a constraint forbids them together."""
    members = constraints.pinned
    for row in rows:
        if not constraints.joinable(members)[row]:
            return None
        members = np.append(members, row)
    return members


# --- candidate solutions ---


def candidate_solutions(problems: AuxiliaryProblems, c: int, per_tuple: int | None = None) -> Iterator[Rows]:
    """The sets that the auxiliary problems of all valid tuples lead to, tuple by tuple but for the second round.

    ``c`` is the number of items that are added to the pinned ones.
    """
    tuples = _partial_solutions(problems.instance, problems.constraints, c)
    if c and per_tuple is None:
        yield from _two_rounds(problems, list(islice(tuples, EARLY)))
    of_tuple = _around if c else _around_pinned
    for members, free in tuples:
        yield from islice(of_tuple(problems, members, free), per_tuple)


def _around(problems: AuxiliaryProblems, members: Rows, free: Mask) -> Iterator[Rows]:
    """The solutions of one valid tuple: greedy for F, then ``GUESSES``."""
    beside, largest = problems.denominators(members), problems.largest(members)
    found = [problems.exact(members, free)]
    yield found[0]
    for factor, quantile, solution in GUESSES:
        t = factor * (beside if solution is None else problems.denominators(found[solution - 1]))
        if solution is None:
            t[:, members] = largest
        found.append(problems.greedy(members, free, t, problems.level(quantile)))
        yield found[-1]


def _two_rounds(problems: AuxiliaryProblems, tuples: list[tuple[Rows, Mask]]) -> Iterator[Rows]:
    """The solutions of these tuples, of t from the best of them, and of the first tuple's partners."""
    best, most, of = np.zeros(0, np.intp), -np.inf, 0
    for number, (members, free) in enumerate(tuples):
        for found in _around(problems, members, free):
            yield found
            if (value := problems.instance.value(found)) > most:
                best, most, of = found, value, number
    better = len(best) > 0
    while better:
        better, t = False, problems.denominators(best)
        for factor, quantile, _ in AGAIN:
            found = problems.greedy(*tuples[of], factor * t, problems.level(quantile))
            yield found
            if (value := problems.instance.value(found)) > most:
                best, most, better = found, value, True
                break
    for members, free in tuples[:1]:
        yield from _with_partners(problems, members, free, PARTNERS)


def _around_pinned(problems: AuxiliaryProblems, members: Rows, free: Mask) -> Iterator[Rows]:
    """The solutions with X pinned: greedy for F, then those with one more item in t."""
    yield problems.exact(members, free, alone=True)
    yield from _with_partners(problems, members, free, PINNED_PARTNERS)


def _with_partners(
    problems: AuxiliaryProblems, members: Rows, free: Mask, guesses: tuple[Guess, ...]
) -> Iterator[Rows]:
    """The solutions with t from X and one more item, the best item first."""
    ranked = problems.partial(members, free).ranked
    for added, (factor, quantile, _) in zip(ranked, cycle(guesses), strict=False):
        t = factor * problems.denominators(np.append(members, added))
        yield problems.greedy(members, free, t, problems.level(quantile))


def paper(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int = SOLUTIONS,
    top: int = TOP,
    problems: int | None = None,
) -> Ranking:
    """The best of ``solutions`` candidate solutions: eight for each tuple of ``top`` items, and a second round.

    With ``problems`` every tuple has at most so many, and there is no second round. Pinned items belong to every tuple.
    If there are ``top`` or more, they are the only tuple; ``problems`` may be larger than 8 then.
    """
    per_tuple = None if problems is None else whole_number("problems", problems)
    c = max(0, whole_number("top", top) - len(constraints.pinned))
    if c and per_tuple is not None and per_tuple > PROBLEMS:
        raise InvalidInput("problems", f"at most {PROBLEMS}", per_tuple, "raise solutions instead")
    most = whole_number("solutions", solutions)
    every = AuxiliaryProblems(instance, constraints)
    smallest = []  # the best set of fewest members
    if c and most > 1:
        pinned = constraints.pinned
        smallest = [pinned if len(pinned) else _by_reward_alone(instance, constraints)[:1]]
    return _best_of(every, chain(islice(candidate_solutions(every, c, per_tuple), most - len(smallest)), smallest))


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


PAPER = Ranker("paper", paper, "Phase Two")
