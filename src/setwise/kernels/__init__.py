"""Compiled code that several packages share."""
