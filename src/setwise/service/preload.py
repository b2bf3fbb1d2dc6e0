"""Imported once by the server process from which workers are forked (worker_pool.py): workers inherit what it loads.

Loading the compiled code of a request takes seconds, and minutes where it must be compiled first. Here it is loaded
once for all workers, those that replace others and those of a reload included.
"""

from __future__ import annotations

import contextlib
import os

from setwise.kernels import code_files
from setwise.recommend.compilation import load_requests
from setwise.service import worker  # with all that a worker imports
from setwise.service.logs import configure_logs, log

__all__ = ["worker"]

SERVICE = os.getppid()

configure_logs()
code_files.say = lambda text: log().info("starting", note=text)

# A worker does the same for its artifact, and reports what goes wrong. Ctrl-C during compilation ends the service, and
# this process with it. What bounds need and is not compiled yet, each worker loads when it is.
with contextlib.suppress(Exception, KeyboardInterrupt):
    load_requests()

if os.getppid() != SERVICE:  # it was killed meanwhile: no worker is wanted
    os._exit(0)
