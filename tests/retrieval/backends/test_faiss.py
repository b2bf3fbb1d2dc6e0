"""What the conformance suite does not ask of the faiss backend."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.errors import InvalidInput
from setwise.retrieval.backends.brute_force import BruteForce

pytest.importorskip("faiss")

from setwise.retrieval.backends.faiss import Faiss


def test_it_is_restored_from_what_the_brute_saved() -> None:
    rng = np.random.default_rng(0)
    brute = BruteForce.build(rng.normal(size=(50, 4)).astype(np.float32), rng.integers(0, 3, 50).astype(np.int32), 3)
    users = rng.normal(size=(2, 4)).astype(np.float32)
    index = Faiss.from_arrays(brute.arrays())
    np.testing.assert_array_equal(index.search(users, 5).rows, brute.search(users, 5).rows)


@pytest.mark.parametrize("shape", [(4,), (1, 3), (1, 5)])
def test_users_of_another_width_never_reach_faiss(shape: tuple[int, ...]) -> None:
    index = Faiss.build(np.ones((6, 4), np.float32), np.zeros(6, np.int32), 1)
    with pytest.raises(InvalidInput, match=r"users must be of shape \(B, 4\)"):
        index.search(np.ones(shape, np.float32), 2)
