"""The program ``setwise``: what must be settled before the package is imported, which takes a second or more.

A SIGHUP asks a service to reload. While the package is imported nothing handles it, and it would end the process; the
folder has not been read yet, so it may be ignored until the service notes it (service/server.py). Ctrl-C ends the
import without a traceback.
"""

import signal
import sys

INTERRUPTED = 130  # exit status after Ctrl-C


def main() -> None:
    """The entry point."""
    if sys.argv[1:2] == ["serve"] and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from setwise.cli import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()
