"""Compiled code that several packages share: rewards, softmax sums, a heap, lists of the largest values."""

from setwise.kernels.cache import prepare

CODE_FOLDER = prepare()
"""Where numba keeps the machine code, or None where no folder can be written."""
