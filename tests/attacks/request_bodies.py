"""Random JSON bodies from the types of the routes: of the right form or nearly so, with values that are odd.

A field that is added to a request type is generated without a line here.
"""

from __future__ import annotations

import json
import random
from typing import Any

from msgspec import inspect as types

TEXTS = (
    "song-1", "song-2", "song-299", "nobody", "title", "artist", "year", "artist-3", "", " ", "0", "-1", "1e9", "true", "null",
    "\x00", "\x1b[31mred\x1b[0m", "a\r\nSet-Cookie: b=c", "\u202eevil", "\ufeff", "\u2028", "é" * 50, "𝕊", "x" * 5000,
    "/etc/passwd", "../../etc/passwd", "C:\\Windows", "%s%n", "{0.__class__}", "${jndi:ldap://x}", "'; DROP TABLE items; --",
    "<script>alert(1)</script>", "__proto__", "swap", "greedy", "knn", "ignore", "error",
)  # fmt: skip
WHOLE = (0, 1, 2, 3, 5, 10, 20, 21, 100, 101, -1, -5, 255, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**40)
NUMBERS = (0.0, 1.0, 0.5, 2.0, -1.0, 1e-300, 1e-9, 1e15, 1e308, -1e308, 1e300, 3.7)
RIGHT = ("song-1", "song-7", "song-40", "song-123")  # ids of the world
USER = {"history": 0.9, "user": 0.02, "vector": 0.02, "features": 0.02}  # how often a request names its user so
GOOD: dict[str, tuple[Any, ...]] = {  # values that are often right, by field
    "history": ([], ["song-1"], ["song-1", "song-40"]),
    "exclude": (["song-3"], []),
    "filter_seen": (True, False),
    "include": (["song-9"], []),
    "k": (1, 2, 3, 5, 8),
    "where": ({"year": {"from": 1980}}, {"artist": "artist 1"}, {}),
    "at_most": ({"artist": 1}, {"artist": 2}, {}),
    "budget_ms": (0.1, 1, 5),
    "ranker": ("swap", "greedy", "knn", "top-k", "mmr", "dpp"),
    "certify": (True, False),
    "scores": ({"song-1": 1.0, "song-2": 2.0}, [0.5] * 300),
    "outcome": (0, 1, 0.5),
}
_WRONG = 0.02  # how often a value has another type
_LONGEST = 6


def random_body(rng: random.Random, request: type[Any], odd: float = 0.12) -> bytes:
    """A body for a route whose requests have this type; ``odd``: how often a value that is often right is another."""
    return json.dumps(_Bodies(rng, odd).value(types.type_info(request), "")).encode()


class _Bodies:
    def __init__(self, rng: random.Random, odd: float) -> None:
        self._rng, self._odd = rng, odd

    def value(self, kind: types.Type, field: str) -> Any:
        """A value of this type, for a field of this name or for none."""
        rng = self._rng
        if rng.random() < _WRONG:
            return rng.choice(
                (None, True, 1, [], {}, [[]], {"": {}}, "\ud800", [None], rng.choice(WHOLE), rng.choice(TEXTS))
            )
        if field in GOOD and rng.random() > self._odd:
            return rng.choice(GOOD[field])
        if isinstance(kind, types.StructType):
            return self._object(kind)
        if isinstance(kind, types.UnionType):
            return self.value(rng.choice(kind.types), field)
        if isinstance(kind, types.ListType):
            return [self.value(kind.item_type, "") for _ in range(rng.randrange(1, _LONGEST))]
        if isinstance(kind, types.DictType):
            return {rng.choice(TEXTS): self.value(kind.value_type, "") for _ in range(rng.randrange(1, _LONGEST))}
        return self._scalar(kind)

    def _object(self, kind: types.StructType) -> dict[str, Any]:
        """Required fields nearly always, others sometimes; rarely one that does not exist."""
        rng, made = self._rng, {}
        for one in kind.fields:
            name = one.encode_name
            if rng.random() < USER.get(name, 0.98 if one.required else 0.15):
                made[name] = self.value(one.type, name)
        if rng.random() < 0.1 * self._odd:
            made[rng.choice(TEXTS)] = 1
        return made

    def _scalar(self, kind: types.Type) -> Any:
        rng = self._rng
        if isinstance(kind, types.BoolType):
            return rng.random() < 0.5
        if isinstance(kind, types.IntType):
            return rng.choice(WHOLE)
        if isinstance(kind, types.FloatType):
            return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.gauss(0, 1)
        if isinstance(kind, types.LiteralType):
            return rng.choice((*kind.values, rng.choice(TEXTS)))
        if isinstance(kind, types.NoneType):
            return None
        assert isinstance(kind, (types.StrType, types.AnyType)), kind
        return rng.choice(RIGHT) if rng.random() < 0.6 else rng.choice(TEXTS)
