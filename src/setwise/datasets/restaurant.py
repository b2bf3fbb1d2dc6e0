"""A simulated restaurant: dishes that help or hinder each other on a menu (the paper's Model 2), and its guests.

    P(guest û likes dish i of the menu S)  =  σ( v̂_i · û − 2 + Σ_{j∈S} H_ij )

v̂ has four independent normal coordinates. One pair of dishes in ten has an effect H_ij, also normal: as strong as
dishes are good, and not the same in both directions. These constants are those of the family "complementarity" of
``benchmarks/families.py``, and the offset −2 is that of the world of songs (``synthetic.py``): none was chosen by the
gain of a ranker here. The number of dishes was chosen so that the best menu can be proven best within a second.

A guest is a history of dishes: û is the sum of their v̂ at unit length. ``model/attention_sum.py`` constructs
the simple transformer that computes the sum over H.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.datasets.simulation import Simulation, sample, unit
from setwise.model.attention_sum import AttentionSum
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic

TASTE, HISTORY = 4, 5  # coordinates of v̂; dishes that a guest is known to have chosen
MENU = 20  # dishes of a menu for which the sums over H are right within ERROR
_DENSITY, _EFFECT, _OFFSET, _ERROR = 0.1, 1.0, -2.0, 1e-6

_PREPARATIONS = ["Charred", "Smoked", "Pickled", "Roast", "Braised", "Cured", "Grilled", "Steamed"]
_INGREDIENTS = {
    "vegetable": ["Leek", "Beetroot", "Fennel", "Squash", "Celeriac", "Chicory"],
    "fish": ["Mackerel", "Trout", "Squid", "Mussel", "Cod", "Sardine"],
    "meat": ["Duck", "Lamb", "Oxtail", "Quail", "Rabbit", "Venison"],
    "sweet": ["Quince", "Rhubarb", "Walnut", "Fig", "Cherry", "Chestnut"],
}


@dataclass(frozen=True, eq=False)
class Restaurant(Simulation):
    """n dishes with vectors v̂ (n, TASTE) and effects H (n, n), some guests, and the simple transformer of the model."""

    catalog: Catalog
    taste: Floats  # v̂
    effect: Floats  # H
    histories: Rows  # (guests, HISTORY)

    @classmethod
    def make(cls, n_items: int = 48, n_users: int = 100, seed: int = 0) -> Restaurant:
        """Generate a restaurant of any number of dishes and guests."""
        n, n_users = whole_number("n_items", n_items), whole_number("n_users", n_users)
        rng = np.random.default_rng(whole_number("seed", seed, least=0))
        taste = rng.normal(size=(n, TASTE))
        effect = rng.normal(scale=_EFFECT, size=(n, n)) * (rng.random((n, n)) < _DENSITY)
        np.fill_diagonal(effect, 0.0)
        sums = AttentionSum.within(effect, min(MENU, n), _ERROR)
        courses = list(_INGREDIENTS)
        catalog = sums.catalog(
            np.column_stack([taste, np.ones(n)]),
            Logistic(),
            [f"dish-{i}" for i in range(n)],
            {
                "title": [_title(i) for i in range(n)],
                "course": [courses[i % len(courses)] for i in range(n)],
                "price": 6 + rng.integers(0, 20, size=n),
            },
        )
        return cls(catalog, taste, effect, _histories(rng, taste, n_users))

    def new_histories(self, users: int, rng: np.random.Generator) -> Rows:
        """The histories of ``users`` new guests (users, HISTORY)."""
        return _histories(rng, self.taste, users)

    def _users(self, history: Rows) -> tuple[Floats, Floats]:
        """Heads are 1; the base is û and the offset."""
        base = np.hstack([unit(self.taste[history].sum(axis=1)), np.full((len(history), 1), _OFFSET)])
        return np.ones((len(history), 2, 1)), base

    def _liking(self, history: Rows) -> tuple[Floats, Floats]:
        return unit(self.taste[history].sum(axis=1)) @ self.taste.T, np.zeros(len(self.taste))


def _histories(rng: np.random.Generator, taste: Floats, users: int) -> Rows:
    """Dishes drawn with weights e^(v̂ · û) for random directions û."""
    direction = unit(rng.normal(size=(users, TASTE)))
    return sample(rng, direction @ taste.T, min(HISTORY, len(taste)))


def _title(number: int) -> str:
    """Distinct titles of a preparation and an ingredient; a numeral follows when the words run out."""
    kinds = list(_INGREDIENTS.values())
    turn, kind = divmod(number, len(kinds))
    round_, place = divmod(turn, len(kinds[kind]))
    again, preparation = divmod(round_, len(_PREPARATIONS))
    # Neighbouring numbers get different preparations.
    words = f"{_PREPARATIONS[(preparation + place + kind) % len(_PREPARATIONS)]} {kinds[kind][place]}"
    return words + (f" {again + 1}" if again else "")
