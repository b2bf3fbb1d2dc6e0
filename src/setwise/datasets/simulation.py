"""What simulated data sets share: true users and values, and a log of slates with outcomes to learn from.

A simulation has a true catalogue, a simple transformer whose rewards are probabilities. A user is a history. The log
holds histories of new users, slates drawn by a policy that ignores interactions, and outcomes drawn with the true
probabilities; ``expected`` gives these for any slate. Everything is determined by seeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import SLATE_SIZE, Floats, Rows
from setwise._validation import real_number, whole_number
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.batch_objective import many_arguments
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.model.users import User

_CHUNK = 2000  # users drawn at a time


class Simulation(ABC):
    """A true catalogue, the histories of some users, and how new users, slates and outcomes are drawn."""

    catalog: Catalog
    histories: Rows  # (users, T): the items each user knows

    @abstractmethod
    def new_histories(self, users: int, rng: np.random.Generator) -> Rows:
        """The histories of ``users`` new users (users, T)."""

    @abstractmethod
    def _users(self, history: Rows) -> tuple[Floats, Floats]:
        """The users of histories (B, T): heads (B, H, d_v) and base (B, d_0)."""

    @abstractmethod
    def _liking(self, history: Rows) -> tuple[Floats, Floats]:
        """What the logging policy knows: how much the users of the histories like each item (B, n), and fame (n,)."""

    def user(self, history: ArrayLike) -> User:
        """The true user of the history (rows)."""
        heads, base = self._users(self.catalog.items(history)[None])
        return User(heads=heads[0], base=base[0])

    def log(self, n_slates: int, k: int = SLATE_SIZE, greed: float = 12.0, seed: int = 0) -> Slates:
        """Histories, slates of k items and outcomes of ``n_slates`` new users: the training data.

        The logging policy ignores interactions: a slate is drawn without replacement, item i with weight
        exp(g · liking_i + fame_i), never from the history. g is uniform between 0 (pure exploration) and ``greed``,
        drawn for each slate. Outcomes are drawn with the probabilities of ``expected``.
        """
        n_slates, k, greed = whole_number("n_slates", n_slates), whole_number("k", k), real_number("greed", greed)
        most = len(self.catalog) - self.histories.shape[1]
        if k > most:
            must = f"at most {max(0, most)}, the items beyond a history"
            raise InvalidInput("k", must, k, "show fewer items or make a larger simulation")
        rng = np.random.default_rng([whole_number("seed", seed, least=0), n_slates, k])
        parts = [self._logged(rng, min(_CHUNK, n_slates - done), k, greed) for done in range(0, n_slates, _CHUNK)]
        history, shown, outcome = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Slates(
            Ragged.cut(history.ravel(), np.full(n_slates, history.shape[1])),
            Ragged.cut(shown.ravel(), np.full(n_slates, k)),
            outcome.ravel().astype(np.float32),
            list(self.catalog.ids[:]),
            {name: list(column[:]) for name, column in self.catalog.attributes.items()},
        )

    def _logged(self, rng: np.random.Generator, users: int, k: int, greed: float) -> tuple[Rows, Rows, NDArray[Any]]:
        history = self.new_histories(users, rng)
        liking, fame = self._liking(history)
        pull = greed * rng.random((users, 1)) * liking + fame
        np.put_along_axis(pull, history, -np.inf, axis=1)
        shown = sample(rng, pull, k)
        return history, shown, rng.random(shown.shape) < self.expected(history, shown)

    def expected(self, history: Rows, shown: Rows) -> Floats:
        """The true probability (B, k) that the user of ``history`` (B, T) likes each item of ``shown`` (B, k).

        It equals ``item_rewards(catalog, user(history), shown)``, for many slates at once.
        """
        argument = many_arguments(self.catalog, *self._users(history), shown)
        return np.asarray(self.catalog.rewards[0].value(argument))


def sample(rng: np.random.Generator, pull: Floats, k: int) -> Rows:
    """Draw k of each row without replacement, with weights exp(pull): the k largest after Gumbel noise, in order."""
    noisy = pull + rng.gumbel(size=pull.shape)
    best = np.argpartition(-noisy, k - 1, axis=1)[:, :k]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(noisy, best, axis=1), axis=1), axis=1)


def unit(vectors: Floats) -> Floats:
    """The vectors at length 1; zero stays zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))
