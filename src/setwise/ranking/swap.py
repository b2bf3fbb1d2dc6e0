"""Swap search: local search from many starts; each step makes the best single exchange, addition or removal.

A climb starts with the pinned items and a start item and grows greedily to k members. It then makes the best of all
exchanges (one member out, one candidate in), additions (while |S| < k) and removals as long as F rises; in an ordered
slate also the best exchange of two positions or shift of one item past others. Start items are the candidates of
highest score, those that promise most as anchors, of highest reward beside the best-scored one, and of most attention
received. Later climbs start from perturbations of the best set: some members are replaced at random. The best set found
is returned. The order of the work does not depend on the budget, from 20 ms on: a larger one never gives a smaller
value, unless the smaller one ended before the first climb had grown to k members. The rest of them is then added at
once, by the values of the last step.

Weights are e^(logit − the row's largest), and at least e^−700. If logits of one item are more than 600 apart, the
search may not distinguish the smallest weights. Then greedy also runs, which evaluates sets from the logits, and the
better set is returned.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise._validation import milliseconds, read_only, whole_number
from setwise.bounds.prices import Prices, good_prices
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import Logistic, evaluate
from setwise.ranking.greedy import greedy
from setwise.ranking.ranker import Ranker, Ranking

if TYPE_CHECKING:
    from setwise.ranking.swap_kernels import SwapInstance, SwapState

# Default evaluations: with them the search reaches 0.999 of the best known value on trained catalogues (k = 5 and 10).
# They grow with k m, the number of exchanges of one member for one candidate.
DEFAULT_EVALUATIONS = 400_000
MAX_PER_PAIR, MIN_PER_PAIR = 1_000, 100  # default evaluations per pair: the first caps small instances
MAX_PER_SET = 100  # evaluations per feasible set: a larger budget would only repeat them
START_ITEMS = 8  # of each kind
ANCHOR_PAIRS = 100_000  # pairs of an anchor and a partner that are valued: all up to 316 candidates
ANCHOR_MS = 20.0  # the least budget that has time for them
FIRST_SLICE = 2_000  # evaluations before the clock is first read
SLICE_MS = 0.5  # between later readings
ALWAYS_GROWN = (
    1_000_000  # heads · k² · m: a first growth of at most so many operations, a millisecond or two, is finished
)
UNLIMITED = 2**62
LEAST_SINGLE, LARGEST_SINGLE = 1e-35, 60.0  # weights and logistic arguments that single precision can represent
GROWTHS = 4  # of sets at prices, each by what items add to the set before
PENALTY = 100.0  # for what a set lacks of a least sum, in sums of its largest rewards
WIDE_SPREAD = 600.0  # greedy also runs if finite logits of one row are further apart


def swap(
    instance: Instance,
    constraints: Constraints,
    *,
    evaluations: int | None = None,
    budget_ms: float | None = None,
    seed: int = 0,
) -> Ranking:
    """The best set of many climbs.

    The search stops after ``evaluations`` sets (the same result on any machine; the first greedy growth is always
    finished) or after ``budget_ms`` milliseconds. Without either it stops after ``default_evaluations``.
    """
    from setwise.kernels.options import YES  # compiled code: imported when needed, so that `import setwise` is fast
    from setwise.ranking import swap_climbs, swap_kernels

    began = time.perf_counter()
    budget = milliseconds(budget_ms)
    most = UNLIMITED if evaluations is None else min(whole_number("evaluations", evaluations), UNLIMITED)
    if evaluations is None and budget is None:
        most = default_evaluations(instance.m, constraints.k)
    most = min(most, MAX_PER_SET * _number_of_sets(constraints))
    pairs = ANCHOR_PAIRS if budget is None or budget >= ANCHOR_MS else 0
    problem = _swap_instance(instance, constraints, pairs)
    state = _initial_state(problem, whole_number("seed", seed, least=0))
    if len(constraints.sums):
        problem = _priced(problem, state, instance, constraints)
    if budget is None:
        swap_climbs.advance(problem, state, most, YES)
    else:
        _advance_until(began + budget / 1000, problem, state, most)
    found = state.best[: state.tally[swap_kernels.BEST_SIZE]].astype(np.intp)
    ranking = Ranking(found, instance.value(found), evaluations=int(state.tally[swap_kernels.EVALUATIONS]))
    if not len(problem.weight_32) and _has_wide_spread(instance):  # single precision would not have its weights
        return max(ranking, greedy(instance, constraints), key=lambda each: each.value)
    return ranking


def _priced(problem: SwapInstance, state: SwapState, instance: Instance, constraints: Constraints) -> SwapInstance:
    """The problem with prices of its sums: by what items add to the pinned ones, then to the sets that so grow."""
    from setwise.kernels.options import YES
    from setwise.ranking import swap_climbs, swap_kernels

    best, members, growths = -math.inf, constraints.pinned, GROWTHS
    if problem.k > swap_kernels.LARGE:  # in a large set items add what they add to most others
        members, growths = np.flatnonzero(constraints.open), 2
    for _ in range(growths):
        price = good_prices(instance, constraints, members)
        priced = problem._replace(offset=read_only(Prices.of_sums(price, constraints.sums).offset))
        state.tally[[swap_kernels.STARTED, swap_kernels.PHASE]] = 0
        swap_climbs.advance(priced, state, int(state.tally[swap_kernels.EVALUATIONS]) + 1, YES)
        members, value = state.members[: state.tally[swap_kernels.SIZE]].astype(np.intp), float(state.value[0])
        if value <= best:
            break
        problem, best = priced, value
    return problem


def _penalty(instance: Instance, constraints: Constraints) -> float:
    """What a set loses that lacks a least sum altogether: more than any set can bring."""
    if not (constraints.sums.least > 0).any():
        return 0.0
    scores = np.column_stack([instance.score, _sink_score(instance)])
    ends = (scores.min(axis=1).sum(), scores.max(axis=1).sum())
    rewards = [
        evaluate(instance.rewards, instance.reward_class, instance.base + end, instance.reward_weight) for end in ends
    ]
    size = np.abs(np.nan_to_num(rewards, posinf=1e30, neginf=-1e30)).max()
    return float(PENALTY * min(constraints.k, instance.m) * size + 1.0)


def default_evaluations(m: int, k: int) -> int:
    """The evaluations of a search without a budget: 1,000 k m but at most 400,000, or 100 k m if that is more."""
    pairs = min(k, m) * m
    return max(min(MAX_PER_PAIR * pairs, DEFAULT_EVALUATIONS), MIN_PER_PAIR * pairs)


def _number_of_sets(constraints: Constraints) -> int:
    """The number of sets of at most k candidates with all pinned ones, without group limits; ``UNLIMITED`` at most."""
    pinned = len(constraints.pinned)
    free, sets = int(constraints.open.sum()) - pinned, 1
    for size in range(1, min(constraints.k - pinned, free) + 1):
        sets += math.comb(free, size)
        if sets > UNLIMITED:
            return UNLIMITED
    return sets


def _advance_until(deadline: float, problem: SwapInstance, state: SwapState, most: int) -> None:
    """Search in slices of as many evaluations as the pace so far allows until the next reading of the clock.

    A first growth of few operations is always finished, so that the set is no worse than that of ``greedy``. A step
    that would end too late at the pace of the last slice is not started: with large k one step, all exchanges of every
    member, may take longer than the budget.
    """
    from setwise.kernels.options import NO, YES
    from setwise.ranking import swap_climbs, swap_kernels

    tally, slice_ = state.tally, FIRST_SLICE
    if len(problem.score) * problem.k**2 * len(problem.base) <= ALWAYS_GROWN:
        swap_climbs.advance(problem, state, 1, YES)
    now = time.perf_counter()
    while True:
        done, began = int(tally[swap_kernels.EVALUATIONS]), now
        swap_climbs.advance(problem, state, min(most, done + slice_), NO)
        now, made = time.perf_counter(), int(tally[swap_kernels.EVALUATIONS]) - done
        pace = max(made, 1) / max(now - began, 1e-9)
        if done + made >= most or now + _next_evaluations(problem, state) / pace >= deadline:
            break
        slice_ = max(1, int(pace * min(SLICE_MS / 1000, deadline - now)))
    if done + made >= most:  # without a budget the first growth would go on
        swap_climbs.advance(problem, state, most, YES)
    # By their worth in the last step; NaN, which marks members, comes last. numpy sorts: numba compiles a sort for 2 s.
    swap_climbs.end_first_growth(problem, state, np.argsort(-state.total))


def _next_evaluations(problem: SwapInstance, state: SwapState) -> int:
    """The evaluations of the next step: an addition while the set grows, else also an exchange of any member."""
    from setwise.ranking import swap_kernels

    m, size = len(problem.base), int(state.tally[swap_kernels.SIZE])
    screened = len(problem.cost) and size > swap_kernels.LARGE
    return m * (size + 1) if state.tally[swap_kernels.PHASE] == swap_kernels.CLIMBING and not screened else m


def _has_wide_spread(instance: Instance) -> bool:
    """Whether finite logits of one row are more than ``WIDE_SPREAD`` apart."""
    weight = instance.weight
    return bool(((weight < np.exp(-WIDE_SPREAD)) & (weight > 0)).any())


# --- an instance as arrays ---


def _swap_instance(instance: Instance, constraints: Constraints, pairs: int = ANCHOR_PAIRS) -> SwapInstance:
    from setwise.ranking.swap_kernels import SwapInstance

    table = RewardTable.of(instance.rewards)
    weight = instance.weight
    free = constraints.open.copy()
    free[constraints.pinned] = False
    slot, pair_at = _slots(instance)
    arrays: tuple[Any, ...] = (
        weight.transpose(1, 0, 2),
        weight.transpose(2, 0, 1),
        *_single(instance),
        np.diagonal(weight, axis1=1, axis2=2),
        instance.score,
        instance.base,
        np.stack([instance.sink_weight * _sink_score(instance), instance.sink_weight]),
        table.code,
        table.parameter,
        table.first_knot,
        table.knot,
        instance.reward_class.astype(np.int64),
        instance.weights,
        free,
        constraints.pinned.astype(np.int64),
        constraints.labels,
        constraints.limits,
        constraints.minimums,
        constraints.sums.cost,
        constraints.sums.least,
        constraints.sums.most,
        np.zeros(instance.m),
        slot,
        pair_at,
        np.empty(0, np.int64),
    )
    parts: list[Any] = [*map(read_only, arrays)]
    fields = [name for name in SwapInstance._fields if name not in ("penalty", "k", "weighted")]
    problem = SwapInstance(
        **dict(zip(fields, parts, strict=True)),
        penalty=_penalty(instance, constraints),
        k=min(constraints.k, instance.m),
        weighted=bool((instance.weights != 1).any()),
    )
    return problem._replace(start_items=read_only(_start_items(instance, problem, pairs)))


def _slots(instance: Instance) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Item and position of each candidate of an ordered slate, and the candidate of each of these pairs (−1: none)."""
    if instance.positions is None:
        return np.empty((0, 2), np.int64), np.empty((0, 0), np.int64)
    items, item = np.unique(instance.candidates, return_inverse=True)
    places, place = np.unique(instance.positions, return_inverse=True)
    pair_at = np.full((len(items), len(places)), -1)
    pair_at[item, place] = np.arange(instance.m)
    return np.stack([item, place], axis=1).astype(np.int64), pair_at.astype(np.int64)


