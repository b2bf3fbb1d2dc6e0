"""What the whole package shares: aliases of array types, whose shapes are stated where they are used; one number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]  # counts, labels, offsets: what is saved, and what compiled code reads
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]  # row numbers, as numpy indexes

SLATE_SIZE = 10  # items, where nothing says how many
