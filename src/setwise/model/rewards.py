"""Reward functions f_i: the reward of item i is f_i(a_i(S)), where a_i(S) is its attention output in the set S.

Every f is non-decreasing. Two functions g and h of the paper (Observation "g and h") bound the loss caused by an
error ε in the argument:

    f(x − ε) ≥ (1 − g(ε)) f(x) − h(ε)      for all x and all ε ≥ 0,     0 ≤ g ≤ 1,  h ≥ 0.

An L-Lipschitz f has g = 0 and h(ε) = Lε. ``Exp`` is not Lipschitz and has g(ε) = 1 − e^(−ε·scale), h = 0 instead.

Rewards compare by value: two with equal parameters are equal, so a catalogue can count its τ distinct functions.

``FAMILIES`` is the registry. Rankers and bounds run compiled code that selects a function by ``code``, so only an exact
type from the registry is accepted; a subclass could override ``value`` and the compiled bound would be false. To add a
family, write its class here, list it in ``FAMILIES`` with the next free code, and add the branch of that code to
``family_value`` in kernels/rewards.py. The tests run over ``FAMILIES``.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats
from setwise._validation import real_array, real_number
from setwise.errors import InvalidInput


def _nonnegative_error(eps: float) -> float:
    value = real_number("eps", eps)
    if value < 0:
        raise InvalidInput("eps", "at least 0", value, "pass the size of the error")
    return value


class Reward(ABC):
    """A non-decreasing function of one real number. Only the classes in ``FAMILIES`` can be ranked and bounded."""

    code: ClassVar[int]  # selects the compiled function in kernels/rewards.py

    @abstractmethod
    def value(self, x: ArrayLike) -> Floats:
        """f(x), entry by entry, in float64."""

    def __call__(self, x: ArrayLike) -> Floats:
        """f(x), as the paper writes it."""
        return self.value(x)

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """The smallest L with |f(x) − f(y)| ≤ L |x − y|; infinite when there is none."""

    def g(self, eps: float) -> float:
        """The multiplicative part of the loss under an error of ``eps`` in the argument."""
        _nonnegative_error(eps)
        return 0.0

    def h(self, eps: float) -> float:
        """The additive part of the loss under an error of ``eps`` in the argument."""
        return self.lipschitz * _nonnegative_error(eps)

    @abstractmethod
    def shifted(self, c: float) -> Reward:
        """The function x ↦ f(x + c)."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, ...]:
        """At most three numbers that the compiled function reads, in its order."""

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """The points (x, y) that the compiled function interpolates; empty for most families."""
        return ()


@dataclass(frozen=True)
class _Affine(Reward):
    """φ(scale·x + bias) for a fixed non-decreasing φ; with ``scale`` ≥ 0 the result is non-decreasing."""

    scale: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_number("scale", self.scale))
        object.__setattr__(self, "bias", real_number("bias", self.bias))
        self._refuse_decreasing()

    def _refuse_decreasing(self) -> None:
        if self.scale < 0:
            raise InvalidInput(
                "scale", "at least 0, because a reward must not decrease", self.scale, "put the sign into the values"
            )

    def _argument(self, x: ArrayLike) -> Floats:
        return self.scale * np.asarray(x, np.float64) + self.bias

    def shifted(self, c: float) -> Reward:
        return dataclasses.replace(self, bias=self.bias + self.scale * c)

    @property
    def lipschitz(self) -> float:
        return self.scale  # where φ has slopes of at most 1

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.scale, self.bias)


@dataclass(frozen=True)
class Logistic(_Affine):
    """1 / (1 + e^(−(scale·x + bias))): a probability, so that F(S) is an expected number of hits."""

    code: ClassVar[int] = 0

    def value(self, x: ArrayLike) -> Floats:
        z = self._argument(x)
        small = np.exp(-np.abs(z))  # cannot overflow, and both tails keep their relative precision
        return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))

    @property
    def lipschitz(self) -> float:
        return self.scale / 4


@dataclass(frozen=True)
class Linear(_Affine):
    """scale·x + bias."""

    code: ClassVar[int] = 1

    def value(self, x: ArrayLike) -> Floats:
        return self._argument(x)


@dataclass(frozen=True)
class ReLU(_Affine):
    """max(0, scale·x + bias)."""

    code: ClassVar[int] = 2

    def value(self, x: ArrayLike) -> Floats:
        return np.maximum(self._argument(x), 0.0)


