"""Phase One: retrieve the best few of every cell. ``Index`` is the door."""

from setwise.retrieval.index import Index

__all__ = ["Index"]
