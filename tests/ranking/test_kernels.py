"""The compiled loops of the rankers agree with their interpreted form and with enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import TooLarge
from setwise.model.constraints import Constraints
from setwise.ranking import exhaustive, kernels
from worlds import REWARDS, random_instance

BOTH = pytest.mark.parametrize(
    "form", [lambda function: function, lambda function: function.py_func], ids=["compiled", "interpreted"]
)


@BOTH
@pytest.mark.parametrize("sink", [False, True])
def test_best_subset_visits_every_feasible_set(form, sink: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "best_subset", form(kernels.best_subset))
    labels = [0, 0, 1, 1, 2, -1, -1]
    for seed in range(5):
        instance = random_instance(seed, n=7, heads=2, sink=sink, base=True, rewards=REWARDS)
        instance.groups = {"g": np.array(labels)}
        for pinned, excluded, limit in (([], [], 9), ([2], [5], 1), ([0, 5], [], 1)):
            constraints = Constraints.of(instance, 3, excluded, pinned, at_most={"g": limit})
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
