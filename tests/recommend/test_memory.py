"""Freed memory is kept, so that pages are not mapped again and again: counted in processes of their own."""

from __future__ import annotations

import platform
import sys

import pytest

import processes

FAULTS = """
import resource
import numpy as np

def work():
    blocks = [np.ones(1 << 17) for _ in range(6)]  # a MiB each
    return sum(block[0] for block in blocks)

{before}
for _ in range(3):
    work()
start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    work()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start) / 20)
"""
RECOMMENDER = """
import setwise as sw
from setwise.datasets import World
world = World.make(200, n_users=1, seed=0)
sw.Recommender(sw.Index.build(world.catalog, cells=4, progress=False))
"""


def faults(before: str) -> float:
    """How many pages are mapped for 6 MiB that are taken and freed again and again."""
    code = FAULTS.format(before=before)
    return float(processes.run([sys.executable, "-c", code], check=True).stdout)


@pytest.mark.nightly
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting that keeps freed memory")
@pytest.mark.parametrize(
    "before",
    [
        "from setwise.recommend.memory import keep_some; keep_some()",
        "from setwise.recommend.memory import keep_much; keep_much()",
        RECOMMENDER,
    ],
    ids=["some", "much", "recommender"],
)
def test_freed_memory_is_kept(before: str) -> None:
    assert faults(before) < 100 < faults("import setwise")
