"""Shards of a catalogue that was not indexed as a whole: for one whose index would not fit into memory.

The arrays of a saved catalogue stay in their mapped file. k-means reads them in pieces, and needs some hundred bytes an
item; then one shard after the other is taken, indexed and written. The shards are those of ``write_cluster`` for an
index with the same cells. Fine cells for bounds over all items, which read all of them, are not computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from setwise._progress import Progress
from setwise._validation import whole_number
from setwise.model.catalog import Catalog
from setwise.recommend.cluster.files import FrontFiles, write_cluster
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.protocol import item_vectors
from setwise.retrieval.clusters import clusters, default_cells
from setwise.retrieval.index_state import IndexState


def split_catalog(
    catalog: Catalog,
    folder: Path,
    shards: int,
    cells: int | None = None,
    backend: str = "auto",
    seed: int = 0,
    progress: bool | None = None,
    source: str = "",
    **options: Any,
) -> FrontFiles:
    """Split a catalogue into shards below ``folder``; ``options`` are those of a recommender, such as ``encoder``.

    ``source`` is a digest of what is split, which the files keep.
    """
    wanted = default_cells(len(catalog)) if cells is None else whole_number("cells", cells)
    with Progress("partitioning", len(catalog), progress) as bar:
        partition = clusters(catalog, min(wanted, len(catalog)), seed, bar.advance)
    first = np.zeros(1, np.intp)
    vectors = BruteForce.build(item_vectors(catalog.taken(first)), partition.cell_of[first], partition.n_cells)
    unsearched = Index(IndexState(catalog, partition, vectors, len(catalog), None, None), "numpy", {})
    recommender = Recommender(unsearched, certify=False, **options)
    return write_cluster(recommender, folder, shards, backend, bounds=False, source=source)
