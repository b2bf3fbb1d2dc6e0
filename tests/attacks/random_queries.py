"""Small shops, random queries in the JSON form, and the best set of each by trying all, from the documentation alone."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import setwise as sw
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from worlds import REWARDS, random_catalog

ITEMS = 9
COLOURS = ("red", "green", "blue")
CONDITIONS: dict[str, tuple[Any, ...]] = {
    "colour": ("red", ["red", "blue"], ["blue"], "violet"),
    "price": (1, 1.5, [0.5, 2], {"from": 0.5, "to": 2}, {"from": 1}, {"to": 1.5}, {"from": None, "to": 2.0}),
    "year": (2001, [2000, 2003], {"from": 2001, "to": 2002}, {"from": 2002}, 2001.0),
    "new": (True, False, [True, False], 1),
}
VALUES = {"colour": COLOURS, "price": ("0.5", "1.5", "1", "1.0", "0"), "year": ("2000", "2001", "2002", "2003"),
          "new": ("true", "false", "1", "0", "True")}  # fmt: skip


def random_shop(rng: np.random.Generator) -> sw.Recommender:
    """Nine items with missing values, heads, base, sink, rewards and ids of either kind, and an encoder."""
    attributes = {
        "colour": [None if rng.random() < 0.2 else str(rng.choice(COLOURS)) for _ in range(ITEMS)],
        "price": [float("nan") if rng.random() < 0.2 else float(rng.integers(6)) / 2 for _ in range(ITEMS)],
        "year": rng.integers(2000, 2004, ITEMS).tolist(),
        "new": (rng.random(ITEMS) < 0.5).tolist(),
    }
    texts = [f"item {number}" for number in range(ITEMS)]
    catalog, _ = random_catalog(
        int(rng.integers(1 << 30)),
        n=ITEMS,
        heads=int(rng.integers(1, 4)),
        base=bool(rng.integers(2)),
        sink=bool(rng.integers(2)),
        sharpness=float(rng.choice([0.5, 1.0, 3.0])),
        rewards=[REWARDS[one] for one in rng.permutation(len(REWARDS))[: rng.integers(1, 3)]],
        ids=texts if rng.integers(2) else rng.permutation(np.arange(100, 100 + ITEMS)),
        attributes=attributes,
    )
    _, heads, width = catalog.value.shape
    shapes = {"items": (ITEMS, 4), "heads_weight": (heads, width, 4), "heads_bias": (heads, width)}
    if catalog.base is not None:
        shapes |= {"base_weight": (catalog.base.shape[1], 4), "base_bias": (catalog.base.shape[1],)}
    encoder = Encoder(**{name: rng.normal(size=shape) for name, shape in shapes.items()})
    return sw.Recommender(sw.Index.build(catalog, cells=3, progress=False), encoder=encoder)


def ids_of(catalog: sw.Catalog) -> list[Any]:
    return catalog.ids[np.arange(len(catalog))].tolist()


# --- queries ---


def random_query(rng: np.random.Generator, catalog: sw.Catalog) -> dict[str, Any]:
    """A query with every part now and then; most of them can be answered."""
    ids, query = ids_of(catalog), {"k": int(rng.integers(1, 5))}

    def some(most: int) -> list[Any]:
        return [ids[row] for row in rng.permutation(len(ids))[: rng.integers(most + 1)]]

    def chance(share: float) -> bool:
        return bool(rng.random() < share)

    def limits(share: float, of: Any) -> dict[str, Any]:
        return {name: of(name) for name in CONDITIONS if chance(share)}

    query |= _user(rng, catalog, some)
    if "scores" in query or chance(0.25):
        query["scores"] = {str(one): float(rng.normal()) for one in some(len(ids)) or ids[:2]}
        query |= {"scores_floor": float(rng.normal())} if chance(0.5) else {}
    query |= {"exclude": some(4)} if chance(0.3) else {}
    query |= {"filter_seen": False} if chance(0.2) else {}
    query |= {"include": some(2)} if chance(0.3) else {}
    if chance(0.5):
        query["where"] = limits(0.3, lambda name: CONDITIONS[name][rng.integers(len(CONDITIONS[name]))])
    query |= {"at_most": limits(0.35, lambda name: int(rng.integers(1, 3)))} if chance(0.4) else {}
    query |= {"exactly": limits(0.3, lambda name: 1)} if chance(0.2) else {}
    if chance(0.25):
        query["at_least"] = limits(0.35, lambda name: {str(rng.choice(VALUES[name])): int(rng.integers(1, 3))})
    return query


def _user(rng: np.random.Generator, catalog: sw.Catalog, some: Any) -> dict[str, Any]:
    """A history, sometimes with an id that the shop does not have; vectors; or scores alone."""
    _, heads, width = catalog.value.shape
    kind = rng.choice(["history", "user", "scores"], p=[0.6, 0.25, 0.15])
    if kind == "scores":
        return {"scores": {}}
    if kind == "user":
        base = {} if catalog.base is None else {"base": rng.normal(size=catalog.base.shape[1]).tolist()}
        return {"user": {"heads": rng.normal(size=(heads, width)).tolist()} | base}
    history: dict[str, Any] = {"history": some(4)}
    if rng.random() < 0.2:
        history["history"].append("item 999" if isinstance(ids_of(catalog)[0], str) else 999)
        history |= {"unknown": "error"} if rng.random() < 0.4 else {}
    return history


# --- the reference ---


class Reference:
    """What a query means: which items are eligible, which sets are feasible, and which is best."""

    def __init__(self, shop: sw.Recommender, query: dict[str, Any]) -> None:
        self.query, self.catalog, self.shop = query, shop.index.catalog, shop
        self.ids = ids_of(self.catalog)
        self.row = {one: row for row, one in enumerate(self.ids)}
        self.records = {one: self.catalog.attributes.record(row) for one, row in self.row.items()}
        self.history = [one for one in query.get("history", []) if one in self.row]
        self.ignored = [one for one in query.get("history", []) if one not in self.row]
        self.pinned = query.get("include", [])
        self.excluded = {*query.get("exclude", [])}
        if query.get("filter_seen", True):
            self.excluded |= {*self.history} - {*self.pinned}
        self.eligible = [one for one in self.ids if self._is_eligible(one)]

    def best(self) -> float | None:
        """The value of the best feasible set; None where the query cannot be answered."""
        refused = self.ignored and self.query.get("unknown") == "error"
        if refused or not set(self.pinned) <= set(self.eligible):
            return None
        user = self._user()
        rows = ([self.row[one] for one in chosen] for chosen in self._sets() if self.is_feasible(chosen))
        return max((sw.set_value(self.catalog, user, one) for one in rows), default=None)

    def _sets(self) -> Iterator[tuple[Any, ...]]:
        for size in range(1, min(self.query["k"], len(self.eligible)) + 1):
            yield from itertools.combinations(self.eligible, size)

    def _is_eligible(self, one: Any) -> bool:
        scores = self.query.get("scores")
        if one in self.excluded or (scores is not None and "scores_floor" not in self.query and str(one) not in scores):
            return False
        return all(_meets(self.records[one][name], what) for name, what in self.query.get("where", {}).items())

    def _user(self) -> sw.User:
        _, heads, width = self.catalog.value.shape
        base = None if self.catalog.base is None else np.zeros(self.catalog.base.shape[1])
        user = sw.User(np.zeros((heads, width)), base)
        if "history" in self.query:
            rows = np.array([self.row[one] for one in self.history], np.intp)
            user = self.shop.encoder.users(Ragged.of([rows]))[0]
        elif "user" in self.query:
            user = sw.User(self.query["user"]["heads"], self.query["user"].get("base"))
        if "scores" not in self.query:
            return user
        floor = self.query.get("scores_floor", 0.0)
        return user.with_scores(np.array([self.query["scores"].get(str(one), floor) for one in self.ids]))

    def is_feasible(self, chosen: Any) -> bool:
        """Whether a set of eligible items has the pinned items and keeps every limit."""
        if not set(self.pinned) <= set(chosen):
            return False
        counts = {name: Counter(self.records[one][name] for one in chosen) for name in CONDITIONS}
        for name, most in self.query.get("at_most", {}).items():
            if any(number > most for value, number in counts[name].items() if value is not None):
                return False
        for name, number in self.query.get("exactly", {}).items():
            values = {self.records[one][name] for one in self.eligible} - {None}
            if any(counts[name][value] != number for value in values):
                return False
        at_least = self.query.get("at_least", {}).items()
        return all(counts[name][_value(name, text)] >= n for name, by in at_least for text, n in by.items())


def _meets(value: Any, condition: Any) -> bool:
    if value is None:
        return False
    if isinstance(condition, dict):
        low, high = condition.get("from"), condition.get("to")
        return (low is None or value >= low) and (high is None or value <= high)
    return value in (condition if isinstance(condition, list) else [condition])


def _value(name: str, text: str) -> Any:
    if name == "colour":
        return text
    return text.lower() in ("true", "1") if name == "new" else float(text)
