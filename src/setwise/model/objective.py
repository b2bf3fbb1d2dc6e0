"""The reference objective: the value of a set, computed from the definition in float64.

    a_i(S) = base_i · u⁰ + t_i + Σ_h  ( z_i^h s_0^h + Σ_{j∈S} w_ij^h s_j^h ) / ( z_i^h + Σ_{j∈S} w_ij^h )
    F(S)   = Σ_{i∈S} ω_i f_i(a_i(S))

with w_ij^h = exp(q_i^h · k_j^h), scores s_j^h = v_j^h · u^h and, when the catalogue has a sink,
z_i^h = exp(q_i^h · k_0^h). t_i is the user's added score of item i, 0 without any (added_scores.py), and ω_i ≥ 0
what a unit of its reward is worth in this request, 1 unless the user has ``weights``. Attention runs over S alone, i
itself included. Scaling a row of w changes nothing, so the row's maximum is subtracted before ``exp``:
logits of any size are safe.

In an ordered slate every item has a place (0, 1, 2, … unless ``positions`` is given); the encodings of the place are
added to the item's query, key and value.

Every kernel, ranker, bound and backend is tested against this file; it is written for clarity, not speed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Rows
from setwise._validation import index_array
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.rewards import evaluate
from setwise.model.users import User


def set_value(catalog: Catalog, user: ArrayLike | User, items: ArrayLike, positions: ArrayLike | None = None) -> float:
    """F(S) for the rows ``items``; 0 for the empty set."""
    return float(item_rewards(catalog, user, items, positions).sum())


def item_rewards(
    catalog: Catalog, user: ArrayLike | User, items: ArrayLike, positions: ArrayLike | None = None
) -> Floats:
    """ω_i f_i(a_i(S)) for each of ``items``, in their order: shape (len(items),)."""
    rows, places = _slate(catalog, items, positions)
    checked = catalog.user(user)
    logit, sink_logit = logits(catalog, rows, places)
    score, sink_score = scores(catalog, checked, rows, places)
    a = attended(logit, score, base_scores(catalog, checked, rows), sink_logit, sink_score)
    return evaluate(catalog.rewards, catalog.reward_class[rows], a, checked.weights_of(rows))


def attention(catalog: Catalog, items: ArrayLike, positions: ArrayLike | None = None) -> Floats:
    """Attention weights among ``items``: (H, len, len). Rows sum to 1 minus the weight of the sink."""
    rows, places = _slate(catalog, items, positions)
    return softmax(*logits(catalog, rows, places))[0]


def softmax(logit: Floats, sink_logit: Floats | None = None) -> tuple[Floats, Floats]:
    """Row-wise softmax of ``logit`` (H, L, L) with the sink (H, L) as one more column; the sink's share comes second.

    A row whose logits are all −∞ attends to nothing and is all zero.
    """
    sink = np.full(logit.shape[:2], -np.inf) if sink_logit is None else sink_logit
    top = np.maximum(logit.max(axis=2, initial=-np.inf), sink)
    top = np.where(np.isfinite(top), top, 0.0)
    weight, sink_weight = np.exp(logit - top[:, :, None]), np.exp(sink - top)
    total = np.maximum(weight.sum(axis=2) + sink_weight, 1.0)  # a row's largest weight is 1, unless it has none
    return weight / total[:, :, None], sink_weight / total


def attended(
    logit: Floats, score: Floats, base: Floats, sink_logit: Floats | None = None, sink_score: Floats | None = None
) -> Floats:
    """a_i(S) from the logits (H, L, L), scores (H, L) and base (L,) of the chosen items alone."""
    share, sink_share = softmax(logit, sink_logit)
    average = (share * score[:, None, :]).sum(axis=2)
    if sink_score is not None:
        average = average + sink_share * sink_score[:, None]
    return np.asarray(base + average.sum(axis=0))


def logits(catalog: Catalog, rows: Rows, places: Rows | None) -> tuple[Floats, Floats | None]:
    """q_i^h · k_j^h among ``rows``, (H, L, L), and q_i^h · k_0^h, (H, L), or None without a sink."""
    query = _encoded(catalog, "query", rows, places)
    key = _encoded(catalog, "key", rows, places)
    sink_logit = None
    if catalog.sink is not None:
        sink_logit = np.einsum("ihd,hd->hi", query, catalog.sink.key.astype(np.float64))
    return query.transpose(1, 0, 2) @ key.transpose(1, 2, 0), sink_logit


def scores(catalog: Catalog, user: User, rows: Rows, places: Rows | None) -> tuple[Floats, Floats | None]:
    """s_j^h = v_j^h · u^h, (H, L), and s_0^h, (H,), or None without a sink."""
    value = _encoded(catalog, "value", rows, places)
    sink_score = None
    if catalog.sink is not None:
        sink_score = np.einsum("hd,hd->h", catalog.sink.value.astype(np.float64), user.heads)
    return np.einsum("jhd,hd->hj", value, user.heads), sink_score


def base_scores(catalog: Catalog, user: User, rows: Rows) -> Floats:
    """The self term base_i · u⁰ + t_i for ``rows``; zero without a base term and without added scores."""
    added = np.zeros(len(rows)) if user.scores is None else user.scores.of(rows)
    if catalog.base is None or user.base is None:
        return added
    return np.asarray(catalog.base[rows].astype(np.float64) @ user.base + added)


def _encoded(catalog: Catalog, name: Literal["query", "key", "value"], rows: Rows, places: Rows | None) -> Floats:
    """The vectors of the rows, plus those of their places in an ordered slate."""
    own: Floats = getattr(catalog, name)[rows].astype(np.float64)
    return own if places is None else own + getattr(catalog.positions, name)[places].astype(np.float64)


def _slate(catalog: Catalog, items: ArrayLike, positions: ArrayLike | None) -> tuple[Rows, Rows | None]:
    """Rows checked, and their places when the catalogue has positions: each item and each position once."""
    rows = catalog.items(items)
    if catalog.positions is None:
        if positions is not None:
            raise InvalidInput(
                "positions", "absent, as the catalogue has no positional encodings", "some", "leave them out"
            )
        return rows, None
    available = len(catalog.positions.query)
    if positions is None and len(rows) > available:
        raise InvalidInput("items", f"at most {available}, one a position", f"{len(rows)} items", "shorten the slate")
    places = (
        np.arange(len(rows)) if positions is None else index_array("positions", positions, available, "the positions")
    )
    if len(places) != len(rows):
        raise InvalidInput("positions", f"one for each of {len(rows)} items", f"{len(places)}", "pass as many as items")
    return rows, places
