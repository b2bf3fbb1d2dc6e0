"""``setwise train``: a command for each kind of data; without one, the file decides."""
