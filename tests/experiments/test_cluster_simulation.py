"""The simulation of a cluster: known queues, no request lost, and what replicas and hedging are for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster() -> ModuleType:
    return import_module("cluster_simulation")


def test_an_idle_cluster_takes_the_sum_of_its_times(cluster: ModuleType) -> None:
    quiet = cluster.Cluster(shards=3, fixed=5.0, each=1.0, network=0.0, rank=7.0)
    took = cluster.simulate(quiet, rate=0.01, requests=50).latency
    np.testing.assert_allclose(took, 13.0, rtol=1e-9)


def test_hosts_of_one_machine_share_its_cores_and_calls_leave_one_after_the_other(cluster: ModuleType) -> None:
    """Five passes of 6 ms on two cores take three turns; the first call leaves at once, the others 1 ms apart."""
    shared = cluster.Cluster(shards=5, fixed=5.0, each=1.0, network=0.0, rank=7.0, cores=2, call=1.0)
    took = cluster.simulate(shared, rate=0.01, requests=50).latency
    np.testing.assert_allclose(took, 3 * 6.0 + 7.0, rtol=1e-9)
    late = cluster.Cluster(shards=2, fixed=5.0, each=1.0, network=0.0, rank=7.0, cores=2, call=4.0)
    np.testing.assert_allclose(cluster.simulate(late, rate=0.01, requests=50).latency, 17.0, rtol=1e-9)
    noisy = cluster.simulate(cluster.Cluster(network=0.0, spread=0.2), rate=0.01, requests=4000).summary()
    assert noisy["p99"] / noisy["p50"] == pytest.approx(np.exp(0.2 * 2.326), rel=0.05)


def test_no_request_is_lost_where_failing_hosts_share_cores(cluster: ModuleType) -> None:
    busy = cluster.Cluster(shards=4, cores=2, hours_between_failures=0.002, restart=500.0, deadline_ms=4000.0, fronts=8)
    result = cluster.simulate(busy, rate=60.0, requests=3000, seed=2)
    assert len(result.latency) + result.refused == 3000
    assert len(result.latency) > 1000


def test_one_host_is_the_queue_of_the_textbook(cluster: ModuleType) -> None:
    """M/D/1: with load ρ and service s the mean wait is ρ s / (2 (1 − ρ)) (Pollaczek–Khinchine)."""
    service, load = 10.0, 0.6
    host = cluster.Cluster(shards=1, fixed=0.0, each=service, most_together=1, network=0.0, rank=0.0)
    waits = [
        np.mean(cluster.simulate(host, 1000 * load / service, 20_000, seed).latency) - service for seed in range(3)
    ]
    assert np.mean(waits) == pytest.approx(load * service / (2 * (1 - load)), rel=0.1)


def test_every_request_is_answered_or_refused_once(cluster: ModuleType) -> None:
    faulty = cluster.Cluster(
        shards=4, replicas=2, hours_between_failures=0.002, restart=500.0, hedge_ms=20.0, deadline_ms=100.0, fronts=8,
        straggler_share=0.05, straggler=200.0,
    )  # fmt: skip
    result = cluster.simulate(faulty, rate=100.0, requests=4000, seed=1)
    assert len(result.latency) + result.refused == 4000
    assert result.refused > 0
    assert result.calls > 4 * 4000
    again = cluster.simulate(faulty, rate=100.0, requests=4000, seed=1)
    assert again.latency == result.latency


def test_a_second_replica_cuts_the_tail_of_stragglers(cluster: ModuleType) -> None:
    common = {"shards": 8, "straggler_share": 0.003, "straggler": 300.0, "hedge_ms": 20.0, "rank": 5.0, "fronts": 4}
    alone = cluster.simulate(cluster.Cluster(**common), rate=20.0, requests=3000).summary()
    hedged = cluster.simulate(cluster.Cluster(replicas=2, **common), rate=20.0, requests=3000).summary()
    assert alone["p99"] > 150
    assert hedged["p99"] < alone["p99"] / 2


def test_a_lost_host_without_replica_is_waited_for_until_the_deadline(cluster: ModuleType) -> None:
    common = {"shards": 2, "hours_between_failures": 0.001, "restart": 2000.0, "fronts": 20}
    patient = cluster.simulate(cluster.Cluster(deadline_ms=60_000.0, **common), rate=50.0, requests=2000)
    assert patient.refused == 0
    assert max(patient.latency) > 1500
    hasty = cluster.simulate(cluster.Cluster(deadline_ms=100.0, **common), rate=50.0, requests=2000)
    assert hasty.refused > 0
