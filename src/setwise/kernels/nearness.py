"""Compiled: from cosines to how much candidates are alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise.kernels.options import FAST, OUTER, njit
from setwise.kernels.softmax import ONE, fast_exp_32

ZERO, LEAST = np.float32(0), np.float32(-80)


@njit(**OUTER, fastmath=FAST)
def nearness(cosine: Any, sharpness: float) -> None:
    """Turn cosines (m, m) into w_ij = e^(sharpness (cos − 1)) in place, 0 on the diagonal."""
    slope = np.float32(sharpness)
    for i in range(len(cosine)):
        row = cosine[i]
        for j in range(len(row)):
            row[j] = fast_exp_32(max(slope * min(row[j] - ONE, ZERO), LEAST))
        row[i] = ZERO
