"""A slate on disk: the query, the slate and the claims about it, in one JSON file.

    format, version      "setwise slate", 4
    catalog              the digest of the catalogue that the rows belong to
    query                the query as ``Query.to_json`` (recommend/query.py) writes it: user, scores, scores_floor, k,
                         exclude, include, where, at_most, at_least, exactly, budget_ms, ranker, certify; items are
                         named by id; sum_at_most, sum_at_least, weights, value_unit only where it states them
    indices, positions, items                    the slate: rows, places (null unless ordered), ids
    value, rewards, upper_bound, proven          the claims
    prices                                       of sums that the query limits: how the bound counts them
    digest               sha256 of the canonical JSON of all the rest

Every content has one encoding, a key per line, and a file must equal it byte for byte: every changed byte is detected.
Floats are written by ``repr`` and read back bit for bit; infinities are the texts "inf" and "-inf".

The digest detects damage, not forgery: anyone can compute the digest of a changed file. verify.py checks the claims.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from setwise.errors import DamagedArtifact, InvalidInput
from setwise.model.limits import LIMITS
from setwise.storage.output_file import write_file

FORMAT, VERSION = "setwise slate", 4
_START = f'{{\n"format": "{FORMAT}"'.encode()  # of every slate file, whatever its version
MAX_BYTES = 64 << 20  # no slate file is larger; scores of a million items take some 20 MiB


def write_slate(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write ``content``, all keys but the digest, to ``path``, replacing an existing slate file atomically.

    Arrays and numpy numbers are allowed.
    """
    try:
        form = _to_json({"format": FORMAT, "version": VERSION} | dict(content))
        wrong = _first_defect(form)
        raw = b"" if wrong else _encoded(form)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        wrong = f"something that cannot be written ({error})"
    if wrong:
        raise InvalidInput("slate", "a content with the keys of slate_file.py", wrong, "correct the content")
    if len(raw) > MAX_BYTES:
        todo = "exclude or score fewer items by name"
        raise InvalidInput("slate", f"at most {MAX_BYTES:,} bytes", f"{len(raw):,}", todo)
    write_file("path", Path(path), _START, [raw])


def read_slate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The checked content of a slate file, its digest included; value, bound and rewards as floats."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DamagedArtifact(path, f"the file cannot be read ({error.strerror})") from None
    if len(raw) > MAX_BYTES:
        raise DamagedArtifact(path, f"there are more than {MAX_BYTES:,} bytes")
    form, digest = _parse(path, raw)
    wrong = _first_defect(form)
    if wrong:
        raise DamagedArtifact(path, f"the slate has {wrong}")
    if digest != _digest(form):
        raise DamagedArtifact(path, "the content does not match its digest")
    if raw != _encoded(form):
        raise DamagedArtifact(path, "the content is not encoded as setwise encodes it")
    return _from_json(form) | {"digest": digest}


def _parse(path: Path, raw: bytes) -> tuple[dict[str, Any], Any]:
    """The JSON object without its digest, and the digest."""
    try:
        form = json.loads(raw.decode(), parse_constant=_refuse_constant)
        json.dumps(form, allow_nan=False, ensure_ascii=False).encode()  # no 1e999, no half of a surrogate pair
    except (ValueError, RecursionError):
        raise DamagedArtifact(path, "the file is not JSON, or cut short") from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise DamagedArtifact(path, "the file is no setwise slate")
    if form.get("version") != VERSION:
        todo = "recommend again and save the slate anew"
        raise DamagedArtifact(path, f"the format version is {form.get('version')!r}, not {VERSION}", todo)
    return form, form.pop("digest", None)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


# --- encoding ---


