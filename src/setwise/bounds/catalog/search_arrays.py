"""The arrays of the compiled search over a whole catalogue: the order of the items, the frontier, scratch space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise.bounds.catalog.frontier import OFFSET, ROOT, SHIFT, Frontier
from setwise.bounds.catalog.group_bounds import GroupBounds, Groups, Members
from setwise.bounds.catalog.open_cells import OpenCells
from setwise.bounds.catalog.prefix_members import CatalogArrays
from setwise.bounds.catalog.reader import CatalogReader, GroupLimit
from setwise.bounds.catalog.score_order import Order, Scored, fill_caps, score_cells, select_first
from setwise.bounds.catalog.search import Workspace
from setwise.bounds.catalog.user_scores import rounding_pads
from setwise.bounds.catalog.worths import Worths, as_it_is, worths_of_cells
from setwise.model.users import User

LISTED = 512  # the first items of the order, each at its exact position
_BINS = 512  # bins of σ, of equal width, for the later items
_LEVELS = 64  # thresholds of σ at the root for which the rewards of the other members are bounded
_LEVELS_BELOW = 8  # thresholds below the root if there are several heads; with one head, 1
_HEAP, _NODES = 1 << 17, 1 << 15  # the most open entries and prefixes kept; of an entry beyond them only the bound
_POOL = 1 << 22  # cells in the lists of all prefixes; beyond, a prefix has the list of its parent


def pinned_first(items: Scored, pins: NDArray[np.int64]) -> Scored:
    """The same scores, with the pinned items first in the order."""
    if not len(pins):
        return items
    total = items.total.copy()
    total[pins] = total.max() + max(1.0, abs(float(total.max())))
    return items._replace(total=total)


def catalog_arrays(
    reader: CatalogReader, items: Scored, limit: GroupLimit | None, worths: Worths | None = None
) -> CatalogArrays:
    """The catalogue with a user's scores, the order, and the largest score of each cell.

    ``worths`` are those of the items by place, where a reward counts for more or less than itself.
    """
    heads, n_cells, start = len(items.score), reader.n_cells, reader.start
    in_cells, size = (
        Scored(np.empty((heads, n_cells)), np.empty(n_cells), np.empty(n_cells)),
        np.empty(n_cells, np.int64),
    )
    score_cells(items, start, in_cells, size)
    label, (groups, column) = reader.labels(limit), reader.items()
    return CatalogArrays(
        reader.table,
        reader.cell_groups,
        groups,
        start,
        in_cells,
        items,
        size,
        _order(items, min(LISTED, int(size.sum()))),
        label,
        np.array([0 if limit is None else limit.most]),
        column,
        reader.reward_classes() if heads > 1 else np.empty(0, np.int64),
        as_it_is() if worths is None else _of_cells(reader, items, worths),
        as_it_is() if worths is None else worths,
    )


def _of_cells(reader: CatalogReader, items: Scored, worths: Worths) -> Worths:
    """What rewards of a cell count for, from the least to the largest reward that an item of the catalogue can have."""
    shown = items.total > -np.inf
    score, base = items.score[:, shown], items.base[shown]
    ends = np.array([score.min(axis=1).sum() + base.min(), score.max(axis=1).sum() + base.max()])
    with np.errstate(over="ignore"):
        rewards = np.stack([reward.value(ends) for reward in reader.catalog.rewards])
    return worths_of_cells(worths, reader.start, shown, float(rewards.min()), float(rewards.max()))


def _order(items: Scored, listed: int) -> Order:
    """The order: its first places, and the largest scores from each place on."""
    total = items.total
    first = np.empty(listed, np.int64)
    lowest = select_first(total, first, np.empty(listed))
    first = first[np.lexsort((first, -total[first]))]
    rank = np.full(len(total), -1, np.int16)
    rank[first] = np.arange(listed)
    edge = total[first]
    order = Order(rank, edge, np.array([(edge[-1] - lowest) / _BINS]), np.empty((listed + _BINS + 1, len(items.score))))
    fill_caps(items, order)
    return order


def empty_members(reader: CatalogReader, user: User, k: int) -> Members:
    """Room for a prefix of k items, with the sink's key and its score for this user."""
    catalog = reader.catalog
    _, heads, d = catalog.query.shape
    vectors, numbers = (k, heads, d), (k, heads)
    sink_key, sink_score = np.zeros((0, heads, d)), np.zeros(heads)
    if catalog.sink is not None:
        sink_key = np.array(catalog.sink.key[None], np.float64)
        sink_score = np.einsum("hd,hd->h", np.asarray(catalog.sink.value, np.float64), user.heads)
        sink_score += rounding_pads(reader, user)[0]
    return Members(
        item=np.zeros(k, np.int64),
        query=np.empty(vectors),
        key=np.empty(vectors),
        score=np.empty(numbers),
        base=np.empty(k),
        reward_class=np.zeros(k, np.int64),
        worth=np.tile([1.0, 0.0], (k, 1)),
        sums=np.empty((k, heads, 3)),
        reach=np.empty(numbers),
        sink_key=sink_key,
        sink_score=sink_score,
    )


