"""Choices: of a slate one item is chosen, or none, so that every item takes choices from the others.

    P(i | S) = w_i / (1 + X),   w_i = e^{u_i},   X = Σ_{j∈S} w_j     ⇔     logit P(i | S) = u_i − log(1 + X − w_i)

**The fit.** Were X known, this would be the regression of independent outcomes with an offset. So base and effects are
fitted as ever, and the offsets are computed again from the fit until they do not change. They start from the choices
between an item and nothing, whose probability w_i / (1 + w_i) no other item changes: the rows of slates without a
choice, and the chosen ones.

**The model of a set** has the reward e^u / (1 + X*), where X* is X of the best slate. Its value X / (1 + X*) orders
sets as the chance of a choice X / (1 + X) does, and is that chance for the best slate; it is lower for others.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats
from setwise.datasets.sessions import Slates
from setwise.model.ragged import Ragged
from setwise.model.rewards import Exp
from setwise.training.effects.columns import Shown
from setwise.training.effects.regression import Rows
from setwise.training.on_policy import optimised_slates
from setwise.training.slate_model import SlateModel

EXPECTED = 10.0  # slates with a second hit, were outcomes independent
WITHOUT = 0.02  # share of slates without a choice: with fewer the log does not say what a slate is worth
USERS = 20  # for whom X* is computed
LARGEST = 30.0  # log w


def are_choices(slates: Slates) -> bool:
    """Whether there is never a second hit, though some would be expected of independent outcomes."""
    hit = np.asarray(slates.outcome) > 0
    lengths = slates.shown.lengths
    rate = float(hit.mean())
    second = 1 - (1 - rate) ** lengths - lengths * rate * (1 - rate) ** (lengths - 1)
    return bool(np.bincount(slates.shown.owner, hit, len(slates)).max(initial=0) <= 1 and second.sum() > EXPECTED)


def some_without(slates: Slates) -> bool:
    """Whether enough slates have no choice for learning how much is chosen."""
    hits = np.bincount(slates.shown.owner, np.asarray(slates.outcome) > 0, len(slates))
    return bool((hits == 0).mean() > WITHOUT)


def against_nothing(rows: Rows, shown: Shown) -> Rows:
    """The rows of choices between an item and nothing; the others have no weight."""
    chosen_from = np.bincount(shown.owner, rows.outcome, len(shown.rows))[shown.owner] > 0
    weight = np.where(chosen_from & (rows.outcome == 0), 0.0, rows.weight)
    return Rows(rows.item, rows.outcome, rows.offset, weight, rows.items)


def offsets(utility: Floats, shown: Shown) -> Floats:
    """−log(1 + Σ_{j≠i} e^{u_j}) of every row."""
    weight = np.exp(np.minimum(utility, LARGEST))
    total = np.bincount(shown.owner, weight, len(shown.rows))[shown.owner]
    return np.asarray(-np.log1p(np.maximum(total - weight, 0.0)))


def model_of_choices(model: SlateModel, slates: Slates) -> SlateModel:
    """The model whose rewards are w_i, with the rewards w_i / (1 + X*) for users and sizes of these slates."""
    catalog, k = model.catalog(), min(int(np.median(slates.shown.lengths)), len(model.catalog()))
    drawn = slates.history.taken(np.linspace(0, len(slates) - 1, USERS).astype(int))
    history = drawn if len(drawn.values) else drawn.taken([0])
    best = optimised_slates(catalog, list(model.users(history)), list(history), k)
    shown = Ragged.of(best)
    attraction = np.exp(model.arguments(history, shown))
    total = np.bincount(shown.owner, attraction, len(shown))
    return model.with_reward(Exp(1.0, float(-np.log1p(total.mean()))), {"choices": True})
