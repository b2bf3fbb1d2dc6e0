"""Logs from which nothing can be learned, or from which too much seems to be: what is said of them."""

from __future__ import annotations

import numpy as np

from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput

SORTED, FEWEST = 0.95, 50  # the share of slates whose places sort the outcomes, of so many or more


def require_places(slates: Slates) -> None:
    """Refuse places that were computed from the outcomes: nearly all slates then have their hits first, or last."""
    if slates.place is None:
        return
    place, owner = np.asarray(slates.place), slates.shown.owner
    hit, count = np.asarray(slates.outcome) > 0, len(slates)
    first, last = (np.full((2, count), edge) for edge in (np.iinfo(np.int64).max, -1))
    np.minimum.at(first, (hit.astype(int), owner), place)
    np.maximum.at(last, (hit.astype(int), owner), place)
    mixed = (last[0] >= 0) & (last[1] >= 0)
    if mixed.sum() < FEWEST:
        return
    share = max(float((last[1] < first[0])[mixed].mean()), float((last[0] < first[1])[mixed].mean()))
    if share > SORTED:
        got = f"places that sort the outcomes of {share:.0%} of the slates"
        todo = "use the places that users saw, or leave the position out"
        raise InvalidInput("position", "known before the outcomes", got, todo)


def notes_on(slates: Slates) -> list[str]:
    """What makes a log worthless for effects, or suspicious."""
    outcome = np.asarray(slates.outcome)
    notes = []
    if (outcome == outcome[0]).all():
        notes.append(f"Every outcome is {outcome[0]:g}: there is nothing to learn from.")
    rows, filled = slates.shown.padded(max(1, int(slates.shown.lengths.max(initial=0))))
    distinct = len(np.unique(np.sort(np.where(filled, rows, -1), axis=1), axis=0))
    if distinct == 1 and len(slates) > 1:
        notes.append("All slates are the same: what items do to each other cannot be learned from one company.")
    elif int(slates.shown.lengths.max(initial=0)) == 1:
        notes.append("Every slate has one item: what items do to each other cannot be learned from it.")
    return notes
