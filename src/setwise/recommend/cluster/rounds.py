"""The rounds of calls that answer one request.

1. **search**: every shard returns the best rows of every cell with their scores; the front keeps the best of all.
2. **paired**: the shards value the pairs of these rows with the anchor, and the front chooses the candidates as a
   single index does (``measures.py``). With the values come the candidates with vectors, ids and attributes, now a
   small catalogue, on which the pipeline ranks. Where items have base vectors, a round before it fetches those
   (**bases**).
3. **records**: candidates that did not come with the pairs. Mostly there are none.

Where all eligible items can be ranked, no pairs are valued, and records are the second round. Where items do not
interact, each shard first returns its best k.

A bound over all items takes more rounds (``remote_reader.py``): one for the scores of all items, then some for the
vectors of cells that the search opens. A shard that does not answer leaves no bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Ints, Rows
from setwise.errors import Infeasible
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, catalog_limits
from setwise.model.users import User
from setwise.recommend.arguments import ERROR
from setwise.recommend.clock import Clock
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.files import FrontFiles
from setwise.recommend.cluster.held import Held
from setwise.recommend.cluster.measures import RemoteMeasures
from setwise.recommend.cluster.merging import Merged, merged
from setwise.recommend.cluster.packed import Records, merged_records
from setwise.recommend.cluster.remote_reader import RemoteReader
from setwise.recommend.cluster.required import Needs, RequiredGroup, named_values, needed_rows, wanted_groups
from setwise.recommend.cluster.shard_history import HistoryScores
from setwise.recommend.cluster.shard_reader import Filter, Found
from setwise.recommend.cluster.sizes import Sizes
from setwise.recommend.effort import Effort
from setwise.recommend.histories import reported
from setwise.recommend.independent import is_independent
from setwise.recommend.lower_limits import Variety
from setwise.recommend.pipeline import answer, independent
from setwise.recommend.query import Query, require_conditions
from setwise.recommend.retrieve import Candidates, Choice, Snapshot, chosen, per_head, reserve
from setwise.recommend.slate import Slate
from setwise.retrieval import Index
from setwise.retrieval.index_state import IndexState, search_vectors


class Fetched(NamedTuple):
    """Items that were fetched, in the order of their rows, as an index that is not searched again."""

    rows: Ints
    items: Index


@dataclass(frozen=True, eq=False)
class RemoteChoice(Choice):
    """Candidates that the shards have sent; they send more where these hold no feasible set, or the bound finds one."""

    rounds: Rounds
    general: Query
    fetched: Fetched
    held: Held

    def varied(self) -> Choice | None:
        """With items of other values of the limited attributes."""
        more = self.fetched if self.candidates.complete else self.rounds.varied(self.general, self.fetched)
        if len(more.rows) == len(self.fetched.rows):
            return None
        candidates = Candidates(np.searchsorted(more.rows, self.fetched.rows), False)
        choice = self.rounds.choice(self.general, more, candidates)
        return Choice.varied(choice) or choice

    def settled(self, rows: Rows) -> tuple[Query, Rows]:
        """The query about all items that are here, in the order of the cluster, and the rows of its set."""
        return self.held.settled(rows)


class Rounds:
    """One request to the ``alive`` shards of a cluster."""

    def __init__(
        self,
        files: FrontFiles,
        shards: Shards,
        alive: Sequence[int],
        asked: Filter,
        options: Mapping[str, Any],
        unknown: str,
        ignored: tuple[Any, ...],
        began: float,
    ) -> None:
        self._files, self._shards, self._alive, self._asked = files, shards, list(alive), asked
        self._options, self._began = dict(options), began
        self._unknown = unknown
        self._ignored_history, self._ignored = ignored, ignored

    def slate(self, user: ArrayLike | User) -> Slate:
        """The slate for this user."""
        general = self._general(user)
        clock = Clock(general.budget_ms, self._began)
        with clock.phase("retrieve"):
            alone = is_independent(general)
            fetched, complete = (self._best_alone(general), True) if alone else self._candidates(general)
        if alone and is_independent(query := self._query(fetched, general.user)):  # its pins are within k and limits
            return independent(query, clock)
        return answer(self.choice(general, fetched, Candidates(np.arange(len(fetched.rows)), complete)), clock)

    def choice(self, general: Query, fetched: Fetched, candidates: Candidates) -> RemoteChoice:
        """These candidates, as the pipeline ranks them."""

        def parse(catalog: Catalog, rows: Ints) -> Query:
            return self._query(Fetched(rows, self._index(catalog, np.zeros(len(catalog), np.int32))), general.user)

        held = Held(fetched.rows, fetched.items.catalog, parse, self._fetch_records)
        snapshot = self._snapshot(fetched.items, self._reader(general, held))
        return RemoteChoice(held.asking(), snapshot, candidates, self, general, fetched, held)

    def _best_alone(self, general: Query) -> Fetched:
        """The best items of every shard, where items do not interact, and the pinned ones."""
        limits = {name: self._options[name] for name in ("at_most", "ranker") if name in self._options}
        replies = self._found("independent", general.user, general.k, limits)
        best = np.concatenate([reply.few for reply in replies.values() if reply.few is not None])
        return self._records(replies, np.union1d(best, _pins(replies)))

    def varied(self, general: Query, fetched: Fetched) -> Fetched:
        """These items, and those of other values that a single index would look at (``required.py``)."""
        query = self._query(fetched, general.user)
        variety = Variety.of(query.limits, query.required, len(query.include), self._files.options["candidates"])
        more = self._joined(fetched, general.user, wanted_groups(query.required), variety)
        if any(min(n, group.least) > 1 for _, n in variety.upper for group in query.required):
            query = self._query(more, general.user)
            groups = named_values(query.catalog, query.user, query.required, variety)
            more = self._joined(more, general.user, groups, variety)
        return more

    def _joined(self, fetched: Fetched, user: User, groups: list[RequiredGroup], variety: Variety) -> Fetched:
        """These items, and what the shards add for the required groups."""
        asked = dict.fromkeys(self._alive, (self._asked, user, groups, variety))
        rows, catalog = merged_records(list(self._shards.ask("varied", asked).values()))
        new = np.flatnonzero(~np.isin(rows, fetched.rows))
        if not len(new):
            return fetched
        all_rows = np.concatenate([fetched.rows, rows[new]])
        order = np.argsort(all_rows)
        joined = fetched.items.catalog.joined(catalog.taken(new)).taken(order)
        return Fetched(all_rows[order], self._index(joined, np.zeros(len(all_rows), np.int32)))

    def _reader(self, general: Query, held: Held) -> RemoteReader | None:
        """What bounds over all items read; None if a shard is lost, or the cluster has no cells."""
        files = self._files
        if files.cells is None or not general.certify or len(self._alive) < len(self._shards):
            return None
        sizes = Sizes(files.pattern, files.layout.rows, files.attends)
        return RemoteReader(files.cells, files.bound_groups, sizes, self._shards, self._asked, general.user, held.value)

    def _general(self, user: ArrayLike | User) -> Query:
        """The request as far as it can be checked without items, with the sizes of the whole catalogue."""
        files = self._files
        options = {name: option for name, option in self._options.items() if name not in LIMITS}
        query = Query.parse(files.index, user, unknown=self._unknown, **options)
        stated = {name: limit for name, limit in self._options.items() if name in LIMITS}
        query = replace(query, limits=catalog_limits(stated, files.pattern.attributes))
        require_conditions(self._asked.where)
        sizes = Sizes(files.pattern, files.layout.rows, files.attends)
        eligible = replace(query.eligible, n=sizes.n, count=sizes.n)
        return replace(query, catalog=cast(Catalog, sizes), eligible=eligible)

    # --- rounds ---

    def _candidates(self, general: Query) -> tuple[Fetched, bool]:
        """The candidates, and whether they are all eligible items."""
        cells = self._files.partition.n_cells
        pinned = replace(general, include=np.zeros(len(self._asked.include), np.intp))
        effort = Effort.of(pinned, self._files.options["candidates"], cells)
        replies, best = self._search(general, effort)
        if sum(reply.admitted for reply in replies.values()) <= effort.candidates:
            rows = np.concatenate([reply.few for reply in replies.values() if reply.few is not None])
            return self._records(replies, np.sort(rows)), True
        if len(best.found.best) < general.k and effort.per_cell < general.k:  # the eligible items are in few cells
            replies, best = self._search(general, replace(effort, per_cell=general.k))
        needs, more = self._needs(general, effort), np.empty(0, np.int64)
        if needs is not None:
            more = needed_rows(
                {shard: reply.needed for shard, reply in replies.items() if reply.needed is not None}, needs
            )
        pins = np.sort(_pins(replies))
        query = replace(general, include=pins)
        if query.ranker.by_reward_alone:  # those are among the rows that are needed
            query = replace(query, ranker=replace(query.ranker, by_reward_alone=False))
        measures = self._measures(general, replies, best, np.union1d(pins, more))
        candidates = chosen(query, best.found, self._snapshot(self._files.index), measures)
        return self._records(replies, np.union1d(candidates.rows, more), measures.records), False

    def _measures(self, general: Query, replies: Mapping[int, Found], best: Merged, sure: Ints) -> RemoteMeasures:
        """What the candidates are chosen by."""
        firsts = dict(reply.measured.first for reply in replies.values() if reply.measured is not None)
        base, by_shard = self._files.pattern.base is not None, partial(self._by_shard, replies)
        return RemoteMeasures(self._shards, general.user, best, firsts, by_shard, self._asked, base, sure)

    def _needs(self, general: Query, effort: Effort) -> Needs | None:
        """What the request needs beside the best items of every cell."""
        alone = max(effort.candidates // 2, general.k) if general.ranker.by_reward_alone else 0
        if not alone and not any(LIMITS[name].lower for name in general.limits):
            return None
        return Needs(general.user, general.k, general.limits, effort.candidates, alone)

    def _search(self, general: Query, effort: Effort) -> tuple[dict[int, Found], Merged]:
        """The first round, merged: the best rows of every cell and the reserve."""
        depth, heads = effort.per_cell, per_head(general, effort)
        more = reserve(general, self._files.partition.n_cells, effort)
        (search,), passes = search_vectors(self._files.index.state, [general.user], depth, heads, more)
        counts, needs = [(each_pass.best, each_pass.reserve) for each_pass in passes], self._needs(general, effort)
        replies = self._found("search", general.user, search.vectors, counts, effort.candidates, needs)
        return replies, merged(replies, passes)

    def _found(self, what: str, *arguments: Any) -> dict[int, Found]:
        """The answers of all shards about eligible items; what no shard can satisfy is refused."""
        replies = self._shards.ask(what, dict.fromkeys(self._alive, (self._asked, *arguments)))
        whole = len(self._alive) == len(self._shards)
        asked = self._asked
        stated = {"exclude": asked.exclude, "include": asked.include, "scores": list(asked.scores or ())}
        self._ignored = self._ignored_history
        for at, (name, ids) in enumerate(stated.items()):
            unknown = set.intersection(*(set(reply.unknown[at]) for reply in replies.values()))
            strange = [id_ for id_ in ids if id_ in unknown] if whole or name == "include" else []
            all_scores = name == "scores" and asked.floor is None and len(strange) == len(ids)
            self._ignored += reported(name, strange, ERROR if name == "include" or all_scores else self._unknown)
        if not any(reply.admitted for reply in replies.values()):
            must, got = "conditions that leave an item", "ones that leave none"
            raise Infeasible("where and exclude", must, got, "loosen them")
        if len(_pins(replies)) < len(set(self._asked.include)):
            todo = "drop it from include, or loosen exclude and where"
            raise Infeasible("include", "items that may be shown", "one that is excluded or filtered out", todo)
        return replies

    def _records(self, replies: Mapping[int, Found], rows: Ints, known: Sequence[Records] = ()) -> Fetched:
        """These rows with vectors, ids and attributes; the last round, if some are not ``known``."""
        missing = np.setdiff1d(rows, np.concatenate([records.rows for records in known])) if known else rows
        fetched = self._ask_records(self._by_shard(replies, missing)) if len(missing) else []
        catalog = merged_records([*known, *fetched], rows)[1]
        return Fetched(rows, self._index(catalog, np.zeros(len(rows), np.int32)))

    def _ask_records(self, wanted: Mapping[int, Ints]) -> list[Records]:
        return list(self._shards.ask("records", {shard: (rows,) for shard, rows in wanted.items()}).values())

    def _fetch_records(self, wanted: Mapping[int, Ints]) -> tuple[Ints, Catalog]:
        """These rows of each shard as one catalogue in the order of rows; the rows come first."""
        return merged_records(self._ask_records(wanted))

    def _by_shard(self, replies: Mapping[int, Found], rows: Ints) -> dict[int, Ints]:
        """These rows, ascending, at the shards that have them."""
        layout = self._files.layout
        if not layout.in_order:
            return _holders(replies, rows)
        parts = np.split(rows, np.searchsorted(rows, layout.starts[1:]))
        return {shard: part for shard, part in enumerate(parts) if len(part)}

    # --- the items at the front ---

    def _index(self, catalog: Catalog, cell_of: NDArray[np.int32]) -> Index:
        """A few items as an index, which is not searched: its backend has the one item of the pattern."""
        files = self._files
        partition = replace(files.partition, cell_of=np.asarray(cell_of, np.int32))
        return Index(IndexState(catalog, partition, files.backend, len(catalog), None, None), "numpy", {})

    def _snapshot(self, index: Index, reader: RemoteReader | None = None) -> Snapshot:
        return Snapshot(index, reader, self._files.options["candidates"])

    def _query(self, fetched: Fetched, user: User) -> Query:
        """The request about the items at the front."""
        asked, options, index = self._asked, self._options, fetched.items
        if asked.history is not None:
            user = user.with_scores(AddedScores.dense(self._of_history(asked.history, fetched.rows)))
        if asked.scores is not None:
            ids = set(index.catalog.ids[np.arange(len(index.catalog))].tolist())
            here = {id_: score for id_, score in asked.scores.items() if id_ in ids}
            options = {**options, "scores": here, "scores_floor": asked.floor}
        return Query.parse(index, user, include=asked.include, ignored=self._ignored, **options)

    def _of_history(self, scores: HistoryScores, rows: Ints) -> Floats:
        """The scores that the history adds to these rows; those for new users are at the shards."""
        if scores.new_user is None:
            return scores.of(rows)
        answers = self._shards.ask("new_user_scores", dict.fromkeys(self._alive, (self._asked, rows)))
        return np.asarray(np.nanmax(list(answers.values()), axis=0))


def _pins(replies: Mapping[int, Found]) -> Ints:
    return np.concatenate([reply.pins for reply in replies.values()])


def _holders(replies: Mapping[int, Found], rows: Ints) -> dict[int, Ints]:
    """These rows, ascending, at the shards that have found them."""
    wanted: dict[int, Ints] = {}
    for shard, reply in replies.items():
        few = [] if reply.few is None else [reply.few]
        needed = [] if reply.needed is None else [reply.needed.rows]
        known = np.concatenate([reply.pins, *few, *needed, *(hits.rows.reshape(-1) for hits in reply.passes)])
        held = rows[np.isin(rows, known)]
        if len(held):
            wanted[shard] = held
    return wanted
