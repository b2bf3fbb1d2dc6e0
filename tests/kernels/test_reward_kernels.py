"""The compiled rewards agree with model/rewards.py for every registered family, and an unknown code gives no number.

How to add a reward: two files. In ``model/rewards.py`` a class with the next free ``code``, listed in ``FAMILIES``; in
``kernels/rewards.py`` the branch of that code in ``family_value``. ``test_a_new_reward_touches_two_files`` does it.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import processes
import setwise as sw
from reward_families import random_reward
from setwise._validation import read_only
from setwise.bounds.candidates import branch_and_bound
from setwise.bounds.candidates.item_bounds import HUGE, reward_upper
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.kernels import rewards as compiled
from setwise.model.constraints import Constraints
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import FAMILIES, Reward
from setwise.ranking import exhaustive
from worlds import random_catalog, random_instance

UNKNOWN = 1 + max(family.code for family in FAMILIES.values())
POINTS = np.array([-800.0, -30.0, -3.0, -1.0, -0.2, 0.0, 0.25, 0.5, 1.7, 2.0, 9.0, 40.0, 2000.0])

families = pytest.mark.parametrize("family", FAMILIES)
forms = pytest.mark.parametrize(
    "form", [lambda function: function, lambda function: function.py_func], ids=["compiled", "interpreted"]
)


@njit
def upper_values(reward, knot, points):
    """``reward_upper`` of the first function at every point."""
    result = np.empty(len(points))
    for at in range(len(points)):
        result[at] = reward_upper(reward, knot, 0, points[at])
    return result


def samples(family: str, count: int = 20) -> list[Reward]:
    rng = np.random.default_rng(FAMILIES[family].code)
    return [random_reward(family, rng) for _ in range(count)]


def bound_row(table: RewardTable) -> np.ndarray:
    """The row that bounds read: code, parameters, first knot and the one after the last, rounding."""
    return np.column_stack([table.code, table.parameter, table.first_knot[:-1], table.first_knot[1:], [1e-14]])


def with_unknown_code(table: RewardTable) -> RewardTable:
    """A table as no constructor makes it."""
    object.__setattr__(table, "code", read_only(np.full_like(table.code, UNKNOWN)))
    return table


@forms
@families
def test_values_of_one_function_and_of_a_table(form, family: str) -> None:
    rewards = samples(family)
    table = RewardTable.of(rewards)
    for number, reward in enumerate(rewards):
        knots = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
        expected = [pytest.approx(value, rel=1e-12, abs=1e-14) for value in reward(POINTS)]
        one = [form(compiled.reward_value)(table.code[number], table.parameter[number], knots, x) for x in POINTS]
        whole = [
            form(compiled.table_value)(table.code, table.parameter, table.first_knot, table.knot, number, x)
            for x in POINTS
        ]
        assert one == expected
        assert whole == expected


@families
def test_rows_of_values(family: str) -> None:
    for reward in samples(family):
        table, total = RewardTable.of([reward]), np.zeros(len(POINTS))
        for times in (1, 2):
            compiled.add_rewards(table.code[0], table.parameter[0], table.knot, 1.0, POINTS, total)
            np.testing.assert_allclose(total, times * reward(POINTS), rtol=1e-10, atol=1e-300)


@families
def test_upper_values_are_above_the_exact_ones_by_rounding_only(family: str) -> None:
    for reward in samples(family):
        table, exact = RewardTable.of([reward]), reward(POINTS)
        upper = upper_values(bound_row(table), table.knot, POINTS)
        assert (upper >= np.minimum(exact, HUGE)).all()
        usual = np.abs(exact) < 1e279  # beyond, values are clipped
        np.testing.assert_allclose(upper[usual], exact[usual], rtol=1e-9, atol=1e-9)


# --- an unknown code ---


def test_an_unknown_code_has_no_value() -> None:
    table, total = with_unknown_code(RewardTable.of([sw.Linear()])), np.zeros(2)
    assert math.isnan(compiled.reward_value(UNKNOWN, table.parameter[0], table.knot, 1.0))
    assert math.isnan(compiled.table_value(table.code, table.parameter, table.first_knot, table.knot, np.int64(0), 1.0))
    compiled.add_rewards(UNKNOWN, table.parameter[0], table.knot, 1.0, np.ones(2), total)
    assert np.isnan(total).all()
    assert (upper_values(bound_row(table), table.knot, POINTS) == HUGE).all()


@pytest.fixture
def unknown_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankers and bounds get a table whose codes no kernel knows."""

    class Unknown:
        of = staticmethod(lambda rewards: with_unknown_code(RewardTable.of(rewards)))

    for module in (branch_and_bound, exhaustive):
        monkeypatch.setattr(module, "RewardTable", Unknown)


