"""The answers of all shards to a search, merged: the rows that one index would find, their scores and their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Ints
from setwise.recommend.cluster.shard_reader import Found
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.index_state import Pass, Retrieved, merged_passes

NOWHERE = np.iinfo(np.int64).max  # the row of an empty place: after all others


class Merged(NamedTuple):
    """What a search of all shards found; ``score`` (H, m) and ``cells`` (m,) are those of the best rows."""

    found: Retrieved
    score: Floats
    cells: NDArray[np.int32]


class _Part(NamedTuple):
    """One pass, merged: best rows with scores (H, m) and cells, −1 in empty places; and the rows of the reserve."""

    best: Ints
    score: Floats
    cells: NDArray[np.int32]
    reserve: Ints


def merged(replies: Mapping[int, Found], passes: Sequence[Pass]) -> Merged:
    """The best rows of every cell among all shards, and the reserve."""
    measured = [reply for reply in replies.values() if reply.admitted and reply.measured is not None]
    parts = [_merged_pass(measured, number, wanted) for number, wanted in enumerate(passes)]
    result = merged_passes([part.best for part in parts], [part.reserve for part in parts])
    rows, score = np.concatenate([part.best for part in parts]), np.concatenate([part.score for part in parts], axis=1)
    cells = np.concatenate([part.cells for part in parts])
    order = np.argsort(rows, kind="stable")
    places = order[np.searchsorted(rows, result.best, sorter=order)]
    return Merged(result, np.ascontiguousarray(score[:, places]), cells[places])


def _merged_pass(measured: Sequence[Found], number: int, wanted: Pass) -> _Part:
    """The answers of the shards to one pass."""
    hits = [reply.passes[number] for reply in measured]
    places = best_places(hits, wanted.best + wanted.reserve)
    rows = np.concatenate([hit.rows for hit in hits], axis=2).astype(np.int64)
    best, reserve = places[:, :, : wanted.best], places[:, :, wanted.best :]
    known = [reply.measured.scores[number] for reply in measured if reply.measured is not None]
    score = np.concatenate(known, axis=3)
    first = np.cumsum([0, *(scores.shape[3] for scores in known[:-1])])
    column = np.concatenate([at + np.arange(hit.rows.shape[2]) for at, hit in zip(first, hits, strict=True)])
    column = np.minimum(column, score.shape[3] - 1)  # of what is not among the best of its shard, and is not read
    of_best = np.take_along_axis(score, column[best][None], axis=3)
    cells = np.broadcast_to(np.arange(rows.shape[1], dtype=np.int32)[:, None], best.shape)
    return _Part(
        np.take_along_axis(rows, best, axis=2).reshape(-1),
        of_best.reshape(len(score), -1),
        cells.reshape(-1),
        np.take_along_axis(rows, reserve, axis=2).reshape(-1),
    )


def best_places(answers: Sequence[Hits], per_cell: int) -> Ints:
    """The places of the best ``per_cell`` rows of every cell among all answers, side by side.

    They are ordered by (score descending, row ascending).
    """
    rows = np.concatenate([hits.rows for hits in answers], axis=2)
    scores = np.concatenate([hits.scores for hits in answers], axis=2)
    ties = np.where(rows < 0, NOWHERE, rows) if (rows < 0).any() else rows
    return np.lexsort((ties, -scores), axis=2)[:, :, :per_cell]
