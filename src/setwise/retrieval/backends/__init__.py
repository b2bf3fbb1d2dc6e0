"""Retrieval backends, one file each; ``setwise.retrieval.neighbors`` is their registry."""
