"""Which addresses need an API key, and which Host headers are accepted.

A page of another site can make a browser send requests to this machine under a name that the site's DNS server resolves
to 127.0.0.1 (DNS rebinding). The name is in the Host header, so only known names are accepted.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from setwise.errors import InvalidInput

ANY = "*"
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s:/?#@\[\]]+))(:\d{0,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_exposure(host: str, key: str | None) -> None:
    """Raise an error for a service that other machines can reach without a key."""
    if key is None and not is_loopback(host):
        todo = "pass --api-key, set SETWISE_API_KEY, or serve on 127.0.0.1"
        raise InvalidInput("--api-key", f"set, as {host} can be reached from elsewhere", "none", todo)


def check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before workers start: that of another service, or of no machine."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        raise InvalidInput(
            "--host", "an address of this machine", f"{host} ({error.strerror})", "try 0.0.0.0"
        ) from None
    except OSError as error:
        todo = "choose another --port, 0 for any free one, or end what listens there"
        raise InvalidInput("--host and --port", "free", f"{host}:{port} ({error.strerror})", todo) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class AllowedHosts:
    """The Host headers that are accepted: names, and all IP addresses or all names where it says so."""

    names: frozenset[str] = _LOOPBACK
    any_address: bool = False
    any_name: bool = False

    @classmethod
    def of(cls, host: str, more: Iterable[str] = ()) -> AllowedHosts:
        """For a service on ``host``: loopback names, the host itself and ``more``; any address on a wildcard one.

        An address in a Host header is accepted there because rebinding needs a name.
        """
        allowed = {_checked(name) for name in more}
        wildcard = _address(host) is not None and ipaddress.ip_address(host).is_unspecified
        return cls(_LOOPBACK | {host.lower()} | allowed, wildcard, ANY in allowed)

    def accept(self, header: bytes | None) -> bool:
        """Whether a request with this Host header is for this service."""
        if header is None:
            return False
        parts = _HOST.fullmatch(header.decode("latin-1").lower())
        if parts is None:
            return False
        name = parts["address"] or parts["name"]
        return self.any_name or name in self.names or (self.any_address and _address(name) is not None)


def _checked(allowed: str) -> str:
    """A name or address of ``--allow-host`` as Host headers have it; one with a scheme or a port would match none."""
    name = allowed.strip().lower()
    address = name.strip("[]")
    if _address(address) is None and re.fullmatch(r"[^\s:/?#@\[\]]+", name) is None:
        must, todo = "a name or an address, or * for any", "leave out https://, the port and the path"
        raise InvalidInput("--allow-host", must, repr(allowed), todo)
    return address


def _address(name: str) -> str | None:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return None
