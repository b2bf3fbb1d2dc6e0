"""The files of a cluster: what hosts and front read. They are on storage that all of them can read.

    folder/cluster                  what the front reads: the centres of the cells, one item as a pattern of all others,
                                    the weights of the encoder, and the *layout*: how many rows and changes there are
    folder/shard-0/index            the items of shard 0 with a single-machine backend: an index like any other
    folder/shard-0/encoder          the vectors of these items in histories
    folder/shard-0/change-1, …      items that were added to shard 0, or removed from it, in order

**Rows.** Items are numbered over the whole cluster as those of one index: added items come last. ``rows`` of a shard
are the numbers of its items, ascending.

**Versions.** A change is written before the layout counts it, and the layout is replaced by one rename. A request names
how many changes of each shard it reads, so it sees all of a change or nothing, and a host that was restarted reads what
it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Array, Ints
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index
from setwise.retrieval.partition import Partition
from setwise.retrieval.shards import row_ranges
from setwise.storage import artifact

FRONT, ROWS, VECTORS, CHANGE = "cluster", "index", "history vectors", "change"
ADDED, REMOVED = "added", "removed"


@dataclass(frozen=True)
class Layout:
    """The shards at one moment.

    starts    the first row of each shard when the cluster was written
    versions  the changes of each shard
    sizes     the items of each shard, removed ones included
    rows      the number of the next item that is added
    """

    starts: tuple[int, ...]
    versions: tuple[int, ...]
    sizes: tuple[int, ...]
    rows: int

    def changed(self, shard: int, added: int) -> Layout:
        """The layout after one more change of a shard."""
        versions, sizes = list(self.versions), list(self.sizes)
        versions[shard] += 1
        sizes[shard] += added
        return replace(self, versions=tuple(versions), sizes=tuple(sizes), rows=self.rows + added)


@dataclass(frozen=True, eq=False)
class FrontFiles:
    """What the front knows of the catalogue.

    pattern    a catalogue of one item: shapes, rewards, sink and names of attributes are those of all items
    partition  centres and radii of the cells, with the cell of that item
    encoder    without the vectors of the items; None: histories are not understood
    attends    whether some item of the catalogue, or the sink, has a value that is not zero
    options    of the recommender: ranker, candidates
    """

    layout: Layout
    pattern: Catalog
    partition: Partition
    encoder: Encoder | None
    attends: bool
    options: dict[str, Any]


def shard_folder(folder: Path, shard: int) -> Path:
    """The folder of one shard."""
    return folder / f"shard-{shard}"


def write_cluster(recommender: Recommender, folder: Path, shards: int, backend: str = "auto") -> FrontFiles:
    """Split a recommender's index, compacted, into shards of nearly equal size below ``folder``."""
    index = recommender.index.snapshot()
    index.compact()
    catalog, encoder = index.catalog, recommender.encoder
    if encoder is not None and encoder.base_terms.packed():
        encoder = None  # neighbours and networks of a base model read all items
    ranges = row_ranges(len(catalog), shards)
    for shard, (first, last) in enumerate(ranges):
        rows = np.arange(first, last)
        part = Index.build(catalog.taken(rows), backend=backend, partition=index.partition.taken(rows), progress=False)
        part.save(shard_folder(folder, shard) / "index")
        if encoder is not None:
            vectors = {"items": np.asarray(encoder.items[first:last], np.float32)}
            artifact.write(shard_folder(folder, shard) / "encoder", VECTORS, vectors, {})
    files = FrontFiles(
        Layout(
            tuple(first for first, _ in ranges),
            (0,) * len(ranges),
            tuple(last - first for first, last in ranges),
            len(catalog),
        ),
        catalog.taken([0]),
        index.partition.taken(np.zeros(1, np.intp)),
        None if encoder is None else encoder.taken(np.zeros(1, np.intp)),
        catalog.attends,
        {"ranker": recommender.ranker, "candidates": recommender.most_candidates},
    )
    write_front(folder, files)
    return files


def write_front(folder: Path, files: FrontFiles) -> None:
    """Save what the front reads; this commits a new layout."""
    arrays, meta = files.pattern.packed()
    parts = {f"catalog.{name}": array for name, array in arrays.items()}
    parts |= {f"partition.{name}": array for name, array in vars(files.partition).items()}
    parts |= {f"encoder.{name}": array for name, array in (files.encoder.packed() if files.encoder else {}).items()}
    layout = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(files.layout).items()}
    content = {"catalog": meta, "layout": layout, "attends": files.attends, "options": files.options}
    artifact.write(folder / "cluster", FRONT, parts, content)


def read_front(folder: Path) -> FrontFiles:
    """What ``write_front`` saved."""
    saved = artifact.read(folder / "cluster", FRONT, otherwise="write one with setwise cluster split")
    with artifact.restoring(folder):
        pattern = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
        parts, layout = artifact.under("encoder.", saved.arrays), saved.meta["layout"]
        starts, versions, sizes = (tuple(map(int, layout[name])) for name in ("starts", "versions", "sizes"))
        return FrontFiles(
            Layout(starts, versions, sizes, int(layout["rows"])),
            pattern,
            Partition.opened(artifact.under("partition.", saved.arrays), pattern),
            Encoder.unpacked(parts) if parts else None,
            bool(saved.meta["attends"]),
            dict(saved.meta["options"]),
        )


# --- changes ---


def write_added(folder: Path, version: int, items: Catalog, rows: Ints) -> None:
    """Write the addition of ``items`` to the shard in ``folder`` as its change of this number."""
    arrays, meta = items.packed()
    parts: dict[str, Array] = {f"catalog.{name}": array for name, array in arrays.items()}
    artifact.write(folder / f"change-{version}", CHANGE, {**parts, "rows": rows}, {"what": ADDED, "catalog": meta})


def write_removed(folder: Path, version: int, rows: Ints) -> None:
    """Write the removal of ``rows`` of the shard in ``folder`` as its change of this number."""
    artifact.write(folder / f"change-{version}", CHANGE, {"rows": rows}, {"what": REMOVED})


def read_change(folder: Path, version: int) -> tuple[Catalog | None, Ints]:
    """The items that were added and their rows; or None and the rows that were removed."""
    saved = artifact.read(folder / f"change-{version}", CHANGE)
    with artifact.restoring(folder):
        if saved.meta["what"] == REMOVED:
            return None, saved.arrays["rows"]
        return Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"]), saved.arrays["rows"]
