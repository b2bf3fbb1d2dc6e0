"""The decorator ``njit`` of the compiled functions, and the options that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from setwise.kernels import code_files
from setwise.kernels.cache import code_folder

CODE_FOLDER = code_folder()

OUTER: dict[str, Any] = {"cache": CODE_FOLDER is not None, "nogil": True, "error_model": "numpy"}
"""For functions that Python calls."""

INNER: dict[str, Any] = OUTER | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls: without the wrappers they compile sooner."""

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
"""Value of ``fastmath``: arithmetic may be reordered, NaN and infinities keep their meaning."""

code_files.tolerate()

ZERO: Any = np.int64(0)
NO_ITEM: Any = np.int64(-1)
YES, NO = np.bool_(True), np.bool_(False)
"""Arguments for compiled functions: for each literal 0, −1, True or False they would be compiled once more."""


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` whose machine code is kept in ``code_folder()``.

    numba reads its folder when a function is decorated. Functions of other packages keep theirs where they had it.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        folder = numba.config.CACHE_DIR
        if CODE_FOLDER is not None:
            numba.config.CACHE_DIR = str(CODE_FOLDER)
        try:
            return numba.njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = folder

    return decorate