@dataclass(frozen=True)
class LeakyReLU(_Affine):
    """z for z ≥ 0 and slope·z below, with z = scale·x + bias; a learned ``slope`` makes it the paper's PReLU."""

    slope: float = 0.01
    code: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "slope", real_number("slope", self.slope))
        if self.slope < 0:
            raise InvalidInput("slope", "at least 0, because a reward must not decrease", self.slope, "use 0 for ReLU")

    def value(self, x: ArrayLike) -> Floats:
        z = self._argument(x)
        return np.where(z >= 0, z, self.slope * z)

    @property
    def lipschitz(self) -> float:
        return self.scale * max(1.0, self.slope)

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.scale, self.bias, self.slope)


@dataclass(frozen=True)
class Tanh(_Affine):
    """tanh(scale·x + bias)."""

    code: ClassVar[int] = 4

    def value(self, x: ArrayLike) -> Floats:
        return np.tanh(self._argument(x))


@dataclass(frozen=True)
class Softplus(_Affine):
    """log(1 + e^(scale·x + bias))."""

    code: ClassVar[int] = 5

    def value(self, x: ArrayLike) -> Floats:
        return np.logaddexp(0.0, self._argument(x))


@dataclass(frozen=True)
class Exp(_Affine):
    """The increasing exponential, sign(scale)·e^(scale·x + bias).

    A positive scale is convex (multiplicative utilities, the weights of a choice model); a negative one is
    −e^(−|scale|x + bias), concave and bounded by 0: the exponential (CARA) utility of economics, and the value that an
    item of negative margin adds to an assortment. The second has no finite g and h: its losses are unbounded.
    """

    code: ClassVar[int] = 6

    def _refuse_decreasing(self) -> None:
        if self.scale == 0:
            raise InvalidInput("scale", "different from 0", 0.0, "use Constant for a reward that does not change")

    def value(self, x: ArrayLike) -> Floats:
        with np.errstate(over="ignore"):  # above e^709 the value is infinite
            return math.copysign(1.0, self.scale) * np.exp(self._argument(x))

    @property
    def lipschitz(self) -> float:
        return math.inf

    def g(self, eps: float) -> float:
        eps = _nonnegative_error(eps)
        return -math.expm1(-self.scale * eps) if self.scale > 0 else 0.0

    def h(self, eps: float) -> float:
        return 0.0 if _nonnegative_error(eps) == 0 or self.scale > 0 else math.inf


