"""Saved objects: atomic writes, and reads that refuse damaged or foreign folders."""
