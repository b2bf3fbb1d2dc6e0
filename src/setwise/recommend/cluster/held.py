"""The items that the front holds for one request: the candidates, and those of sets that the bound has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from setwise._types import Ints, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.recommend.query import Query

Parse = Callable[[Catalog, Ints], Query]
Records = Callable[[Mapping[int, Ints]], tuple[Ints, Catalog]]


class Held:
    """A catalogue of ``rows`` of the cluster, ascending, and the query about it; later items come last.

    ``parse`` makes the query about a catalogue of some rows; ``records`` fetches rows of shards.
    """

    def __init__(self, rows: Ints, catalog: Catalog, parse: Parse, records: Records) -> None:
        self._parse, self._records, self._candidates = parse, records, len(rows)
        self.rows, self.query = rows, parse(catalog, rows)

    def value(self, wanted: Mapping[int, Ints]) -> tuple[Rows, float]:
        """The set of these rows of each shard as rows of the catalogue, in the order of the cluster, and its value."""
        missing = {shard: rows[~np.isin(rows, self.rows)] for shard, rows in wanted.items()}
        missing = {shard: rows for shard, rows in missing.items() if len(rows)}
        if missing:
            rows, more = self._records(missing)
            self.rows = np.concatenate([self.rows, rows])
            self.query = self._parse(self.query.catalog.joined(more), self.rows)
        members, order = np.sort(np.concatenate(list(wanted.values()))), np.argsort(self.rows)
        at = order[np.searchsorted(self.rows, members, sorter=order)]
        return at, objective.set_value(self.query.catalog, self.query.user, at)

    def asking(self) -> Query:
        """The query about the candidates, which also checks sets with later items."""
        return _Asking(**vars(self.query), held=self)

    def settled(self, rows: Rows) -> tuple[Query, Rows]:
        """The query about all items in the order of the cluster, and a set as its rows."""
        if len(self.rows) == self._candidates:
            return self.query, rows
        order = np.argsort(self.rows)
        query = self._parse(self.query.catalog.taken(order), self.rows[order])
        return query, np.argsort(order)[rows]


@dataclass(frozen=True, eq=False)
class _Asking(Query):
    """A query whose catalogue may have grown since."""

    held: Held | None = None

    def admits(self, rows: Rows) -> bool:
        """As ``Query.admits``, about the catalogue as it is now."""
        assert self.held is not None
        return self.held.query.admits(rows)
