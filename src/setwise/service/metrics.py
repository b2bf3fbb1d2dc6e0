"""What Prometheus may ask: how many, how long by phase, how good, how much was turned away.

What happens is noted, and counted when somebody asks or many notes have come together: to count needs much code that a
request does not, and that is fetched from memory each time. Whoever asks sees everything that has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_SHARES = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MANY = 64  # notes
_What = ParamSpec("_What")


def _noted(count: Callable[Concatenate[Metrics, _What], None]) -> Callable[Concatenate[Metrics, _What], None]:
    """A count that waits for others."""

    @wraps(count)
    def note(self: Metrics, /, *what: _What.args, **named: _What.kwargs) -> None:
        self._notes.append(partial(count, self, *what, **named))
        if len(self._notes) >= _MANY:
            self._count()

    return note


class Metrics:
    """The service's own counters; nothing is shared between services of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._notes: list[Callable[[], None]] = []
        to: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter("setwise_requests", "Requests by route and status.", ["route", "status"], **to)
        phases = Histogram("setwise_phase_seconds", "Seconds by phase of a request.", ["phase"], buckets=_SECONDS, **to)
        self._gaps = Histogram("setwise_gap", "The certified gap of the slates.", buckets=_SHARES, **to)
        self._sheds = Counter("setwise_sheds", "Requests turned away: queue full, or deadline passed.", ["why"], **to)
        self._together = Histogram("setwise_micro_batch", "Requests computed together.", buckets=_SIZES, **to)
        self._reloads = Counter("setwise_reloads", "Reloads by outcome.", ["outcome"], **to)
        self._queue = Gauge("setwise_queue_length", "Requests that wait to be computed.", **to)
        self._items = Gauge("setwise_items", "Items of the catalogue that is served.", **to)
        self._of_route = cache(self._requests.labels)  # to look a label up is half of what a count costs
        self._of_phase = cache(phases.labels)

    def watch(self, waiting: Callable[[], float], items: Callable[[], float]) -> None:
        """Where the two gauges are read when somebody asks."""
        self._queue.set_function(waiting)
        self._items.set_function(items)

    @_noted
    def answered(self, route: str, status: int) -> None:
        """A response was begun."""
        self._of_route(route, str(status)).inc()

    @_noted
    def slate(self, timings: Mapping[str, float], gap: float | None) -> None:
        """A slate went out: its phases in milliseconds, and its gap where it is certified."""
        for phase, milliseconds in timings.items():
            self._of_phase(phase).observe(milliseconds / 1000)
        if gap is not None:
            self._gaps.observe(gap)

    @_noted
    def shed(self, why: str) -> None:
        """A request was turned away."""
        self._sheds.labels(why).inc()

    @_noted
    def together(self, count: int) -> None:
        """So many requests were computed in one go."""
        self._together.observe(count)

    @_noted
    def reloaded(self, outcome: str) -> None:
        """A reload ended."""
        self._reloads.labels(outcome).inc()

    def total(self) -> int:
        """How many responses were begun."""
        self._count()
        samples = (sample for family in self._requests.collect() for sample in family.samples)
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        self._count()
        return generate_latest(self._registry)

    def _count(self) -> None:
        notes, self._notes = self._notes, []
        for count in notes:
            count()
