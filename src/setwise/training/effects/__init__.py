"""What the items of a slate do to each other, as effects that can be read: one family of effects a file."""
