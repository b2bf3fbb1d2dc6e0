"""Certificates against exact arithmetic: where all weights are 1, averages of binary fractions are rational numbers.

Queries are zero, so every item attends evenly; scores, base and rewards are binary fractions, which floats hold exactly.
The optimum is then computed with ``Fraction`` over all sets. A bound must not be below it by more than the rounding of a
sum of k floats, and a bound that is below it by a millionth must be refused.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import verify

REWARDS = (sw.Linear(0.5, 0.25), sw.ReLU(1.0, -0.5), sw.LeakyReLU(2.0, 0.125, slope=0.25), sw.Constant(0.375))


def reward(kind: Any, x: Fraction) -> Fraction:
    """The same reward in exact arithmetic."""
    if isinstance(kind, sw.Constant):
        return Fraction(kind.c)
    y = Fraction(kind.scale) * x + Fraction(kind.bias)
    if isinstance(kind, sw.Linear):
        return y
    return max(y, Fraction(getattr(kind, "slope", 0.0)) * y)


def drawn(seed: int) -> tuple[sw.Catalog, sw.User, int, Fraction]:
    """A small catalogue, a user, k, and the exact optimum."""
    rng = np.random.default_rng(seed)
    n, heads, k = int(rng.integers(3, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    value, base = rng.integers(-64, 65, (n, heads, 2)) / 64, rng.integers(-64, 65, (n, 1)) / 32
    of_item = rng.integers(len(REWARDS), size=n)
    zeros = np.zeros((n, heads, 2))
    catalog = sw.Catalog(zeros, zeros, value, (list(REWARDS), of_item), base)
    user = sw.User(rng.integers(-8, 9, (heads, 2)) / 8, np.array([1.0]))
    score = [[sum(Fraction(v) * Fraction(u) for v, u in zip(row, own, strict=True)) for row, own in zip(item, user.heads, strict=True)]
             for item in value]  # fmt: skip
    own = [Fraction(one) for one in base[:, 0]]

    def exact(rows: tuple[int, ...]) -> Fraction:
        together = sum((score[row][h] for row in rows for h in range(heads)), Fraction(0)) / len(rows)
        return sum((reward(REWARDS[of_item[row]], own[row] + together) for row in rows), Fraction(0))

    sets = (rows for size in range(1, min(k, n) + 1) for rows in itertools.combinations(range(n), size))
    return catalog, user, k, max(map(exact, sets))


@pytest.mark.promise("certificates")
def test_bounds_in_exact_arithmetic(tmp_path: Path, count, record_property) -> None:
    wanted, path = count(1000), tmp_path / "slate.json"
    for seed in range(wanted):
        catalog, user, k, optimum = drawn(seed)
        slate = sw.Recommender(sw.Index.build(catalog, cells=2, progress=False)).recommend(user, k=k, budget_ms=60_000)
        rounding = Fraction(k * 2**-52) * max(1, abs(optimum))
        assert Fraction(slate.upper_bound) >= optimum - rounding, seed
        assert Fraction(slate.value) <= optimum * (1 + Fraction(1, 10**12)) + Fraction(1, 10**12)
        slate.save(path)
        assert verify(path, catalog).ok
        content = {name: part for name, part in read_slate(path).items() if name != "digest"}
        below = float(optimum) - 1e-6 * max(1.0, abs(float(optimum)))
        write_slate(path, content | {"upper_bound": below, "proven": False})
        assert not verify(path, catalog).ok, seed
    record_property("seen", f"{wanted} bounds compared with exact optima")
