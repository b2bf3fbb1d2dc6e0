"""Upper bounds: numbers that F(S) of no feasible set exceeds."""
