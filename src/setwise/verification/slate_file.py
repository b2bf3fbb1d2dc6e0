"""A slate on disk: what was asked, what was answered and what is claimed of it, in one JSON file.

    format, version      "setwise slate", 1
    catalog              the digest of the catalogue that the rows belong to
    user                 {"heads": [[…]], "base": […] or null}
    k, exclude, include, where, at_most          the wishes; exclude and include are rows
    indices, positions, items                    the slate: rows, places (null unless ordered), ids
    value, rewards, upper_bound, proven          the claims
    digest               sha256 of the canonical JSON of all the rest

There is one spelling of every content, a key a line, and a file must be byte for byte that: a changed byte is seen even
where it changes nothing. Floats are written by ``repr`` and come back bit for bit; infinities are the texts "inf" and
"-inf". JSON has no tuples, so a condition of ``where`` is a value, a range [low, high] or {"one of": [values]}.

The digest finds accidents. Whoever knows the format can write another digest: that is what verify.py is for.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from setwise.errors import DamagedArtifact, InvalidInput

FORMAT, VERSION = "setwise slate", 1
LIMIT = 16 << 20  # bytes; a larger file is not one of ours
_ONE_OF = "one of"


def write_slate(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write ``content``, everything but the digest, replacing atomically what ``path`` held.

    Arrays and numpy numbers are welcome; ``where`` is as ``Index.candidates`` takes it.
    """
    try:
        form = _to_json({"format": FORMAT, "version": VERSION} | dict(content))
        wrong = _first_fault(form)
        raw = b"" if wrong else _spelled(form)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        wrong = f"something that cannot be written ({error})"
    if wrong:
        raise InvalidInput("slate", "a content with the keys of slate_file.py", wrong, "correct the content")
    if len(raw) > LIMIT:
        raise InvalidInput("slate", f"at most {LIMIT:,} bytes", f"{len(raw):,}", "exclude fewer rows by name")
    _replace(Path(path), raw)


def read_slate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a slate file, checked: numbers as floats, ``where`` as ``Index.candidates`` takes it."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT + 1)
    except OSError as error:
        raise DamagedArtifact(path, f"the file cannot be read ({error.strerror})") from None
    if len(raw) > LIMIT:
        raise DamagedArtifact(path, f"there are more than {LIMIT:,} bytes")
    form, digest = _parsed(path, raw)
    wrong = _first_fault(form)
    if wrong:
        raise DamagedArtifact(path, f"the slate has {wrong}")
    if digest != _digest(form):
        raise DamagedArtifact(path, "the content does not match its digest")
    if raw != _spelled(form):
        raise DamagedArtifact(path, "the content is not spelled as setwise spells it")
    return _from_json(form) | {"digest": digest}


def _parsed(path: Path, raw: bytes) -> tuple[dict[str, Any], Any]:
    """The JSON object without its digest, and the digest."""
    try:
        form = json.loads(raw.decode(), parse_constant=_refuse_constant)
        json.dumps(form, allow_nan=False, ensure_ascii=False).encode()  # no 1e999, no half of a surrogate pair
    except (ValueError, RecursionError):
        raise DamagedArtifact(path, "the file is not JSON, or cut short") from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise DamagedArtifact(path, "the file is no setwise slate")
    if form.get("version") != VERSION:
        raise DamagedArtifact(path, f"the format version is {form.get('version')!r}, not {VERSION}")
    return form, form.pop("digest", None)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


# --- the one spelling ------------------------------------------------------------------------------------------------


