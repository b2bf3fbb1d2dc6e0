"""Metrics count every event once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from setwise.service.metrics import Metrics


@given(st.lists(st.sampled_from([200, 400, 503]), max_size=50))
def test_responses_are_counted_by_status(statuses: list[int]) -> None:
    metrics = Metrics()
    for number, status in enumerate(statuses, 1):
        metrics.count_response("/v1/recommend", status)
        assert metrics.responses() == number
    text = metrics.text().decode()
    for status, times in Counter(statuses).items():
        assert f'setwise_requests_total{{route="/v1/recommend",status="{status}"}} {times}.0' in text


def test_every_other_event() -> None:
    metrics = Metrics()
    for _ in range(10):
        metrics.observe_slate({"rank": 1.0}, 0.1)
        metrics.observe_slate({"rank": 1.0}, None)
        metrics.observe_group(2)
        metrics.count_shed("queue")
        metrics.count_reload("done")
        metrics.count_lost_worker("hung")
    metrics.watch(lambda: 3, lambda: 2, lambda: 300)
    text = metrics.text().decode()
    for sample in (
        "setwise_gap_count 10.0",
        "setwise_micro_batch_count 10.0",
        'setwise_sheds_total{why="queue"} 10.0',
        'setwise_reloads_total{outcome="done"} 10.0',
        'setwise_workers_lost_total{why="hung"} 10.0',
        'setwise_phase_seconds_sum{phase="rank"} 0.02',
        "setwise_queue_length 3.0",
        "setwise_workers 2.0",
        "setwise_items 300.0",
    ):
        assert sample in text
