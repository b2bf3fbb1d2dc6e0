"""Instance: the dense sub-problem on m candidates, the input of every ranker.

    logit       (H, m, m)   log of the attention weight w_ij^h; −∞ where there is none
    score       (H, m)      s_j^h
    base        (m,)        the self term
    sink_logit  (H, m)      log of the sink's weight z_i^h, or None      sink_score  (H,)  s_0^h
    rewards     (τ,)        the distinct reward functions
    reward_class  (m,)      the index of each candidate's function in ``rewards``
    groups      name -> (m,) labels for ``at_most`` constraints; −1 belongs to no group
    reward_weight  (m,)     ω_i ≥ 0, what a unit of each candidate's reward is worth, or None where all are 1
    exclusive   arrays (m,) of labels: at most one candidate per label (the items and positions of an ordered slate)

Logits are stored, not weights, so that any subset can be valued exactly: weights divided by the row's maximum
(``weight``, which rankers use) underflow for sets without the row's largest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Ints, Mask, Rows
from setwise._validation import LARGEST, frozen, index_array, is_frozen, numbers, real_array, require_shape
from setwise.errors import Infeasible, InvalidInput
from setwise.model import objective
from setwise.model.alone import share_of_own
from setwise.model.attributes import Attributes
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic, Reward, RewardChoice, evaluate, reward_classes
from setwise.model.sums import attribute_numbers
from setwise.model.users import User, reward_weights

FLOOR = -700.0  # the smallest log of a positive weight; e^-700 ≈ 1e-304, so no denominator vanishes


class Instance:
    """m candidates, one user: all that F depends on. The module's docstring has the shapes."""

    def __init__(
        self,
        logit: ArrayLike,
        score: ArrayLike,
        reward: RewardChoice = Logistic(),
        base: ArrayLike | None = None,
        sink_logit: ArrayLike | None = None,
        sink_score: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        positions: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        exclusive: Sequence[ArrayLike] = (),
        reward_weight: ArrayLike | None = None,
    ) -> None:
        self.score = _headed("score", score, ("heads", "m"))
        heads, m = self.score.shape
        if m == 0:
            raise Infeasible("candidates", "at least one", "none", "retrieve or pass some")
        self.logit = _log_weights(logit, heads, m)
        self.base = np.zeros(m) if base is None else _vector("base", base, m)
        if (sink_logit is None) != (sink_score is None):
            raise InvalidInput("sink_logit and sink_score", "given together", "one alone", "pass both or neither")
        self.sink_logit = None if sink_logit is None else _headed("sink_logit", sink_logit, (heads, m))
        self.sink_score = None if sink_score is None else _vector("sink_score", sink_score, heads)
        self.rewards: tuple[Reward, ...]
        self.rewards, self.reward_class = reward_classes(reward, m)
        self.candidates = np.arange(m) if candidates is None else _whole("candidates", candidates, m)
        self.positions = None if positions is None else _whole("positions", positions, m)
        _refuse_repetition(self.candidates, self.positions)
        self.groups = _labelled(groups, m)
        self.exclusive = tuple(_whole("exclusive", labels, m) for labels in exclusive)
        self.reward_weight = None if reward_weight is None else reward_weights("reward_weight", reward_weight)
        if self.reward_weight is not None:
            require_shape("reward_weight", self.reward_weight, (m,))
        self.embed: Callable[[], Floats] | None = None  # computes unit vectors (m, d) when similarities are needed

    # --- constructors ---

    @classmethod
    def from_catalog(cls, catalog: Catalog, user: ArrayLike | User, candidates: ArrayLike) -> Instance:
        """The sub-problem on the rows ``candidates`` of a catalogue.

        For a catalogue with positional encodings every (item, position) pair is a candidate, and each item and each
        position may be chosen once; ``instance.positions`` holds the position of each pair.
        """
        rows = index_array("candidates", candidates, catalog.n_items, "the catalogue")
        if not len(rows):
            raise Infeasible("candidates", "at least one", "none", "loosen the filters or exclude fewer")
        checked = catalog.user(user)
        positions: Rows | None = None
        exclusive: tuple[Rows, ...] = ()
        if catalog.positions is not None:
            length = len(catalog.positions.query)
            rows, positions = np.repeat(rows, length), np.tile(np.arange(length), len(rows))
            exclusive = (rows, positions)
        logit, sink_logit = _in_catalogue_order(catalog, rows, positions)
        score, sink_score = objective.scores(catalog, checked, rows, positions)
        instance = cls(
            frozen(logit),
            frozen(score),
            (catalog.rewards, catalog.reward_class[rows]),
            objective.base_scores(catalog, checked, rows),
            sink_logit,
            sink_score,
            rows,
            positions,
            exclusive=exclusive,
            reward_weight=checked.weights_of(rows),
        )
        instance.embed = lambda: unit_rows(catalog.embeddings(rows))
        instance.groups = _groups_of(catalog.attributes, rows)
        return instance

    @classmethod
    def from_weights(cls, weight: ArrayLike, score: ArrayLike, **others: Any) -> Instance:
        """The sub-problem whose attention weights w_ij ≥ 0, (m, m) or (H, m, m), are given."""
        given = np.asarray(numbers("weight", weight), np.float64)
        if not (np.isfinite(given).all() and (given >= 0).all()):
            raise InvalidInput("weight", "finite and at least 0", "other entries", "pass exp of the logits")
        with np.errstate(divide="ignore"):
            return cls(frozen(np.log(given)), score, **others)

    # --- inputs of rankers ---

    @property
    def m(self) -> int:
        """The number of candidates, m."""
        return int(self.score.shape[1])

    @property
    def heads(self) -> int:
        """The number of attention heads, H."""
        return int(self.score.shape[0])

    def __len__(self) -> int:
        return self.m

    def __repr__(self) -> str:
        heads, rewards = self.heads, len(self.rewards)
        return (
            f"Instance({self.m} candidates, {heads} head{'s' * (heads != 1)}, "
            f"{rewards} reward function{'s' * (rewards != 1)})"
        )

    @cached_property
    def _row_top(self) -> Floats:
        top: Floats = self.logit.max(axis=2)
        return top if self.sink_logit is None else np.maximum(top, self.sink_logit)

    @cached_property
    def weight(self) -> Floats:
        """w_ij^h divided by the largest of its row, sink included: (H, m, m); a positive weight stays positive."""
        return _shifted_exp(self.logit, self._row_top[:, :, None])

    @cached_property
    def sink_weight(self) -> Floats:
        """z_i^h on the same scale as ``weight``: (H, m), zero without a sink."""
        if self.sink_logit is None:
            return np.zeros((self.heads, self.m))
        return _shifted_exp(self.sink_logit, self._row_top)

    @cached_property
    def weights(self) -> Floats:
        """ω_i, 1 where none was given: (m,)."""
        return np.ones(self.m) if self.reward_weight is None else self.reward_weight

    @cached_property
    def total_score(self) -> Floats:
        """base_i + Σ_h s_i^h: the order of a recommender that ignores the set."""
        return np.asarray(self.base + self.score.sum(axis=0))

    @cached_property
    def alone(self) -> Floats:
        """ω_i f_i(a_i({i})): the reward of each candidate as the only item (alone.py)."""
        own = np.diagonal(self.logit, axis1=1, axis2=2)
        if self.sink_logit is None or self.sink_score is None:
            average = np.where(np.isneginf(own), 0.0, self.score)
        else:
            sink_score = self.sink_score[:, None]
            average = sink_score + share_of_own(own, self.sink_logit) * (self.score - sink_score)
        return evaluate(self.rewards, self.reward_class, self.base + average.sum(axis=0), self.reward_weight)

    @cached_property
    def similarity(self) -> Floats:
        """Cosines between the embeddings of the candidates: (m, m); without embeddings no two are similar."""
        if self.embed is None:
            return np.eye(self.m)
        unit = self.embed()
        return np.asarray(unit @ unit.T)

    # --- reference values ---

    def rewards_of(self, indices: ArrayLike) -> Floats:
        """ω_i f_i(a_i(S)) for the candidates ``indices``, by objective.py on their logits."""
        chosen = index_array("indices", indices, self.m, "the instance")
        a = objective.attended(
            self.logit[:, chosen[:, None], chosen],
            self.score[:, chosen],
            self.base[chosen],
            None if self.sink_logit is None else self.sink_logit[:, chosen],
            self.sink_score,
        )
        weight = None if self.reward_weight is None else self.reward_weight[chosen]
        return evaluate(self.rewards, self.reward_class[chosen], a, weight)

    def value(self, indices: ArrayLike) -> float:
        """F(S) for the candidates ``indices``."""
        return float(self.rewards_of(indices).sum())

    def permuted(self, order: Rows) -> Instance:
        """The same problem with candidate ``order[p]`` at index p."""
        instance = Instance(
            frozen(self.logit[:, order[:, None], order]),
            frozen(self.score[:, order]),
            (self.rewards, self.reward_class[order]),
            self.base[order],
            None if self.sink_logit is None else self.sink_logit[:, order],
            self.sink_score,
            self.candidates[order],
            None if self.positions is None else self.positions[order],
            exclusive=[labels[order] for labels in self.exclusive],
            reward_weight=None if self.reward_weight is None else self.reward_weight[order],
        )
        if (embed := self.embed) is not None:
            instance.embed = lambda: embed()[order]
        groups = self.groups
        instance.groups = _Groups(
            groups,
            lambda name: groups[name][order],
            lambda name, value: groups.matching(name, value)[order],
            lambda parameter, name: groups.numbers_for(parameter, name)[order],
        )
        return instance


