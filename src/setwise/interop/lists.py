"""Lists of candidates in data frames, Arrow tables, and the results of RecTools and implicit, re-ranked.

    best = rerank_frame(frame, k=10, vectors=(item_ids, item_vectors), at_most={"brand": 2})

A frame has a row for each candidate: the list (``user_id``, ``user``, ``list`` or ``session``, or the column that
``group`` names), the item (``id``, ``item_id`` or ``item``), ``score``, and perhaps attributes and a ``vector``. What
comes back is of the same library: the chosen rows with the columns list, item, score, reward and rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import numbers, require_shape
from setwise.errors import InvalidInput
from setwise.recommend.arguments import SLATE_SIZE
from setwise.recommend.rerank import rerank_table
from setwise.recommend.rerank.candidates import IDS, columns_of, found_among

ORDERED = ("score", "reward", "rank")  # columns of the result beside the list and the item
_LOWEST = -1e37  # implicit fills places without an item with the lowest float32


def rerank_frame(frame: Any, k: int = SLATE_SIZE, *, group: str | None = None, **options: Any) -> Any:
    """The best set of each list of a frame of pandas or polars, of an Arrow table or of a mapping of columns.

    The options are those of ``setwise.rerank`` and of ``rerank_table``. A list of which no set keeps the rules is an
    error that names it.
    """
    columns = columns_of(frame)
    item = found_among(columns, IDS)
    result = rerank_table(columns, k, group=group, **options)
    for name, reason in result.failed.items():
        raise InvalidInput(f"the list {name!r}", "one with a set that keeps the rules", reason, "loosen them for it")
    chosen = result.columns
    list_ = next(iter(chosen))
    kept = {list_: chosen[list_], item or "row": chosen["id"]} | {name: chosen[name] for name in ORDERED}
    return _like(frame, kept)


def rerank_implicit(
    ids: ArrayLike, scores: ArrayLike, k: int = SLATE_SIZE, vectors: Any = None, **options: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What implicit's ``recommend`` returned for one user or many, ids and scores, re-ranked to k of each.

    ``vectors`` are the model's ``item_factors``. A row with fewer items ends with −1 and the lowest float32.
    """
    rows, values = np.atleast_2d(numbers("ids", ids)), np.atleast_2d(numbers("scores", scores))
    require_shape("scores", values, rows.shape)
    user, place = np.nonzero((rows >= 0) & (values > _LOWEST))
    table = {"user": user, "item": rows[user, place], "score": values[user, place]}
    factors = (
        np.asarray(vectors.to_numpy() if hasattr(vectors, "to_numpy") else vectors) if vectors is not None else None
    )
    result = rerank_table(
        table, k, vectors=None if factors is None else (np.arange(len(factors)), factors), **options
    ).columns
    best = np.full((len(rows), k), -1, rows.dtype)
    of_best = np.full((len(rows), k), np.finfo(np.float32).min, np.float32)
    at = np.array(result["user"], np.intp), np.array(result["rank"], np.intp) - 1
    best[at], of_best[at] = result["id"], result["score"]
    return (best[0], of_best[0]) if np.ndim(ids) == 1 else (best, of_best)


def _like(frame: Any, columns: Mapping[str, Any]) -> Any:
    """The columns as a table of the same library; a mapping as one."""
    library = type(frame).__module__.partition(".")[0]
    if library == "pyarrow":
        return import_module(library).table(dict(columns))
    if library in ("pandas", "polars"):
        return import_module(library).DataFrame(dict(columns))
    return dict(columns)
