"""Where items and users come from: for now, a simulated world."""

from setwise.datasets.synthetic import World

__all__ = ["World"]
