"""Certificates: numbers that no feasible set exceeds, for the candidates of an instance or for a whole catalogue."""
