"""``setwise compile`` through its command line."""

from __future__ import annotations

import subprocess
import sys


def test_compile_states_its_time() -> None:
    out = subprocess.run([sys.executable, "-m", "setwise", "compile"], capture_output=True, text=True, check=True)
    assert "The inner loops are compiled" in out.stdout


def test_help_says_when_to_use_it() -> None:
    out = subprocess.run([sys.executable, "-m", "setwise", "compile", "--help"], capture_output=True, text=True)
    assert "after installation" in " ".join(out.stdout.split())
