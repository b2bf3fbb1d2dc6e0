"""Compiled code that several packages share: rewards, softmax sums, a heap, lists of the largest values."""
