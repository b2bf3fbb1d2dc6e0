"""The security headers of every response: the page loads nothing from elsewhere but pictures of allowed hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from setwise.errors import InvalidInput

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(\*\.{_LABEL}\.)?{_LABEL}(\.{_LABEL})*(:[1-9][0-9]{{0,4}})?")
_LONGEST = 253  # letters of a host's name
_OTHERS = (
    b"x-content-type-options: nosniff\r\n"
    b"x-frame-options: DENY\r\n"
    b"referrer-policy: no-referrer\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
)


def parse_image_hosts(names: str) -> tuple[str, ...]:
    """The hosts in a list separated by commas: names with or without a port; ``*.`` stands for any subdomain.

    The names become part of a header, so nothing else is accepted.
    """
    hosts = [name.strip().lower() for name in names.split(",")] if names.strip() else []
    for host in hosts:
        if len(host) > _LONGEST or not _HOST.fullmatch(host):
            must = "names of hosts separated by commas, such as images.example or *.cdn.example:8443"
            raise InvalidInput("--image-hosts", must, repr(host), "leave out the scheme and the path")
    return tuple(dict.fromkeys(hosts))


def security_headers(image_hosts: Sequence[str] = ()) -> bytes:
    """The headers, with a content security policy that allows pictures from these hosts, by https only."""
    policy = ["default-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    if image_hosts:
        policy.append(" ".join(["img-src 'self'", *(f"https://{host}" for host in image_hosts)]))
    return f"content-security-policy: {'; '.join(policy)}\r\n".encode() + _OTHERS