def _digest(form: Mapping[str, Any]) -> str:
    canonical = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _spelled(form: Mapping[str, Any]) -> bytes:
    whole = {key: form[key] for key in _KEYS} | {"digest": _digest(form)}
    lines = (f'"{key}": {json.dumps(part, sort_keys=True, ensure_ascii=False)}' for key, part in whole.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _replace(path: Path, raw: bytes) -> None:
    """A draft beside the file, flushed, then one rename."""
    draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with draft.open("xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        todo = "choose a file in a folder that can be written"
        raise InvalidInput("path", "a file that can be written", f"{path} ({error.strerror})", todo) from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# --- what each key must hold, as JSON --------------------------------------------------------------------------------


def _is_count(part: Any) -> bool:
    return type(part) is int and part >= 0


def _are_rows(part: Any) -> bool:
    return isinstance(part, list) and all(map(_is_count, part))


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


def _is_scalar(part: Any) -> bool:
    return type(part) in (str, int, float, bool)


def _is_condition(part: Any) -> bool:
    if isinstance(part, list):
        return len(part) == 2 and all(end is None or type(end) in (int, float) for end in part)
    if isinstance(part, dict):
        return set(part) == {_ONE_OF} and isinstance(part[_ONE_OF], list) and all(map(_is_scalar, part[_ONE_OF]))
    return _is_scalar(part)


def _is_where(part: Any) -> bool:
    return part is None or (isinstance(part, dict) and all(map(_is_condition, part.values())))


_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "format": (repr(FORMAT), lambda part: part == FORMAT),
    "version": (str(VERSION), lambda part: type(part) is int and part == VERSION),
    "catalog": ("a digest", lambda part: isinstance(part, str)),
    "user": ("heads of equal length and a base", _is_user),
    "k": ("a whole number of at least 1", lambda part: _is_count(part) and part >= 1),
    "exclude": ("a list of rows", _are_rows),
    "include": ("a list of rows", _are_rows),
    "where": ("null, or a condition for each attribute", _is_where),
    "at_most": ("a whole number an attribute", lambda part: isinstance(part, dict) and _are_rows([*part.values()])),
    "indices": ("a list of rows", _are_rows),
    "positions": ("null, or a list of places", lambda part: part is None or _are_rows(part)),
    "items": ("a list of ids", lambda part: isinstance(part, list) and all(type(one) in (int, str) for one in part)),
    "value": ("a number", _is_real),
    "rewards": ("a list of numbers", lambda part: isinstance(part, list) and all(map(_is_real, part))),
    "upper_bound": ("a number", _is_real),
    "proven": ("true or false", lambda part: isinstance(part, bool)),
}  # fmt: skip


def _first_fault(form: Mapping[str, Any]) -> str | None:
    """What is wrong with a content, if anything is."""
    for key in form:
        if key not in _KEYS:
            return f"the unknown key {key!r}"
    for key, (must, holds) in _KEYS.items():
        if key not in form:
            return f"no key '{key}'"
        if not holds(form[key]):
            return f"a '{key}' that is not {must}"
    return None


# --- to JSON and back ------------------------------------------------------------------------------------------------


def _to_json(content: Mapping[str, Any]) -> dict[str, Any]:
    form = {key: _plain(part) for key, part in content.items() if key != "where"}
    for key in ("value", "upper_bound"):
        form |= {key: _real_to_json(form[key])} if key in form else {}
    if "rewards" in form:
        form["rewards"] = [_real_to_json(reward) for reward in form["rewards"]]
    if isinstance(form.get("user"), dict):
        form["user"] = {name: _floats(part) for name, part in form["user"].items()}
    if "where" in content:
        where = content["where"]
        form["where"] = where and {str(name): _condition_to_json(one) for name, one in where.items()}
    return form


def _plain(part: Any) -> Any:
    """Numpy's arrays and numbers, tuples and mappings as what JSON knows."""
    if isinstance(part, (np.ndarray, np.generic)):
        return part.tolist()
    if isinstance(part, Mapping):
        return {str(name): _plain(one) for name, one in part.items()}
    return [_plain(one) for one in part] if isinstance(part, (list, tuple)) else part


def _floats(part: Any) -> Any:
    """Whole numbers among vectors as floats."""
    if isinstance(part, list):
        return [_floats(one) for one in part]
    return float(part) if type(part) is int else part


def _real_to_json(number: Any) -> float | str:
    real = float(number)
    return real if math.isfinite(real) else str(real)


def _condition_to_json(condition: Any) -> Any:
    if isinstance(condition, (set, frozenset)):
        condition = sorted(condition, key=repr)
    if isinstance(condition, (list, np.ndarray)):
        return {_ONE_OF: _plain(condition)}
    if not isinstance(condition, tuple):
        return _plain(condition)
    open_ends = (-math.inf, math.inf)
    return [None if end == none else _plain(end) for end, none in zip(condition, open_ends, strict=True)]


def _from_json(form: Mapping[str, Any]) -> dict[str, Any]:
    where = form["where"]
    return dict(form) | {
        "value": float(form["value"]),
        "upper_bound": float(form["upper_bound"]),
        "rewards": [float(reward) for reward in form["rewards"]],
        "where": where and {name: _condition_from_json(one) for name, one in where.items()},
    }


def _condition_from_json(condition: Any) -> Any:
    if isinstance(condition, dict):
        return condition[_ONE_OF]
    return tuple(condition) if isinstance(condition, list) else condition
