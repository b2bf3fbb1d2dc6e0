"""The simulation of a cluster against measurements of ``benchmarks/cluster.py`` with several numbers of shards.

    python experiments/cluster_fit.py s1.json s2.json s4.json s8.json --cores 2 --call 1.4

Each file has the figures of one number of shards, of the same items in all. The single index in it says how long the
pass over all items takes (R), how long ranking takes, and how far the times of this machine spread. Two times are
fitted to the p50 of the fewest and of the most shards: ``fixed``, what a shard takes for a request beside its part of
the pass, R / S; and ``front``, what the front takes beside ranking. All other figures are predictions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cluster_simulation import Cluster, simulate
from scipy.optimize import least_squares

NORMAL_99 = 2.326  # the 99th percentile of a normal number


class Machine(NamedTuple):
    """What all measurements share: milliseconds of a call, cores, and the spread of times."""

    call: float
    cores: int
    spread: float


def spread_of(every: Sequence[dict[str, Any]]) -> float:
    """The spread of a single index: the median of all runs, as the p99 of one depends on a few requests."""
    return float(np.median([np.log(one["single"]["p99"] / one["single"]["p50"]) for one in every]) / NORMAL_99)


def modelled(figures: dict[str, Any], fixed: float, front: float, machine: Machine) -> Cluster:
    """The cluster of these figures."""
    shards, alone = figures["shards"], figures["phases"]["single"]
    return Cluster(
        shards=shards,
        fixed=fixed,
        each=alone["retrieve"] / shards,
        most_together=1,
        network=0.0,
        rank=alone["rank"] + front,
        call=machine.call,
        cores=machine.cores,
        spread=machine.spread,
    )


def fitted(ends: Sequence[dict[str, Any]], machine: Machine) -> tuple[float, float]:
    """``fixed`` and ``front``, not negative, whose p50 are those of ``ends``."""

    def missed(times: Sequence[float]) -> list[float]:
        found = [predicted(modelled(one, *times, machine), 1)["p50"] for one in ends]
        return [np.log(mine / one["cluster"]["p50"]) for mine, one in zip(found, ends, strict=True)]

    fixed, front = least_squares(missed, [5.0, 10.0], bounds=(0.0, np.inf), diff_step=1e-3).x
    return float(fixed), float(front)


def predicted(cluster: Cluster, requests: int = 4000) -> dict[str, float]:
    """Percentiles of requests that come one after the other; of a single one, without its spread."""
    if requests == 1:
        cluster = Cluster(**{**vars(cluster), "spread": 0.0})
    return simulate(cluster, 0.01, requests).summary()


def main() -> None:
    """Fit, predict and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--cores", type=int, default=2, help="of the machine")
    parser.add_argument("--call", type=float, default=1.4, help="milliseconds of the front for the calls of a shard")
    options = parser.parse_args()
    every = sorted((json.loads(file.read_text()) for file in options.files), key=lambda one: one["shards"])
    machine = Machine(options.call, options.cores, spread_of(every))
    fixed, front = fitted([every[0], every[-1]], machine)
    print(f"fixed {fixed:.1f} ms a shard, front {front:.1f} ms, call {options.call} ms, spread {machine.spread:.3f}")
    print("| Shards | Load | p50 | simulated | | p99 | simulated | |\n|---|---|---|---|---|---|---|---|")
    for one in every:
        found = predicted(modelled(one, fixed, front, machine))
        parts = [
            f"{one['cluster'][q]:.0f} ms | {found[q]:.0f} ms | {100 * (found[q] / one['cluster'][q] - 1):+.0f} %"
            for q in ("p50", "p99")
        ]
        print(f"| {one['shards']} | {max(one['load']):.1f} | {' | '.join(parts)} |")


if __name__ == "__main__":
    main()
