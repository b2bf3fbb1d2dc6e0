"""Learn what whole sets are worth from sets with a measured outcome: proteins, formulations, bundles, line-ups.

A row of ``sets`` is one set, ``outcome`` its number. The model is the library's objective with linear rewards,

    F(S)   = Σ_{i∈S} a_i(S) + c,
    a_i(S) = b_i + Σ_h Σ_{j∈S} w_ij^h v_j^h / ( e^(z_i^h) + Σ_{j∈S} w_ij^h ),      w_ij^h = e^(q_i^h·k_j^h)

and the outcome is link(F): a non-decreasing function, so the set of the largest F has the largest predicted outcome,
and ``catalog()`` can be ranked and bounded like any other.

link       loss         outcome
identity   squared      any number
softplus   squared      numbers of at least 0, most of them near 0: sets below the floor need not be separated
logistic   logistic     0 or 1, or a share
identity   ranking      only the order of outcomes counts: log(1 + e^−(F(S) − F(T))) over pairs of a batch

**Interactions of few sets.** The weight decay of queries, keys and values is ``DECAY``/N, like a prior whose weight
does not grow with the N sets, and at most ``HIGHEST_DECAY``; base terms have none. Both were chosen on draws of GB1
that no report uses. A start from the factors of a pairwise ridge regression was no better there than a random one.

**Members.** With linear rewards an average of models is one model with the heads of all of them, so ``members`` fits
from several starts still make one catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Ints
from setwise._validation import real_array, whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog, Sink
from setwise.model.ids import IdChoice
from setwise.model.rewards import Linear
from setwise.model.users import User

LOSSES = {"identity": ("squared", "ranking"), "softplus": ("squared",), "logistic": ("logistic",)}
DECAY = 1000.0
HIGHEST_DECAY = 0.3
START = 0.3  # standard deviation of the first queries, keys and values
STEP, WARM_UP = 0.02, 0.1
FIRST, SECOND = 0.9, 0.99  # Adam's averages
PARTS = ("q", "k", "v", "z", "b")


@dataclass(frozen=True, eq=False)
class OutcomeModel:
    """A fitted model: q, k (n, H, d), v, z (n, H), b (n,) and the constant c of sets of ``size`` items."""

    parameters: Mapping[str, Floats]
    constant: float
    link: str
    size: int

    @classmethod
    def fit(
        cls,
        sets: ArrayLike,
        outcome: ArrayLike,
        n_items: int,
        *,
        link: str = "identity",
        loss: str | None = None,
        heads: int = 4,
        dim: int = 8,
        epochs: int = 20,
        batch: int = 256,
        weight_decay: float | None = None,
        members: int = 1,
        seed: int = 0,
    ) -> OutcomeModel:
        """Fit to ``sets`` (N, size) of item numbers and ``outcome`` (N,); −1 marks an empty place in a smaller set.

        ``loss`` is the first of the link's in ``LOSSES`` unless given. A batch is at most a quarter of the sets.
        """
        rows = _sets(sets, whole_number("n_items", n_items))
        target = real_array("outcome", outcome, (len(rows),), np.float64)
        _check_choice("link", link, tuple(LOSSES))
        chosen = loss or LOSSES[link][0]
        _check_choice("loss", chosen, LOSSES[link])
        _check_range(link, target)
        decay = min(DECAY / len(rows), HIGHEST_DECAY) if weight_decay is None else float(weight_decay)
        sizes = {
            name: whole_number(name, number)
            for name, number in (("heads", heads), ("dim", dim), ("epochs", epochs), ("batch", batch))
        }
        fits = []
        for member in range(whole_number("members", members)):
            learner = _Learner(n_items, sizes["heads"], sizes["dim"], link, chosen, decay, (seed, member), target)
            learner.run(rows, target, sizes["epochs"], min(sizes["batch"], max(1, len(rows) // 4)))
            fits.append(learner)
        return cls(_averaged(fits), float(np.mean([one.constant for one in fits])), link, rows.shape[1])

    def values(self, sets: ArrayLike) -> Floats:
        """F of every row of ``sets``, before the link."""
        rows = _sets(sets, len(self.parameters["b"]))
        return _values(self.parameters, rows) + self.constant

    def predict(self, sets: ArrayLike) -> Floats:
        """The predicted outcome of every row of ``sets``."""
        return _linked(self.link, self.values(sets))

    def catalog(self, ids: IdChoice | None = None, attributes: Any = None) -> Catalog:
        """The model as a catalogue; with ``user()`` its F of a set of ``size`` items is ``values`` of that set.

        The sink's logit z_i is one more coordinate of the queries, where the sink's key is 1 and all others are 0.
        """
        q, k, v, z, b = (self.parameters[name] for name in PARTS)
        sink_key = np.zeros((q.shape[1], q.shape[2] + 1))
        sink_key[:, -1] = 1.0
        return Catalog(
            np.concatenate([q, z[:, :, None]], axis=2),
            np.concatenate([k, np.zeros_like(z)[:, :, None]], axis=2),
            v[:, :, None],
            reward=Linear(bias=self.constant / self.size),
            base=b[:, None],
            sink=Sink(sink_key, np.zeros((q.shape[1], 1))),
            ids=ids,
            attributes=attributes,
            dtype=np.float64,
        )

    def user(self) -> User:
        """The user of ``catalog()``: outcomes of sets have only one."""
        return User(heads=np.ones((self.parameters["q"].shape[1], 1)), base=[1.0])


class _Learner:
    """Adam with decoupled weight decay and a cosine schedule, from one random start."""

    def __init__(
        self, n: int, heads: int, dim: int, link: str, loss: str, decay: float, seed: tuple[int, int], target: Floats
    ) -> None:
        self.rng = np.random.default_rng(seed)
        shapes = {"q": (n, heads, dim), "k": (n, heads, dim), "v": (n, heads), "z": (n, heads), "b": (n,)}
        self.parameters = {
            name: self.rng.normal(0.0, START, shape) if name in "qkv" else np.zeros(shape)
            for name, shape in shapes.items()
        }
        self.link, self.loss = link, loss
        self.decay = {name: decay if name in "qkv" else 0.0 for name in PARTS}
        self.constant = _unlinked(link, float(target.mean()))
        self.gradient, self.mean, self.square = (
            {name: np.zeros_like(part) for name, part in self.parameters.items()} for _ in range(3)
        )
        self.constant_mean = self.constant_square = 0.0

    def run(self, sets: Ints, target: Floats, epochs: int, batch: int) -> None:
        """Pass over the sets ``epochs`` times in random order."""
        batches = len(sets) // batch
        for epoch in range(epochs):
            order = self.rng.permutation(len(sets))
            for number in range(batches):
                rows = order[number * batch : (number + 1) * batch]
                done = epoch * batches + number + 1
                self._step(sets[rows], target[rows], done, done / (epochs * batches))

    def _step(self, sets: Ints, target: Floats, count: int, progress: float) -> None:
        from setwise.training.set_kernels import add_gradients

        outer = _slope(self.link, self.loss, _values(self.parameters, sets) + self.constant, target) / len(sets)
        for part in self.gradient.values():
            part[:] = 0.0
        add_gradients(*(self.parameters[p] for p in PARTS), sets, outer, *(self.gradient[p] for p in PARTS))
        rate = STEP * _schedule(progress)
        scale = 1 / (1 - FIRST**count), 1 / (1 - SECOND**count)
        for name, part in self.parameters.items():
            mean, square, gradient = self.mean[name], self.square[name], self.gradient[name]
            mean += (1 - FIRST) * (gradient - mean)
            square += (1 - SECOND) * (gradient * gradient - square)
            part -= rate * (scale[0] * mean / (np.sqrt(scale[1] * square) + 1e-8) + self.decay[name] * part)
        slope = float(outer.sum())
        self.constant_mean += (1 - FIRST) * (slope - self.constant_mean)
        self.constant_square += (1 - SECOND) * (slope * slope - self.constant_square)
        self.constant -= rate * scale[0] * self.constant_mean / (math.sqrt(scale[1] * self.constant_square) + 1e-8)


def _schedule(progress: float) -> float:
    """A linear rise over the first ``WARM_UP`` of the steps, then half a cosine down to 0."""
    if progress < WARM_UP:
        return progress / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def _values(parameters: Mapping[str, Floats], sets: Ints) -> Floats:
    from setwise.training.set_kernels import set_values

    out = np.empty(len(sets))
    set_values(*(parameters[name] for name in PARTS), sets, out)
    return out


def _linked(link: str, f: Floats) -> Floats:
    if link == "softplus":
        return np.logaddexp(0.0, f)
    return _sigmoid(f) if link == "logistic" else f


def _unlinked(link: str, mean: float) -> float:
    """The constant with which a model of no items predicts the mean outcome."""
    if link == "softplus":
        return math.log(math.expm1(max(mean, 1e-3)))
    if link == "logistic":
        share = min(max(mean, 1e-3), 1 - 1e-3)
        return math.log(share / (1 - share))
    return mean


def _slope(link: str, loss: str, f: Floats, target: Floats) -> Floats:
    """The derivative of the loss of each set of a batch with respect to its F."""
    if loss == "logistic":
        return _sigmoid(f) - target
    if loss == "ranking":
        better = np.sign(target[:, None] - target)
        pull = -better * _sigmoid(-better * (f[:, None] - f))
        return np.asarray(pull.sum(axis=1) / max(len(f) - 1, 1))
    if link == "softplus":
        return 2 * (np.logaddexp(0.0, f) - target) * _sigmoid(f)
    return 2 * (f - target)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _averaged(fits: list[_Learner]) -> dict[str, Floats]:
    """The average of the members as one model: all heads, with values and base terms divided by their number."""
    parts = {name: np.concatenate([one.parameters[name] for one in fits], axis=1) for name in "qkvz"}
    parts["v"] = parts["v"] / len(fits)
    return parts | {"b": np.mean([one.parameters["b"] for one in fits], axis=0)}


def _sets(given: ArrayLike, n: int) -> Ints:
    """Rows of distinct item numbers below n, −1 for an empty place."""
    sets = np.asarray(given)
    todo = "pass one row of item numbers per set, -1 for an empty place"
    if sets.ndim != 2 or not sets.size or sets.dtype.kind not in "iu":
        raise InvalidInput("sets", "whole numbers of shape (sets, size)", f"{sets.dtype} of shape {sets.shape}", todo)
    if sets.min() < -1 or sets.max() >= n:
        raise InvalidInput("sets", f"item numbers from 0 to {n - 1}", f"{sets.min()} to {sets.max()}", todo)
    ordered = np.sort(sets, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any() or (sets < 0).all(axis=1).any():
        raise InvalidInput("sets", "sets of one or more distinct items", "an empty set or a repeated item", todo)
    return np.ascontiguousarray(sets, np.int64)


def _check_choice(parameter: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidInput(parameter, f"one of {', '.join(known)}", repr(given), "choose one of those")


def _check_range(link: str, target: Floats) -> None:
    low, high = {"softplus": (0.0, math.inf), "logistic": (0.0, 1.0)}.get(link, (-math.inf, math.inf))
    if target.min() < low or target.max() > high:
        todo = "transform the outcome, or use another link"
        raise InvalidInput("outcome", f"between {low:g} and {high:g}", f"{target.min():g} to {target.max():g}", todo)
