"""Sessions and slates: readers of public and tabular formats, splits, and two simulated worlds."""

from setwise.datasets.dispatch import read
from setwise.datasets.restaurant import Restaurant
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import HistorySplit, random_split
from setwise.datasets.synthetic import World
from setwise.datasets.tables import read_table, table_columns, with_attributes
from setwise.model.ragged import Ragged

__all__ = [
    "HistorySplit",
    "Ragged",
    "Restaurant",
    "Sessions",
    "Slates",
    "World",
    "random_split",
    "read",
    "read_recbole",
    "read_sequences",
    "read_table",
    "table_columns",
    "with_attributes",
]
