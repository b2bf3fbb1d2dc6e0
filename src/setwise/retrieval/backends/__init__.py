"""Retrieval backends, one file each; ``protocol.py`` has their interface and registry."""
