"""A catalogue in shards on several hosts, and a front without the catalogue that answers requests from them."""
