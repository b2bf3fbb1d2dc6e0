"""Whoever asks sees everything that has happened; and notes do not pile up where nobody asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from setwise.service.metrics import _MANY, Metrics


@given(st.lists(st.sampled_from([200, 400, 503]), max_size=3 * _MANY), st.integers(1, 2 * _MANY))
def test_all_that_happened_is_counted_once(statuses: list[int], every: int) -> None:
    metrics = Metrics()
    for number, status in enumerate(statuses, 1):
        metrics.answered("/v1/recommend", status)
        if number % every == 0:
            assert metrics.total() == number
    text = metrics.text().decode()
    for status in {*statuses}:
        counted = f'setwise_requests_total{{route="/v1/recommend",status="{status}"}} {statuses.count(status)}.0'
        assert counted in text
    assert metrics.total() == len(statuses)


def test_a_service_that_nobody_asks_keeps_few_notes() -> None:
    metrics = Metrics()
    for _ in range(10 * _MANY):
        metrics.slate({"rank": 1.0}, 0.1)
        metrics.together(1)
        metrics.shed("queue")
        assert len(metrics._notes) < _MANY
    text = metrics.text().decode()
    for name in ("setwise_gap_count", "setwise_micro_batch_count", 'setwise_sheds_total{why="queue"}'):
        assert f"{name} {10 * _MANY}.0" in text
    assert f'setwise_phase_seconds_sum{{phase="rank"}} {10 * _MANY / 1000}' in text
