"""How many examples a property is tested on."""

from __future__ import annotations

from hypothesis import settings

LARGE = 200  # examples of a property without a number of its own, with --large
SMALL = 10  # the same without --large


def examples(full: int) -> settings:
    """Settings with ``full`` examples with --large, and a tenth of them, but at least four, without."""
    large = settings.default is not None and settings.default.max_examples >= LARGE
    return settings(max_examples=full if large else min(full, max(4, full // 10)), deadline=None)
