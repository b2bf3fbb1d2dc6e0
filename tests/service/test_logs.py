"""Lines of the service's own log that cannot be written: nothing else may fail for them."""

from __future__ import annotations

import io
import socket
import sys
from pathlib import Path

import httpx
import pytest
from services import here, post

import processes
from setwise.service.logs import configure_logs, log

KEY = "a-long-and-random-key"


class FullDisk(io.StringIO):
    """A standard error that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [FullDisk(), None], ids=["full", "none"])
def test_a_line_that_cannot_be_written_is_lost(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logs()
    monkeypatch.setattr(sys, "stderr", stream)
    log().error("a line")


def test_slates_that_cannot_be_logged_are_served_without_a_log_of_the_service(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that logs slates ended with the line that it could not write, and every later request waited."""
    body = {"history": ["song-1", "song-2"], "k": 3, "budget_ms": 20}
    configure_logs()
    with here(folder, log=tmp_path / "log") as service:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", FullDisk())
            patch.setattr("setwise.storage.slate_log.SlateLog.write", lambda *_: (_ for _ in ()).throw(OSError(28, "")))
            assert [len(post(service, "/v1/recommend", body)["items"]) for _ in range(2)] == [3, 3]
        slate = post(service, "/v1/recommend", body)
        outcome = {"slate": slate["slate"], "item": slate["items"][0]["id"]}
        assert post(service, "/v1/outcomes", {"outcomes": [outcome]})["new"] == 1


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_service_whose_standard_error_is_full(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "setwise", "serve", str(folder), "--port", str(port), "--api-key", KEY]
    with Path("/dev/full").open("w") as full, processes.started([*command, "--workers", "1"], stderr=full) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {KEY}"}) as client:
            processes.until(lambda: is_ready(client))
            assert client.post("/admin/reload", timeout=60).status_code == 200
            assert client.get("/v1/info").status_code == 200
        process.terminate()
        assert process.wait(processes.LIMIT) == 0
