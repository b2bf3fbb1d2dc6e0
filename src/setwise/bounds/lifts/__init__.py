"""Bounds that charge an item for the rewards it raises: several heads together, over a list or the whole catalogue."""
