"""API keys: what the holder of a key may do, and how often.

The full key opens every route. The read key opens those that change nothing: no reload, no outcomes. Each key has a
token bucket: r tokens a second flow into it, it holds at most b = max(3, r/5), and a request takes one, so that in any
t seconds at most r · t + b requests are answered.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable

from setwise.errors import InvalidInput

LEAST_KEY, LONGEST_KEY = 16, 512  # characters; the headers of a request, which may be 1,024 bytes, hold the key
BURST_S = 0.2  # of tokens that a bucket holds
LEAST_BURST = 3.0  # tokens: with one, a client of irregular requests would be refused below its rate


class TokenBucket:
    """Limits a rate; 0 for no limit."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._most = max(LEAST_BURST, BURST_S * rate)
        self._tokens, self._at = self._most, clock()

    def take(self) -> float:
        """Take a token; 0, or if there is none the seconds until there will be one."""
        if not self._rate:
            return 0.0
        now = self._clock()
        self._tokens = min(self._most, self._tokens + self._rate * (now - self._at))
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0


class Holder:
    """The client with one of the keys, or any client where there is none."""

    def __init__(self, authorization: bytes, writes: bool, rate: float) -> None:
        self.authorization, self.writes, self.bucket = authorization, writes, TokenBucket(rate)


class Keys:
    """The keys of a service."""

    def __init__(self, key: str | None, read_key: str | None, rate: float) -> None:
        given = ((key, True), (read_key, False))
        self._holders = [Holder(f"Bearer {text}".encode(), writes, rate) for text, writes in given if text is not None]
        self._anybody = Holder(b"", writes=True, rate=rate) if key is None else None

    def holder(self, authorization: bytes) -> Holder | None:
        """Who sends this header; None for a missing or wrong key. All keys are compared, each in constant time."""
        found = self._anybody
        for one in self._holders:
            if hmac.compare_digest(authorization, one.authorization):
                found = one
        return found


def check_keys(key: str | None, read_key: str | None) -> None:
    """Raise an error for keys that can be guessed, and for a read key without a full one, or equal to it."""
    for option, one in (("--api-key", key), ("--read-key", read_key)):
        if one is not None:
            _check_key(option, one)
    if read_key is not None and key is None:
        raise InvalidInput("--read-key", "given with --api-key", "no full key", "pass --api-key too")
    if read_key is not None and read_key == key:
        raise InvalidInput("--read-key", "another key than --api-key", "the same", "choose another random one")


def _check_key(option: str, key: str) -> None:
    """Raise an error for a key that can be guessed, or that a header cannot hold. The key itself is not quoted."""
    plain = key.isascii() and key.isprintable() and " " not in key
    if plain and LEAST_KEY <= len(key) <= LONGEST_KEY:
        return
    got = f"{len(key)} characters" if plain else "a space, a line end, or a character that is not ASCII"
    must = f"{LEAST_KEY} to {LONGEST_KEY} printable ASCII characters without spaces"
    todo = f"choose a {'longer ' if len(key) < LEAST_KEY else ''}random one, as openssl rand -hex 24 does"
    raise InvalidInput(option, must, got if key else "an empty text", todo)
