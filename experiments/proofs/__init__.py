"""Phase Two of the paper to the letter, a file per step, for small instances."""
