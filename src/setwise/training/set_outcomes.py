"""Learn what whole sets are worth from sets with a measured outcome: proteins, formulations, bundles, line-ups.

A row of ``sets`` is one set, ``outcome`` its number. The model is the library's objective with linear rewards,

    F(S)   = Σ_{i∈S} a_i(S) + c,
    a_i(S) = b_i + Σ_h Σ_{j∈S} w_ij^h v_j^h / ( e^(z_i^h) + Σ_{j∈S} w_ij^h ),      w_ij^h = e^(q_i^h·k_j^h)

and the outcome is link(F): a non-decreasing function (outcome_links.py), so the set of the largest F has the largest
predicted outcome, and ``catalog()`` can be ranked and bounded like any other.

**The constant** of a set is c whatever the number of its items, so no part of a single item can hold it. As attention
it is one head more: all logits and values are 0, the sink has the weight ε = ``CONSTANT_WEIGHT`` and the score
c (1/ε + 1/size). Each item of S has c (1 + ε/size) / (ε + |S|) of it, all of them together c for |S| = size, and for
others c up to a share of ε. A smaller ε would be more exact, but bounds count the rounding of the score.

**Interactions of few sets.** The weight decay of queries, keys and values is ``DECAY``/N, like a prior whose weight
does not grow with the N sets, and at most ``HIGHEST_DECAY``; base terms have none. Both were chosen on draws of GB1
that no report uses.

**Members.** With linear rewards an average of models is one model with the heads of all of them, so ``members`` fits
from several starts still make one catalogue. One more member has numbers for pairs of items only (set_pairs.py), and
two heads express it. Attention counts N / (N + 3 p), the pairwise member the rest, where p is the number of pairs of
items that occur in the N sets: pairs decide where there are few sets, and attention where there are many. (The factor
``SETS_PER_PAIR`` was chosen on the same draws of GB1.) Larger catalogues than ``MOST_PAIRED`` items, and the ranking
loss, have no such member.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Ints
from setwise._validation import real_array, whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog, Sink
from setwise.model.encoder import Encoder
from setwise.model.ids import IdChoice
from setwise.model.rewards import Linear
from setwise.model.users import User
from setwise.training.outcome_links import (
    LOSSES,
    check_range,
    checked_knee,
    linked,
    outcome_unit,
    set_weights,
    slopes,
    unlinked,
)
from setwise.training.set_pairs import PairMember, fit_pairs, pair_heads, pair_values
from setwise.training.slate_model import SlateModel

DECAY = 1000.0
HIGHEST_DECAY = 0.3
START = 0.3  # standard deviation of the first queries, keys and values
STEP, WARM_UP = 0.02, 0.1
FIRST, SECOND = 0.9, 0.99  # Adam's averages
PARTS = ("q", "k", "v", "z", "b")
SETS_PER_PAIR = 3.0
MOST_PAIRED = 512  # items of a model with a pairwise member
CONSTANT_WEIGHT = 1e-8  # of the sink whose score holds the constant
_LARGEST_VALUE = 1e17  # of a catalogue: an index takes ten times as much, and pairs need 10^12 times their outcomes
RECURRING = 0.2  # a table of all pairs pays where the sets have five times as many


@dataclass(frozen=True, eq=False)
class OutcomeModel:
    """A fitted model: q, k (n, H, d), v, z (n, H), b (n,) and the constant c; the largest set has ``size`` items.

    ``pair`` (n, n), if there is a pairwise member: the numbers of the pairs, times its share of the model. ``knee`` is
    the link's, ∞ for none. The outcome is ``unit`` times link(F).
    """

    parameters: Mapping[str, Floats]
    constant: float
    link: str
    size: int
    pair: Floats | None = None
    knee: float = math.inf
    unit: float = 1.0

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
        pairs: bool | PairMember | None = None,
        emphasis: float | None = None,
        knee: float | None = None,
        seed: int = 0,
    ) -> OutcomeModel:
        """Fit to ``sets`` (N, size) of item numbers and ``outcome`` (N,); −1 marks an empty place in a smaller set.

        ``loss`` is the first of the link's in ``LOSSES`` unless given. A batch is at most a quarter of the sets.
        ``pairs`` says whether there is a pairwise member, or is one that was fitted to these sets; by default there is
        one wherever there can be. ``emphasis`` makes the losses of the best sets count more (outcome_links.py); 0.01
        suits a search for the best set. ``knee`` is the outcome above which effects of items add up instead of
        multiplying, for the link softplus on a log scale.
        """
        rows = _sets(sets, whole_number("n_items", n_items))
        target = real_array("outcome", outcome, (len(rows),), np.float64)
        _check_choice("link", link, tuple(LOSSES))
        chosen = loss or LOSSES[link][0]
        _check_choice("loss", chosen, LOSSES[link])
        check_range(link, target)
        if emphasis is not None and chosen == "ranking":
            raise InvalidInput("emphasis", "None for the ranking loss", repr(emphasis), "leave it out")
        weight, bend = set_weights(target, emphasis), checked_knee(link, knee)
        wanted = _wants_pairs(pairs, n_items, chosen)
        member = pairs if isinstance(pairs, PairMember) else None
        # A given member of a curved link was fitted in the outcomes' own unit.
        unit = 1.0 if chosen == "ranking" or (member and link != "identity") else outcome_unit(link, target, bend)
        target = target / unit
        start = unlinked(link, float((weight * target).mean()))
        decay = min(DECAY / len(rows), HIGHEST_DECAY) if weight_decay is None else float(weight_decay)
        sizes = {
            name: whole_number(name, number)
            for name, number in (("heads", heads), ("dim", dim), ("epochs", epochs), ("batch", batch))
        }
        fits = []
        for number in range(whole_number("members", members)):
            learner = _Learner(
                n_items, sizes["heads"], sizes["dim"], (link, chosen, bend), decay, (seed, number), start
            )
            learner.run(rows, target, weight, sizes["epochs"], min(sizes["batch"], max(1, len(rows) // 4)))
            fits.append(learner)
        if wanted and member is None:
            member = fit_pairs(rows, target, n_items, link, chosen, seed, weight=weight, knee=bend)
        elif member is not None:
            member = member.scaled(1 / unit)
        model = cls._averaged(fits, member, len(rows), rows.shape[1])
        return model._scaled(unit) if link == "identity" else replace(model, unit=unit)

    @classmethod
    def _averaged(cls, fits: list[_Learner], pairs: PairMember | None, n_sets: int, size: int) -> OutcomeModel:
        """The average of the members as one model: all heads, with values and base terms times their share."""
        link, _, knee = fits[0].model
        occurring = 0 if pairs is None else np.count_nonzero(pairs.pair) // 2
        share = n_sets / (n_sets + SETS_PER_PAIR * occurring)
        parts = {name: np.concatenate([fit.parameters[name] for fit in fits], axis=1) for name in "qkvz"}
        parts["v"] = parts["v"] * share / len(fits)
        base = share * np.mean([fit.parameters["b"] for fit in fits], axis=0)
        constant = share * float(np.mean([fit.constant for fit in fits]))
        if pairs is None:
            return cls(parts | {"b": base}, constant, link, size, knee=knee)
        base, constant = base + (1 - share) * pairs.base, constant + (1 - share) * pairs.constant
        return cls(parts | {"b": base}, constant, link, size, (1 - share) * pairs.pair, knee)

    def _scaled(self, factor: float) -> OutcomeModel:
        """The model whose F is this number times as large."""
        parts = dict(self.parameters) | {name: self.parameters[name] * factor for name in "vb"}
        pair = None if self.pair is None else self.pair * factor
        return replace(self, parameters=parts, constant=self.constant * factor, pair=pair)

    @classmethod
    def of_pairs(
        cls, pairs: PairMember, link: str, size: int, knee: float = math.inf, unit: float = 1.0
    ) -> OutcomeModel:
        """A pairwise model alone, without attention heads of its own; ``size`` is that of the largest set."""
        n = len(pairs.base)
        shapes = {"q": (n, 0, 1), "k": (n, 0, 1), "v": (n, 0), "z": (n, 0)}
        parts = {name: np.zeros(shape) for name, shape in shapes.items()}
        return cls(parts | {"b": pairs.base}, pairs.constant, link, size, pairs.pair, knee, unit)

    def values(self, sets: ArrayLike) -> Floats:
        """F of every row of ``sets``, before the link."""
        rows = _sets(sets, len(self.parameters["b"]))
        pairs = 0.0 if self.pair is None else pair_values(self.pair, rows)
        return np.asarray(_values(self.parameters, rows) + pairs + self.constant)

    def predict(self, sets: ArrayLike) -> Floats:
        """The predicted outcome of every row of ``sets``."""
        return self.unit * linked(self.link, self.values(sets), self.knee)

    def catalog(self, ids: IdChoice | None = None, attributes: Any = None) -> Catalog:
        """The model as a catalogue; with ``user()`` its F of a set is ``values`` of that set.

        The sink's logit z_i is one more coordinate of the queries, where the sink's key is 1 and all others are 0.
        """
        q, k, v, z, sink = self._heads()
        sink_key = np.zeros((q.shape[1], q.shape[2] + 1))
        sink_key[:, -1] = 1.0
        scale = _scale(v, sink)
        return Catalog(
            np.concatenate([q, z[:, :, None]], axis=2),
            np.concatenate([k, np.zeros_like(z)[:, :, None]], axis=2),
            v[:, :, None] / scale,
            reward=Linear(),
            base=self.parameters["b"][:, None],
            sink=Sink(sink_key, sink[:, None] / scale),
            ids=ids,
            attributes=attributes,
            dtype=np.float64,
        )

    def user(self) -> User:
        """The user of ``catalog()``: outcomes of sets have only one."""
        _, _, values, _, sink = self._heads()
        return User(heads=np.full((len(sink), 1), _scale(values, sink)), base=[1.0])

    def slate_model(self, ids: IdChoice | None = None, attributes: Any = None) -> SlateModel:
        """The model to save, index and serve: the user is the same whatever the history."""
        user, catalog = self.user(), self.catalog(ids, attributes)
        encoder = Encoder(
            items=np.zeros((len(catalog), 1)),
            heads_weight=np.zeros((*user.heads.shape, 1)),
            heads_bias=user.heads,
            base_weight=np.zeros((1, 1)),
            base_bias=np.ones(1),
        )
        known: dict[str, Any] = {"link": self.link, "size": self.size, "constant": self.constant}
        known |= {} if self.knee == math.inf else {"knee": self.knee}
        return SlateModel(catalog, encoder, known | ({} if self.unit == 1.0 else {"unit": self.unit}))

    def _heads(self) -> tuple[Floats, ...]:
        """q, k, v, z and the sinks' scores of all heads: the model's own, those of pairs, that of the constant."""
        heads = [tuple(self.parameters[name] for name in "qkvz")]
        if self.pair is not None:
            heads.append(tuple(pair_heads(self.pair)))
        n, wide = len(self.parameters["b"]), max(part[0].shape[2] for part in heads)
        nothing = np.zeros((n, 1))
        heads.append((nothing[:, :, None], nothing[:, :, None], nothing, np.full((n, 1), math.log(CONSTANT_WEIGHT))))
        q, k = (np.concatenate([_widened(part[at], wide) for part in heads], axis=1) for at in (0, 1))
        v, z = (np.concatenate([part[at] for part in heads], axis=1) for at in (2, 3))
        sink = np.zeros(v.shape[1])
        sink[-1] = self.constant * (1 / CONSTANT_WEIGHT + 1 / self.size)
        return q, k, v, z, sink


def _scale(*values: Floats) -> float:
    """A power of two by which values are divided, and the user multiplied, where an index would refuse them."""
    largest = max(float(np.abs(part).max(initial=0.0)) for part in values)
    return 2.0 ** math.ceil(math.log2(largest / _LARGEST_VALUE)) if largest > _LARGEST_VALUE else 1.0


class _Learner:
    """Adam with decoupled weight decay and a cosine schedule, from one random start."""

    def __init__(
        self,
        n: int,
        heads: int,
        dim: int,
        model: tuple[str, str, float],
        decay: float,
        seed: tuple[int, int],
        start: float,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        shapes = {"q": (n, heads, dim), "k": (n, heads, dim), "v": (n, heads), "z": (n, heads), "b": (n,)}
        self.parameters = {
            name: self.rng.normal(0.0, START, shape) if name in "qkv" else np.zeros(shape)
            for name, shape in shapes.items()
        }
        self.model = model  # link, loss and knee
        self.decay = {name: decay if name in "qkv" else 0.0 for name in PARTS}
        self.constant = start
        self.gradient, self.mean, self.square = (
            {name: np.zeros_like(part) for name, part in self.parameters.items()} for _ in range(3)
        )
        self.constant_mean = self.constant_square = 0.0

    def run(self, sets: Ints, target: Floats, weight: Floats, epochs: int, batch: int) -> None:
        """Pass over the sets ``epochs`` times in random order."""
        batches = len(sets) // batch
        for epoch in range(epochs):
            order = self.rng.permutation(len(sets))
            for number in range(batches):
                rows = order[number * batch : (number + 1) * batch]
                done = epoch * batches + number + 1
                self._step(sets[rows], target[rows], weight[rows], done, done / (epochs * batches))

    def _step(self, sets: Ints, target: Floats, weight: Floats, count: int, progress: float) -> None:
        from setwise.training.set_kernels import add_gradients

        link, loss, knee = self.model
        slope_of = slopes(link, loss, _values(self.parameters, sets) + self.constant, target, knee)
        outer = weight * slope_of / len(sets)
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
    """F of every row of ``sets`` but for the constant; where pairs of items recur, from a table of their weights."""
    from setwise.training.set_kernels import set_values, values_by_table

    out, q = np.empty(len(sets)), parameters["q"]
    if len(q) ** 2 < RECURRING * sets.size * sets.shape[1]:
        weight = np.ascontiguousarray(np.exp(np.einsum("ihc,jhc->ijh", q, parameters["k"])))
        values_by_table(weight, parameters["v"], np.exp(parameters["z"]), parameters["b"], sets, out)
    else:
        set_values(*(parameters[name] for name in PARTS), sets, out)
    return out


def _sets(rows: ArrayLike, n: int) -> Ints:
    """Rows of distinct item numbers below n, −1 for an empty place."""
    sets = np.asarray(rows)
    todo = "pass one row of item numbers per set, -1 for an empty place"
    if sets.ndim != 2 or not sets.size or sets.dtype.kind not in "iu":
        raise InvalidInput("sets", "whole numbers of shape (sets, size)", f"{sets.dtype} of shape {sets.shape}", todo)
    if sets.min() < -1 or sets.max() >= n:
        raise InvalidInput("sets", f"item numbers from 0 to {n - 1}", f"{sets.min()} to {sets.max()}", todo)
    ordered = np.sort(sets, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any() or (sets < 0).all(axis=1).any():
        raise InvalidInput("sets", "sets of one or more distinct items", "an empty set or a repeated item", todo)
    return np.ascontiguousarray(sets, np.int64)


def _check_choice(parameter: str, choice: object, known: tuple[str, ...]) -> None:
    if choice not in known:
        raise InvalidInput(parameter, f"one of {', '.join(known)}", repr(choice), "choose one of those")


def _wants_pairs(pairs: bool | PairMember | None, n: int, loss: str) -> bool:
    if isinstance(pairs, PairMember) and len(pairs.base) != n:
        raise InvalidInput("pairs", f"a member of {n} items", f"one of {len(pairs.base)}", "fit it to these items")
    possible = n <= MOST_PAIRED and loss != "ranking"
    if pairs and not possible:
        must, got = f"False for the ranking loss and for more than {MOST_PAIRED} items", f"True, {n} items, {loss}"
        raise InvalidInput("pairs", must, got, "leave it out")
    return possible if pairs is None else bool(pairs)


def _widened(part: Floats, wide: int) -> Floats:
    """(n, H, d) with zeros up to ``wide`` dimensions."""
    return np.concatenate([part, np.zeros((*part.shape[:2], wide - part.shape[2]))], axis=2)
