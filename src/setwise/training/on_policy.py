"""On-policy slates: the slates that the optimiser itself would show.

An optimiser of a learned F selects the sets where the model errs upwards most (the optimiser's curse). The model must
therefore be trained and calibrated on those sets. This module computes them for many users at once: a short swap search
over the most promising items of the whole catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._progress import Progress
from setwise._types import SLATE_SIZE, Ints, Rows
from setwise.datasets.sessions import Slates
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.model.alone import self_weight
from setwise.model.catalog import Catalog
from setwise.model.instance import Instance
from setwise.model.ragged import Ragged
from setwise.model.users import User
from setwise.ranking import DEFAULT, rank_many, ranker_named
from setwise.training.slate_model import SlateModel

CANDIDATES = 120  # items searched per user
EVALUATIONS = 12_000  # sets evaluated per user: one greedy construction and the swaps of a few starts
_BATCH = 256  # users whose scores are computed in one product


def on_policy_slates(
    model: SlateModel,
    split: HistorySplit,
    k: int = SLATE_SIZE,
    ranker: str = DEFAULT.name,
    progress: bool | None = False,
) -> Slates:
    """The slate that ``model`` would show for every history of the split, with outcomes from its targets."""
    users, seen = list(model.users(split.history)), list(split.history)
    return split.slates(Ragged.of(optimised_slates(model.catalog(), users, seen, k, ranker, progress=progress)))


def optimised_slates(
    catalog: Catalog,
    users: Iterable[User],
    exclude: Sequence[Ints],
    k: int = SLATE_SIZE,
    ranker: str = DEFAULT.name,
    threads: int | None = None,
    progress: bool | None = False,
) -> list[Rows]:
    """The slate of each user, as rows of the catalogue without those of ``exclude``."""
    result, users = list[Rows](), list(users)
    options: dict[str, Any] = {"evaluations": EVALUATIONS} if ranker_named(ranker).takes_evaluations else {}
    with Progress("choosing slates", len(users), progress) as bar:
        for start in range(0, len(users), _BATCH):
            batch, excluded = users[start : start + _BATCH], exclude[start : start + _BATCH]
            rows = top_candidates(catalog, batch, excluded, max(CANDIDATES, 2 * k))
            instances = [
                Instance.from_catalog(catalog, user, candidates) for user, candidates in zip(batch, rows, strict=True)
            ]
            rankings = rank_many(instances, k, ranker, threads=threads, **options)
            result += [
                instance.candidates[ranking.indices] for instance, ranking in zip(instances, rankings, strict=True)
            ]
            bar.advance(len(batch))
    return result


def top_candidates(catalog: Catalog, users: Sequence[User], exclude: Sequence[Ints], most: int) -> list[Rows]:
    """The ``most`` best items of every user: half by their value as a slate of one, the rest by base or by one head."""
    base = np.zeros((len(users), len(catalog)), np.float32)
    if catalog.base is not None:
        base = np.stack([user.base for user in users if user.base is not None]).astype(np.float32) @ catalog.base.T
    for row, user in enumerate(users):
        if user.scores is not None:
            base[row] += user.scores.whole()
    heads = np.stack([user.heads for user in users]).astype(np.float32)
    score = np.einsum("bhd,nhd->hbn", heads, catalog.value, optimize=True)
    weight = self_weight(catalog)
    single = base + np.einsum("hn,hbn->bn", weight, score)
    if catalog.sink is not None:
        single += np.einsum("bhd,hd->bh", heads, catalog.sink.value) @ (1 - weight)
    has_self_term = catalog.base is not None or any(user.scores is not None for user in users)
    measures = np.stack([single, base, *score] if has_self_term else [single, *score], axis=1)
    result = []
    for of_user, excluded in zip(measures, exclude, strict=True):
        of_user[:, excluded] = -np.inf
        eligible = int(np.count_nonzero(of_user[0] > -np.inf))
        if not eligible:
            got = "one whose exclusions cover the catalogue"
            raise InvalidInput("users", "with one eligible item or more", got, "leave that user out")
        result.append(_best(of_user, min(most, eligible)))
    return result


def _best(measures: NDArray[np.float32], most: int) -> Rows:
    """The rows of the best position in any measure (M, n); positions in the first measure are divided by M."""
    kept = np.unique(np.argpartition(-measures, min(most, measures.shape[1] - 1), axis=1)[:, :most])
    position = np.argsort(np.argsort(-measures[:, kept], axis=1, kind="stable"), axis=1, kind="stable").astype(float)
    position[0] /= len(measures)
    return np.sort(kept[np.argsort(position.min(axis=0), kind="stable")[:most]])
