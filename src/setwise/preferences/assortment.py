"""The assortment problem: which k items to offer.

**Sales.** V/(1 + V) increases in V, so the best set is the one of largest V, a set value that ``rank`` maximises.

**Revenue.** R(S) = Σ_{i∈S} r_i e^g(S,i) / (o + V(S)) is a ratio, and Dinkelbach's method turns it into set values:

    R(S) > θ   ⟺   F_θ(S) = Σ_{i∈S} (r_i − θ) e^g(S,i) > oθ.

Maximise F_θ, put θ ← R(S), and repeat until R no longer grows. Each round improves R strictly and there are finitely
many sets, so it ends. When the ranker is exact, a last round without improvement means that no set has more than θ: the
assortment is optimal. With any other ranker θ increases from round to round, without that proof.

**What is proven, in doubles.** Let r be the largest |price| and τ = 10⁻⁹ r / 4.

* Cancellation. F_θ(S) = oθ for the set that gave θ, and its rounding may exceed the gain of a better set of small V. So
  an exact ranker runs a last round at θ + 2τ. There all sets of R ≤ θ are at least 2τ(o + V(S)) below what an
  improvement needs, and rounding, less than τ V(S), cannot lift them: if the ranker returns one of them, no set has
  more than θ + 3τ. Rounding of an exponent is ε(6k + 200) times its sums over H and 4ε times the rest; if that may
  exceed 10⁻⁹/8 (margins are up to 2r), nothing is proven; if it may exceed 10⁻³, the search is refused.
* Overflow. F is divided by e^c, which changes no comparison, with a c that brings the largest V to e^600 at most.
* Underflow. Terms below e^−745 are lost. They do not matter where (o + V(S)) e^−c is at least e^−700 for every set S,
  and otherwise nothing is proven. (A set's V is at least the smallest that an item's e^g can be.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.attention_sum import UNIT, largest_sums
from setwise.model.ids import Ids
from setwise.model.instance import Instance
from setwise.ranking import Ranking, rank

TOLERANCE = 1e-9  # of the largest price: by how much a set would have to be better to disprove ``proven``
_COARSEST = 1e-3  # rounding of an exponent beyond which comparisons of sets would be meaningless
_HIGHEST, _LOWEST = 600.0, -700.0  # e^±these are doubles with room to spare


class ChoiceModel(Protocol):
    """A model of choice with utilities u (n,) and halo effects H (n, n): what the search for an assortment uses."""

    @property
    def utility(self) -> Floats:
        """u, (n,)."""

    @property
    def halo(self) -> Floats:
        """H, (n, n)."""

    @property
    def ids(self) -> Ids:
        """The ids of the items."""

    @property
    def outside_option(self) -> bool:
        """Whether the customer may buy nothing."""

    def __len__(self) -> int: ...

    def prices(self, price: ArrayLike) -> Floats:
        """``price`` as an array of n finite numbers."""

    def expected_sales(self, items: ArrayLike) -> float:
        """The probability that something is bought."""

    def expected_revenue(self, items: ArrayLike, price: ArrayLike) -> float:
        """The expected price of what is bought."""

    def instance(
        self, margin: ArrayLike | None = None, groups: Mapping[str, ArrayLike] | None = None, shift: float = 0.0
    ) -> Instance:
        """The dense problem of Σ_{i∈S} margin_i e^(g(S,i) − shift)."""


@dataclass(frozen=True, eq=False)
class Assortment:
    """A set to offer, with its expected sales and revenue.

    items             ids, best first        indices   their rows in the model
    expected_sales    the probability that something is bought
    expected_revenue  at the given prices, None without them
    guesses           the thresholds θ of Dinkelbach's rounds, empty when sales were maximised
    proven            whether no set is better, by more than 10⁻⁹ of the largest price (or of all sales)
    """

    items: list[Any]
    indices: NDArray[np.intp]
    expected_sales: float
    expected_revenue: float | None
    guesses: tuple[float, ...]
    proven: bool


def best_assortment(
    model: ChoiceModel,
    k: int,
    price: ArrayLike | None,
    ranker: str,
    groups: Mapping[str, ArrayLike] | None,
    options: Mapping[str, Any],
) -> Assortment:
    """The best set of at most k items for sales or, with prices, for revenue; ``options`` go to ``rank``."""
    if price is None and not model.outside_option:
        todo = "pass price to maximise revenue"
        raise InvalidInput("price", "given when there is no outside option, as something is always sold", None, todo)

    k = whole_number("k", k)
    shift, exact = _numerics(model, min(k, len(model)))

    def search(margin: Floats | None) -> Ranking:
        return rank(model.instance(margin, groups, shift), k, ranker, **options)

    guesses: tuple[float, ...] = ()
    revenue = None
    if price is None:
        best = search(None)
        chosen, proven = best.indices, best.proven
    else:
        chosen, proven, guesses = dinkelbach(model, model.prices(price), search)
        revenue = model.expected_revenue(chosen, price)
    items, sales = model.ids[chosen].tolist(), model.expected_sales(chosen)
    return Assortment(items, chosen, sales, revenue, guesses, proven and exact)


def dinkelbach(
    model: ChoiceModel, price: Floats, search: Callable[[Floats], Ranking]
) -> tuple[Rows, bool, tuple[float, ...]]:
    """The set of largest revenue that ``search`` finds over the margins, whether it is proven, the thresholds θ."""
    largest = float(np.abs(price).max())
    unit = 2.0 ** np.frexp(largest)[1] if largest else 1.0  # margins of size 1, divided exactly
    chosen, guesses = search(price / unit).indices, [0.0]
    while True:
        theta = model.expected_revenue(chosen, price)
        guesses.append(theta)
        for above in (0.0, TOLERANCE / 2 * largest):  # the second round is the proof
            other = search(price / unit - (theta + above) / unit)
            if model.expected_revenue(other.indices, price) > theta:
                chosen = other.indices
                break
            if not other.proven:
                return chosen, False, tuple(guesses)
        else:
            return chosen, True, tuple(guesses)


def _numerics(model: ChoiceModel, k: int) -> tuple[float, bool]:
    """The shift c, and whether doubles resolve the sets of at most k items as the module's docstring requires."""
    plus, minus = largest_sums(model.halo, k)
    highest = float(np.logaddexp.reduce(np.sort(model.utility + plus)[-k:]))
    lowest = float((model.utility - minus).min())
    outside = 0.0 if model.outside_option else -np.inf
    small = max(lowest, outside)  # log of what o + V is at least
    shift = 0.0 if highest <= _HIGHEST and small >= _LOWEST else highest - _HIGHEST
    widest = _HIGHEST + 800.0  # an exponent with more against it belongs to a term that vanishes
    sums = 2 * float(plus.max()) + min(float(minus.max()), widest)
    rounding = UNIT * ((6 * k + 200) * sums + 4 * (abs(shift) + widest))
    if rounding > _COARSEST:
        must, got = "such that doubles keep their sums", f"sums of up to {max(sums, abs(shift)):.3g}"
        raise InvalidInput("positive effects and utilities", must, got, "scale them down")
    return shift, rounding <= TOLERANCE / 8 and small - shift >= _LOWEST
