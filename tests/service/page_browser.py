"""Chromium for the tests of the page: find it, install it, or skip with a reason.

    python tests/service/page_browser.py      # called by `make test`; never fails

A browser on the PATH comes first, then one that Playwright has downloaded. Where there is none, apt-get installs it as
root; otherwise Playwright downloads its own, which needs more of the network than a package registry.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

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


NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@cache
def chromium() -> str | None:
    """The path of Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None) or _downloaded()


def _downloaded() -> str | None:
    """The path of the Chromium that Playwright has downloaded, or None."""
    if importlib.util.find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        path = driver.chromium.executable_path
    return path if Path(path).is_file() else None


def install() -> str:
    """Install Chromium if it is missing and this process may; return the result as one sentence."""
    if chromium():
        return "Chromium is installed: the page is tested in it."
    for step in _steps():
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{step[0]} took over {SECONDS} s: the tests of the page are skipped."
    chromium.cache_clear()
    if chromium():
        return "Chromium was installed: the page is tested in it."
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    reason = next((line.strip() for line in lines if "rror" in line), lines[-1])
    return f"Chromium could not be installed ({reason}): the tests of the page are skipped."


def _steps() -> list[list[str]]:
    """The commands that install Chromium."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        return [
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "chromium"],
        ]
    return [[sys.executable, "-m", "playwright", "install", "chromium"]]


def required() -> str:
    """The path of Chromium; the test is skipped if there is none."""
    pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[dev]'")
    path = chromium()
    if path is None:
        pytest.skip("Chromium is missing: python tests/service/page_browser.py installs it, or says why not")
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
