"""What items are worth alone: r_i = ω_i f_i(a_i({i})), the reward of item i as the only item of a slate.

    a_i({i}) = base_i · u⁰ + t_i + Σ_h ( p_i^h s_i^h + (1 − p_i^h) s_0^h ),    p_i^h = w_ii^h / (w_ii^h + z_i^h)

p_i^h does not depend on the user, and is 1 without a sink. The k items of largest r_i are the fair *top-k*: what a
recommender shows that knows every item's worth and nothing of sets. The total score base_i · u⁰ + Σ_h s_i^h, which a
vector database maximises, is another order if there is a sink or more than one reward function.

``best_alone`` screens in float32 and decides in float64, so of items that differ by less than float32 resolves, a
worse one may be returned; ``rewards_alone`` is float64 throughout.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Floats32, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.rewards import evaluate
from setwise.model.users import User

_CHUNK = 16_384  # rows whose vectors are in memory as float64
_MARGIN = 64  # items beyond those wanted that float64 decides among

_self_weights: WeakKeyDictionary[Catalog, Floats32] = WeakKeyDictionary()


def rewards_alone(catalog: Catalog, user: User, rows: Rows) -> Floats:
    """r_i of these rows, in float64."""
    parts = [_rewards(catalog, user, some) for some in np.array_split(rows, max(1, -(-len(rows) // _CHUNK)))]
    return np.concatenate(parts)


def screened_alone(catalog: Catalog, user: User) -> Floats:
    """r_i of all items in float32, which is enough to compare items that differ visibly."""
    reward = _approximate(catalog, user)
    if len(catalog.rewards) == 1 and user.weights is None:  # that is the argument
        reward = evaluate(catalog.rewards, catalog.reward_class, reward.astype(np.float64))
    return np.asarray(np.nan_to_num(reward, nan=0.0, posinf=1e30, neginf=-1e30), np.float64)


def best_alone(catalog: Catalog, user: User, rows: Rows, most: int) -> Rows:
    """The ``most`` rows of largest reward alone, in increasing order; ties go to the lower row."""
    if len(rows) > most + _MARGIN:
        screened = _approximate(catalog, user)[rows]
        rows = rows[np.argpartition(-screened, most + _MARGIN)[: most + _MARGIN]]
    reward = rewards_alone(catalog, user, rows)
    return np.sort(rows[np.lexsort((rows, -reward))[:most]])


def self_weight(catalog: Catalog) -> Floats32:
    """(H, n): p_i^h, the attention that item i as a slate of one gives itself; kept as long as the catalogue."""
    found = _self_weights.get(catalog)
    if found is None:
        found = _self_weights[catalog] = _computed_self_weight(catalog)
    return found


def _computed_self_weight(catalog: Catalog) -> Floats32:
    if catalog.sink is None:
        return np.ones((catalog.heads, len(catalog)), np.float32)
    own = np.einsum("nhd,nhd->hn", catalog.query, catalog.key)
    sink = np.einsum("nhd,hd->hn", catalog.query, catalog.sink.key)
    return np.asarray(1 / (1 + np.exp(np.clip(sink - own, -80, 80))), np.float32)


def _rewards(catalog: Catalog, user: User, rows: Rows) -> Floats:
    score, sink_score = objective.scores(catalog, user, rows, None)
    argument = objective.base_scores(catalog, user, rows)
    if catalog.sink is None or sink_score is None:
        argument = argument + score.sum(axis=0)
    else:
        query, key = (vectors[rows].astype(np.float64) for vectors in (catalog.query, catalog.key))
        own = np.einsum("nhd,nhd->hn", query, key)
        sink = np.einsum("nhd,hd->hn", query, catalog.sink.key.astype(np.float64))
        argument = argument + (sink_score[:, None] + share_of_own(own, sink) * (score - sink_score[:, None])).sum(0)
    return evaluate(catalog.rewards, catalog.reward_class[rows], argument, user.weights_of(rows))


def share_of_own(own: Floats, sink: Floats) -> Floats:
    """The weight p = e^own / (e^own + e^sink) without overflow; 0 where ``own`` is −∞."""
    difference = np.clip(sink - own, -700, 700)
    return np.asarray(np.where(np.isneginf(own), 0.0, 1 / (1 + np.exp(difference))))


def _approximate(catalog: Catalog, user: User) -> NDArray[np.floating]:
    """r_i of all items in float32; the argument itself where one increasing reward gives the same order."""
    score = np.einsum("nhd,hd->hn", catalog.value, user.heads.astype(catalog.value.dtype), optimize=True)
    if catalog.sink is not None:
        sink_score = np.einsum("hd,hd->h", catalog.sink.value, user.heads.astype(catalog.value.dtype))
        score = sink_score[:, None] + self_weight(catalog) * (score - sink_score[:, None])
    argument = score.sum(axis=0)
    if catalog.base is not None and user.base is not None:
        argument += catalog.base @ user.base.astype(catalog.base.dtype)
    if user.scores is not None:
        argument = argument + user.scores.whole()
    if len(catalog.rewards) == 1 and user.weights is None:
        return np.asarray(argument)
    return evaluate(catalog.rewards, catalog.reward_class, argument.astype(np.float64), user.weights)
