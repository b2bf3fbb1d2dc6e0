"""Worlds whose truth is known: what the items of a slate do to each other, and a log that shows it or hides it.

A world has items with a category, a brand, a price and a vector. An item i of a slate S is liked with the probability

    σ(quality_i + taste of the user for the category of i + Σ effects of S on i),

independently of the others; or it is chosen alone with the probability w_i / (1 + Σ_S w), w the odds of the same
logit less ``RARE``, where outcomes are choices. ``FORMS`` lists the effects, one world each. The log is of slates that
are random, or half of them of few categories; or a policy that knows the taste of its user chooses all slates but an
explored share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setwise.datasets.sessions import Slates
from setwise.model.ragged import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Effect = Callable[["World", Ints], Floats]  # (B, k) of slates (B, k)

ITEMS, CATEGORIES, BRANDS, DIM, SIZE = 300, 10, 20, 8, 6
RARE = 0.7  # log-odds
TASTES = 200  # users over whom the worth of a slate is averaged


@dataclass(eq=False)
class World:
    """Items, their attributes and the effect of one form and strength; all from the seed."""

    effect: Effect
    strength: float
    seed: int
    taste: float = 0.0  # the standard deviation of a user's taste for a category, in log-odds
    place: float = 0.0  # what each further place of a slate costs
    choices: bool = False  # whether one item of a slate is chosen, or none
    items: int = ITEMS
    categories: int = CATEGORIES
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng((self.seed, 17))
        self.category = rng.integers(self.categories, size=self.items)
        self.brand = rng.integers(BRANDS, size=self.items)
        self.price = np.exp(rng.normal(3.0, 0.5, self.items))
        self.vector = rng.normal(size=(self.items, DIM))
        self.vector /= np.linalg.norm(self.vector, axis=1, keepdims=True)
        self.quality = rng.normal(-1.0, 0.6, self.items) + rng.normal(0, 0.3, self.categories)[self.category]
        self.pairs = rng.choice((-1.0, 0.0, 1.0), p=(0.2, 0.6, 0.2), size=(self.categories, self.categories))
        self.users = rng.normal(0, self.taste, (TASTES, self.categories)) if self.taste else np.zeros((1, 1))

    def logits(self, rows: Ints) -> Floats:
        """Of the items of slates (B, k), in the order of their places, but for taste."""
        places = self.place * np.arange(rows.shape[1])
        return np.asarray(self.quality[rows] + self.strength * self.effect(self, rows) + places)

    def worth(self, rows: Ints) -> Floats:
        """Expected likes of slates (B, k), over the users."""
        logit = self.logits(rows)
        if not self.taste:
            return np.asarray(self.chances(logit).sum(axis=1))
        total = np.zeros(len(rows))
        for user in self.users:
            total += self.chances(logit + user[self.category[rows]]).sum(axis=1)
        return total / len(self.users)

    def chances(self, logit: Floats) -> Floats:
        """The probabilities that the items of slates (B, k) are liked, or chosen."""
        if not self.choices:
            return sigmoid(logit)
        weight = np.exp(logit - RARE)
        return np.asarray(weight / (1 + weight.sum(axis=1, keepdims=True)))

    def best(self, k: int = SIZE, starts: int = 6) -> Ints:
        """The best slate that swaps find from several starts, under the truth."""
        rng = np.random.default_rng(self.seed)
        first = [np.argsort(-self.quality)[:k], *(rng.permutation(self.items)[:k] for _ in range(starts - 1))]
        found = [self._climbed(rows) for rows in first]
        return max(found, key=lambda rows: float(self.worth(rows[None])[0]))

    def _climbed(self, rows: Ints) -> Ints:
        worth = float(self.worth(rows[None])[0])
        while True:
            others = np.setdiff1d(np.arange(self.items), rows)
            near = np.repeat(rows[None], len(rows) * len(others), axis=0)
            near[np.arange(len(near)), np.repeat(np.arange(len(rows)), len(others))] = np.tile(others, len(rows))
            value = self._screened(near)
            if value.max() <= worth + 1e-9:
                return rows
            rows, worth = near[int(value.argmax())], float(value.max())

    def _screened(self, rows: Ints) -> Floats:
        """``worth``; with taste only of the slates that look best for the average user."""
        if not self.taste:
            return self.worth(rows)
        rough = sigmoid(self.logits(rows)).sum(axis=1)
        value, top = np.full(len(rows), -np.inf), np.argsort(-rough)[:200]
        value[top] = self.worth(rows[top])
        return value

    # --- logs ---

    def log(self, count: int, explored: float = 1.0, k: int = SIZE, seed: int = 0) -> Log:
        """Slates: explored ones are random, the others are what a policy shows that knows the user's taste.

        Without taste the other half are of two categories and a few further items.
        """
        rng = np.random.default_rng((self.seed, seed, 23))
        taste = rng.normal(0, self.taste, (count, self.categories))
        random = rng.random(count) < (explored if self.taste else 0.5)
        noise = rng.gumbel(size=(count, self.items))
        score = np.where(random[:, None], 0.0, self._shown_first(taste, rng)) + noise
        rows = np.argsort(-score, axis=1)[:, :k]
        rows = rng.permuted(rows, axis=1)
        logit = self.logits(rows) + taste[np.arange(count)[:, None], self.category[rows]]
        chance = self.chances(logit)
        drawn = rng.random((count, 1) if self.choices else rows.shape)
        if self.choices:
            last = chance.cumsum(axis=1)
            clicks = (drawn < last) & (drawn >= last - chance)
        else:
            clicks = drawn < chance
        return Log(rows, clicks.astype(np.float32), random, self)

    def _shown_first(self, taste: Floats, rng: np.random.Generator) -> Floats:
        if self.taste:
            return np.asarray(1.5 * self.quality + 2.5 * taste[:, self.category])
        favourite = rng.integers(self.categories, size=len(taste))
        return np.asarray(np.where(self.category == favourite[:, None], 3.5, 0.0))


@dataclass(frozen=True, eq=False)
class Log:
    """Slates (count, k) with what was liked; ``explored`` says which slates were random."""

    rows: Ints
    clicks: NDArray[np.float32]
    explored: NDArray[np.bool_]
    world: World

    def slates(self, places: bool = False, explored: bool = False) -> Slates:
        """For training: the ids are i0, i1 and so on."""
        world, (count, k) = self.world, self.rows.shape
        lengths = np.full(count, k)
        return Slates(
            Ragged.cut(np.empty(0, np.int64), np.zeros(count, np.int64)),
            Ragged.cut(self.rows.ravel(), lengths),
            self.clicks.ravel(),
            [f"i{number}" for number in range(world.items)],
            {
                "category": [f"c{one}" for one in world.category],
                "brand": [f"b{one}" for one in world.brand],
                "price": world.price,
            },
            place=np.tile(np.arange(k), count) if places else None,
            explored=self.explored if explored else None,
        )


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^−x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


# --- effects: (B, k) in units of the strength ---


def nothing(world: World, rows: Ints) -> Floats:
    """No effect."""
    return np.zeros(rows.shape)


def same_category(world: World, rows: Ints) -> Floats:
    """The number of further items of the same category."""
    return _others_equal(world.category[rows])


def same_brand(world: World, rows: Ints) -> Floats:
    """The number of further items of the same brand."""
    return _others_equal(world.brand[rows])


def any_of_category(world: World, rows: Ints) -> Floats:
    """Whether there is a further item of the same category."""
    return np.minimum(_others_equal(world.category[rows]), 1.0)


def category_pairs(world: World, rows: Ints) -> Floats:
    """The sum over the others of a random sign for the two categories."""
    category = world.category[rows]
    table = world.pairs[category[:, :, None], category[:, None, :]]
    return np.asarray(table.sum(axis=2) - world.pairs[category, category])


def dearer(world: World, rows: Ints) -> Floats:
    """By how much the log price is above the mean of the others'."""
    price = np.log(world.price)[rows]
    k = rows.shape[1]
    return np.asarray(price - (price.sum(axis=1, keepdims=True) - price) / (k - 1))


def near_copies(world: World, rows: Ints) -> Floats:
    """The sum over the others of the cosine, where it is positive."""
    vector = world.vector[rows]
    cosine = np.maximum(vector @ vector.transpose(0, 2, 1), 0.0)
    return np.asarray(cosine.sum(axis=2) - 1.0)


def four_of_category(world: World, rows: Ints) -> Floats:
    """Whether four or more items of the slate share this item's category."""
    return (_others_equal(world.category[rows]) >= 3).astype(float)


def _others_equal(label: Ints) -> Floats:
    return np.asarray((label[:, :, None] == label[:, None, :]).sum(axis=2) - 1.0)


FORMS: dict[str, tuple[Effect, float, float]] = {  # effect, strength, place
    "none": (nothing, 0.0, 0.0),
    "same category": (same_category, -1.4, 0.0),
    "any of the category": (any_of_category, -1.5, 0.0),
    "category pairs": (category_pairs, 1.2, 0.0),
    "dearer": (dearer, -1.5, 0.0),
    "same brand and place": (same_brand, -1.5, -0.35),
    "near copies": (near_copies, -1.8, 0.0),
}
