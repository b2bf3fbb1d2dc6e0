"""Slates for a whole table of users: read in a stream, answered by processes, resumed after an interruption."""
