"""The program ``setwise``: what signals do while the package is imported, for a second or more, and at the end.

A SIGHUP asks a service to reload. While the package is imported nothing handles it, and it would end the process; the
folder has not been read yet, so it may be ignored until the service notes it (service/signals.py). SIGTERM ends the
program with status 0, as it ends a service, and further ones do not change that. Ctrl-C ends the import without a
traceback.
"""

import os
import signal
import sys

INTERRUPTED = 130  # exit status after Ctrl-C


def main() -> None:
    """The entry point."""
    serves = sys.argv[1:2] == ["serve"] and hasattr(signal, "SIGHUP")
    if serves:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        from setwise.cli import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if not serves:
        command()
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        command()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)