def _in_catalogue_order(catalog: Catalog, rows: Rows, positions: Rows | None) -> tuple[Floats, Floats | None]:
    """The logits among ``rows``, computed in catalogue order: rounding in matrix products depends on the order."""
    order = np.lexsort((rows,) if positions is None else (positions, rows))
    if (order == np.arange(len(rows))).all():
        return objective.logits(catalog, rows, positions)
    logit, sink_logit = objective.logits(catalog, rows[order], None if positions is None else positions[order])
    back = np.argsort(order)
    return logit[:, back[:, None], back], None if sink_logit is None else sink_logit[:, back]


class _Groups(Mapping[str, Ints]):
    """Labels by name, computed when a constraint first uses them."""

    def __init__(
        self,
        names: Collection[str],
        labels: Callable[[str], Ints],
        matching: Callable[[str, Any], Mask],
        numbers: Callable[[str, str], Floats],
    ) -> None:
        self._names, self._labels, self._matching, self._numbers = names, labels, matching, numbers

    def numbers_for(self, parameter: str, name: str, of: Any = None) -> Floats:
        """The numbers of each candidate for a sum: ``of``, or those of the attribute; NaN where there is none."""
        if of is None:
            return self._numbers(parameter, name)
        return real_array(parameter, of, ("m",), np.float64)

    def matching(self, name: str, value: Any) -> Mask:
        """Which candidates have this value of the attribute: (m,)."""
        return self._matching(name, value)

    def __getitem__(self, name: str) -> Ints:
        return self._labels(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _groups_of(attributes: Attributes, rows: Rows) -> _Groups:
    return _Groups(
        attributes,
        lambda name: attributes.labels(name, rows),
        lambda name, value: attributes.matching({name: value})[rows],
        lambda parameter, name: attribute_numbers(attributes, parameter, name)[rows],
    )


class Rowed:
    """Rows of a catalogue as candidates without their attention: what limits are about, of any number of rows."""

    exclusive: tuple[Rows, ...] = ()

    def __init__(self, catalog: Catalog, rows: Rows) -> None:
        self.m, self.groups = len(rows), _groups_of(catalog.attributes, rows)


def unit_rows(vectors: Floats) -> Floats:
    """The rows scaled to length 1; a zero row stays zero, and is similar to no other."""
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    scaled = vectors / np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor underflow
    length = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)  # less for zero rows only
    return np.asarray(scaled / length)