@dataclass(frozen=True)
class PiecewiseLinear(Reward):
    """Linear interpolation of the knots (x_1, y_1), (x_2, y_2), …, constant before the first and after the last."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    code: ClassVar[int] = 7

    def __post_init__(self) -> None:
        x = real_array("x", self.x, ("knots",), np.float64)
        y = real_array("y", self.y, ("knots",), np.float64)
        if x.size != y.size or x.size < 2:
            raise InvalidInput(
                "x and y", "two lists of equal length, at least 2", f"{x.size} and {y.size} numbers", "pair the knots"
            )
        if (np.diff(x) <= 0).any():
            raise InvalidInput("x", "strictly increasing", list(self.x), "sort the knots and drop repeated ones")
        if (np.diff(y) < 0).any():
            raise InvalidInput(
                "y", "non-decreasing, because a reward must not decrease", list(self.y), "put the sign into the values"
            )
        object.__setattr__(self, "x", tuple(x.tolist()))
        object.__setattr__(self, "y", tuple(y.tolist()))

    def value(self, x: ArrayLike) -> Floats:
        return np.asarray(np.interp(np.asarray(x, np.float64), self.x, self.y))

    @property
    def lipschitz(self) -> float:
        return float(np.max(np.diff(self.y) / np.diff(self.x)))

    def shifted(self, c: float) -> Reward:
        return PiecewiseLinear(tuple(knot - c for knot in self.x), self.y)

    @property
    def parameters(self) -> tuple[float, ...]:
        return ()

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.x, self.y, strict=True))


@dataclass(frozen=True)
class Constant(Reward):
    """The same reward c in every set."""

    c: float = 0.0
    code: ClassVar[int] = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", real_number("c", self.c))

    def value(self, x: ArrayLike) -> Floats:
        return np.full(np.shape(x), self.c)

    @property
    def lipschitz(self) -> float:
        return 0.0

    def shifted(self, c: float) -> Reward:
        return self

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.c,)


RewardChoice = Reward | tuple[Sequence[Reward], ArrayLike]  # one function, or τ functions and the class of each item

FAMILIES: dict[str, type[Reward]] = {
    family.__name__: family
    for family in (Logistic, Linear, ReLU, LeakyReLU, Tanh, Softplus, Exp, PiecewiseLinear, Constant)
}


def registered(reward: Reward) -> Reward:
    """An equal reward of the same registered family, with its parameters checked again.

    The type must be the registered class itself. A new object is built from the fields, so attributes that were set on
    the given object by other means are dropped, and a decreasing function is refused.
    """
    family = type(reward)
    if FAMILIES.get(family.__name__) is not family:
        raise InvalidInput(
            "reward",
            f"one of the registered families {', '.join(FAMILIES)}",
            f"{family.__name__}, which compiled rankers and bounds cannot evaluate",
            "use a registered family, not a subclass; PiecewiseLinear approximates any non-decreasing function",
        )
    return _built(family, tuple(getattr(reward, field.name) for field in dataclasses.fields(family)))  # type: ignore[arg-type]


@lru_cache(maxsize=4096)  # a request checks its rewards several times, and knots are slow to check
def _built(family: type[Reward], fields: tuple[Any, ...]) -> Reward:
    return family(*fields)


def to_spec(reward: Reward) -> dict[str, Any]:
    """A reward as plain JSON data that ``from_spec`` reads."""
    checked = registered(reward)
    return {"family": type(checked).__name__, **dataclasses.asdict(checked)}  # type: ignore[call-overload]


def from_spec(spec: Mapping[str, Any]) -> Reward:
    """The reward that ``to_spec`` described."""
    todo = "correct the specification"
    if not isinstance(spec, Mapping):
        raise InvalidInput("spec", "a mapping with the key 'family'", type(spec).__name__, todo)
    fields = dict(spec)
    family = fields.pop("family", None)
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidInput("family", f"one of {', '.join(FAMILIES)}", repr(family), todo)
    try:
        return FAMILIES[family](**fields)
    except TypeError:
        raise InvalidInput("spec", f"the parameters of {family}", sorted(map(str, fields)), todo) from None


def evaluate(
    rewards: Sequence[Reward], reward_class: NDArray[np.integer[Any]], x: Floats, weight: Floats | None = None
) -> Floats:
    """ω_i f_i(x_i) along the last axis of ``x``, where item i has the function ``rewards[reward_class[i]]``.

    Without ``weight``, the ω_i, it is f_i(x_i).
    """
    if weight is not None:
        return evaluate(rewards, reward_class, x) * weight
    if len(rewards) == 1:
        return rewards[0].value(x)
    result = np.empty_like(x)
    for number, reward in enumerate(rewards):
        of_class = reward_class == number
        result[..., of_class] = reward.value(x[..., of_class])
    return result


def reward_classes(reward: RewardChoice, n: int) -> tuple[tuple[Reward, ...], NDArray[np.int32]]:
    """The τ distinct functions in order of appearance, and the class of each of n items among them.

    Unregistered types are refused here, where a Catalog or an Instance is made, because their bounds would be false.
    """
    if isinstance(reward, Reward):
        return (registered(reward),), np.zeros(n, np.int32)
    todo = "pass a Reward, or ([functions], class of each item)"
    if not (isinstance(reward, tuple) and len(reward) == 2 and isinstance(reward[0], Sequence)):
        raise InvalidInput("reward", "a reward function or a pair (functions, classes)", type(reward).__name__, todo)
    functions, classes = reward
    if not functions or not all(isinstance(function, Reward) for function in functions):
        raise InvalidInput("reward", "a pair whose first part lists reward functions", repr(functions), todo)
    given = np.asarray(classes)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise InvalidInput(
            "reward classes", f"{n} whole numbers, one an item", f"{given.dtype} of shape {given.shape}", todo
        )
    if given.min() < 0 or given.max() >= len(functions):
        raise InvalidInput(
            "reward classes", f"between 0 and {len(functions) - 1}", f"{given.min()} to {given.max()}", todo
        )
    distinct: dict[Reward, int] = {}
    merged = np.array([distinct.setdefault(registered(each), len(distinct)) for each in functions], np.int32)
    return tuple(distinct), merged[given]
