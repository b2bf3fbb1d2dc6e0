"""Prometheus metrics: requests, seconds by phase and shard, gaps, shed requests, reloads, workers, and outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from setwise.storage.slate_log import Totals

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_SHARES = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one service; services in one process share nothing."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        to: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter("setwise_requests", "Responses by route and status.", ["route", "status"], **to)
        phases = Histogram("setwise_phase_seconds", "Seconds by phase of a request.", ["phase"], buckets=_SECONDS, **to)
        self._gaps = Histogram("setwise_gap", "The certified gap of the slates.", buckets=_SHARES, **to)
        self._sheds = Counter("setwise_sheds", "Requests that were shed, by reason.", ["why"], **to)
        self._degraded = Counter("setwise_degraded", "Degraded requests, by the last that they lost.", ["lost"], **to)
        self._groups = Histogram("setwise_micro_batch", "Requests computed together.", buckets=_SIZES, **to)
        self._reloads = Counter("setwise_reloads", "Reloads by outcome.", ["outcome"], **to)
        self._lost = Counter("setwise_workers_lost", "Workers that ended or were replaced, by reason.", ["why"], **to)
        shards = Histogram("setwise_shard_seconds", "Seconds of calls, by shard.", ["shard"], buckets=_SECONDS, **to)
        self._shard_failures = Counter("setwise_shard_failures", "Calls of a shard that failed.", ["shard"], **to)
        self._partial = Counter("setwise_partial_slates", "Slates that lack the items of a shard.", **to)
        self._queue = Gauge("setwise_queue_length", "Requests in the queue.", **to)
        self._workers = Gauge("setwise_workers", "Workers that are ready.", **to)
        self._items = Gauge("setwise_items", "Items of the catalogue that is served.", **to)
        self._outcomes = Counter("setwise_outcomes", "Outcomes received: new, repeated or unknown.", ["kind"], **to)
        self._unlogged = Counter("setwise_unlogged_slates", "Slates that could not be logged.", **to)
        self._settled = Gauge("setwise_settled_slates", "Logged slates of a week that had time for outcomes.", **to)
        self._promised = Gauge("setwise_promised_hits", "Predicted hits of such a slate.", **to)
        self._had = Gauge("setwise_had_hits", "Observed hits of such a slate.", **to)
        self._drift = Gauge("setwise_drift", "Observed by predicted hits of these slates, less one.", **to)
        self._drift_errors = Gauge("setwise_drift_standard_errors", "The same difference in standard errors.", **to)
        self._of_route = cache(self._requests.labels)  # a label lookup is half of the cost of a count
        self._of_phase = cache(phases.labels)
        self._of_shard = cache(shards.labels)

    def watch(self, queued: Callable[[], float], workers: Callable[[], float], items: Callable[[], float]) -> None:
        """Read the gauges from these functions whenever the metrics are scraped."""
        self._queue.set_function(queued)
        self._workers.set_function(workers)
        self._items.set_function(items)

    def count_response(self, route: str, status: int) -> None:
        """Count a response whose head was sent."""
        self._of_route(route, str(status)).inc()

    def observe_slate(self, timings: Mapping[str, float], gap: float | None) -> None:
        """Observe a slate: milliseconds by phase, and its gap where it is certified."""
        for phase, milliseconds in timings.items():
            self._of_phase(phase).observe(milliseconds / 1000)
        if gap is not None:
            self._gaps.observe(gap)

    def observe_shards(self, calls: Sequence[tuple[int, float | None]], partial: int) -> None:
        """Observe calls of shards, with their seconds or None where one failed; and slates without some shard."""
        for shard, seconds in calls:
            if seconds is None:
                self._shard_failures.labels(str(shard)).inc()
            else:
                self._of_shard(str(shard)).observe(seconds)
        if partial:
            self._partial.inc(partial)

    def count_shed(self, why: str) -> None:
        """Count a request that was shed."""
        self._sheds.labels(why).inc()

    def count_degraded(self, lost: str, requests: int) -> None:
        """Count requests that were degraded under load."""
        self._degraded.labels(lost).inc(requests)

    def observe_group(self, size: int) -> None:
        """Observe how many requests one worker computes together."""
        self._groups.observe(size)

    def count_reload(self, outcome: str) -> None:
        """Count a reload."""
        self._reloads.labels(outcome).inc()

    def count_lost_worker(self, why: str) -> None:
        """Count a worker that ended, or was killed because it hung."""
        self._lost.labels(why).inc()

    def count_outcomes(self, new: int, repeated: int, unknown: int) -> None:
        """Count outcomes that were received."""
        for kind, number in (("new", new), ("repeated", repeated), ("unknown", unknown)):
            self._outcomes.labels(kind).inc(number)

    def count_unlogged(self, slates: int) -> None:
        """Count slates that were served and could not be logged."""
        self._unlogged.inc(slates)

    def set_drift(self, total: Totals) -> None:
        """Set what slates promised and had; no number where there are too few."""
        slates, known = max(total.slates, 1), total.slates > 0
        self._settled.set(total.slates)
        self._promised.set(total.promised / slates if known else math.nan)
        self._had.set(total.had / slates if known else math.nan)
        self._drift.set(total.had / total.promised - 1 if total.promised > 0 else math.nan)
        self._drift_errors.set(total.difference / total.error if known and total.error > 0 else math.nan)

    def responses(self) -> int:
        """How many responses were counted."""
        samples = (sample for family in self._requests.collect() for sample in family.samples)
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