def _digest(form: Mapping[str, Any]) -> str:
    canonical = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _encoded(form: Mapping[str, Any]) -> bytes:
    whole = {key: form[key] for key in (*_KEYS, "prices") if key in form} | {"digest": _digest(form)}
    lines = (f'"{key}": {json.dumps(part, sort_keys=True, ensure_ascii=False)}' for key, part in whole.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


# --- the JSON type of each key ---


def _is_count(part: Any) -> bool:
    return type(part) is int and part >= 0


def _are_rows(part: Any) -> bool:
    return isinstance(part, list) and all(map(_is_count, part))


def _are_counts(part: Any) -> bool:
    return isinstance(part, dict) and all(map(_is_count, part.values()))


def _are_counts_of_values(part: Any) -> bool:
    return isinstance(part, dict) and all(map(_are_counts, part.values()))


def _is_real(part: Any) -> bool:
    return type(part) is float or part in ("inf", "-inf")


def _is_vector(part: Any) -> bool:
    return isinstance(part, list) and all(type(entry) is float for entry in part)


def _is_user(part: Any) -> bool:
    if not isinstance(part, dict) or set(part) != {"heads", "base"} or not isinstance(part["heads"], list):
        return False
    heads = part["heads"]
    even = all(map(_is_vector, heads)) and len({len(head) for head in heads}) == 1
    return even and (part["base"] is None or _is_vector(part["base"]))


def _are_scores(part: Any) -> bool:
    if isinstance(part, dict):
        return all(type(entry) is float for entry in part.values())
    return part is None or _is_vector(part)


def _are_numbers(part: Any) -> bool:
    return type(part) is str or _are_scores(part)


def _are_sums(part: Any) -> bool:
    def is_sum(entry: Any) -> bool:
        if not isinstance(entry, dict):
            return type(entry) is float
        known = {"limit"} <= entry.keys() <= {"limit", "of"} and type(entry["limit"]) is float
        return known and ("of" not in entry or (entry["of"] is not None and _are_numbers(entry["of"])))

    return isinstance(part, dict) and len(part) > 0 and all(map(is_sum, part.values()))


def _are_prices(part: Any) -> bool:
    return isinstance(part, dict) and all(type(price) is float for price in part.values())


def _is_scalar(part: Any) -> bool:
    return type(part) in (str, int, float, bool)


def _are_ids(part: Any) -> bool:
    return isinstance(part, list) and all(type(one) in (int, str) for one in part)


def _is_condition(part: Any) -> bool:
    if isinstance(part, list):
        return all(map(_is_scalar, part))
    if isinstance(part, dict):
        return set(part) == {"from", "to"} and all(end is None or type(end) in (int, float) for end in part.values())
    return _is_scalar(part)


def _is_where(part: Any) -> bool:
    return isinstance(part, dict) and all(map(_is_condition, part.values()))


_Keys = Mapping[str, tuple[str, Callable[[Any], bool]]]  # what a part must be, and its check
_QUERY_KEYS: _Keys = {
    "user": ("heads of equal length and a base", _is_user),
    "scores": ("null, a list of numbers, or a number an id", _are_scores),
    "scores_floor": ("null, or a number", lambda part: part is None or type(part) is float),
    "k": ("a whole number of at least 1", lambda part: _is_count(part) and part >= 1),
    "exclude": ("a list of ids", _are_ids),
    "include": ("a list of ids", _are_ids),
    "where": ("a condition for each attribute", _is_where),
    "budget_ms": ("null, or a number", lambda part: part is None or type(part) in (int, float)),
    "ranker": ("a name", lambda part: isinstance(part, str)),
    "certify": ("true or false", lambda part: isinstance(part, bool)),
}  # fmt: skip

_STATED_KEYS: _Keys = {  # that are there only if the request states them
    "weights": ("a name, a list of numbers, or a number an id", lambda part: part is not None and _are_numbers(part)),
    "sum_at_most": ("a limit a name, with or without numbers", _are_sums),
    "sum_at_least": ("a limit a name, with or without numbers", _are_sums),
    "after": ("a list of ids", lambda part: _are_ids(part) and len(part) > 0),
    "after_counts": ("true or false", lambda part: isinstance(part, bool)),
    "value_unit": ("a text", lambda part: type(part) is str),
}

_KEYS: _Keys = {
    "format": (repr(FORMAT), lambda part: part == FORMAT),
    "version": (str(VERSION), lambda part: type(part) is int and part == VERSION),
    "catalog": ("a digest", lambda part: isinstance(part, str)),
    "query": ("an object", lambda part: isinstance(part, dict)),
    "indices": ("a list of rows", _are_rows),
    "positions": ("null, or a list of places", lambda part: part is None or _are_rows(part)),
    "items": ("a list of ids", _are_ids),
    "value": ("a number", _is_real),
    "rewards": ("a list of numbers", lambda part: isinstance(part, list) and all(map(_is_real, part))),
    "upper_bound": ("a number", _is_real),
    "proven": ("true or false", lambda part: isinstance(part, bool)),
}  # fmt: skip


def _first_defect(form: Mapping[str, Any]) -> str | None:
    """The first defect of a content, or None."""
    return _defect_of(form, _KEYS, {"prices": ("a number a name", _are_prices)}) or _defect_of(
        form["query"], {**_QUERY_KEYS, **_limit_keys()}, _STATED_KEYS
    )


def _limit_keys() -> _Keys:
    every = ("a whole number an attribute", _are_counts)
    by_value = ("a whole number a value, an attribute", _are_counts_of_values)
    return {name: by_value if limit.by_value else every for name, limit in LIMITS.items()}


def _defect_of(form: Mapping[str, Any], keys: _Keys, stated: _Keys | None = None) -> str | None:
    """The first defect of an object that has all of ``keys`` and may have those of ``stated``."""
    possible = {**keys, **(stated or {})}
    for key in form:
        if key not in possible:
            return f"the unknown key {key!r}"
    for key, (must, holds) in possible.items():
        if key not in form:
            if key not in keys:
                continue
            return f"no key '{key}'"
        if not holds(form[key]):
            return f"a '{key}' that is not {must}"
    return None


# --- to JSON and back ---


def _to_json(content: Mapping[str, Any]) -> dict[str, Any]:
    form = {key: _plain(part) for key, part in content.items()}
    for key in ("value", "upper_bound"):
        form |= {key: _real_to_json(form[key])} if key in form else {}
    if "rewards" in form:
        form["rewards"] = [_real_to_json(reward) for reward in form["rewards"]]
    if isinstance(form.get("query"), dict) and isinstance(form["query"].get("user"), dict):
        form["query"]["user"] = {name: _floats(part) for name, part in form["query"]["user"].items()}
    for key in ("scores", "scores_floor", "weights", "sum_at_most", "sum_at_least"):
        if isinstance(form.get("query"), dict) and key in form["query"]:
            form["query"][key] = _floats(form["query"][key])
    return form


def _plain(part: Any) -> Any:
    """Numpy arrays and numbers, tuples and mappings as JSON types."""
    if isinstance(part, (np.ndarray, np.generic)):
        return part.tolist()
    if isinstance(part, Mapping):
        return {str(name): _plain(one) for name, one in part.items()}
    return [_plain(one) for one in part] if isinstance(part, (list, tuple)) else part


def _floats(part: Any) -> Any:
    """The whole numbers of a vector, or of a mapping, as floats."""
    if isinstance(part, list):
        return [_floats(one) for one in part]
    if isinstance(part, dict):
        return {name: _floats(one) for name, one in part.items()}
    return float(part) if type(part) is int else part


def _real_to_json(number: Any) -> float | str:
    real = float(number)
    return real if math.isfinite(real) else str(real)


def _from_json(form: Mapping[str, Any]) -> dict[str, Any]:
    return dict(form) | {
        "value": float(form["value"]),
        "upper_bound": float(form["upper_bound"]),
        "rewards": [float(reward) for reward in form["rewards"]],
    }
