"""Logs from which nothing can be learned, or from which too much seems to be: what is said of them."""

from __future__ import annotations

import numpy as np

from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.training.effects.choice import are_choices, some_without
from setwise.training.effects.features import Features

OFTEN, FEWEST_ITEMS, LEAKED = 5, 20, 0.9  # times that items are shown, so many items, and the correlation at least
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


def never_differs(slates: Slates) -> bool:
    """Whether all outcomes are the same."""
    return not np.ptp(slates.outcome)


def _leaks(slates: Slates, features: Features) -> list[str]:
    """Numbers of the items that are their mean outcome in this log."""
    items = slates.shown.values
    shown = np.bincount(items, minlength=slates.n_items)
    often = shown >= OFTEN
    if often.sum() < FEWEST_ITEMS or never_differs(slates):
        return []
    rate = np.bincount(items, slates.outcome, slates.n_items)[often] / shown[often]
    noise = float(np.mean(rate * (1 - rate) / shown[often]))
    honest = np.sqrt(max(1 - noise / max(float(rate.var()), 1e-12), 0.0))  # of the true rates with those of the log
    alike = {number.name: np.corrcoef(number.x[often], rate)[0, 1] for number in features.numbers}
    return [
        f"'{name}' is nearly the mean outcome of every item in this log (correlation {value:.3f}): if it was computed "
        "from it, predictions look better than they are. Leave it out, or compute it from earlier data."
        for name, value in alike.items()
        if abs(value) > max(LEAKED, (1 + honest) / 2)
    ]


def notes_on(slates: Slates, features: Features) -> list[str]:
    """What makes a log worthless for effects, or suspicious."""
    outcome = np.asarray(slates.outcome)
    notes = _leaks(slates, features)
    if slates.place is not None and not np.ptp(slates.place):
        notes.append("All items have the same position: places are not learned.")
    if never_differs(slates):
        notes.append(f"Every outcome is {outcome[0]:g}: there is nothing to learn from.")
    if are_choices(slates):
        notes.append(
            "No slate has more than one hit, so outcomes are choices: what is chosen is taken from the other items, "
            "and the value of a slate is the chance of a choice."
            if some_without(slates)
            else "Every slate has one hit, so outcomes are choices, and the log does not say when nothing is chosen: "
            "the value of a slate counts every item as if the others were not chosen, and is too high."
        )
    rows, filled = slates.shown.padded(max(1, int(slates.shown.lengths.max(initial=0))))
    distinct = len(np.unique(np.sort(np.where(filled, rows, -1), axis=1), axis=0))
    if distinct == 1 and len(slates) > 1:
        notes.append("All slates are the same: what items do to each other cannot be learned from one company.")
    elif int(slates.shown.lengths.max(initial=0)) == 1:
        notes.append("Every slate has one item: what items do to each other cannot be learned from it.")
    return notes
