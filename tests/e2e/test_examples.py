"""Every example runs as a script, prints something, and warns about nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import processes

pytestmark = pytest.mark.nightly

PROGRESS = re.compile(r": (\d+%.*|done)$")  # what takes more than some seconds, on a busy machine
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    out = processes.run([sys.executable, str(example)], cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip()
    assert [line for line in out.stderr.splitlines() if not PROGRESS.search(line)] == []
