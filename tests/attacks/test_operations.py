"""Random sequences of operations on an index, against a reference that is a dictionary and tries every set.

The reference knows the items by id, as plain arrays, and values sets by the slow objective. Items are added, removed and
added again, the index is compacted, saved and loaded, and slates are asked for with every kind of constraint. Values,
bounds, proofs and refusals must be those of the reference.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.nightly

MOST_ITEMS = 11
GENRES = ("jazz", "folk", None)


class Reference:
    """The items that the index should have, and how to value them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.made = rng, 0
        self.shape = {"heads": int(rng.integers(1, 4)), "base": bool(rng.integers(2)), "sink": bool(rng.integers(2))}
        self.rewards = [REWARDS[i] for i in rng.permutation(len(REWARDS))[: rng.integers(1, 3)]]
        self.parts: dict[str, sw.Catalog] = {}  # a catalogue of one item for each id that is present
        self.sink: sw.Sink | None = None

    def new_items(self, count: int, back: str | None = None) -> sw.Catalog:
        """A catalogue of new items; ``back`` is the id of the first, if a removed one returns."""
        ids = [back or f"item {self.made}", *(f"item {self.made + i}" for i in range(1, count))]
        of_item = self.rng.integers(len(self.rewards), size=count)
        if not self.made:
            of_item[: len(self.rewards)] = range(
                len(self.rewards)
            )  # an index has cells for the rewards it is built with
        self.made += count
        columns = {
            "genre": [GENRES[self.rng.integers(3)] for _ in ids],
            "year": self.rng.integers(0, 4, count).tolist(),
        }
        seed = int(self.rng.integers(1 << 30))
        sharp = float(self.rng.choice([0.5, 1.0, 3.0]))
        drawn, _ = random_catalog(seed, n=count, sharpness=sharp, rewards=REWARDS[:1], **self.shape)
        self.sink = self.sink or drawn.sink
        items = sw.Catalog(
            drawn.query, drawn.key, drawn.value, (self.rewards, of_item),
            drawn.base, self.sink, ids, columns,
        )  # fmt: skip
        self.parts |= {one: items.taken([row]) for row, one in enumerate(ids)}
        return items

    def user(self) -> sw.User:
        """A random user."""
        heads = self.rng.normal(size=(self.shape["heads"], 3))
        return sw.User(heads, self.rng.normal(size=2) if self.shape["base"] else None)

    def best(self, user: sw.User, options: dict[str, Any]) -> float | None:
        """The value of the best feasible set of at most k items, by trying all; None if there is none."""
        ids = [one for one in self.parts if self.allowed(one, options)]
        pinned = options.get("include", [])
        if not set(pinned) <= set(ids):
            return None
        whole = self.catalog(ids) if ids else None
        sets = (
            rows
            for size in range(1, min(options["k"], len(ids)) + 1)
            for rows in itertools.combinations(range(len(ids)), size)
        )
        values = [
            sw.set_value(whole, user, rows) for rows in sets if self.feasible([ids[row] for row in rows], options)
        ]
        return max(values, default=None)

    def catalog(self, ids: list[str]) -> sw.Catalog:
        """The catalogue of these items."""
        whole = self.parts[ids[0]]
        for one in ids[1:]:
            whole = whole.joined(self.parts[one])
        return whole

    def allowed(self, one: str, options: dict[str, Any]) -> bool:
        """Whether filters and exclusions leave this item."""
        year = self.parts[one].attributes["year"][np.array([0])][0]
        low, high = options.get("where", {}).get("year", (0, 3))
        return one not in options.get("exclude", []) and low <= year <= high

    def feasible(self, ids: list[str], options: dict[str, Any]) -> bool:
        """Whether a set of allowed items keeps the limits and has the pinned items."""
        genres = Counter(self.parts[one].attributes["genre"][np.array([0])][0] for one in ids)
        genres.pop(None, None)
        limit = options.get("at_most", {}).get("genre", len(ids))
        return set(options.get("include", [])) <= set(ids) and max(genres.values(), default=0) <= limit

    def options(self) -> dict[str, Any]:
        """A random request."""
        rng, ids = self.rng, list(self.parts)
        options: dict[str, Any] = {"k": int(rng.integers(1, 4)), "budget_ms": float(rng.choice([1.0, 20.0, 300.0]))}
        if rng.random() < 0.3:
            options["exclude"] = rng.choice(ids, min(2, len(ids)), replace=False).tolist()
        if rng.random() < 0.2:
            options["include"] = rng.choice(ids, 1).tolist()
        if rng.random() < 0.3:
            options["where"] = {"year": (int(rng.integers(0, 3)), int(rng.integers(1, 4)))}
        if rng.random() < 0.3:
            options["at_most"] = {"genre": 1}
        return options


