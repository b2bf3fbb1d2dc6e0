"""Chromium for the tests of the page: find it, install it with apt-get as root, or skip with a reason.

    python tests/service/page_browser.py      # called by `make test`; never fails

Playwright's own download of a browser is not used, because it needs more of the network than a package registry.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SECONDS = 600  # time limit of an installation step


def chromium() -> str | None:
    """The path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def install() -> str:
    """Install Chromium if it is missing and this process may; return the result as one sentence."""
    if chromium():
        return "Chromium is installed: the page is tested in it."
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "Chromium is missing and may not be installed here: the tests of the page are skipped."
    for step in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        try:
            done = subprocess.run(["apt-get", "-qq", *step], capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"apt-get {step[0]} took over {SECONDS} s: the tests of the page are skipped."
        if done.returncode and step[0] == "install":
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            return f"apt-get could not install Chromium ({last[0]}): the tests of the page are skipped."
    return "Chromium was installed: the page is tested in it."


def required() -> str:
    """The path of Chromium; the test is skipped if there is none."""
    pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[dev]'")
    path = chromium()
    if path is None:
        pytest.skip("Chromium is missing: apt-get install chromium, or run `make test` as root, which does so")
    return path


@contextmanager
def browser() -> Iterator:
    """A running Chromium; the test is skipped if there is none."""
    path = required()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


if __name__ == "__main__":
    sys.stdout.write(install() + "\n")
