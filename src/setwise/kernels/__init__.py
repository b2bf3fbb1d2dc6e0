"""Compiled code that several packages share: rewards, softmax sums, a heap, lists of the largest values."""

from setwise.kernels.cache import clear_stale_package

clear_stale_package()