def _start_items(instance: Instance, problem: SwapInstance, pairs: int) -> NDArray[np.int64]:
    """The best free candidates by score, as an anchor, by reward beside the best-scored one and by attention received.

    They come in turns. Under strong attention the best sets are an anchor with partners that earn most beside it; what
    an anchor promises is its reward alone and the k − 1 largest rewards that are above 0 beside it.
    """
    from setwise.ranking.swap_kernels import promises

    free = problem.free
    alone, score = (np.where(free, part, -np.inf) for part in (instance.alone, instance.total_score))
    anchors = np.argsort(-alone, kind="stable")[: max(1, pairs // (instance.m * instance.heads))]
    promise = promises(problem, anchors, alone)
    beside = np.where(free, _rewards_beside(instance, np.argmax(score)), -np.inf)
    total = instance.weight.sum(axis=2) + instance.sink_weight
    received = np.einsum("hi,hij->j", 1 / np.where(total > 0, total, 1.0), instance.weight)
    attention = np.where(free, received, -np.inf)
    columns = [np.argsort(-measure, kind="stable")[:START_ITEMS] for measure in (score, promise, beside, attention)]
    turns = np.stack(columns, axis=1).ravel()
    return turns[np.sort(np.unique(turns, return_index=True)[1])].astype(np.int64)


def _rewards_beside(instance: Instance, partner: np.intp) -> Floats:
    """f_i(a_i({i, p})) for every candidate i and one p."""
    own, given = np.diagonal(instance.weight, axis1=1, axis2=2), instance.weight[:, :, partner]
    total = own + instance.sink_weight + given
    numerator = own * instance.score + instance.sink_weight * _sink_score(instance)
    numerator = numerator + given * instance.score[:, [partner]]
    ratio = np.divide(numerator, total, out=np.zeros_like(total), where=total > 0)
    return evaluate(instance.rewards, instance.reward_class, instance.base + ratio.sum(axis=0), instance.reward_weight)


def _single(instance: Instance) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights (m, H, m) and scores in single precision; (0, H, m) where a weight or an argument is out of range."""
    weight, score = instance.weight, instance.score
    small = weight.min() < LEAST_SINGLE and ((weight > 0) & (weight < LEAST_SINGLE)).any()
    highest = np.maximum(np.abs(score).max(axis=1), np.abs(_sink_score(instance))[:, 0])
    reach = float(np.abs(instance.base).max() + highest.sum())
    logistics = [reward for reward in instance.rewards if isinstance(reward, Logistic)]
    weights = instance.weights[instance.weights > 0]
    small |= len(weights) > 0 and not LEAST_SINGLE < weights.min() <= weights.max() < 1 / LEAST_SINGLE
    if small or any(reward.scale * reach + abs(reward.bias) > LARGEST_SINGLE for reward in logistics):
        return np.empty((0, instance.heads, instance.m), np.float32), np.zeros_like(score, np.float32)
    with np.errstate(over="ignore"):  # of scores that no logistic reward uses
        return weight.transpose(1, 0, 2).astype(np.float32, order="C"), score.astype(np.float32)


def _sink_score(instance: Instance) -> Floats:
    return np.zeros((instance.heads, 1)) if instance.sink_score is None else instance.sink_score[:, None]


def _initial_state(problem: SwapInstance, seed: int) -> SwapState:
    from setwise.ranking.swap_kernels import SwapState

    (heads, m), k = problem.score.shape, problem.k
    # One step of a linear congruential generator: nearby seeds get different states, and xorshift needs one above 0.
    state = (seed * 6364136223846793005 + 1442695040888963407) % 2**64 or 1
    return SwapState(
        members=np.zeros(k, np.int64),
        best=np.zeros(k, np.int64),
        proposal=np.zeros(k, np.int64),
        counts=np.zeros(
            (len(problem.labels), max(int(problem.labels.max(initial=0)) + 1, problem.minimums.shape[1])), np.int64
        ),
        tally=np.zeros(6, np.int64),
        spent=np.zeros(len(problem.cost)),
        value=np.array([-np.inf, -np.inf, 1.0]),
        random=np.array([state], np.uint64),
        trial=np.zeros(k, np.int64),
        order=np.zeros(k, np.int64),
        total=np.empty(m),
        argument=np.empty(m),
        argument_32=np.zeros(m, np.float32),
        sums=np.empty((2, heads)),
        front=np.empty((2, heads, m)),
        back=np.empty((k + 2, 2, heads, m)),
    )


SWAP = Ranker("swap", swap, "swap search", interactive=True, lower_limits=True, default_evaluations=default_evaluations)
