"""What bounds on the whole catalogue compile (kernels/parts.py)."""

from __future__ import annotations

import math

import numpy as np

from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
from setwise.bounds.lifts.instance_lifts import InstanceLifts
from setwise.kernels.parts import LIFTS, LIFTS_64, PREFIXES, PREFIXES_64, SIGNED, Part
from setwise.model.catalog import Catalog, Sink
from setwise.model.instance import Instance
from setwise.model.rewards import Logistic
from setwise.model.users import User


def parts_of(catalog: Catalog) -> list[Part]:
    """The parts that bounds over this catalogue need."""
    double = catalog.query.dtype != np.float32
    parts = [PREFIXES_64 if double else PREFIXES]
    if catalog.heads > 1:
        parts.append(LIFTS_64 if double else LIFTS)
    return parts if catalog.sink is None else [*parts, SIGNED]


def _search(dtype: type[np.float32] | type[np.float64], heads: int) -> WholeCatalogSearch:
    points = np.random.default_rng(0).normal(size=(300, heads, 2))
    catalog = Catalog(points, points, points, dtype=dtype)
    return WholeCatalogSearch(CellBounds.build(catalog, cells=8), User(points[0]), 3)


def use_prefixes(dtype: type[np.float32] | type[np.float64] = np.float32) -> None:
    """The search over prefixes, to its first steps."""
    _search(dtype, 1).run(10.0)


def use_prefixes_64() -> None:
    """The same of a catalogue in double precision."""
    use_prefixes(np.float64)


def use_lifts(dtype: type[np.float32] | type[np.float64] = np.float32) -> None:
    """The searches that take several heads together: over the catalogue, every stage once, and over candidates."""
    search = _search(dtype, 2)
    assert search.lifts is not None
    search.lifts.run_stages()
    candidates = Instance(np.zeros((2, 3, 3)), np.ones((2, 3)))
    InstanceLifts(candidates, np.arange(3), 2, 0.0).run(math.inf)


def use_lifts_64() -> None:
    """The same of a catalogue in double precision."""
    use_lifts(np.float64)


def use_signed() -> None:
    """The search for catalogues whose items attend mostly to the sink."""
    rng = np.random.default_rng(1)
    query, key, value = np.full((40, 2, 2), 2.0), 0.1 * rng.normal(size=(40, 2, 2)), rng.normal(size=(40, 2, 2))
    sink = Sink(np.full((2, 2), 1.0), np.zeros((2, 2)))
    catalog = Catalog(query, key, value, Logistic(1.0, 0.0), sink=sink)
    search = WholeCatalogSearch(CellBounds.build(catalog, cells=4), User(rng.normal(size=(2, 2))), 2)
    assert search.signed is not None
    search.signed.run(math.inf)