def _headed(name: str, given: ArrayLike, shape: tuple[int | str, ...]) -> Floats:
    """A (H, m) array; (m,) means one head."""
    return real_array(name, np.atleast_2d(numbers(name, given)), shape, np.float64)


def _vector(name: str, given: ArrayLike, size: int) -> Floats:
    return real_array(name, np.atleast_1d(numbers(name, given)), (size,), np.float64)


def _log_weights(given: ArrayLike, heads: int, m: int) -> Floats:
    """Logits may be −∞ (no attention at all), but not NaN, +∞ or beyond ``LARGEST``; the result is read-only."""
    array = numbers("logit", given)
    array = array[None] if array.ndim == 2 else array
    require_shape("logit", array, (heads, m, m))
    array = array.astype(np.float64, copy=not is_frozen(array))  # before the check: float32 cannot hold ``LARGEST``
    plain = array.min(initial=0.0) >= -LARGEST and array.max(initial=0.0) <= LARGEST  # and without NaN
    if not plain and not ((array <= LARGEST) & ((array >= -LARGEST) | np.isneginf(array))).all():
        must = f"−∞ or numbers of at most {LARGEST:g} in size"
        raise InvalidInput("logit", must, "NaN, +∞ or larger ones", "remove or replace such entries")
    return frozen(array)


