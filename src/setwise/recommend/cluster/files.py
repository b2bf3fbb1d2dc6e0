"""The files of a cluster: what hosts and front read. They are on storage that all of them can read.

    folder/cluster                  what the front reads: the centres of the cells, one item as a pattern of all others,
                                    the weights of the encoder, the fine cells of bounds (``front_cells.py``), and
                                    the *layout*: how many rows and changes there are
    folder/shard-0/index            the items of shard 0 with a single-machine backend: an index like any other
    folder/shard-0/encoder          what the encoder knows of these items (``shard_history.py``)
    folder/shard-0/bounds           the fine cells of these items, and their reach
    folder/shard-0/change-1, …      items that were added to shard 0, or removed from it, in order

**Rows.** Items are numbered over the whole cluster as those of one index: added items come last. ``rows`` of a shard
are the numbers of its items, ascending.

**Versions.** A change is written before the layout counts it, and the layout is replaced by one rename. A request names
how many changes of each shard it reads, so it sees all of a change or nothing, and a host that was restarted reads what
it lacks. It also names their digest, which the layout holds: a host does not take the files of another split, or
another change, for those that are meant, whether it has them in memory or reads them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Array, Ints
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.group_bounds import Groups, RewardArrays
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.recommend.cluster.front_cells import FrontCells, reward_arrays
from setwise.recommend.cluster.shard_cells import ShardCells
from setwise.recommend.cluster.shard_history import ShardHistory
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.protocol import item_vectors
from setwise.retrieval.index_state import IndexState
from setwise.retrieval.partition import Partition
from setwise.retrieval.shards import row_ranges
from setwise.storage import artifact

FRONT, VECTORS, BOUNDS, CHANGE = "cluster", "history vectors", "cells of a shard", "change"
ADDED, REMOVED = "added", "removed"


class Version(NamedTuple):
    """A shard at one moment: how many changes it has, and the digest of its files and of these changes, in order.

    The digest is empty in clusters that were split before layouts had it; then files are not compared with it.
    """

    changes: int
    digest: str = ""

    def next(self, change: str) -> Version:
        """The version after one more change, of this digest."""
        return Version(self.changes + 1, self.digest and hashlib.sha256((self.digest + change).encode()).hexdigest())


@dataclass(frozen=True)
class Layout:
    """The shards at one moment.

    starts    the first row of each shard when the cluster was written
    versions  the changes of each shard
    sizes     the items of each shard, removed ones included
    rows      the number of the next item that is added
    removed   items that were removed
    """

    starts: tuple[int, ...]
    versions: tuple[Version, ...]
    sizes: tuple[int, ...]
    rows: int
    removed: int = 0

    @property
    def items(self) -> int:
        """The items that were not removed."""
        return sum(self.sizes) - self.removed

    @property
    def in_order(self) -> bool:
        """Whether the rows of a shard are all smaller than those of the next one: no added item precedes another."""
        return self.rows == self.starts[-1] + self.sizes[-1]

    def changed(self, shard: int, digest: str, added: int = 0, removed: int = 0) -> Layout:
        """The layout after one more change of a shard, of this digest: so many items were added or removed."""
        versions, sizes = list(self.versions), list(self.sizes)
        versions[shard] = versions[shard].next(digest)
        sizes[shard] += added
        rows, gone = self.rows + added, self.removed + removed
        return replace(self, versions=tuple(versions), sizes=tuple(sizes), rows=rows, removed=gone)


@dataclass(frozen=True, eq=False)
class FrontFiles:
    """What the front knows of the catalogue.

    pattern    a catalogue of one item: shapes, rewards, sink and names of attributes are those of all items
    partition  centres and radii of the cells, with the cell of that item
    encoder    without the vectors of the items; None: histories are not understood
    attends    whether some item of the catalogue, or the sink, has a value that is not zero
    options    of the recommender: ranker, candidates
    features   turns features into users
    cells      of bounds over all items; None where the cluster was written without them
    new_user   the smallest and the largest score for new users; None where the encoder has none
    source     the digest of what was split; empty where the writer of the cluster did not name it
    """

    layout: Layout
    pattern: Catalog
    partition: Partition
    encoder: Encoder | None
    attends: bool
    options: dict[str, Any]
    cells: FrontCells | None = None
    features: FeatureEncoder | None = None
    new_user: tuple[float, float] | None = None
    source: str = ""

    @cached_property
    def backend(self) -> BruteForce:
        """A search of the one item of the pattern, for indexes that are not searched."""
        return BruteForce.build(item_vectors(self.pattern), self.partition.cell_of, self.partition.n_cells)

    @cached_property
    def index(self) -> Index:
        """The pattern as an index."""
        state = IndexState(self.pattern, self.partition, self.backend, len(self.pattern), None, None)
        return Index(state, "numpy", {})

    @cached_property
    def bound_groups(self) -> tuple[Groups, RewardArrays]:
        """The cells and the rewards for the search of a bound."""
        assert self.cells is not None
        return self.cells.groups(self.pattern.query.dtype), reward_arrays(self.pattern)


def shard_folder(folder: Path, shard: int) -> Path:
    """The folder of one shard."""
    return folder / f"shard-{shard}"


def write_cluster(
    recommender: Recommender,
    folder: Path,
    shards: int,
    backend: str = "auto",
    bounds: bool = True,
    source: str = "",
) -> FrontFiles:
    """Split a recommender's index, compacted, into shards of nearly equal size below ``folder``.

    The fine cells of ``bounds`` over all items are written too; where the recommender has none, they are computed.
    ``source`` is a digest of what is split, which the files keep.
    """
    index = recommender.index.snapshot()
    index.compact()
    catalog, encoder = index.catalog, recommender.encoder
    ranges, cells = row_ranges(len(catalog), shards), None
    if bounds:
        cells = recommender.cells_of(index) or CellBounds.build(catalog)
    for shard, (first, last) in enumerate(ranges):
        rows = np.arange(first, last)
        part = Index.build(catalog.taken(rows), backend=backend, partition=index.partition.taken(rows), progress=False)
        part.save(shard_folder(folder, shard) / "index")
        if encoder is not None:
            known = ShardHistory.of(encoder, rows).to_arrays()
            artifact.write(shard_folder(folder, shard) / "encoder", VECTORS, known, {})
        if cells is not None:
            of_shard = {"cell_of": cells.partition.cell_of[rows], "reach": cells.reach[rows]}
            artifact.write(shard_folder(folder, shard) / "bounds", BOUNDS, of_shard, {})
    files = FrontFiles(
        Layout(
            tuple(first for first, _ in ranges),
            tuple(Version(0, shard_digest(shard_folder(folder, shard))) for shard in range(len(ranges))),
            tuple(last - first for first, last in ranges),
            len(catalog),
        ),
        catalog.taken([0]),
        index.partition.taken(np.zeros(1, np.intp)),
        None if encoder is None else encoder.taken(np.zeros(1, np.intp)),
        catalog.attends,
        {"ranker": recommender.ranker, "candidates": recommender.most_candidates},
        None if cells is None else FrontCells.of(cells),
        recommender.features,
        _new_user_range(encoder),
        source,
    )
    write_front(folder, files)
    return files


def _new_user_range(encoder: Encoder | None) -> tuple[float, float] | None:
    """The smallest and the largest score for new users, of items that are added later too; None without any."""
    scores = None if encoder is None else encoder.base_terms.new_user
    return None if scores is None else (float(scores.min(initial=0.0)), float(scores.max(initial=0.0)))


def write_front(folder: Path, files: FrontFiles) -> None:
    """Save what the front reads; this commits a new layout."""
    arrays, meta = files.pattern.packed()
    parts = {f"catalog.{name}": array for name, array in arrays.items()}
    parts |= {f"partition.{name}": array for name, array in vars(files.partition).items()}
    parts |= {f"encoder.{name}": array for name, array in (files.encoder.packed() if files.encoder else {}).items()}
    parts |= {f"bounds.{name}": array for name, array in (files.cells.to_arrays() if files.cells else {}).items()}
    layout = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(files.layout).items()}
    trees, named = ({}, None) if files.features is None else files.features.packed()
    parts |= {f"features.{name}": array for name, array in trees.items()}
    content = {"catalog": meta, "layout": layout, "attends": files.attends, "options": files.options}
    content |= {"features": named, "new_user": files.new_user and list(files.new_user)}
    content["source"] = files.source
    artifact.write(folder / "cluster", FRONT, parts, content)


def read_front(folder: Path) -> FrontFiles:
    """What ``write_front`` saved."""
    saved = artifact.read(folder / "cluster", FRONT, otherwise="write one with setwise cluster split")
    with artifact.restoring(folder):
        pattern = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
        parts, layout = artifact.under("encoder.", saved.arrays), saved.meta["layout"]
        cells, named = artifact.under("bounds.", saved.arrays), saved.meta.get("features")
        trees = artifact.under("features.", saved.arrays)
        starts, sizes = (tuple(map(int, layout[name])) for name in ("starts", "sizes"))
        rows, removed = int(layout["rows"]), int(layout.get("removed", 0))  # older files do not count the removed
        return FrontFiles(
            Layout(starts, tuple(map(_version, layout["versions"])), sizes, rows, removed),
            pattern,
            Partition.opened(artifact.under("partition.", saved.arrays), pattern),
            Encoder.unpacked(parts) if parts else None,
            bool(saved.meta["attends"]),
            dict(saved.meta["options"]),
            FrontCells.from_arrays(cells, pattern) if cells else None,
            FeatureEncoder.unpacked(trees, named) if named else None,
            None if (scores := saved.meta.get("new_user")) is None else (float(scores[0]), float(scores[1])),
            str(saved.meta.get("source", "")),
        )


def shard_digest(folder: Path) -> str:
    """The digest of the shard in ``folder`` as it was written: changes are not in it."""
    parts = [part for part in ("index", "encoder", "bounds") if (folder / part).exists()]
    return hashlib.sha256("".join(artifact.digest(folder / part) for part in parts).encode()).hexdigest()


def _version(saved: Any) -> Version:
    return Version(int(saved)) if isinstance(saved, int) else Version(int(saved[0]), str(saved[1]))


def version_reached(folder: Path, before: Version, changes: int) -> Version:
    """The version that the shard in ``folder`` reaches from an earlier one by its files of the changes since then."""
    for number in range(before.changes + 1, changes + 1):
        before = before.next(artifact.digest(folder / f"change-{number}"))
    return before


def read_bounds(folder: Path) -> ShardCells | None:
    """The cells of the items of the shard in ``folder``; None where the cluster has none."""
    if not (folder / "bounds").exists():
        return None
    arrays = artifact.read(folder / "bounds", BOUNDS).arrays
    return ShardCells(np.asarray(arrays["cell_of"]), np.asarray(arrays["reach"]))


# --- changes ---


@dataclass(frozen=True, eq=False)
class Change:
    """One change of a shard: ``rows`` that were removed; or those of ``items`` that were added, and their cells."""

    rows: Ints
    items: Catalog | None = None
    cells: ShardCells | None = None


def write_change(folder: Path, number: int, change: Change) -> str:
    """Write a change of the shard in ``folder`` as its change of this number; its digest."""
    parts: dict[str, Array] = {"rows": change.rows}
    meta: dict[str, Any] = {"what": REMOVED}
    if change.items is not None:
        arrays, about = change.items.packed()
        parts |= {f"catalog.{name}": array for name, array in arrays.items()}
        meta = {"what": ADDED, "catalog": about}
    if change.cells is not None:
        parts |= {"bounds.cell_of": change.cells.cell_of, "bounds.reach": change.cells.reach}
    artifact.write(folder / f"change-{number}", CHANGE, parts, meta)
    return artifact.digest(folder / f"change-{number}")


def read_change(folder: Path, number: int) -> Change:
    """What ``write_change`` saved."""
    saved = artifact.read(folder / f"change-{number}", CHANGE)
    with artifact.restoring(folder):
        if saved.meta["what"] == REMOVED:
            return Change(saved.arrays["rows"])
        items = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
        cells = artifact.under("bounds.", saved.arrays)
        return Change(saved.arrays["rows"], items, ShardCells(cells["cell_of"], cells["reach"]) if cells else None)