def _group_bounds(heads: int, k: int, groups: int) -> GroupBounds:
    return GroupBounds(np.empty((6, groups)), np.empty((3, heads, groups)), np.empty((2, k + 2, groups)))


def _open_cells(groups: Groups, worths: Worths, heads: int, n_cells: int) -> OpenCells:
    """Room for copies of all cells."""
    integers, numbers = np.empty((2, n_cells), np.int64), np.empty((heads + 2, n_cells))
    return OpenCells(
        integers[0],
        integers[1],
        Groups(*(np.empty_like(part, order="C") for part in groups)),
        Scored(numbers[:heads], numbers[heads], numbers[heads + 1]),
        worths._replace(level=np.empty_like(worths.level), slope=np.empty_like(worths.slope)),
    )


def workspace(reader: CatalogReader, worths: Worths, k: int) -> Workspace:
    """Scratch space for sets of k items."""
    n, heads, n_cells = len(reader.catalog), reader.catalog.heads, reader.n_cells
    return Workspace(
        open=_open_cells(reader.cell_groups, worths, heads, n_cells),
        cells=_group_bounds(heads, k, n_cells),
        items=_group_bounds(heads, k, int(np.diff(reader.start).max())),
        limit=np.empty((heads, n_cells)),
        worth=np.empty(n_cells),
        rest=np.empty(heads),
        child=np.empty(n, np.int64),
        child_key=np.empty(n),
        best=np.empty(k),
        chosen=np.empty(k, np.int64),
        chosen_label=np.empty(k, np.int64),
        opened=np.empty(n_cells, np.bool_),
    )


def first_frontier(k: int, value: float, data: CatalogArrays, pins: NDArray[np.int64]) -> Frontier:
    """A heap with one entry, the prefix of the pinned items; unused memory is never touched."""
    cells = np.flatnonzero(data.size)
    frontier = Frontier(
        tally=np.array([1, 1 + len(pins), 0, 0, -1, -1, -1, len(cells)]),
        value=np.array([value, -np.inf, -np.inf]),
        best=np.zeros(k, np.int64),
        key=np.empty(_HEAP),
        entry=np.empty(_HEAP, np.int64),
        parent=np.empty(_NODES, np.int64),
        item=np.empty(_NODES, np.int64),
        depth=np.empty(_NODES, np.int64),
        first_cell=np.empty(_NODES, np.int64),
        cells=np.empty(_NODES, np.int64),
        pool=np.empty(max(_POOL, len(cells)), np.int64),
        others=np.empty((_NODES, _LEVELS)),
        levels=np.array([_LEVELS, 1 if len(data.scored_items.score) == 1 else _LEVELS_BELOW]),
    )
    depth = np.arange(len(pins) + 1)
    frontier.key[0], frontier.entry[0] = np.inf, (len(pins) << SHIFT) + ROOT + OFFSET
    frontier.parent[depth], frontier.item[depth], frontier.depth[depth] = np.maximum(depth - 1, 0), -1, depth
    frontier.item[depth[1:]] = pins
    frontier.first_cell[depth], frontier.cells[depth], frontier.pool[: len(cells)] = 0, len(cells), cells
    return frontier
