"""One request from query to slate: retrieve, rank, bound, value."""
