"""Where items, users and what they did come from: readers of the true formats, and a simulated world."""

from setwise.datasets.read import read
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.datasets.sessions import Sessions, Slates, parted
from setwise.datasets.spotify_mpd import Playlist, Track, playlists, read_mpd
from setwise.datasets.synthetic import World
from setwise.datasets.tables import read_table, table_columns, with_attributes
from setwise.datasets.trivago import (
    read_item_metadata,
    read_trivago,
    read_trivago_impressions,
    read_trivago_sessions,
)
from setwise.model.ragged import Ragged

__all__ = [
    "Playlist",
    "Ragged",
    "Sessions",
    "Slates",
    "Track",
    "World",
    "parted",
    "playlists",
    "read",
    "read_item_metadata",
    "read_mpd",
    "read_recbole",
    "read_sequences",
    "read_table",
    "read_trivago",
    "read_trivago_impressions",
    "read_trivago_sessions",
    "table_columns",
    "with_attributes",
]