class Machine:
    """An index and the reference, changed together."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.folder, self.done = np.random.default_rng(seed), folder, Counter[str]()
        self.reference = Reference(self.rng)
        backend = ("scan", "tree", "numpy")[seed % 3]
        self.index = sw.Index.build(self.reference.new_items(5), cells=2, backend=backend, progress=False)
        self.removed: list[str] = []

    def step(self) -> None:
        """One operation: most of them are requests."""
        way = self.rng.random()
        if way < 0.75:
            return self.recommend()
        name = ("add", "add", "remove", "remove", "back", "compact", "reload")[self.rng.integers(7)]
        getattr(self, name)()
        self.done[name] += 1
        return None

    def add(self) -> None:
        """New items, while few are present."""
        if len(self.reference.parts) < MOST_ITEMS:
            self.index.add(self.reference.new_items(int(self.rng.integers(1, 3))))

    def back(self) -> None:
        """An item that was removed returns, with other vectors."""
        if self.removed and len(self.reference.parts) < MOST_ITEMS:
            one = self.removed.pop()
            self.index.add(self.reference.new_items(1, back=one))

    def remove(self) -> None:
        """One item; all of them are not removed."""
        one = str(self.rng.choice(list(self.reference.parts)))
        if len(self.reference.parts) == 1:
            with pytest.raises(Infeasible):
                self.index.remove([one])
            return
        self.index.remove([one])
        del self.reference.parts[one]
        self.removed.append(one)

    def compact(self) -> None:
        """Removed items leave, added ones enter."""
        self.index.compact()

    def reload(self) -> None:
        """Save and open again."""
        self.index.save(self.folder)
        self.index = sw.Index.load(self.folder)

    def recommend(self) -> None:
        """A slate against the best of all sets."""
        user, options = self.reference.user(), self.reference.options()
        low, high = options.get("where", {}).get("year", (0, 3))
        best = self.reference.best(user, options) if low <= high else None
        recommender = sw.Recommender(self.index)
        if best is None:
            with pytest.raises(InvalidInput):
                recommender.recommend(user, **options)
            self.done["refused"] += 1
            return
        slate = recommender.recommend(user, **options)
        chosen = slate.items.tolist()
        assert all(self.reference.allowed(one, options) for one in chosen)
        assert self.reference.feasible(chosen, options)
        assert len(set(chosen)) == len(chosen) <= options["k"]
        value = sw.set_value(self.reference.catalog(chosen), user, range(len(chosen)))
        assert slate.value == pytest.approx(value, rel=1e-9, abs=1e-9)
        slack = 1e-9 * max(1.0, abs(best))
        assert slate.value <= best + slack
        assert best <= slate.upper_bound + slack, "the bound is below the optimum"
        assert not slate.proven or slate.value >= best - 1e-6 * max(1.0, abs(best)), "proven, and not optimal"
        self.done["proven" if slate.proven else "slates"] += 1


@pytest.mark.promise("operations")
@pytest.mark.parametrize("part", range(8))
def test_sequences_of_operations(part: int, tmp_path: Path, count, record_property) -> None:
    done, machines, steps = Counter[str](), count(125, 125), 200
    for number in range(machines):
        machine = Machine(1000 * part + number, tmp_path / str(number))
        for _ in range(steps):
            machine.step()
        done += machine.done
    record_property(
        "seen", f"{machines * steps} operations: " + ", ".join(f"{n} {name}" for name, n in sorted(done.items()))
    )
    assert done["proven"] > done["slates"]
    assert min(done[name] for name in ("add", "remove", "back", "compact", "reload", "refused")) > 0
