"""Items that do not interact: without attention the best slate of the whole catalogue is known exactly.

If every score s_i^h of the user is 0 (no values, or a user without head vectors), a_i does not depend on the set:

    F(S) = Σ_{i∈S} r_i,    r_i = f_i(base_i · u⁰ + t_i)

The best set of at most k items has the largest positive r_i, or the largest r_i alone if none is positive. With pinned
items or an upper limit on the items of one attribute's value, it is chosen greedily by r_i. The same holds for k = 1,
where no item has company: r_i = f_i(a_i({i})) then includes what an item and the sink give it.

Large catalogues are screened in float32 first. With a single reward, which never decreases, only items whose argument
is within rounding of the k-th largest are computed in float64: |fl(b · u) − b · u| ≤ (d + 2) ε |b| |u|.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.model.alone import rewards_alone
from setwise.model.rewards import evaluate
from setwise.ranking import DEFAULT
from setwise.recommend.query import Query

SCREENED_FROM = 2_000_000  # numbers in the base of the eligible items
SINGLE_UP_TO = 50_000_000  # numbers in the vectors of the eligible items: about 0.1 s; beyond it k = 1 is searched
NUMBER_MS = 5e-6  # one of these numbers takes; with less time k = 1 is answered as any other k
_CHUNK = 16_384  # rows


def is_independent(query: Query) -> bool:
    """Whether no item changes the reward of another, the limits can be kept greedily, and there is time."""
    if query.ranker is not DEFAULT or not _is_matroid(query):
        return False
    if not _attends(query):
        return True
    size = _size(query)
    return query.k == 1 and size <= SINGLE_UP_TO and (query.budget_ms is None or NUMBER_MS * size <= query.budget_ms)


def _is_matroid(query: Query) -> bool:
    """Whether all limits are ``at_most`` of one attribute, and the pinned items, if any, are within them; no sums.

    The sets that keep such limits are a matroid, on which the greedy set is the best. Ranking rejects other pins.
    """
    if query.sums or any(name != "at_most" or len(stated) > 1 for name, stated in query.limits.items()):
        return False
    return len(query.include) <= query.k and query.keeps_limits(query.include)


def _attends(query: Query) -> bool:
    return bool(query.user.heads.any()) and query.catalog.attends


def _size(query: Query) -> int:
    """The numbers that rewards alone are computed from."""
    width = sum(part.shape[1] * part.shape[2] for part in (query.catalog.query, query.catalog.key, query.catalog.value))
    return int(query.eligible.count * width)


def best_independent(query: Query) -> Rows:
    """The rows of the best set; of items with equal rewards, those of lower row."""
    if _attends(query):
        rows = query.eligible.rows
        reward = rewards_alone(query.catalog, query.user, rows)
    else:
        rows = _screened(query)
        reward = _rewards(query, rows)
    if query.is_limited:
        return _best_limited(query, rows, reward)
    order = np.lexsort((rows, -reward))[: query.k]
    count = max(1, int(np.count_nonzero(reward[order] > 0)))
    return np.sort(rows[order[:count]])


def _best_limited(query: Query, rows: Rows, reward: Floats) -> Rows:
    """The pinned items, then the others by reward as long as it is positive and their value has room."""
    label, room = np.full(len(rows), -1), query.k
    for attribute, room in query.limits.get("at_most", {}).items():  # noqa: B007  # one at most
        label = query.catalog.attributes.labels(attribute, rows)
        label[np.isin(rows, query.uncounted)] = -1
    pinned = np.isin(rows, query.include)
    counts = np.bincount(label[pinned & (label >= 0)], minlength=int(label.max(initial=0)) + 1)
    chosen = [int(row) for row in rows[pinned]]
    for at in np.lexsort((rows, -reward)).tolist():
        if len(chosen) == query.k or (chosen and reward[at] <= 0):
            break
        if pinned[at] or (label[at] >= 0 and counts[label[at]] >= room):
            continue
        chosen.append(int(rows[at]))
        counts[max(label[at], 0)] += label[at] >= 0
    return np.sort(np.array(chosen, np.intp))


def _rewards(query: Query, rows: Rows) -> Floats:
    """r_i in float64."""
    catalog = query.catalog
    parts = [
        evaluate(
            catalog.rewards,
            catalog.reward_class[some],
            objective.base_scores(catalog, query.user, some),
            query.user.weights_of(some),
        )
        for some in np.array_split(rows, -(-len(rows) // _CHUNK))
    ]
    return np.concatenate(parts)


def _screened(query: Query) -> Rows:
    """The eligible rows, without those that cannot be among the k best."""
    catalog, rows = query.catalog, query.eligible.rows
    base, vector = catalog.base, query.user.base
    if query.is_limited or base is None or vector is None or len(rows) * base.shape[1] < SCREENED_FROM:
        return rows
    if len(catalog.rewards) > 1 or len(rows) <= query.k or query.user.weights is not None:
        return rows
    argument = np.asarray(base @ vector.astype(base.dtype), np.float64)[rows]
    if query.user.scores is not None:
        argument += query.user.scores.of(rows)
    error = (base.shape[1] + 2) * float(np.finfo(base.dtype).eps) * catalog.longest_base * float(np.linalg.norm(vector))
    limit = np.partition(argument, -query.k)[-query.k] - 2 * error
    return np.asarray(rows[argument >= limit])
