"""Saved objects: what is on disk is whole and ours, or it is refused."""
