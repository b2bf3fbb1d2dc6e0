"""How much rounding can change the value of a set: a proof in plain doubles is worth no more than that.

The sum of d products has an error of at most d 2⁻⁵² ‖q‖ ‖k‖ = δ. Weights then differ by a factor e^±δ, and an average
of scores of size M at most by 2 M δ (and never by more than 2 M). ε, the sum over the heads, changes a reward by at
most L ε if it is L-Lipschitz, and by a factor e^(|scale| ε) if it is ``Exp``, ``Logistic`` or ``Softplus``: the
logarithms of these three have no steeper slope than scale, so tiny rewards change by a tiny amount.

Models of pairs have scores of 10¹² behind weights of 10⁻¹², which a sink holds down. The share p_j of a member changes
by a factor of at most e^±2δ, so an average changes by at most (e^2δ − 1) Σ_j p_j |s_j|, and p_j is at most
w_j / (w_j + w_sink), whatever the other members are. Likewise the share of the sink in the row of item i is at most
w_sink / (w_ii + w_sink), because i attends to itself: a constant is a sink of weight 10⁻⁸ with a score of 10⁸ times it.

Terms of an argument that cancel leave their own rounding behind. An argument a = b + Σ_h avg_h has an error of some
2⁻⁵² (B + Σ_h |avg_h|), where B is the sum of the sizes of the terms of b, and

    B + Σ_h |avg_h|  ≤  (B − |b|) + 2 Σ_h |avg_h| + |a|.

The last part is the rounding of a itself, which changes a reward by a part in 10¹⁵ unless its bias cancels with a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from setwise._types import Array, Floats, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.rewards import Exp, Logistic, Reward, Softplus, evaluate
from setwise.model.users import User

_EPS = 2.0**-52
_MOST_PAIRS = 2000  # items up to which the shares of all pairs are computed
_UNDERFLOW = 1e-160  # of smaller rewards some products underflow


def largest_logits(catalog: Catalog) -> Floats:
    """The largest ‖q_i‖ ‖k_j‖ of each head (H,), which no inner product of a query and a key exceeds."""
    query, key = _longest(catalog, "query"), _longest(catalog, "key")
    if catalog.sink is not None:
        key = np.maximum(key, _norms(catalog.sink.key[None])[0])
    return query * key


def rounding_error(catalog: Catalog, user: User, k: int, size: float) -> float:
    """The most by which rounding can change the value of a set of k items; ``size`` is that of its rewards."""
    shift = catalog.query.shape[2] * _EPS * largest_logits(catalog)
    own = (catalog.value.shape[2] + k + 8) * _EPS  # of the scores, the sums and the quotient
    averages = _largest_scores(catalog, user)
    errors = (2.0 * np.minimum(shift, 1.0) + own) * averages
    if catalog.sink is not None and catalog.positions is None and len(catalog) <= _MOST_PAIRS and shift.max() < 1e-6:
        averages = np.minimum(averages, _shared_scores(catalog, user, k))
        errors = np.minimum(errors, (3.0 * shift + own) * averages)
    terms, cancelled = _base_terms(catalog, user)
    places = 8 + catalog.heads + (0 if catalog.base is None else catalog.base.shape[1])
    near = min(terms + averages.sum(), _largest_bias(catalog))
    error = float(errors.sum() + places * _EPS * (2.0 * averages.sum() + cancelled + near))
    families = (Exp,), (Exp, Logistic, Softplus)
    return min(_reward_change(catalog, _heaviest(user) * k, size, error, some) for some in families)


def _heaviest(user: User) -> float:
    """The largest ω_i: by so much an error in a reward counts more."""
    return 1.0 if user.weights is None else float(user.weights.max())


def _reward_change(
    catalog: Catalog, k: float, size: float, error: float, proportional: tuple[type[Reward], ...]
) -> float:
    """How far errors in the arguments change a value of k rewards; some families change by a factor."""
    exponent = max((abs(one.parameters[0]) for one in catalog.rewards if isinstance(one, proportional)), default=0.0)
    steepest = max((one.lipschitz for one in catalog.rewards if not isinstance(one, proportional)), default=0.0)
    if exponent * error >= 1.0:  # even of a size of 0 nothing is known: rewards may have underflowed
        return math.inf
    return k * steepest * error + math.expm1(exponent * error) * size


def largest_change(catalog: Catalog, user: User, k: int) -> float:
    """The most by which the terms of its arguments can change the value of a set, all rewards being Lipschitz."""
    steepest = max((reward.lipschitz for reward in catalog.rewards if not isinstance(reward, Exp)), default=0.0)
    return (
        _heaviest(user)
        * k
        * steepest
        * float(2.0 * _largest_scores(catalog, user).sum() + _base_terms(catalog, user)[0])
    )


def largest_rewards(catalog: Catalog, user: User, rows: Sequence[int], places: Sequence[int] | None) -> float:
    """The size of a set whose rewards are all 0, though the terms of their arguments were rounded.

    The number of items times the largest |f(a)| that these terms allow, for the family in which it is least.
    """
    members, at = np.asarray(rows, np.intp), None if places is None else np.asarray(places, np.intp)
    scores = np.abs(objective.scores(catalog, user, members, at)[0]).max(axis=1, initial=0.0)
    terms = float(scores.sum() + np.abs(objective.base_scores(catalog, user, members)).max(initial=0.0))
    ends = np.array([-terms, terms])
    heaviest = 1.0 if user.weights is None else float(user.weights[members].max(initial=0.0))
    return heaviest * len(rows) * min(float(np.abs(f(ends)).max()) for f in catalog.rewards) + _UNDERFLOW


def size_above(catalog: Catalog, user: User, k: int, rows: Rows, bound: float) -> float:
    """The most that Σ |f_i| can be for k of these rows whose value exceeds ``bound``.

    It is 2 Σ max(f_i, 0) − F, and no average is larger than the largest score of its head.
    """
    most = objective.scores(catalog, user, rows, None)[0].max(axis=1, initial=-np.inf)
    if catalog.positions is not None:
        most += np.einsum("phd,hd->hp", catalog.positions.value.astype(np.float64), user.heads).max(axis=1)
    if catalog.sink is not None:
        most = np.maximum(most, np.einsum("hd,hd->h", catalog.sink.value.astype(np.float64), user.heads))
    with np.errstate(over="ignore"):
        highest = objective.base_scores(catalog, user, rows) + most.sum()
        rewards = evaluate(catalog.rewards, catalog.reward_class[rows], highest, user.weights_of(rows))
        gains = np.maximum(rewards, 0.0)
        return float(2.0 * np.sort(gains)[-k:].sum() - bound)


def _largest_scores(catalog: Catalog, user: User) -> Floats:
    """The largest size that a score can have in each head (H,)."""
    value = _longest(catalog, "value")
    if catalog.sink is not None:
        value = np.maximum(value, _norms(catalog.sink.value[None])[0])
    return np.asarray(value * np.linalg.norm(np.asarray(user.heads, np.float64), axis=1))


def _base_terms(catalog: Catalog, user: User) -> tuple[float, float]:
    """The largest sum of the sizes of the terms of base_i · u⁰ + t_i, and the most of it that cancels in an item."""
    rows = np.arange(len(catalog))
    sizes = np.zeros(len(rows)) if user.scores is None else np.abs(user.scores.of(rows))
    if catalog.base is not None and user.base is not None:
        sizes = sizes + np.abs(catalog.base).astype(np.float64) @ np.abs(user.base)
    left = sizes - np.abs(objective.base_scores(catalog, user, rows))
    return float(sizes.max(initial=0.0)), float(left.max(initial=0.0))


def _largest_bias(catalog: Catalog) -> float:
    """The largest size of an argument at which a reward can bend, far from 0: there its own rounding counts."""
    bends = [abs(x) for one in catalog.rewards for x, _ in one.knots]
    affine = [one.parameters[:2] for one in catalog.rewards if len(one.parameters) > 1]
    return max(bends + [abs(bias / scale) for scale, bias in affine if scale], default=0.0)


def _shared_scores(catalog: Catalog, user: User, k: int) -> Floats:
    """The most that Σ_j p_j |s_j| can be in each head (H,), the sink's part included, for any item and k members."""
    assert catalog.sink is not None
    lengths = np.linalg.norm(np.asarray(user.heads, np.float64), axis=1)
    sizes, most = _norms(catalog.value) * lengths, np.empty(catalog.heads)
    of_sink = _norms(catalog.sink.value[None])[0] * lengths
    for head in range(catalog.heads):
        query, key = (part[:, head].astype(np.float64) for part in (catalog.query, catalog.key))
        with np.errstate(over="ignore"):
            less = (query @ catalog.sink.key[head].astype(np.float64))[:, None] - query @ key.T
            shared = sizes[:, head] / (1.0 + np.exp(np.minimum(less, 700.0)))  # never 0: a score may be huge
            sink = of_sink[head] / (1.0 + np.exp(np.minimum(-less.diagonal(), 700.0)))
        shared.partition(max(len(catalog) - k, 0), axis=1)
        most[head] = 1.001 * (shared[:, -k:].sum(axis=1) + sink).max()
    return most


def _longest(catalog: Catalog, name: str) -> Floats:
    """The largest norm of a vector of each head (H,), with the encoding of a place where slates are ordered."""
    parts = [catalog] if catalog.positions is None else [catalog, catalog.positions]
    return np.asarray(np.sum([_norms(getattr(part, name)).max(axis=0) for part in parts], axis=0))


def _norms(vectors: Array) -> Floats:
    """The norms of (n, H, d), in doubles: (n, H)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=2))
