"""API keys: what the holder of a key may do.

The full key opens every route. The read key opens those that change nothing: no reload, no outcomes.
"""

from __future__ import annotations

import hmac

from setwise.errors import InvalidInput

LEAST_KEY, LONGEST_KEY = 16, 512  # characters; the headers of a request, which may be 1,024 bytes, hold the key


class Keys:
    """The keys of a service."""

    def __init__(self, key: str | None, read_key: str | None) -> None:
        keys = ((key, True), (read_key, False))
        self._writes = {f"Bearer {text}".encode(): writes for text, writes in keys if text is not None}
        self._open = key is None

    def may_write(self, authorization: bytes) -> bool | None:
        """Whether who sends this header may change something; None for a missing or wrong key.

        All keys are compared, each in constant time.
        """
        result = True if self._open else None
        for header, writes in self._writes.items():
            if hmac.compare_digest(authorization, header):
                result = writes
        return result


def check_keys(key: str | None, read_key: str | None) -> None:
    """Raise an error for keys that can be guessed, and for a read key without a full one, or equal to it."""
    for option, text in (("--api-key", key), ("--read-key", read_key)):
        if text is not None:
            _check_key(option, text)
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
