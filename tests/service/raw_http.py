"""A client of raw sockets: bytes out, whole responses in."""

from __future__ import annotations

import json
import socket

from services import Here, Running

BODY = json.dumps({"history": ["song-1"], "k": 2}).encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def head(length: int = len(BODY), *more: str, path: str = "/v1/recommend", method: str = "POST") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more, "", "")
    return "\r\n".join(lines).encode()


class Client:
    """A connection, and complete responses from it: status, headers and body."""

    def __init__(self, service: Here | Running, timeout: float = 120) -> None:
        self.socket = service.raw(timeout)
        self._file = self.socket.makefile("rb")

    def send(self, *pieces: bytes) -> Client:
        for piece in pieces:
            self.socket.sendall(piece)
        return self

    def response(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self._file.readline().split()[1])
        lines = iter(self._file.readline, b"\r\n")
        headers = dict(line.decode().rstrip().lower().split(": ", 1) for line in lines)
        return status, headers, self._file.read(int(headers.get("content-length", 0)))

    def is_closed(self) -> bool:
        """Wait for the end of the connection."""
        try:
            return self._file.read() == b""
        except ConnectionError:
            return True

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()


def send_all(raw: socket.socket, piece: bytes, size: int) -> int:
    """Send ``size`` bytes of repeated pieces, unless the service stops reading or closes; the bytes sent."""
    sent = 0
    try:
        while sent < size:
            raw.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def received(raw: socket.socket) -> bytes:
    """What arrives until the connection ends."""
    parts = []
    try:
        while part := raw.recv(1 << 16):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)
