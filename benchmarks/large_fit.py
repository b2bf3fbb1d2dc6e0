"""Time and memory of ``fit`` on many sessions: by default a million over a hundred thousand items.

    python benchmarks/large_fit.py --sessions 1000000 --items 100000

The sessions are synthetic: every session has a genre; its items are drawn from the genre by a Zipf law. Progress goes to
standard error; the last line states the seconds, the largest resident memory and the hits on new sessions.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from setwise.datasets import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer
from setwise.training.on_policy import on_policy_slates

GENRES, LENGTH, K = 500, 10, 10


def synthetic(count: int, n: int, seed: int) -> Sessions:
    """Sessions of distinct items, most of them of one genre."""
    rng = np.random.default_rng(seed)
    per_genre = n // GENRES
    popularity = np.cumsum(1 / np.arange(1, per_genre + 1))
    genre = rng.integers(GENRES, size=(count, 1))
    other = rng.random((count, LENGTH)) < 0.1
    genre = np.where(other, rng.integers(GENRES, size=(count, LENGTH)), genre)
    place = np.searchsorted(popularity, rng.random((count, LENGTH)) * popularity[-1])
    items = genre * per_genre + place
    return Sessions(Ragged.cut(items.ravel(), np.full(count, LENGTH)), list(range(n))).distinct()


def main() -> None:
    """Make the sessions, fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    arguments = parser.parse_args()
    sessions = synthetic(arguments.sessions, arguments.items, 0)
    began = time.perf_counter()
    model = SimpleTransformer.fit(sessions, k=K, progress=True)
    seconds = time.perf_counter() - began
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    slates = on_policy_slates(model, HistorySplit.first(synthetic(500, arguments.items, 1)), K)
    print(
        f"{arguments.sessions:,} sessions, {arguments.items:,} items: {seconds:.0f} s, {gigabytes:.1f} GB, "
        f"{slates.outcome.sum() / len(slates):.2f} hits of {K}, kept {model.summary['kept']}"
    )


if __name__ == "__main__":
    main()
