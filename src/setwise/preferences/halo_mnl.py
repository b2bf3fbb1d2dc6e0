"""MNL and Halo-MNL: which of the offered items is bought.

    g(S, i) = u_i + Σ_{j∈S} H_ij          p(i | S) = e^g(S,i) / (o + V(S)),        V(S) = Σ_{i∈S} e^g(S,i)

H_ij is the halo that the presence of j casts on i (Maragheh et al. 2018); H = 0 is the multinomial logit. With an
outside option (o = 1: the customer may buy nothing, at utility 0) expected sales are V/(1 + V), increasing in V;
without one (o = 0) something is always sold, and only revenue can be optimised.

V is the set value of a simple transformer whose reward is e^x: g is the paper's Model 2, which
``model/attention_sum.py`` constructs. ``to_catalog`` builds it from queries and keys within a chosen error;
``instance`` is the dense problem for ``rank``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Rows
from setwise._validation import LARGEST, index_array, real_array, real_number
from setwise.errors import InvalidInput
from setwise.model.attention_sum import (
    UNIT,
    AttentionSum,
    growth,
    largest_sums,
    require_reachable,
    signed_parts,
    sum_scores,
)
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice, Ids
from setwise.model.instance import Instance
from setwise.model.rewards import Constant, Exp
from setwise.model.users import User
from setwise.preferences.assortment import Assortment, best_assortment
from setwise.preferences.choice_log import ChoiceLog
from setwise.preferences.complementarity import Complementarity
from setwise.preferences.likelihood import Likelihood, Score, maximise
from setwise.preferences.model_parts import draw, interaction_matrix, positive, set_size, shares
from setwise.ranking import DEFAULT
from setwise.storage import artifact

_HIGHEST = 700.0  # e^700 is still a double
_VANISHED = -800.0  # e^−800 is not
_LISTED = 5  # halo effects named in a printed report
_REWARD_OF_SIGN = {1.0: Exp(), 0.0: Constant(0.0), -1.0: Exp(scale=-1.0)}  # of an item's margin


class MNL:
    """The multinomial logit of n items: utilities alone, no halo."""

    def __init__(self, utility: ArrayLike, ids: IdChoice | None = None, outside_option: bool = True) -> None:
        self._fill(utility, None, ids, outside_option)

    def _fill(self, utility: ArrayLike, halo: ArrayLike | None, ids: IdChoice | None, outside_option: bool) -> None:
        """Check and set the fields of both models."""
        column = real_array("utility", utility, ("n",), np.float64)[:, None]
        n = len(column)
        matrix = np.zeros((n, n)) if halo is None else interaction_matrix("halo", halo, n)
        self.preference = Complementarity(column, matrix)
        self.ids = Ids.of(ids, n)
        self.outside_option = bool(outside_option)

    @property
    def utility(self) -> Floats:
        """The items' own utilities u, (n,)."""
        return self.preference.item_value[:, 0]

    @property
    def halo(self) -> Floats:
        """H, (n, n); zero in an MNL."""
        return self.preference.interaction

    def __len__(self) -> int:
        return len(self.utility)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items, outside_option={self.outside_option})"

    # --- choices ---

    def item_utilities(self, items: ArrayLike) -> Floats:
        """g(S, i) for each of ``items``, in their order."""
        return self.preference.item_utilities([1.0], items)

    def value(self, items: ArrayLike) -> float:
        """V(S), the total weight of the set; 0 for the empty set."""
        return float(Exp().value(self.item_utilities(items)).sum())

    def choice_probabilities(self, items: ArrayLike) -> Floats:
        """p(i | S) for each of ``items``; the rest of the probability is the outside option's."""
        utility = self._with_outside(self.item_utilities(items), 0.0)
        return shares(utility)[: np.size(items)] if utility.size else utility

    def expected_sales(self, items: ArrayLike) -> float:
        """The probability that something is bought."""
        return float(self.choice_probabilities(items).sum())

    def expected_revenue(self, items: ArrayLike, price: ArrayLike) -> float:
        """Σ_{i∈S} price_i p(i | S), with the prices of all n items."""
        rows = index_array("items", items, len(self), "the model")
        return float(self.prices(price)[rows] @ self.choice_probabilities(rows))

    def sample(self, items: ArrayLike, size: int, seed: int = 0) -> Rows:
        """The rows of ``size`` independent choices from the set; −1 is a choice of nothing."""
        rows = index_array("items", items, len(self), "the model")
        utility = self._with_outside(self.item_utilities(rows), 0.0)
        return draw("items", self._with_outside(rows, -1), utility, size, seed)

    def _with_outside(self, array: NDArray[Any], outside: float) -> NDArray[Any]:
        return np.append(array, np.asarray([outside], array.dtype)) if self.outside_option else array

    def prices(self, price: ArrayLike) -> Floats:
        """``price`` as an array of n finite numbers."""
        return real_array("price", price, (len(self),), np.float64)

    # --- simple transformers ---

    def to_catalog(self, eps: float, k: int | None = None, attributes: Any = None) -> Catalog:
        """The simple transformer whose F(S) is V(S) within ``eps`` for every set of at most k items.

        Evaluate it with ``self.user()``. Half of eps is for ``_raised``, which makes the effects of "never together"
        finite. For the raised parameters let B bound V over these sets: the sum of the k largest e^(u_i + T⁺_i), where
        T⁺_i is the most that others can add to i. If every g is right within δ, V is right within B (e^δ − 1), so
        δ = log(1 + eps/2B). Half of δ goes to the construction, half to rounding: that of the sum over H, and on either
        side ε(|g| + k + 4) for the base term, exp and the sum of the k rewards.
        """
        eps, k = positive("eps", eps), set_size(k, len(self))
        utility, halo = self._raised(k, math.log(eps) - math.log(2 * k))
        plus, minus = largest_sums(halo, k)
        log_bound = float(np.logaddexp.reduce(np.sort(utility + plus)[-k:]))
        if log_bound > _HIGHEST:
            todo = "lower k or scale the utilities down"
            raise InvalidInput("the value of k items", "below e^700", f"up to e^{log_bound:.4g}", todo)
        error = float(np.clip(np.logaddexp(0.0, math.log(eps) - math.log(2) - log_bound), 1e-300, 1.0))
        construction = AttentionSum.within(halo, k, error)
        largest = float(np.abs(utility).max() + plus.max() + minus.max())
        rounding = construction.rounding + 2 * UNIT * (largest + k + 4)
        require_reachable(eps, 2 * math.exp(log_bound) * growth(2 * rounding))
        return construction.catalog(utility[:, None], Exp(), self.ids[:], attributes)

    def _raised(self, k: int, negligible: float | Floats) -> tuple[Floats, Floats]:
        """Utilities and H with very negative entries raised; no e^g rises above e^``negligible`` by it.

        An effect H_ij ≤ −(u_i + T⁺_i − negligible) keeps e^g(S,i) below e^negligible in every set S that contains j.
        This is still true after H_ij is raised to that limit. So −10^18, which means "never together", becomes a number
        that a sum can represent. A utility is raised likewise, to u_i ≥ negligible − T⁺_i.
        """
        plus, _ = largest_sums(self.halo, k)
        room = self.utility + plus - negligible
        return np.maximum(self.utility, negligible - plus), np.maximum(self.halo, -np.maximum(room, 0.0)[:, None])

    def user(self) -> User:
        """The user to evaluate ``to_catalog`` with: the model has only one."""
        return User(heads=np.ones((2, 1)), base=[1.0])

    def instance(
        self, margin: ArrayLike | None = None, groups: Mapping[str, ArrayLike] | None = None, shift: float = 0.0
    ) -> Instance:
        """The dense problem of F(S) = Σ_{i∈S} margin_i e^(g(S,i) − shift); a margin of 1, the default, makes it V(S).

        A positive margin r has the reward e^x, with log r in the base. A negative one adds −e^(g + log |r|), which is
        −e^−x of x = −g − log |r|: the item's heads are exchanged and its base is negated. So every reward is
        non-decreasing, and an item of negative margin may still be shown for its halo. The sink's weight is so large
        that its truncation error is below rounding. ``shift`` keeps e^(g − shift) within the doubles; the best set does
        not depend on it.
        """
        wanted = np.ones(len(self)) if margin is None else real_array("margin", margin, (len(self),), np.float64)
        sign = np.sign(wanted)
        log_margin = np.log(np.abs(wanted), where=sign != 0, out=np.zeros(len(self)))
        scale = log_margin - real_number("shift", shift)
        utility, halo = self._raised(len(self), _VANISHED - scale)
        with np.errstate(divide="ignore"):  # log 0 = −∞: no attention at all
            logit = np.log(signed_parts(halo))
        logit[:, sign < 0] = logit[::-1][:, sign < 0]
        total = float(np.abs(halo).sum(axis=1).max())
        if total > LARGEST * UNIT:
            got = f"effects that add up to {total:.1e}"
            raise InvalidInput("halo", f"at most {LARGEST * UNIT:.1e} in sum on an item", got, "scale it down")
        sink = max(0.0, math.log(total) - math.log(UNIT)) if total else 0.0  # what a sum of T loses is below UNIT · T
        kinds, classes = np.unique(sign, return_inverse=True)
        return Instance(
            logit,
            np.repeat(sum_scores(sink)[:, None], len(self), axis=1),
            ([_REWARD_OF_SIGN[kind] for kind in kinds], classes),
            sign * (utility + scale),
            np.full((2, len(self)), sink),
            np.zeros(2),
            groups=groups,
        )

    def assortment(
        self,
        k: int,
        price: ArrayLike | None = None,
        ranker: str = DEFAULT.name,
        *,
        groups: Mapping[str, ArrayLike] | None = None,
        **options: Any,
    ) -> Assortment:
        """The set of at most k items of largest expected sales, or of largest expected revenue at these prices.

        ``options`` go to ``rank``: ``include``, ``exclude``, ``at_most`` (on ``groups``) and the ranker's own options.
        """
        return best_assortment(self, k, price, ranker, groups, options)

    # --- learning ---

    def score(self, log: ChoiceLog) -> Score:
        """How well the model predicts a log of choices among its items."""
        return self._score(self._likelihood("log", log, self.ids, self.outside_option))

    def _score(self, likelihood: Likelihood) -> Score:
        return likelihood.score(self.utility, self.halo)

    @staticmethod
    def _likelihood(parameter: str, log: ChoiceLog, ids: Ids, outside_option: bool) -> Likelihood:
        if not np.array_equal(log.ids[:], ids[:]):
            raise InvalidInput(parameter, "about the items of the model", f"{len(log.ids)} others", "use the same ids")
        return Likelihood(log, outside_option, parameter)

    @classmethod
    def fit(cls, log: ChoiceLog, held_out: ChoiceLog | None = None, utility_ridge: float = 1e-3) -> Fit:
        """Maximum likelihood; the model has an outside option when some choice of the log is of nothing."""
        return cls._fitted(log, held_out, utility_ridge, None)

    @classmethod
    def _fitted(cls, log: ChoiceLog, held_out: ChoiceLog | None, utility_ridge: float, ridge: float | None) -> Fit:
        outside = log.outside_option
        train = Likelihood(log, outside)
        test = None if held_out is None else cls._likelihood("held_out", held_out, log.ids, outside)
        result = maximise(train, utility_ridge, ridge)
        model = cls.__new__(cls)
        model._fill(result.utility, result.halo, log.ids[:], outside)
        held_out_score = None if test is None else model._score(test)
        return Fit(model, model._score(train), held_out_score, result.converged, result.iterations)

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to the folder ``path``."""
        meta = {"ids": self.ids[:].tolist(), "outside_option": self.outside_option}
        artifact.write(path, type(self).__name__, {"utility": self.utility, "halo": self.halo}, meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a saved model."""
        saved = artifact.read(path, cls.__name__)
        model = cls.__new__(cls)
        with artifact.restoring(path):
            model._fill(saved.arrays["utility"], saved.arrays["halo"], saved.meta["ids"], saved.meta["outside_option"])
        return model


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and its report."""

    model: MNL
    train: Score
    held_out: Score | None
    converged: bool
    iterations: int

    @property
    def log_likelihood(self) -> float:
        """Σ_t log p of what was chosen, penalties not included."""
        return -self.train.nll * self.train.observations

    def __str__(self) -> str:
        model = self.model
        outside = "with" if model.outside_option else "without"
        lines = [
            f"{type(model).__name__} of {len(model)} items, {outside} outside option",
            f"  {'converged' if self.converged else 'NOT converged'} after {self.iterations} iterations",
            f"  log-likelihood {self.log_likelihood:.1f}",
            f"  training  {self.train}",
            f"  held out  {self.held_out or 'nothing'}",
            f"  utility   {model.utility.min():.3f} to {model.utility.max():.3f}",
        ]
        strongest = np.argsort(-np.abs(model.halo), axis=None, kind="stable")[:_LISTED]
        for i, j in zip(*np.unravel_index(strongest, model.halo.shape), strict=True):
            if model.halo[i, j]:
                lines.append(f"  halo      {model.halo[i, j]:+.3f} on {model.ids[i]} where {model.ids[j]} is")
        return "\n".join(lines)


class HaloMNL(MNL):
    """The multinomial logit with a halo H (n, n): H_ij is what the presence of j adds to the utility of i."""

    def __init__(
        self, utility: ArrayLike, halo: ArrayLike, ids: IdChoice | None = None, outside_option: bool = True
    ) -> None:
        self._fill(utility, halo, ids, outside_option)

    @classmethod
    def fit(
        cls, log: ChoiceLog, held_out: ChoiceLog | None = None, utility_ridge: float = 1e-3, ridge: float = 1.0
    ) -> Fit:
        """Maximum likelihood with the penalty ½ ridge ‖H‖²; otherwise as for ``MNL``."""
        return cls._fitted(log, held_out, utility_ridge, ridge)
