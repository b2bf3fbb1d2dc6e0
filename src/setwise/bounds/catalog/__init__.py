"""Upper bounds over a whole catalogue, from cells computed offline."""
