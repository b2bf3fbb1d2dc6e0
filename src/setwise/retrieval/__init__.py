"""Phase One: retrieve the best few items of every cell. ``Index`` is the public class."""

from setwise.retrieval.index import Index

__all__ = ["Index"]
