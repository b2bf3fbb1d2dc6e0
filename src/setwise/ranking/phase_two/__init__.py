"""Phase Two as the paper states it, step by step, for small instances."""
