"""The Trivago task: which of five hotels was clicked, given fifteen others of the list.

The paper learns a vector for every hotel from about 900,000 sessions. Here are 13,596 clicks of 7,612 whole sessions
over 106,866 hotels: a hotel is in three lists on average, too few to learn it. What recurs is the position of a hotel
in the list, its price relative to the others, and whether the user looked at it before in the session. An item here is
such a (position, price decile, looked at) triple, and its vector encodes these three. No model sees more.

A list of at least 20 hotels gives a slate of the clicked hotel and four others of the list, at random, and fifteen more
as history: the paper's 15 and 5. A guess is right once in five times. ``literal`` slates are the hotels 16 to 20 of a
list after its first 15, the paper's own cut, if the click is among them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from representation import Network, arguments

from setwise.datasets.sessions import Slates
from setwise.datasets.splits import random_split
from setwise.model.ragged import Ragged
from setwise.training.trainer import Schedule, train

PLACES, DECILES = 25, 10
ITEMS = PLACES * DECILES * 2
HISTORY, SIZE = 15, 5

Scorer = Callable[[Slates], NDArray[np.float64]]  # a number for every hotel shown
Scorers = dict[tuple[str, str], Scorer]  # by model and kind


def read_lists(path: Path, most: int | None = None) -> Slates:
    """Every list whose click is in it, at most ``most``; ids are the triples."""
    # Prices are read here, list by list: a table of items would keep one price of a hotel, not that of the list.
    cells, outcome = [], []
    for hotels, prices, clicked, looked in islice(_clickouts(path), most):
        price = np.array(prices, float)
        decile = np.argsort(np.argsort(price, kind="stable")) * DECILES // len(price)
        place = np.minimum(np.arange(len(price)), PLACES - 1)
        cells.append((place * DECILES + decile) * 2 + np.array([hotel in looked for hotel in hotels]))
        outcome.append(np.arange(len(price)) == hotels.index(clicked))
    ids = [(number // 2 // DECILES, number // 2 % DECILES, number % 2) for number in range(ITEMS)]
    no_history = Ragged.cut([], np.zeros(len(cells), np.int64))
    return Slates(no_history, Ragged.of(cells), np.concatenate(outcome).astype(np.float32), ids)


def _clickouts(path: Path) -> Iterator[tuple[list[str], list[str], str, set[str]]]:
    """The hotels of a list, their prices, the one clicked, and those looked at before; sessions are consecutive."""
    session, looked = "", set[str]()
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["session_id"] != session:
                session, looked = row["session_id"], set()
            hotels = row["impressions"].split("|")
            if row["action_type"] == "clickout item" and row["reference"] in hotels:
                yield hotels, row["prices"].split("|"), row["reference"], looked
            looked.add(row["reference"])


def vectors() -> NDArray[np.float32]:
    """What an item is: its place on three scales, its price decile on two, and whether it was looked at."""
    cell, looked = np.divmod(np.arange(ITEMS), 2)
    place, decile = np.divmod(cell, DECILES)
    columns = (1 / (1 + place), place / PLACES, place == 0, decile / DECILES, decile == 0, looked)
    raw = np.stack(columns, axis=1).astype(np.float64)
    return np.asarray((raw - raw.mean(0)) / raw.std(0), np.float32)


def fives(lists: Slates, seed: int) -> Slates:
    """The clicked hotel and four others in random order, and fifteen more as history."""
    long = lists.taken(np.flatnonzero(lists.shown.lengths >= HISTORY + SIZE))
    rng = np.random.default_rng(seed)
    # Clicked hotels first, the others in random order; of that the first five, then the next fifteen.
    order = np.lexsort((rng.random(len(long.outcome)), -long.outcome, long.shown.owner))
    first = order[long.shown.offsets[:-1, None] + np.arange(HISTORY + SIZE)]
    return _cut(long, rng.permuted(first[:, :SIZE], axis=1), first[:, SIZE:])


def literal(lists: Slates) -> Slates:
    """Hotels 16 to 20 after the first fifteen, of the lists whose click is among them."""
    long = lists.taken(np.flatnonzero(lists.shown.lengths >= HISTORY + SIZE))
    places = long.shown.offsets[:-1, None] + np.arange(HISTORY + SIZE)
    hit = long.outcome[places[:, HISTORY:]].any(axis=1)
    return _cut(long, places[hit, HISTORY:], places[hit, :HISTORY])


def _cut(lists: Slates, shown: NDArray[np.int64], history: NDArray[np.int64]) -> Slates:
    """Slates of these entries (B, 5) and histories of those (B, 15)."""
    values = lists.shown.values
    return Slates(
        Ragged.cut(values[history].ravel(), np.full(len(history), history.shape[1])),
        Ragged.cut(values[shown].ravel(), np.full(len(shown), shown.shape[1])),
        lists.outcome[shown].ravel(),
        lists.ids,
    )


def network_scorer(make: Callable[[], Network], training: Slates, validation: Slates, schedule: Schedule) -> Scorer:
    """What a network thinks of the hotels shown, once it has learned which of five was clicked."""
    torch.manual_seed(schedule.seed)
    network, held_out = make(), fives(validation, schedule.seed)
    train(network, lambda epoch: fives(training, epoch), held_out, "choice", schedule, progress=False)
    return lambda slates: arguments(network, slates)


def cross_validated(
    lists: Slates, seed: int, folds: int, fitted: Callable[[Slates, Slates, int], Scorers]
) -> dict[tuple[str, str, str], NDArray[np.bool_]]:
    """By slates, model and kind: was the click found? Each list is in the one fold that was not learned from."""
    hits: dict[tuple[str, str, str], list[NDArray[np.bool_]]] = {}
    for fold, held in enumerate(random_split(len(lists), [1 / folds] * folds, seed)):
        rest, tested = np.setdiff1d(np.arange(len(lists)), held), lists.taken(held)
        validation, training = (lists.taken(rest[part]) for part in random_split(len(rest), (0.2, 0.8), seed))
        tests = {"five of the list": fives(tested, seed), "hotels 16 to 20": literal(tested)}
        for model, score in fitted(training, validation, folds * seed + fold).items():
            for name, test in tests.items():
                hits.setdefault((name, *model), []).append(_found(score(test), test))
    return {name: np.concatenate(found) for name, found in hits.items()}


def _found(score: NDArray[np.float64], slates: Slates) -> NDArray[np.bool_]:
    """Whether the highest score of each slate is the hotel clicked."""
    order = np.lexsort((-score, slates.shown.owner))
    return np.asarray(slates.outcome[order[slates.shown.offsets[:-1]]] > 0.5)