@pytest.mark.usefixtures("unknown_code")
def test_no_finite_bound_on_candidates_with_an_unknown_code() -> None:
    instance = random_instance(0, n=6)
    search = branch_and_bound.BranchAndBound(instance, Constraints.of(instance, 3), 100)
    search.run()
    assert search.bound == math.inf
    assert not search.proven
    assert not sw.rank(instance, 2, "exhaustive").proven


def test_no_finite_bound_on_a_catalogue_with_an_unknown_code() -> None:
    catalog, user = random_catalog(0, n=12)
    cells = CellBounds.build(catalog, cells=3)
    broken = replace(cells, table=cells.table._replace(code=read_only(np.full_like(cells.table.code, UNKNOWN))))
    for budget in (0.0, 1e6):
        found = whole_catalog_bound(broken, user, 3, budget_ms=budget)
        assert found.upper_bound == math.inf
        assert not found.proven


# --- a new family ---

TOY_CLASS = '''
@dataclass(frozen=True)
class Cubic(_Affine):
    """(scale·x + bias)³."""

    code: ClassVar[int] = 9

    def value(self, x: ArrayLike) -> Floats:
        return self._argument(x) ** 3

    @property
    def lipschitz(self) -> float:
        return math.inf


RewardChoice ='''

TOY_SCRIPT = """
import numpy as np
import setwise as sw
from setwise.model.rewards import Cubic, from_spec, to_spec
rng = np.random.default_rng(0)
instance = sw.Instance(rng.normal(size=(5, 5)), rng.normal(size=5), ([Cubic(0.8, 0.1), sw.Tanh()], np.arange(5) % 2))
best = sw.rank(instance, 2, "exhaustive")
assert abs(best.value - instance.value(best.indices)) < 1e-12
exact = sw.rank(instance, 2, "exact")
assert exact.proven and abs(exact.value - best.value) < 1e-9
assert sw.upper_bound(instance, 2) >= best.value
assert from_spec(to_spec(Cubic(2.0))) == Cubic(2.0)
print("certified")
"""


def test_a_new_reward_touches_two_files(tmp_path: Path) -> None:
    """A copy of the package with a toy family: its class and its branch are enough to rank, bound and save it.

    The kernels run interpreted, because compiling the copy would take minutes.
    """
    package = tmp_path / "setwise"
    shutil.copytree(Path(sw.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    edits = {
        "model/rewards.py": [("\nRewardChoice =", TOY_CLASS), ("PiecewiseLinear, Constant)\n", "PiecewiseLinear, Constant, Cubic)\n")],
        "kernels/rewards.py": [("    return np.nan\n", "    if code == 9:\n        return z**3\n    return np.nan\n")],
    }  # fmt: skip
    assert len(edits) == 2
    for name, replacements in edits.items():
        text = (package / name).read_text()
        for old, new in replacements:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (package / name).write_text(text)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = processes.run([sys.executable, "-c", TOY_SCRIPT], env=environment)
    assert done.stdout.strip() == "certified", done.stderr
