"""The compiled loops mean what their Python text says, and what rewards.py says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import TooLarge
from setwise.model.constraints import Constraints
from setwise.model.reward_table import RewardTable
from setwise.ranking import exhaustive, kernels
from worlds import REWARDS, random_instance

TABLE = RewardTable.of(REWARDS)
BOTH = pytest.mark.parametrize(
    "form", [lambda function: function, lambda function: function.py_func], ids=["compiled", "interpreted"]
)


@BOTH
@pytest.mark.parametrize("number", range(len(REWARDS)))
def test_reward_values(form, number: int) -> None:
    knots = TABLE.knot[TABLE.first_knot[number] : TABLE.first_knot[number + 1]]
    for x in (-800.0, -3.0, -1.0, -0.2, 0.0, 0.25, 0.5, 1.7, 2.0, 9.0, 2000.0):
        got = form(kernels.reward_value)(TABLE.code[number], TABLE.parameter[number], knots, x)
        assert got == pytest.approx(float(REWARDS[number](x)), rel=1e-12, abs=1e-300)


@BOTH
def test_streaming_sums(form) -> None:
    logits, scores = [3.0, -np.inf, 900.0, 899.0, -5.0], [1.0, 9.0, 2.0, 4.0, 8.0]
    state = np.array([-np.inf, 0.0, 0.0])
    for logit, score in zip(logits, scores, strict=True):
        form(kernels.add_weight)(state, logit, score)
    assert state[1] / state[2] == pytest.approx((2 + 4 / np.e) / (1 + 1 / np.e), rel=1e-12)


@BOTH
@pytest.mark.parametrize("sink", [False, True])
def test_best_subset_visits_every_feasible_set(form, sink: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "best_subset", form(kernels.best_subset))
    labels = [0, 0, 1, 1, 2, -1, -1]
    for seed in range(5):
        instance = random_instance(seed, n=7, heads=2, sink=sink, base=True, rewards=REWARDS)
        instance.groups = {"g": np.array(labels)}
        for pinned, excluded, limit in (([], [], 9), ([2], [5], 1), ([0, 5], [], 1)):
            constraints = Constraints.of(instance, 3, excluded, pinned, {"g": limit})
            found = exhaustive.exhaustive(instance, constraints)
            sets = [s for size in (1, 2, 3) for s in itertools.combinations(range(7), size) if constraints.admits(s)]
            assert found.evaluations == len(sets)
            assert found.value == pytest.approx(max(map(instance.value, sets)), rel=1e-12)


def test_refuses_more_than_fifty_million_sets() -> None:
    instance = sw.Instance(np.zeros((100, 100)), np.zeros(100))
    with pytest.raises(TooLarge) as caught:
        sw.rank(instance, 6, "exhaustive")
    assert str(caught.value) == (
        "exhaustive search must visit at most 50,000,000 sets, got 1.27e+09 (100 free candidates, k = 6); "
        "lower k, pass fewer candidates or use another ranker."
    )
