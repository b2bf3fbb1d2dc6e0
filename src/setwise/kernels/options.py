"""Options of ``numba.njit`` that the compiled functions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise.kernels import CODE_FOLDER, code_files, compile_notice

OUTER: dict[str, Any] = {"cache": CODE_FOLDER is not None, "nogil": True, "error_model": "numpy"}
"""For functions that Python calls."""

INNER: dict[str, Any] = OUTER | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls: without the wrappers they compile sooner."""

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
"""Value of ``fastmath``: arithmetic may be reordered, NaN and infinities keep their meaning."""

compile_notice.listen()  # before the first function is compiled
code_files.tolerate()

ZERO: Any = np.int64(0)
NO_ITEM: Any = np.int64(-1)
YES, NO = np.bool_(True), np.bool_(False)
"""Arguments for compiled functions: for each literal 0, −1, True or False they would be compiled once more."""
