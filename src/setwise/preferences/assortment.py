"""The assortment problem: which k items to offer.

**Sales.** V/(1 + V) increases in V, so the best set is the one of largest V, a set value that ``rank`` maximises.

**Revenue.** R(S) = Σ_{i∈S} r_i e^g(S,i) / (o + V(S)) is a ratio, and Dinkelbach's method turns it into set values:

    R(S) > θ   ⟺   F_θ(S) = Σ_{i∈S} (r_i − θ) e^g(S,i) > oθ.

Maximise F_θ, put θ ← R(S), and repeat until R no longer grows. Each round improves R strictly and there are finitely
many sets, so it ends. When the ranker is exact, a last round without improvement means that no set has more than θ: the
assortment is optimal. Any other ranker gives a rising sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.errors import InvalidInput
from setwise.ranking import Ranking, rank

if TYPE_CHECKING:
    from setwise.preferences.halo_mnl import MNL

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Assortment:
    """A set to offer and what to expect of it.

    items             ids, best first        indices   their rows in the model
    expected_sales    the probability that something is bought
    expected_revenue  at the given prices, None without them
    guesses           the thresholds θ of Dinkelbach's rounds, empty when sales were maximised
    proven            whether no better set exists
    """

    items: list[Any]
    indices: NDArray[np.intp]
    expected_sales: float
    expected_revenue: float | None
    guesses: tuple[float, ...]
    proven: bool


def best_assortment(
    model: MNL,
    k: int,
    price: ArrayLike | None,
    ranker: str,
    groups: Mapping[str, ArrayLike] | None,
    wishes: Mapping[str, Any],
) -> Assortment:
    """The best set of at most k items for sales or, with prices, for revenue."""
    if price is None and not model.outside_option:
        todo = "pass price to maximise revenue"
        raise InvalidInput("price", "given when there is no outside option, as something is always sold", None, todo)

    def search(margin: Floats | None) -> Ranking:
        return rank(model.instance(margin, groups), k, ranker, **wishes)

    guesses: tuple[float, ...] = ()
    revenue = None
    if price is None:
        found = search(None)
    else:
        found, guesses = dinkelbach(model, model.prices(price), search)
        revenue = model.expected_revenue(found.indices, price)
    chosen = found.indices
    return Assortment(model.ids[chosen].tolist(), chosen, model.expected_sales(chosen), revenue, guesses, found.proven)


def dinkelbach(model: MNL, price: Floats, search: Callable[[Floats], Ranking]) -> tuple[Ranking, tuple[float, ...]]:
    """The set of largest revenue that ``search`` over margins leads to, and the thresholds tried."""
    found, guesses = search(price), [0.0]
    while True:
        theta = model.expected_revenue(found.indices, price)
        guesses.append(theta)
        other = search(price - theta)
        if model.expected_revenue(other.indices, price) <= theta:
            return replace(found, proven=other.proven), tuple(guesses)
        found = other
