"""What the compiled rankers compile (kernels/parts.py)."""

from __future__ import annotations

import numpy as np

from setwise.model.instance import Instance
from setwise.ranking.exact import EXACT
from setwise.ranking.exhaustive import EXHAUSTIVE
from setwise.ranking.registry import rank
from setwise.ranking.swap import SWAP


def _instance() -> Instance:
    return Instance(np.zeros((3, 3)), [3.0, 2.0, 1.0])


def use_swap() -> None:
    """Swap search without a budget and with one."""
    rank(_instance(), 2, SWAP.name, evaluations=1)
    rank(_instance(), 2, SWAP.name, budget_ms=1.0)


def use_exhaustive() -> None:
    """The evaluation of all sets."""
    rank(_instance(), 2, EXHAUSTIVE.name)


def use_exact() -> None:
    """Branch and bound on candidates."""
    rank(_instance(), 2, EXACT.name)
