"""Arguments a_i(S) of many slates at once, each with its own user: ``objective.py``, vectorised.

    a_i(S) = base_i · u⁰ + Σ_h Σ_{j∈S} w_ij^h s_j^h / (Σ_{j∈S} w_ij^h + z_i^h)

Slates are rows of a rectangle (B, L) with a mask of the filled places. Training uses it to value a hundred thousand
logged slates and to simulate users. ``objective.py`` remains the reference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.model.catalog import Catalog

_TOGETHER = 4096  # slates


def many_arguments(
    catalog: Catalog,
    user_heads: NDArray[np.floating],
    user_base: NDArray[np.floating] | None,
    shown: NDArray[np.integer],
    filled: NDArray[np.bool_] | None = None,
) -> Floats:
    """a_i(S) (B, L) for the slates ``shown`` (B, L); user_heads (B, H, d_v), user_base (B, d_0); 0 where not filled."""
    filled = np.ones(shown.shape, bool) if filled is None else filled
    result = np.zeros(shown.shape)
    for start in range(0, len(shown), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        argument = _attention_terms(catalog, user_heads[part], shown[part], filled[part])
        if user_base is not None and catalog.base is not None:
            argument += np.einsum("bld,bd->bl", catalog.base[shown[part]], user_base[part], dtype=np.float64)
        result[part] = np.where(filled[part], argument, 0.0)
    return result


def _attention_terms(
    catalog: Catalog, heads: NDArray[np.floating], shown: NDArray[np.integer], filled: NDArray[np.bool_]
) -> Floats:
    """Σ_h of the attention averages of each slate: (B, L)."""
    total = np.zeros(shown.shape)
    for h in range(catalog.heads):
        query = catalog.query[shown, h].astype(np.float64)
        logit = query @ catalog.key[shown, h].astype(np.float64).transpose(0, 2, 1)
        logit = np.where(filled[:, None, :], logit, -np.inf)
        score = np.einsum("bld,bd->bl", catalog.value[shown, h], heads[:, h], dtype=np.float64)
        largest = logit.max(axis=2)  # the row maximum is subtracted before exp: a_i does not change, nothing overflows
        if catalog.sink is None:
            weight = np.exp(logit - largest[..., None])
            total += (weight @ score[..., None])[..., 0] / weight.sum(axis=2)
            continue
        sink_logit = query @ catalog.sink.key[h].astype(np.float64)
        largest = np.maximum(largest, sink_logit)
        weight, sink = np.exp(logit - largest[..., None]), np.exp(sink_logit - largest)
        numerator = (weight @ score[..., None])[..., 0] + sink * (heads[:, h] @ catalog.sink.value[h])[:, None]
        total += numerator / (weight.sum(axis=2) + sink)
    return total
