"""The slates that the optimiser itself would show: where a model is believed most, and so where it must be right.

Whoever maximises a learned F finds the sets where its errors are largest (the optimiser's curse). So negatives are
mined, and promises calibrated, on the very sets that would be shown: the swap search over the most promising items of
the whole catalogue, cut short, for many users at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Rows
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.instance import Instance
from setwise.model.users import User
from setwise.ranking import DEFAULT, rank_many, ranker_named

CANDIDATES = 120  # items searched for a user
EVALUATIONS = 12_000  # sets valued for a user: a greedy growth and the swaps of a few starts
_TOGETHER = 256  # users whose scores are computed in one product


def shown_slates(
    catalog: Catalog,
    users: Sequence[User],
    exclude: Sequence[NDArray[np.int64]],
    k: int = 10,
    ranker: str = DEFAULT.name,
    threads: int | None = None,
) -> list[Rows]:
    """What would be shown to each user: rows of the catalogue, none of ``exclude``."""
    result: list[Rows] = []
    options: dict[str, Any] = {"evaluations": EVALUATIONS} if ranker_named(ranker).takes_evaluations else {}
    for start in range(0, len(users), _TOGETHER):
        some, barred = users[start : start + _TOGETHER], exclude[start : start + _TOGETHER]
        instances = [
            Instance.from_catalog(catalog, user, rows)
            for user, rows in zip(some, promising(catalog, some, barred, max(CANDIDATES, 2 * k)), strict=True)
        ]
        rankings = rank_many(instances, k, ranker, threads=threads, **options)
        result += [instance.candidates[ranking.indices] for instance, ranking in zip(instances, rankings, strict=True)]
    return result


def promising(catalog: Catalog, users: Sequence[User], exclude: Sequence[NDArray[np.int64]], most: int) -> list[Rows]:
    """For every user the items that rank highest: half by what they are worth alone, the rest by base or a head."""
    base = np.zeros((len(users), len(catalog)), np.float32)
    if catalog.base is not None:
        base = np.stack([user.base for user in users if user.base is not None]).astype(np.float32) @ catalog.base.T
    heads = np.stack([user.heads for user in users]).astype(np.float32)
    score = np.einsum("bhd,nhd->hbn", heads, catalog.value, optimize=True)
    share = own_share(catalog)
    alone = base + np.einsum("hn,hbn->bn", share, score)
    if catalog.sink is not None:
        alone += np.einsum("bhd,hd->bh", heads, catalog.sink.value) @ (1 - share)
    measures = np.stack([alone, base, *score] if catalog.base is not None else [alone, *score], axis=1)
    result = []
    for of_user, barred in zip(measures, exclude, strict=True):
        of_user[:, barred] = -np.inf
        open_ = int(np.count_nonzero(of_user[0] > -np.inf))
        if not open_:
            got = "one who knows every item"
            raise InvalidInput("users", "such that an item or more is left to show", got, "leave that user out")
        result.append(_best(of_user, min(most, open_)))
    return result


def own_share(catalog: Catalog) -> NDArray[np.float32]:
    """(H, n): the weight that an item alone on a slate gives itself beside the sink; 1 without a sink."""
    if catalog.sink is None:
        return np.ones((catalog.heads, len(catalog)), np.float32)
    own = np.einsum("nhd,nhd->hn", catalog.query, catalog.key)
    silent = np.einsum("nhd,hd->hn", catalog.query, catalog.sink.key)
    return np.asarray(1 / (1 + np.exp(np.clip(silent - own, -80, 80))), np.float32)


def _best(measures: NDArray[np.float32], most: int) -> Rows:
    """The rows with the best place in any measure; places in the first count double."""
    kept = np.unique(np.argpartition(-measures, min(most, measures.shape[1] - 1), axis=1)[:, :most])
    places = np.argsort(np.argsort(-measures[:, kept], axis=1, kind="stable"), axis=1, kind="stable").astype(float)
    places[0] /= len(measures)
    return np.sort(kept[np.argsort(places.min(axis=0), kind="stable")[:most]])
