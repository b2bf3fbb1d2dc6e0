"""What requests lose under load, so that they are answered in time: first the certificate, then the search.

    FULL         everything that was asked for
    UNCERTIFIED  no upper bound, and 40 % of the budget
    GREEDY       a twentieth of the budget: the default ranker in place of one that searches, which then hardly does
                 more than to grow its first set greedily, in compiled code (the ranker "greedy" would take longer)

Where neither the request nor the service has a budget, these are shares of ``USUAL_MS``. A deadline that is nearer than
the budget, or than ``USUAL_MS``, only stops the searches (recommend/clock.py); the answer lists the time as left out.

A request that is dispatched loses as little as the queue allows. With t_l the mean seconds of a request at level l, W
workers and n requests behind it in a queue of N places, l is the first level with

    n · t_l / W  ≤  ¼ · deadline    and    n ≤ q_l · N,    q_FULL = ⅛, q_UNCERTIFIED = ¼,

and the last one if there is none. The second condition leaves places free: where requests are short, the queue is full,
and refuses, long before it would take a quarter of the deadline. A request that arrives is refused (503) if there is no
place, or if even greedy would leave it too late: n · t_GREEDY / W > ½ · deadline. The means are measured all the time,
so no rate has to be configured.
"""

from __future__ import annotations

from setwise.service.settings import Settings

FULL, UNCERTIFIED, GREEDY = range(3)
BUDGET_SHARES = (1.0, 0.4, 0.05)  # of the budget, by level; the first guesses of the mean times too
SEARCH, TIME = "search", "time"  # what an answer lists as left out, beside the certificate
USUAL_MS = 100.0  # that a request without a budget takes, about: the bound's are most of them
QUEUED_SHARE = 0.25  # of the deadline that the requests in the queue may take
PLACES_SHARES = (1 / 8, 1 / 4)  # of the places in the queue, by level: beyond it requests lose more
REFUSED_SHARE = 0.5  # of the deadline: beyond it a request is refused
_LATEST = 0.1  # weight of the latest group in a mean


class Pace:
    """The mean time of a request at each level, and what follows from it."""

    def __init__(self, settings: Settings) -> None:
        self._workers, self._deadline_s = settings.worker_count, settings.deadline_ms / 1000
        self._mean_s = [share * (settings.budget_ms or USUAL_MS) / 1000 for share in BUDGET_SHARES]
        self._places = [share * settings.queue for share in PLACES_SHARES]

    def observe(self, level: int, seconds: float) -> None:
        """A worker has computed requests at this level, with so many seconds for each."""
        self._mean_s[level] += _LATEST * (seconds - self._mean_s[level])

    def level(self, queued: int) -> int:
        """The level of the next request, with so many behind it."""
        for level, places in enumerate(self._places):
            if queued <= places and self.wait_s(queued, level) <= QUEUED_SHARE * self._deadline_s:
                return level
        return GREEDY

    def refuses(self, queued: int) -> bool:
        """Whether a request behind so many others would be answered too late."""
        return self.wait_s(queued, GREEDY) > REFUSED_SHARE * self._deadline_s

    def wait_s(self, queued: int, level: int) -> float:
        """Seconds until so many requests are computed at this level; a lower level never takes longer."""
        return queued * min(self._mean_s[: level + 1]) / self._workers
