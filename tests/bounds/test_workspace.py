"""The compiled search writes nowhere outside its arrays: compiled code does not check an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.candidates import branch_and_bound
from setwise.bounds.candidates.branch_and_bound import BranchAndBound
from setwise.model.constraints import Constraints
from worlds import REWARDS, random_instance

GUARD = 4096  # bytes before and after every array
MARK = 0x5A


class Guarded:
    """Arrays of the same shapes and contents as those of a function, between bytes that nobody may change."""

    def __init__(self, make: Callable[..., NamedTuple]) -> None:
        self._make, self.blocks = make, dict[str, np.ndarray]()

    def __call__(self, *arguments: object) -> NamedTuple:
        made = self._make(*arguments)
        return made._replace(**{name: self._between(name, array) for name, array in made._asdict().items()})

    def _between(self, name: str, array: np.ndarray) -> np.ndarray:
        block = np.full(array.nbytes + 2 * GUARD, MARK, np.uint8)
        self.blocks[name] = block
        inside = block[GUARD : GUARD + array.nbytes].view(array.dtype).reshape(array.shape)
        inside[...] = array
        return inside

    def changed(self) -> list[str]:
        """The arrays beside which something was written."""
        return [
            name
            for name, block in self.blocks.items()
            if (block[:GUARD] != MARK).any() or (block[-GUARD:] != MARK).any()
        ]


@pytest.mark.parametrize("function", ["_node_workspace", "_node_queue"])
def test_nothing_is_written_beside_the_arrays(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of one item, of nearly all and of more than there are; one head and several; pinned items and limits."""
    for seed, (k, heads) in enumerate([(1, 1), (4, 1), (9, 1), (12, 1), (1, 3), (4, 3), (9, 3), (12, 3)]):
        guarded = Guarded(getattr(branch_and_bound, function))
        with monkeypatch.context() as patch:
            patch.setattr(branch_and_bound, function, guarded)
            instance = random_instance(
                seed,
                n=9,
                heads=heads,
                sink=seed % 2 == 0,
                base=True,
                sharpness=3.0,
                rewards=REWARDS,
                attributes={"artist": [i % 4 for i in range(9)]},
            )
            limits = {"at_most": {"artist": 2}, "include": [5]} if seed % 3 == 2 else {}
            search = BranchAndBound(instance, Constraints.of(instance, k, **limits), 1000)
            if seed % 2:
                search.offer(sw.rank(instance, k, "knn", **limits).indices)
            search.run()
        assert search.finished
        assert guarded.blocks
        assert not guarded.changed()
        best = sw.rank(instance, k, "exhaustive", **limits).value
        assert instance.value(search.best) == pytest.approx(best, rel=1e-9)
