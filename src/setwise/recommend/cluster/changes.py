"""Additions and removals in a cluster: each goes to one shard, is checked before it is written, and counts at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Ints
from setwise.errors import Infeasible, InvalidInput, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice, Ids
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.files import (
    Change,
    FrontFiles,
    read_front,
    shard_folder,
    write_change,
    write_front,
)
from setwise.recommend.cluster.shard_reader import Filter, Found
from setwise.retrieval.clusters import nearest_cells

ALL = Filter(None, (), ())
_LOCK, WAIT_S = ".setwise-lock", 60.0  # the lock of the folder, and how long a change waits for that of another front


@contextmanager
def changing(folder: Path) -> Iterator[FrontFiles]:
    """What the front's file says now, while no other front changes the cluster in ``folder``."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=WAIT_S)
    except Timeout:
        got = f"one that another front has been changing for {WAIT_S:.0f} s"
        raise InvalidInput("the cluster", "one that no other front changes", got, "try again later") from None
    try:
        yield read_front(folder)
    finally:
        lock.release()


class Changes:
    """Changes of the cluster in ``folder``, made within ``changing``, with the files that it returns."""

    def __init__(self, folder: Path, files: FrontFiles, shards: Shards) -> None:
        self._folder, self._files, self._shards = folder, files, shards

    def add(self, items: Catalog) -> FrontFiles:
        """Add all ``items`` to the smallest shard; what the front reads from now on."""
        layout, ids = self._files.layout, items.ids[np.arange(len(items))].tolist()
        known = self._checked(items, ids)
        twice = [id_ for _, there_already in self._located(ids).values() for id_ in there_already]
        if twice:
            raise InvalidInput(
                "ids", "not in the cluster yet", repr(twice[0]), "remove it first, or give it another id"
            )
        shard = int(np.argmin(layout.sizes))
        rows = layout.rows + np.arange(len(items))
        explicit = items.taken(np.arange(len(items)))  # ids that are row numbers are those of ``items`` alone
        cells, changed_cells = self._files.cells, None
        if cells is not None:
            cells, changed_cells = cells.grown(known)
        digest = self._written(shard, Change(rows, explicit, changed_cells))
        return self._committed(
            replace(self._files, layout=layout.changed(shard, digest, added=len(items)), cells=cells)
        )

    def remove(self, ids: IdChoice) -> FrontFiles:
        """Remove items, each from the shard that has it."""
        wanted = list(dict.fromkeys(id_.item() if hasattr(id_, "item") else id_ for id_ in ids))
        located = self._located(wanted)
        known = {id_ for _, ids_there in located.values() for id_ in ids_there}
        for id_ in wanted:
            if id_ not in known:
                raise UnknownId("an id of ids", "one of the cluster", repr(id_), "check it")
        layout, counts = self._files.layout, self._counts()
        for shard, (rows, _) in located.items():
            if len(rows) and counts[shard] == len(rows):
                raise Infeasible("ids", "fewer than all items of a shard", "all of them", "split the items again")
        for shard, (rows, _) in located.items():
            if len(rows):
                layout = layout.changed(shard, self._written(shard, Change(np.sort(rows))), removed=len(rows))
        return self._committed(replace(self._files, layout=layout))

    def _checked(self, items: Catalog, ids: list[Any]) -> Catalog:
        """The items, with their reward classes numbered as those of the cluster.

        Items that no shard could take are refused: once written, a change must be readable.
        """
        pattern, example = self._files.pattern, self._files.pattern.ids[0]
        if isinstance(example, str) != isinstance(ids[0], str):
            raise InvalidInput("ids", "of the type of the cluster's", repr(ids[0]), "use one type")
        other = pattern.taken([0])
        other.ids = Ids.of([max(ids) + ("~" if isinstance(example, str) else 1)], 1)  # equal to none of the new ones
        joined = other.joined(items)
        new = np.arange(1, len(joined))
        nearest_cells(joined, new, self._files.partition)
        return joined.taken(new)

    def _located(self, ids: list[Any]) -> dict[int, tuple[Ints, list[Any]]]:
        return self._shards.ask("located", dict.fromkeys(range(len(self._shards)), (ids,)))

    def _counts(self) -> dict[int, int]:
        """The current items of each shard."""
        replies: dict[int, Found] = self._shards.ask("search", dict.fromkeys(range(len(self._shards)), (ALL,)))
        return {shard: reply.admitted for shard, reply in replies.items()}

    def _written(self, shard: int, change: Change) -> str:
        """Write the next change of a shard; its digest."""
        number = self._files.layout.versions[shard].changes + 1
        return write_change(shard_folder(self._folder, shard), number, change)

    def _committed(self, files: FrontFiles) -> FrontFiles:
        write_front(self._folder, files)
        return files
