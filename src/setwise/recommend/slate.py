"""Slate: the recommended set, its value, and an upper bound on the value of any other."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._display import html_table
from setwise._types import Floats, Rows
from setwise.bounds.gap import relative_gap, zero_scale
from setwise.errors import InvalidInput, MissingDependency
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.recommend.query import Query

_PROVEN_WITHIN = 1e-8
CERTIFICATE = "certificate"  # what ``left_out`` may name


def proves(query: Query, rows: Rows, rewards: Floats, upper_bound: float) -> bool:
    """Whether an upper bound proves that the set of these rows is optimal.

    It must exceed the value by at most 1e-8 Σ |f_i|: bounds are rounded upwards, so even that of a finished search is
    slightly larger than the value. Where all rewards are 0, the terms of their arguments count (``bounds/gap.py``).
    """
    size = float(np.abs(rewards).sum())
    if size == 0:
        heaviest = 1.0 if query.user.weights is None else float(query.user.weights[rows].max(initial=0.0))
        size = heaviest * zero_scale(query.catalog.rewards, _terms(query, rows), len(rows))
    return math.isfinite(size) and upper_bound <= float(rewards.sum()) + _PROVEN_WITHIN * size


def _terms(query: Query, rows: Rows) -> float:
    """The largest size of self term and scores of a set's members, all heads together."""
    catalog, user = query.catalog, query.user
    scores = np.einsum("ihd,hd->ih", catalog.value[rows].astype(np.float64), user.heads)
    total = float(np.abs(scores).max(axis=0, initial=0.0).sum())
    if catalog.base is not None and user.base is not None:
        total += float(np.abs(catalog.base[rows] @ user.base).max(initial=0.0))
    return total if user.scores is None else total + float(np.abs(user.scores.of(rows)).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Slate:
    """A recommended set, best first by reward.

    query        what was asked
    indices      rows of the catalogue
    value        F(S), by the reference objective; on a GPU by model/batch_objective.py, in float64 as well
    rewards      ω_i f_i(a_i(S)), likewise: they add up to the value
    upper_bound  F of every feasible set of the whole catalogue is at most this; infinite when no bound was computed
    proven       whether the slate is optimal, up to rounding
    timings      milliseconds by phase
    left_out     what could not be done: "certificate", the bound, while its code is compiled after an installation
    partial      whether items were not searched, because a shard of a cluster did not answer; there is no bound then
    prices       of limited sums, with which the bound was found; None: those of ``catalog_prices``
    improver     what ``improve`` calls: ``Recommender.certify`` of the recommender that made the slate
    """

    query: Query = field(repr=False)
    indices: Rows
    value: float
    rewards: Floats
    upper_bound: float
    proven: bool
    timings: Mapping[str, float]
    left_out: tuple[str, ...] = ()
    partial: bool = False
    prices: Floats | None = field(default=None, repr=False)
    improver: Callable[[Slate, float], Slate] | None = field(default=None, repr=False)

    @property
    def catalog(self) -> Catalog:
        """The catalogue that the rows belong to."""
        return self.query.catalog

    @property
    def user(self) -> User:
        """The user that the slate is for."""
        return self.query.user

    @property
    def ranker(self) -> str:
        """The name of the ranker that was asked to choose among the candidates."""
        return self.query.ranker.name

    @property
    def members(self) -> Rows:
        """The rows of the set that the rewards are of: those of the slate, and those shown before (``after``)."""
        return np.concatenate([self.indices, self.query.after]) if len(self.query.after) else self.indices

    @property
    def items(self) -> NDArray[Any]:
        """The ids of the items."""
        return np.asarray(self.catalog.ids[self.indices])

    @property
    def ignored(self) -> list[Any]:
        """The ids of the history that the catalogue does not have: they had no influence."""
        return list(self.query.ignored)

    @cached_property
    def attention(self) -> Floats:
        """(H, k, k): the weight that item i (second axis) gives to item j (third axis) in each head.

        Items of ``after`` follow those of the slate.
        """
        return objective.attention(self.catalog, self.members)

    @property
    def gap(self) -> float:
        """The relative gap (upper_bound − value) / upper_bound; 0 if proven, 1 without a bound (``bounds/gap.py``).

        A gap of 0.1 says that the slate has at least 90 % of the value of the best feasible set.
        """
        return relative_gap(self.value, self.upper_bound, self.proven)

    def improve(self, seconds: float = 1.0) -> Slate:
        """The slate after more search: ``Recommender.certify(slate, seconds)``. A second call goes on from there."""
        if self.improver is None:
            todo = "call recommender.certify(slate)"
            raise InvalidInput("slate", "one that a recommender returned", "another", todo)
        return self.improver(self, seconds)

    def __repr__(self) -> str:
        ignored = f", ignored={self.ignored}" if self.ignored else ""
        return f"Slate(items={self.items.tolist()}, {self._worth}{ignored})"

    @property
    def _worth(self) -> str:
        """Value and bound in words."""
        value = f"value={self.value:.6g}" + (f" {self.query.value_unit}" if self.query.value_unit else "")
        if self.proven:
            return f"{value}, proven optimal"
        if math.isfinite(self.upper_bound):
            return f"{value}, upper_bound={self.upper_bound:.6g}, gap={self.gap:.2%}"
        return f"{value}, left_out={list(self.left_out)}" if self.left_out else value

    def _repr_html_(self) -> str:
        names = [name for name in self.catalog.attributes if name not in ("id", "reward")]
        rows = (
            (item["id"], reward, *(item["attributes"][name] for name in names))
            for item, reward in zip(items_to_dicts(self.catalog, self.indices), self.rewards.tolist(), strict=True)
        )
        return html_table(f"Slate: {self._worth}", ("id", "reward", *names), rows)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: int) -> Any:
        return self.items.tolist()[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items.tolist())

    def to_dict(self) -> dict[str, Any]:
        """The slate as plain JSON data; upper_bound and gap are None without a bound."""
        bounded = math.isfinite(self.upper_bound)
        records = items_to_dicts(self.catalog, self.indices)
        return {
            "items": [item | {"reward": finite(reward)} for item, reward in zip(records, self.rewards, strict=True)],
            "value": finite(self.value),
            "value_unit": self.query.value_unit,
            "upper_bound": self.upper_bound if bounded else None,
            "gap": self.gap if bounded else None,
            "proven": self.proven,
            "partial": self.partial,
            "ignored": self.ignored,
            "left_out": list(self.left_out),
            "timings": dict(self.timings),
        }

    def to_frame(self) -> Any:
        """The slate as a pandas table, one row per item: rank, id, reward, then the attributes."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise MissingDependency("pandas", "a table of a slate", "interop") from None
        names = list(self.catalog.attributes)
        records = [self.catalog.attributes.record(int(row)) for row in self.indices]
        columns = {"rank": range(1, len(self) + 1), "id": self.items.tolist(), "reward": self.rewards}
        attributes = {name: [record[name] for record in records] for name in names if name not in columns}
        return pandas.DataFrame(columns | attributes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the slate with its query and bound; ``setwise verify`` checks such a file against the catalogue."""
        from setwise.verification.slate_file import write_slate

        content = {
            "catalog": self.catalog.digest,
            "query": self.query.to_json(),
            "indices": self.indices.tolist(),
            "positions": None,
            "items": self.items.tolist(),
            "value": self.value,
            "rewards": self.rewards.tolist(),
            "upper_bound": self.upper_bound,
            "proven": self.proven,
            **self._prices(),
        }
        write_slate(path, content)

    def _prices(self) -> dict[str, dict[str, float]]:
        """The prices of limited sums, with which the bound is proven again."""
        from setwise.recommend.sum_candidates import catalog_prices

        if not self.query.sums:
            return {}
        price = catalog_prices(self.query, np.sort(self.members)).price if self.prices is None else self.prices
        names = [limit.name for limit in self.query.sums]
        return {"prices": dict(zip(names, price.tolist(), strict=True))}


def items_to_dicts(catalog: Catalog, rows: Rows) -> list[dict[str, Any]]:
    """Ids and attributes of these rows as plain JSON data."""
    ids = catalog.ids[rows].tolist()
    return [{"id": id_, "attributes": catalog.attributes.record(int(row))} for id_, row in zip(ids, rows, strict=True)]


def finite(number: float) -> float | None:
    """The number as JSON has it: None where it is infinite."""
    return float(number) if math.isfinite(number) else None
