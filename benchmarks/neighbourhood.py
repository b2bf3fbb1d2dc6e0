"""The cost of one neighbourhood of swap search, and the gain of two threads.

    python benchmarks/neighbourhood.py

One best-improvement neighbourhood (every exchange of a member for a candidate, every departure) compiled, beside the
same in numpy with buffers and vectors of all exchanges at once; then 200 users ranked by one thread and by two. Ratios
are measured side by side in one run, the least of many short windows.
"""

from __future__ import annotations

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import statistics
import time
from collections.abc import Callable

import numpy as np

import setwise as sw
from setwise.model.constraints import Constraints
from setwise.ranking import swap as swap_search
from setwise.ranking import swap_kernels


def random_instance(seed: int, m: int, heads: int = 1) -> sw.Instance:
    rng = np.random.default_rng(seed)
    query, key, value = (rng.normal(size=(m, heads, 8)) for _ in range(3))
    catalog = sw.Catalog(query, key, value, sw.Logistic(1.0, -2.0))
    return sw.Instance.from_catalog(catalog, rng.normal(size=(heads, 8)), np.arange(m))


class Numpy:
    """The same neighbourhood, incrementally and vectorised, nothing allocated that could be kept."""

    def __init__(self, instance: sw.Instance, k: int) -> None:
        self.weight = np.ascontiguousarray(instance.weight[0])
        self.scored = self.weight * instance.score[0]
        self.own, self.own_scored = self.weight.diagonal().copy(), self.scored.diagonal().copy()
        self.scale, self.bias = instance.rewards[0].scale, instance.rewards[0].bias
        self.first, self.second = np.empty((k, k, instance.m)), np.empty((k, k, instance.m))
        self.own_argument = np.empty((instance.m, k))

    def _logistic(self, a: np.ndarray) -> np.ndarray:
        np.multiply(a, -self.scale, out=a)
        np.subtract(a, self.bias, out=a)
        np.exp(a, out=a)
        np.add(a, 1.0, out=a)
        return np.reciprocal(a, out=a)

    def best_exchange(self, chosen: np.ndarray) -> float:
        weight, scored = self.weight[chosen], self.scored[chosen]
        among, scored_among = weight[:, chosen], scored[:, chosen]
        denominator = (among.sum(axis=1)[:, None] - among).T
        numerator = (scored_among.sum(axis=1)[:, None] - scored_among).T
        np.add(numerator[:, :, None], scored, out=self.first)
        np.add(denominator[:, :, None], weight, out=self.second)
        rewards = self._logistic(np.divide(self.first, self.second, out=self.first))
        every = np.arange(len(chosen))
        rewards[every, every] = 0.0
        total = rewards.sum(axis=1)
        lent, scored_lent = self.weight[:, chosen], self.scored[:, chosen]
        top = (scored_lent.sum(axis=1) + self.own_scored)[:, None] - scored_lent
        bottom = (lent.sum(axis=1) + self.own)[:, None] - lent
        total += self._logistic(np.divide(top, bottom, out=self.own_argument)).T
        total[:, chosen] = -np.inf
        alone = numerator / denominator
        drops = 1 / (1 + np.exp(-(self.scale * alone + self.bias)))
        drops[every, every] = 0.0
        return float(max(total.max(), drops.sum(axis=1).max()))


def least(work: Callable[[], object], windows: int) -> float:
    """Microseconds of the quickest window."""
    times = []
    for _ in range(windows):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def neighbourhoods(windows: int) -> None:
    print(f"{'m':>5} {'k':>4} {'numpy µs':>10} {'compiled µs':>12} {'ratio':>7}")
    for m, k in ((100, 5), (300, 10), (1000, 10), (1000, 50)):
        theirs, ours = compared(m, k, max(20, windows * 3000 // (m * k)))
        print(f"{m:>5} {k:>4} {theirs:>10.1f} {ours:>12.1f} {ours / theirs:>7.3f}")


def compared(m: int, k: int, windows: int) -> tuple[float, float]:
    instance = random_instance(1, m)
    problem = swap_search._swap_instance(instance, Constraints.of(instance, k))
    state = swap_search._initial_state(problem, 0)
    chosen = np.random.default_rng(2).permutation(m)[:k]
    swap_kernels.adopt(problem, state, chosen.astype(np.int64), k)
    plain = Numpy(instance, k)
    value, _ = swap_kernels.best_move(problem, state, False)
    if abs(plain.best_exchange(chosen) - value) > 1e-5:
        raise SystemExit("the two neighbourhoods disagree")
    theirs, ours = [], []
    for _ in range(5):
        theirs.append(least(lambda: plain.best_exchange(chosen), windows))
        ours.append(least(lambda: swap_kernels.best_move(problem, state, False), windows))
    return min(theirs), min(ours)


def threads(users: int, repeats: int) -> None:
    instances = [random_instance(seed, 300) for seed in range(users)]
    for instance in instances:
        _ = instance.weight
    ratios = []
    for _ in range(repeats):
        seconds = []
        for workers in (1, 2):
            start = time.perf_counter()
            sw.rank_many(instances, 10, threads=workers, evaluations=100_000)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
        print(
            f"{users} users, m = 300, k = 10: one thread {seconds[0]:.2f} s, two {seconds[1]:.2f} s: {ratios[-1]:.2f} times faster"
        )
    print(f"median {statistics.median(ratios):.2f}, best {max(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=400)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    neighbourhoods(options.windows)
    threads(options.users, options.repeats)


if __name__ == "__main__":
    main()
