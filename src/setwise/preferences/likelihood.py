"""Maximum likelihood for MNL and Halo-MNL.

Choice t has the alternatives A_t, the context indicator c_t ∈ {0, 1}ⁿ and the chosen item y_t:

    U = u + C Hᵀ  (N, n),      p_ti = e^(U_ti) / (o + Σ_{j∈A_t} e^(U_tj)),      o = 1 with an outside option, else 0.

We minimise  −Σ_t log p_{t,y_t} + ½ ridge ‖H‖² + ½ utility_ridge ‖u‖²,  which is convex; the penalties are Gaussian
priors of those precisions. With Y the indicator of the chosen items the gradient is Σ_t (P − Y)_t for u and
(P − Y)ᵀ C for H, whose diagonal stays 0. The outside option is the last column of P, which index −1 selects.

**What is identified.** Without an outside option a constant added to u changes nothing, nor does one added to a column
of H over the competing items. Among equal solutions the penalties select the smallest: for u the one with Σu = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise._validation import real_number
from setwise.errors import InvalidInput, MissingDependency
from setwise.preferences.choice_log import ChoiceLog

MAX_ITERATIONS = 1000  # of L-BFGS; a few hundred are usual
GRADIENT_TOLERANCE = 1e-5  # of the mean loss: below it a fit counts as converged; estimation errors are far larger


@dataclass(frozen=True)
class Score:
    """Fit to a log: the mean of −log p over the chosen items, and how often the most probable item was chosen."""

    observations: int
    nll: float
    accuracy: float

    def __str__(self) -> str:
        return f"NLL {self.nll:.4f}, accuracy {self.accuracy:.3f} on {self.observations:,} choices"


class Likelihood:
    """The loss of a log as a function of the parameters; H is (n, n), or (n, 0) when there is no halo."""

    def __init__(self, log: ChoiceLog, outside_option: bool, parameter: str = "log") -> None:
        if log.outside_option and not outside_option:
            must = "one of choices only, as the model has no outside option"
            raise InvalidInput(parameter, must, "choices of nothing", "drop those")
        self.context = log.context.astype(np.float64)
        possible = np.column_stack([log.offered, np.full(len(log), outside_option)])
        self.barrier = np.where(possible, 0.0, -np.inf)
        self.taken = np.arange(len(log)), log.chosen

    def probabilities(self, utility: Floats, halo: Floats) -> tuple[Floats, Floats]:
        """P (N, n + 1), zero for items that were not offered, and log p of the chosen items (N,)."""
        weight = self.barrier.copy()
        weight[:, :-1] += utility + self.context[:, : halo.shape[1]] @ halo.T
        weight -= weight.max(axis=1, keepdims=True)
        log_chosen = weight[self.taken]
        np.exp(weight, out=weight)
        total = weight.sum(axis=1)
        weight /= total[:, None]
        return weight, log_chosen - np.log(total)

    def loss(self, utility: Floats, halo: Floats) -> tuple[float, Floats, Floats]:
        """The mean of −log p, and its gradient in u and H."""
        residual, log_chosen = self.probabilities(utility, halo)
        residual[self.taken] -= 1.0
        halo_gradient = (residual.T @ self.context[:, : halo.shape[1]])[:-1]
        np.fill_diagonal(halo_gradient, 0.0)
        choices = len(log_chosen)
        return -float(log_chosen.mean()), residual.sum(axis=0)[:-1] / choices, halo_gradient / choices

    def score(self, utility: Floats, halo: Floats) -> Score:
        """How well these parameters predict the log."""
        probability, log_chosen = self.probabilities(utility, halo)
        choices = probability.shape[1]
        right = probability.argmax(axis=1) == self.taken[1] % choices  # −1 is the last column
        return Score(len(log_chosen), -float(log_chosen.mean()), float(right.mean()))


@dataclass(frozen=True, eq=False)
class Estimate:
    """The parameters at which the optimiser stopped."""

    utility: Floats
    halo: Floats
    converged: bool
    iterations: int


def maximise(likelihood: Likelihood, utility_ridge: float, ridge: float | None) -> Estimate:
    """The parameters of largest penalised likelihood, by L-BFGS from zero; ``ridge`` None leaves H at zero."""
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise MissingDependency("scipy", "fitting a choice model", "choice") from None
    choices, n = likelihood.context.shape
    width = 0 if ridge is None else n
    precision = _precision("utility_ridge", utility_ridge), _precision("ridge", ridge or 0.0)
    penalty = np.repeat(precision, [n, n * width]) / choices

    def objective(flat: Floats) -> tuple[float, Floats]:
        loss, utility_gradient, halo_gradient = likelihood.loss(flat[:n], flat[n:].reshape(n, width))
        gradient = np.concatenate([utility_gradient, halo_gradient.ravel()]) + penalty * flat
        return loss + float(penalty @ flat**2) / 2, gradient

    options = {"maxiter": MAX_ITERATIONS, "maxfun": 2 * MAX_ITERATIONS, "gtol": GRADIENT_TOLERANCE, "ftol": 0.0}
    result = minimize(objective, np.zeros(n + n * width), jac=True, method="L-BFGS-B", options=options)
    halo = np.zeros((n, n))
    halo[:, :width] = result.x[n:].reshape(n, width)
    return Estimate(result.x[:n], halo, bool(result.success), int(result.nit))


def _precision(parameter: str, number: float) -> float:
    value = real_number(parameter, number)
    if value < 0:
        raise InvalidInput(parameter, "at least 0", value, "pass 0 for no penalty")
    return value
