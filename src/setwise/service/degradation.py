"""What requests lose under load, so that they are answered in time: first the certificate, then the search.

    FULL         everything that was asked for
    UNCERTIFIED  no upper bound, and 40 % of the budget
    GREEDY       a tenth of the budget: the default ranker in place of one that searches, which then hardly does more
                 than to grow its first set greedily, in compiled code (the ranker "greedy" itself would take longer)

A request that is dispatched loses as little as the queue allows. With t_l the mean seconds of a request at level l, W
workers and n requests in the queue behind it, l is the first level with

    n · t_l / W  ≤  ¼ · deadline

and the last one if there is none. A request that arrives is refused (503) if even greedy would leave it too late:
n · t_GREEDY / W > ½ · deadline. The means are measured all the time, so no rate has to be configured.
"""

from __future__ import annotations

from setwise.service.settings import Settings

FULL, UNCERTIFIED, GREEDY = LEVELS = (0, 1, 2)
BUDGET_SHARES = (1.0, 0.4, 0.1)  # of the budget, by level; the first guesses of the mean times too
CERTIFICATE, SEARCH = "certificate", "search"  # what an answer lists as left out
QUEUED_SHARE = 0.25  # of the deadline that the requests in the queue may take
REFUSED_SHARE = 0.5  # of the deadline: beyond it a request is refused
_LATEST = 0.1  # weight of the latest group in a mean


class Pace:
    """The mean time of a request at each level, and what follows from it."""

    def __init__(self, settings: Settings) -> None:
        self._workers, self._deadline_s = settings.worker_count, settings.deadline_ms / 1000
        self._mean_s = [share * settings.budget_ms / 1000 for share in BUDGET_SHARES]

    def observe(self, level: int, seconds: float) -> None:
        """A worker has computed requests at this level, with so many seconds for each."""
        self._mean_s[level] += _LATEST * (seconds - self._mean_s[level])

    def level(self, queued: int) -> int:
        """The level of the next request, with so many behind it."""
        fitting = (level for level in LEVELS if self.wait_s(queued, level) <= QUEUED_SHARE * self._deadline_s)
        return next(fitting, GREEDY)

    def refuses(self, queued: int) -> bool:
        """Whether a request behind so many others would be answered too late."""
        return self.wait_s(queued, GREEDY) > REFUSED_SHARE * self._deadline_s

    def wait_s(self, queued: int, level: int) -> float:
        """Seconds until so many requests are computed at this level; a lower level never takes longer."""
        return queued * min(self._mean_s[: level + 1]) / self._workers
