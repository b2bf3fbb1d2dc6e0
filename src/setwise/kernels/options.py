"""Options of ``numba.njit`` that the compiled functions share."""

from __future__ import annotations

from typing import Any

OUTER: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
"""For functions that Python calls."""

INNER: dict[str, Any] = OUTER | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls: without the wrappers they compile sooner."""

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
"""Value of ``fastmath``: arithmetic may be reordered, NaN and infinities keep their meaning."""