def _whole(name: str, given: ArrayLike, m: int) -> Rows:
    """One integer per candidate."""
    array = np.asarray(given)
    require_shape(name, array, (m,))
    if array.dtype.kind not in "iu":
        raise InvalidInput(name, "whole numbers, one per candidate", f"dtype {array.dtype}", "pass row numbers")
    return array.astype(np.intp)


def _refuse_repetition(candidates: Rows, positions: Rows | None) -> None:
    position = np.zeros_like(candidates) if positions is None else positions
    order = np.lexsort((position, candidates))
    rows, position = candidates[order], position[order]
    again = np.flatnonzero((rows[1:] == rows[:-1]) & (position[1:] == position[:-1]))
    if again.size:
        what = "candidates" if positions is None else "(candidate, position) pairs"
        raise InvalidInput(what, "distinct", f"{int(rows[again[0]])} more than once", "remove the repetition")


def _labelled(groups: Mapping[str, ArrayLike] | None, m: int) -> _Groups:
    """Groups given as columns, one value per candidate: text or numbers; None or NaN means no group.

    Integers are used as labels; −1 means no group.
    """
    if groups is not None and not isinstance(groups, Mapping):
        raise InvalidInput("groups", "a mapping {name: one value per candidate}", repr(groups), "write groups={...}")
    table = Attributes.of(groups, m)

    def labels(name: str) -> Ints:
        column = table[name]
        if isinstance(column, np.ndarray) and column.dtype.kind == "i":
            return column.astype(np.int64)
        return table.labels(name, np.arange(m))

    return _Groups(
        table,
        labels,
        lambda name, value: table.matching({name: value}),
        lambda parameter, name: attribute_numbers(table, parameter, name),
    )


def _shifted_exp(logit: Floats, top: Floats) -> Floats:
    """e^(logit − top), never below e^−700 unless the logit is −∞."""
    with np.errstate(invalid="ignore"):  # −∞ − (−∞) in a row without any weight
        shifted = logit - top
    np.maximum(shifted, FLOOR, out=shifted)
    np.exp(shifted, out=shifted)
    if np.isneginf(logit.min(initial=0.0)):
        shifted[np.isneginf(logit)] = 0.0
    return shifted
