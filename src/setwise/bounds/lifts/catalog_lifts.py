"""LiftSearch: an upper bound over all sets of a catalogue by lifts (node_bounds.py), for several heads.

1. A short list is drawn: the items of largest reward and of largest scores. Levels are found for it.
2. With these levels the whole catalogue is scanned (scan.py). Items that can be in a better set become the list, if
   there is room; ``outside`` is what sets with any other item are worth at most. Levels are found again for the new
   list and the scan is repeated: better levels drop more items.
3. Sets of listed items are searched best first (tree.py), until none is worth more than ``outside``. If the best set
   known is worth less, stage 2 is repeated with it and with more room.

The bound is the largest of the value of the best set, of ``outside`` and of the open nodes of the tree, or the sum of
the k largest worths of a scan if that is less. It holds after every stage.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats
from setwise.bounds.lifts.node_bounds import LiftItems, LiftNode
from setwise.bounds.lifts.scan import ScanWork, fill_weights, rewards_at_level, scan_catalog
from setwise.bounds.lifts.tree import (
    BEST,
    LOST,
    NODES,
    OPEN,
    SIZE,
    LiftTree,
    find_levels,
    open_root,
    search_lists,
    value_listed,
)

if TYPE_CHECKING:
    from setwise.bounds.catalog.group_bounds import Members
    from setwise.bounds.catalog.prefix_members import CatalogArrays
    from setwise.bounds.catalog.reader import CatalogReader

ROWS = 128  # items of largest reward, which have weights of their own
SCORED = 64  # items of largest sum of scores in the first list
PER_HEAD = 16  # and of largest score in each head
LISTED, MOST_LISTED = 1024, 4096  # the most items that are searched, at first and later
OPENED = 1024  # the most items of opened cells in the first scan; in the n-th scan, 4^(n − 1) times as many
SCANS = 2  # before the first tree
TOGETHER, FIRST_ROUNDS, ROUNDS, CHILD_ROUNDS = 6, 16, 8, 4  # steps of the levels: for the first list, others, nodes
_NODES, _HEAP = 1 << 11, 1 << 17
_WORK = 50_000  # lifts between two readings of the clock
_SECONDS = 2.5e-8  # of a first scan, for each row, head and item or cell; it is not begun with less time left
_SMALL = 64  # k for which a first scan takes twice as long as for the smallest sets: sums of the k largest
_PROGRESS = 0.9  # a further scan must reduce the gap to this share


class LiftSearch:
    """The search; ``finished`` when it can do no more."""

    def __init__(self, data: CatalogArrays, reader: CatalogReader, members: Members, k: int, value: float) -> None:
        self._data, self._reader, self._k, self._value = data, reader, k, value
        self._sink = members.sink_key, members.sink_score
        self._listed: NDArray[np.int64] = np.empty(0, np.int64)
        self._levels: dict[int, Floats] = {}
        self._parts_of_tree: tuple[LiftItems, LiftNode, LiftTree] | None = None
        self._found: tuple[float, NDArray[np.int64]] = (-math.inf, np.empty(0, np.int64))
        self._least = self._outside = self._tried = math.inf
        self._room, self._scans, self.nodes, self.finished = LISTED, 0, 0, False
        heads, n = data.scored_items.score.shape
        seconds = _SECONDS * (1 + k / _SMALL)
        self._needed = seconds * min(n, ROWS) * heads * (len(data.size) + min(n, OPENED) + 5 * min(n, 4 * SCORED))

    @classmethod
    def of(cls, data: CatalogArrays, reader: CatalogReader, members: Members, k: int, value: float) -> Self | None:
        """The search for sets of two items and more with several heads; None for others."""
        if k == 1 or len(data.scored_items.score) == 1:
            return None
        return cls(data, reader, members, k, value)

    @property
    def best(self) -> tuple[float, NDArray[np.int64]]:
        """The value, with raised scores, and the items of the best set found."""
        return self._found

    @property
    def known(self) -> float:
        """The value of the best set known or found."""
        return max(self._value, self._found[0])

    @property
    def bound(self) -> float:
        """An upper bound on F over all sets, without the margin of the caller."""
        return max(self.known, min(self._least, max(self._outside, self._inside)))

    @property
    def _inside(self) -> float:
        """An upper bound on F over the sets of listed items."""
        if self._parts_of_tree is None:
            return math.inf
        tree = self._parts_of_tree[2]
        return max(float(tree.key[0]) if tree.tally[OPEN] else -math.inf, float(tree.value[LOST]))

    def offer(self, value: float) -> None:
        """Raise the best known value to this."""
        self._value = max(self._value, value)
        if self._parts_of_tree is not None:
            best = self._parts_of_tree[2].value
            best[BEST] = max(float(best[BEST]), value)

    def run(self, until: float, pause: float = math.inf) -> None:
        """Search until ``time.perf_counter()`` reaches ``until`` or ``pause``, or the end.

        A stage that would not end before ``until`` is not begun.
        """
        while not self.finished:
            began = time.perf_counter()
            if began >= pause or until - began <= (self._needed if self._parts_of_tree is None else 0.0):
                return
            if self._parts_of_tree is not None:
                self._search()
                continue
            if self._scans < SCANS:
                self._scan()
            else:
                self._plant()
            self._needed = 1.5 * (time.perf_counter() - began)

    def run_stages(self) -> None:
        """Run every stage once, which takes some milliseconds."""
        self._scan()
        self._plant()
        if self._parts_of_tree is not None:
            self._search()

    # --- stages ---

    def _scan(self) -> None:
        """Find levels for the list, and scan the catalogue with them."""
        data, k = self._data, self._k
        cap = data.order.cap[0].copy()  # the largest score of each head
        free = np.zeros(len(data.scored_items.base))
        self._rewards(free, cap, cap)
        if self._scans == 0:
            score = np.where(free > -np.inf, data.scored_items.score, -np.inf)
            of_heads = [_largest(of_head, PER_HEAD) for of_head in score]
            parts = [_largest(free, ROWS), _largest(score.sum(axis=0), SCORED), *of_heads]
            self._listed = np.unique(np.concatenate(parts))
        items, node, tree = self._parts(free, cap, 1)
        levels = self._known_levels(items)
        rounds = (TOGETHER, FIRST_ROUNDS) if self._scans == 0 else (0, ROUNDS)
        rows = find_levels(items, node, tree, levels, k, *rounds)
        self._levels = dict(zip([*self._listed[items.row_item].tolist(), -1], levels, strict=True))
        self._keep_best(tree)
        free[self._listed] = -np.inf
        items.steep[0] = self._rewards(free, levels[-1], cap)
        value_listed(items, node, k, rows)
        work, cut, most, opened = _scan_work(data, k, free), self.known, OPENED * 4**self._scans, -1
        while opened < 0:
            singles, column = self._reader.items()
            top, beyond, opened = scan_catalog(
                items, node, rows, data.cells, singles, data.start, column, data.scored_cells.score,
                data.scored_items.score, k, cut, most, work,
            )  # fmt: skip
            if opened < 0:
                self._reader.fetch(_most_worthy(work.cell, column, data.start, most))
        self._choose(node.worth[: len(self._listed)], work.worth, top, beyond, cut)
        self._scans += 1

    def _rewards(self, free: Floats, level: Floats, cap: Floats) -> float:
        """Fill ``free`` where it is finite, for items without a row at this level; return their steepest slope."""
        data, sink_key, sink_score = self._data, *self._sink
        scored = data.scored_items
        if len(sink_key):
            level, cap = np.maximum(level, sink_score), np.maximum(cap, sink_score)
        return float(
            rewards_at_level(data.table, data.reward_class, scored.score, scored.base, scored.total, level, cap, free)
        )

    def _choose(self, listed: Floats, worth: Floats, top: float, beyond: float, cut: float) -> None:
        """List the items that can be in a set better than ``cut``: the most worthy ones, if there are too many."""
        worth[self._listed] = listed
        able = np.flatnonzero(worth + top > cut)
        self._least = min(self._least, max(cut, beyond, float(worth.max()) + top))
        outside = beyond
        if len(able) > self._room:
            order = np.argpartition(-worth[able], self._room)
            outside = max(outside, float(worth[able[order[self._room :]]].max()) + top)
            able = able[order[: self._room]]
        self._outside, self._listed = outside, able

    def _plant(self) -> None:
        """Start the tree of the listed items."""
        if not len(self._listed):
            self.finished, self._least = True, min(self._least, max(self._outside, self.known))
            return
        cap = self._data.scored_items.score[:, self._listed].max(axis=1)
        free = np.full(len(self._data.scored_items.base), -np.inf)
        free[self._listed] = 0.0
        self._rewards(free, cap, cap)
        items, node, tree = self._parts_of_tree = self._parts(free, np.full(len(cap), -np.inf), _NODES)
        open_root(items, node, tree, self._known_levels(items), self._k, ROUNDS)
        self._keep_best(tree)

    def _search(self) -> None:
        """Search for a while. If only sets with items that are not listed may be better, prepare another scan."""
        assert self._parts_of_tree is not None
        items, node, tree = self._parts_of_tree
        ended = search_lists(items, node, tree, self._k, CHILD_ROUNDS, _WORK, self._outside)
        self._keep_best(tree)
        self.nodes = max(self.nodes, int(tree.tally[NODES]))
        if not ended:
            return
        self._least = self.bound
        gap, before = self._least - self.known, self._tried
        if gap <= 0.0 or gap > _PROGRESS * before or self._inside > self._outside:
            self.finished = True
            return
        self._tried, self._room = gap, min(4 * self._room, MOST_LISTED)
        self._scans, self._parts_of_tree, self._outside = SCANS - 1, None, math.inf

    # --- arrays ---

    def _parts(self, free: Floats, ceiling: Floats, nodes: int) -> tuple[LiftItems, LiftNode, LiftTree]:
        data, at = self._data, self._listed
        rows = np.sort(np.argsort(-free[at], kind="stable")[:ROWS])
        row_of = np.full(len(at), -1, np.int64)
        row_of[rows] = np.arange(len(rows))
        heads = len(ceiling)
        vectors = self._reader.vectors(at)
        keys = np.ascontiguousarray(vectors.key, np.float64)
        items = LiftItems(
            table=data.table,
            query=np.ascontiguousarray(np.moveaxis(vectors.query, -1, 0), np.float64),
            key=np.ascontiguousarray(np.moveaxis(keys, -1, 0)),
            score=np.ascontiguousarray(data.scored_items.score[:, at]),
            base=data.scored_items.base[at],
            reward_class=data.reward_class[at],
            logit=np.empty((0, 0, 0)),
            sink_logit=np.empty((0, 0)),
            sink_key=self._sink[0],
            sink_score=self._sink[1],
            row_of=row_of,
            row_item=rows,
            weight=np.empty((len(rows), heads, len(at))),
            sink=np.empty((len(rows), heads)),
            steep=np.zeros(1),
            ceiling=ceiling,
            label=vectors.label,
            most=data.most,
        )
        fill_weights(items, keys)
        value = self.known
        return (
            items,
            lift_node(len(rows), heads, len(at), self._k),
            lift_tree(nodes, len(rows), heads, len(at), self._k, value),
        )

    def _known_levels(self, items: LiftItems) -> Floats:
        """The levels of the rows and the shared one: −∞, which becomes the least, for new rows, +∞ for the shared."""
        unknown = np.full(len(items.sink_score), -np.inf)
        known = [self._levels.get(item, unknown) for item in self._listed[items.row_item].tolist()]
        return np.array([*known, self._levels.get(-1, -unknown)])

    def _keep_best(self, tree: LiftTree) -> None:
        size = tree.tally[SIZE]
        if size and tree.value[BEST] > self._found[0]:
            self._found = float(tree.value[BEST]), self._listed[tree.found[:size]]


def _largest(measure: Floats, count: int) -> NDArray[np.int64]:
    """The indices of the largest finite entries."""
    at = np.argpartition(-measure, min(count, len(measure)) - 1)[:count]
    return at[measure[at] > -np.inf]


def _most_worthy(worth: Floats, column: Array, start: Array, most: int) -> NDArray[np.int64]:
    """The cells of largest worth that are not at hand, with about ``most`` items, one cell at least."""
    order = np.argsort(-worth, kind="stable")
    order = order[worth[order] > -np.inf]
    sizes = np.cumsum(start[order + 1] - start[order])
    wanted = order[: int(np.searchsorted(sizes, most)) + 1]
    away = wanted[column[wanted] < 0]
    return away if len(away) else order[column[order] < 0][:1]


def lift_node(rows: int, heads: int, listed: int, k: int) -> LiftNode:
    """An empty node for so many rows and candidates."""
    rows += k + 1
    whole, real = np.int64, np.float64
    shapes = {
        "member": (k, whole), "item": (listed, whole), "row": (rows, whole), "column": (rows, whole),
        "row_at": (listed, whole), "spare": ((rows, heads, listed), real), "score": ((heads, listed), real),
        "cap": (heads, real), "own": ((rows, heads), real), "total": ((rows, heads), real),
        "level": ((rows, heads), real), "reward": (rows, real), "steep": (rows, real), "gain": (listed, real),
        "shared": (listed, real), "lift": ((listed, k), real), "worth": (listed, real), "best": (k, real),
        "chosen": (k, whole), "chosen_label": (k, whole), "slope": ((rows, heads), real),
        "kept_level": ((rows, heads), real), "start": ((rows, heads), real), "kept_worth": (listed, real),
        "limit": (2, real),
    }  # fmt: skip
    return LiftNode(**{name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()})


def lift_tree(nodes: int, rows: int, heads: int, listed: int, k: int, value: float) -> LiftTree:
    """An empty tree with room for so many nodes; unused memory is never touched."""
    return LiftTree(
        tally=np.zeros(4, np.int64),
        value=np.array([value, -np.inf]),
        found=np.zeros(k, np.int64),
        key=np.empty(_HEAP),
        entry=np.empty(_HEAP, np.int64),
        member=np.empty((nodes, k), np.int64),
        depth=np.empty(nodes, np.int64),
        size=np.empty(nodes, np.int64),
        order=np.empty((nodes, listed), np.int32),
        worth=np.empty((nodes, listed)),
        given=np.empty(nodes),
        level=np.empty((nodes, rows + 1, heads)),
    )


def _scan_work(data: CatalogArrays, k: int, free: Floats) -> ScanWork:
    n, n_cells = len(free), len(data.start) - 1
    groups = max(n_cells, int(np.diff(data.start).max()))
    return ScanWork(
        free=free,
        worth=np.empty(n),
        cell=np.empty(n_cells),
        heap_key=np.empty(n_cells),
        heap_cell=np.empty(n_cells, np.int64),
        high=np.empty(len(data.scored_items.score)),
        logit=np.empty(groups),
        gain=np.empty(groups),
        lift=np.empty((groups, k)),
        best=np.empty(k),
    )
