"""Sessions and slates: readers of public and tabular formats, splits, and two simulated worlds."""

from setwise.datasets.dispatch import read
from setwise.datasets.restaurant import Restaurant
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import HistorySplit, random_split
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
    "HistorySplit",
    "Playlist",
    "Ragged",
    "Restaurant",
    "Sessions",
    "Slates",
    "Track",
    "World",
    "playlists",
    "random_split",
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
