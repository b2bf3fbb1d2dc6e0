"""ClusterRecommender: recommends from shards on several hosts, and holds no catalogue.

    front = ClusterRecommender.open("cluster/", hosts)        hosts[s] are the replicas of shard s
    slate = front.recommend(user, k=10, where={"city": "Rome"})

A request takes three rounds of calls (rounds.py), after which the front has a small catalogue of the candidates. The
pipeline ranks that. ``slate.catalog`` is this small catalogue, and ``slate.indices`` are its rows: use ``slate.items``,
the ids.

**Equality.** Scores are merged by (score descending, row ascending), and all later steps see the rows of a single index
in the same order, so the slates are those of a single index, to the last bit.

**Bounds.** The search for a bound over all items takes the steps that it takes in a single index (remote_reader.py); it
has the same time, of which calls to the shards use some. Where items were added since the cluster was written, its
cells are others than those of a single index, and the bound is too; it holds all the same (front_cells.py). In a
cluster that was written without bounds, only requests whose eligible items are all candidates, or whose items do not
interact, have one.

**Faults.** A shard without an answer within the deadline raises ``ShardUnavailable``. With ``partial=True`` the request
is answered by the others; the slate says so (``slate.partial``) and has no bound.

**Not supported:** ``scores``, ``features``, lower limits, and rankers by reward alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from setwise.errors import InvalidInput, ShardUnavailable
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice
from setwise.model.users import User
from setwise.ranking import ranker_named
from setwise.recommend.cluster.calls import Host, Shards
from setwise.recommend.cluster.changes import Changes
from setwise.recommend.cluster.files import FrontFiles, Layout, read_front
from setwise.recommend.cluster.front_cells import warm_up_bounds
from setwise.recommend.cluster.rounds import Rounds
from setwise.recommend.cluster.seen_items import encoded
from setwise.recommend.cluster.shard_reader import Filter
from setwise.recommend.histories import IGNORE
from setwise.recommend.slate import Slate
from setwise.retrieval.shards import Patience


class ClusterRecommender:
    """The front of a cluster. Many threads may call it."""

    def __init__(
        self,
        folder: Path,
        files: FrontFiles,
        hosts: Sequence[Sequence[Host]],
        patience: Patience | None = None,
        partial: bool = False,
    ) -> None:
        if len(hosts) != len(files.layout.starts) or not all(hosts):
            must = f"a list of replicas for each of {len(files.layout.starts)} shards"
            raise InvalidInput("hosts", must, f"{len(hosts)}", "start one host for each shard at least")
        self._folder, self._files, self._partial = folder, files, partial
        self._shards = Shards(folder, files.layout, hosts, patience)
        self._change = threading.Lock()
        self.ranker, self.most_candidates = ranker_named(files.options["ranker"]).name, files.options["candidates"]
        if files.cells is not None:
            warm_up_bounds(files.pattern)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        hosts: Sequence[Sequence[Host]],
        patience: Patience | None = None,
        partial: bool = False,
    ) -> ClusterRecommender:
        """The front of the cluster whose files are in ``folder``."""
        return cls(Path(folder), read_front(Path(folder)), hosts, patience, partial)

    @property
    def hosts(self) -> list[list[Host]]:
        """The replicas of each shard."""
        return self._shards.hosts

    @property
    def layout(self) -> Layout:
        """The shards that requests read now."""
        return self._files.layout

    # --- changes ---

    def add(self, items: Catalog) -> None:
        """Add items of the same model: all to the smallest shard. Later requests see them all."""
        with self._change:
            self._commit(Changes(self._folder, self._files, self._shards).add(items))

    def remove(self, ids: IdChoice) -> None:
        """Make items ineligible, each at the shard that has it."""
        with self._change:
            self._commit(Changes(self._folder, self._files, self._shards).remove(ids))

    def refresh(self) -> None:
        """Read the layout again: the changes that another front has made."""
        with self._change:
            self._commit(read_front(self._folder))

    def _commit(self, files: FrontFiles) -> None:
        self._files, self._shards = files, self._shards.at(files.layout)

    # --- requests ---

    def recommend(
        self,
        user: ArrayLike | User | None = None,
        k: int = 10,
        *,
        history: IdChoice | None = None,
        unknown: str = IGNORE,
        exclude: IdChoice | None = None,
        include: IdChoice = (),
        where: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
        budget_ms: float | None = None,
        ranker: str | None = None,
        certify: bool = True,
    ) -> Slate:
        """``Recommender.recommend`` from all shards; the module's docstring says what differs."""
        if (user is None) == (history is None):
            got = "neither" if user is None else "both"
            raise InvalidInput("user or history", "given, and not both", got, "pass one of the two")
        began, lost = time.perf_counter(), set[int]()
        files, shards = self._files, self._shards  # one layout for all rounds
        options = {
            "k": k,
            "budget_ms": budget_ms,
            "ranker": self.ranker if ranker is None else ranker,
            "certify": certify,
            **({} if at_most is None else {"at_most": at_most}),
        }
        while True:
            alive = [shard for shard in range(len(shards)) if shard not in lost]
            try:
                person: Any = user
                seen, ignored = list[Any](), tuple[Any, ...]()
                if history is not None:
                    person, seen, ignored = encoded(files.encoder, shards, alive, _ids(history), unknown)
                pins = _ids(include)
                hidden = [one for one in seen if one not in pins] if exclude is None else _ids(exclude)
                asked = Filter(where, hidden, pins)
                slate = Rounds(files, shards, alive, asked, options, ignored, began).slate(person)
            except ShardUnavailable as error:
                if not self._partial or len(alive) == 1:
                    raise
                lost.add(error.shard)
                continue
            return replace(slate, partial=True, upper_bound=math.inf, proven=False) if lost else slate


def _ids(given: IdChoice) -> list[Any]:
    """The ids as a list of plain values."""
    return [one.item() if hasattr(one, "item") else one for one in given]
