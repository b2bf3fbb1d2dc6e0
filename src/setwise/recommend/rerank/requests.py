"""A list as plain data: the one parsing of ``POST /v1/rerank``, ``setwise rerank`` and tables of many lists.

    candidates   records [{"id": …, "score": …, "vector": […], any attributes}], or columns {"id": […], "score": […], …}
    k, diversity, by, strategy, scale, strength, sharpness, include, exclude, where, at_most, at_least, exactly,
    unknown, budget_ms                                            as ``rerank`` has them; null counts as left out
    certify      whether the answer has an upper bound, which takes about 20 ms more

In columns the vectors may be one text: single-precision numbers, little-endian, row by row, in base64. A range in
``where`` is {"from": low, "to": high}.
"""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from setwise._validation import did_you_mean
from setwise.errors import InvalidInput
from setwise.recommend.query import condition_from_json, require_conditions
from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.candidates import SCORES, VECTORS, columns_of
from setwise.recommend.rerank.rerank import rerank

CANDIDATES, CERTIFY = "candidates", "certify"
ARRAYS = ("scores", "ids", "embeddings", "attributes", "query", "key", "outcomes", "reward", "warn_above", "effects")
ARGUMENTS = tuple(name for name in inspect.signature(rerank).parameters if name not in ARRAYS)
NEVER = 1e300  # the share of the scores above which a warning is due
KNOWN = (CANDIDATES, *ARGUMENTS, CERTIFY)


def rerank_data(content: Mapping[str, Any], effects: Any = None) -> Order:
    """The order of a list that is plain data, with the effects of a model if there is one."""
    for name in content:
        if name not in KNOWN:
            todo = did_you_mean(name, KNOWN) or "drop it"
            raise InvalidInput("the request", f"an object with keys among {', '.join(KNOWN)}", repr(name), todo)
    arguments = {name: part for name, part in content.items() if part is not None and name not in (CANDIDATES, CERTIFY)}
    if "where" in arguments:
        require_conditions(arguments["where"])
        arguments["where"] = {name: condition_from_json(part) for name, part in arguments["where"].items()}
    return rerank_quietly(_candidates(content.get(CANDIDATES)), effects=effects, **arguments)


def rerank_quietly(candidates: Any, **arguments: Any) -> Order:
    """``rerank`` without a warning: the answer says what was given up."""
    return rerank(candidates, **arguments | {"warn_above": NEVER})


def answer_data(order: Order, certify: bool = False) -> dict[str, Any]:
    """The answer as plain data."""
    return order.to_dict(certify=certify)


def _candidates(given: Any) -> Any:
    """Records or columns; vectors in base64 become an array."""
    if not isinstance(given, (list, Mapping)) or (isinstance(given, list) and not all(map(_is_record, given))):
        must = "a list of objects, or an object of columns"
        raise InvalidInput(CANDIDATES, must, type(given).__name__, 'write [{"id": "a", "score": 0.5}, …]')
    if isinstance(given, list):
        return given if given else {"score": []}
    columns = columns_of(given)
    for name in VECTORS:
        if isinstance(columns.get(name), str):
            columns[name] = _decoded(columns[name], len(columns.get(SCORES[0], ())))
    return columns


def _is_record(row: Any) -> bool:
    return isinstance(row, Mapping)


def _decoded(text: str, rows: int) -> Any:
    """Vectors (rows, d) from base64."""
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (ValueError, binascii.Error):
        must = "base64 of single-precision numbers"
        raise InvalidInput("vector", must, "another text", "encode the bytes of the rows") from None
    if not rows or len(numbers) % rows:
        must = f"vectors of one size for each of {rows} candidates"
        raise InvalidInput("vector", must, f"{len(numbers)} numbers in all", "encode all rows")
    return numbers.reshape(rows, -1)
