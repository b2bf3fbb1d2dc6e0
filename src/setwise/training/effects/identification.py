"""What a log can tell: a policy that knows a user's taste chooses company by it, and company then passes for an effect.

Taste leaves a trace beside the company. Given the slate, what a user makes of its items is independent; a user who
likes a category likes several items of it. So, with the residuals r = outcome − p of a fit and any measure C_ij of how
much two items go together,

    z = Σ C_ij r_i r_j / √Σ C_ij² p_i q_i p_j q_j     over the pairs i, j of a slate

is about normal without hidden taste, and large with it. Hidden taste does harm only where the company goes with it:
where the mean of C is larger in slates than among items of different slates. Both are tested for

* **attributes**: C_ij is whether i and j have the same value. Where both show, only slates whose company looks random
  are fitted, which a policy chose by taste the least; an effect through the attribute is believed if items lose by
  it, as taste can only hide that.
  A **threshold** is a jump, and a taste shows in the company little by little. So thresholds are also looked for in
  all slates, beside the squares and sums of the company (``gradual``): what remains is no taste.
* **effects** that were found: C_ij is what i and j do to each other. Where both show, the effect looks like taste, and
  is not believed. Of a true effect there is no trace in the residuals.

Explored slates, or known propensities, need no such doubts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import Block, Family, Shown
from setwise.training.effects.features import Features, Label
from setwise.training.effects.regression import Fit
from setwise.training.effects.same_value import count_equal

TRACE, CLUSTERED = 3.0, 4.0  # standard errors
PLAIN = 0.05  # standard errors for the root of each slate: those of a taste of 0.35 log-odds
FIRST_SLATES = 20_000  # of a log: enough for both tests


@dataclass(frozen=True)
class Taste:
    """The trace of hidden taste by an attribute or an effect: in the residuals, and in the company."""

    name: str
    residuals: float  # standard errors
    company: float
    slates: int  # of which they are

    @property
    def suspected(self) -> bool:
        """Whether users have a taste that the model lacks, and the policy goes by it."""
        return self.residuals > TRACE and self.company > CLUSTERED

    @property
    def plain(self) -> bool:
        """Whether the taste is also large: a faint trace may come from effects that no attribute explains."""
        return self.suspected and self.residuals > PLAIN * float(np.sqrt(self.slates))


@dataclass(frozen=True, eq=False)
class Trace:
    """The pairs of items of slates, with the products of their residuals and what those vary by."""

    pairs: Shown  # (pairs, 2)
    strangers: Shown  # the same first items, each with an item of another slate
    product: Floats
    variance: Floats
    slates: int

    @classmethod
    def of(cls, shown: Shown, outcome: Floats, argument: Floats) -> Trace:
        """From the held-out logits of a fit."""
        p = 1 / (1 + np.exp(-argument))
        residual, spread = np.zeros(shown.rows.shape), np.zeros(shown.rows.shape)
        residual[shown.filled], spread[shown.filled] = outcome - p, p * (1 - p)
        first_slates = slice(0, FIRST_SLATES)
        rows, filled, residual, spread = (
            shown.rows[first_slates],
            shown.filled[first_slates],
            residual[first_slates],
            spread[first_slates],
        )
        first, second = np.triu_indices(rows.shape[1], 1)
        both = filled[:, first] & filled[:, second]
        items = np.stack([rows[:, first][both], rows[:, second][both]], axis=1)
        turned = np.stack([items[:, 0], np.roll(items[:, 1], max(1, len(items) // 2))], axis=1)
        filled_in = np.ones(items.shape, bool)
        product, variance = (part[:, first][both] * part[:, second][both] for part in (residual, spread))
        return cls(Shown(items, filled_in), Shown(turned, filled_in), product, variance, len(rows))

    def taste(self, name: str, together: Callable[[Shown], Floats]) -> Taste:
        """The test of a measure of how much the two items of a pair go together."""
        if not len(self.product):
            return Taste(name, 0.0, 0.0, self.slates)
        actual, chance = together(self.pairs), together(self.strangers)
        noise = float(np.sqrt(actual**2 @ self.variance))
        spread = float(np.sqrt((actual.var() + chance.var()) / len(actual)))
        residuals = float(actual @ self.product) / noise if noise > 0 else 0.0
        company = float(actual.mean() - chance.mean()) / spread if spread > 0 else 0.0
        return Taste(name, residuals, company, self.slates)


def all_tastes(trace: Trace, features: Features, families: Sequence[Family], result: Fit) -> list[Taste]:
    """The trace for every label and every effect."""
    return [*tastes_by_label(trace, features), *tastes_by_effect(trace, families, result)]


def tastes_by_label(trace: Trace, features: Features) -> list[Taste]:
    """The trace for every label."""
    return [trace.taste(label.name, partial(_equal, label)) for label in features.labels]


def tastes_by_effect(trace: Trace, families: Sequence[Family], result: Fit) -> list[Taste]:
    """The trace for every effect."""
    return [trace.taste(family.name, partial(_mutual, family, result.of(family.name)[0])) for family in families]


def _equal(label: Label, pairs: Shown) -> Floats:
    code = label.code[pairs.rows]
    return np.asarray((code[:, 0] == code[:, 1]) & (code[:, 0] >= 0), np.float64)


def _mutual(family: Family, theta: Floats, pairs: Shown) -> Floats:
    """What the two items of each pair do to each other, added up."""
    return np.asarray((family.pairs(pairs).columns @ theta).reshape(-1, 2).sum(axis=1))


def random_looking(labels: Sequence[Label], shown: Shown) -> Ints:
    """The slates with no more pairs of one value than chance gives, rounded down but one at least, for all labels."""
    calm = np.ones(len(shown.rows), bool)
    for label in labels:
        code = np.where(shown.filled, label.code[shown.rows], -1)
        known = code[code >= 0]
        share = np.bincount(known) / max(len(known), 1)
        same, pairs = np.zeros(len(code)), np.zeros(len(code))
        for first in range(code.shape[1]):
            for second in range(first):
                both = (code[:, first] >= 0) & (code[:, second] >= 0)
                pairs += both
                same += both & (code[:, first] == code[:, second])
        calm &= same <= np.maximum(np.floor(pairs * float(share @ share)), 1)
    return np.flatnonzero(calm)


def gradual(label: Label, shown: Shown) -> Block:
    """What a taste for a label does beside its company: the number of like items, its mean in the slate, and powers."""
    count = count_equal(label, shown)
    mean = (np.bincount(shown.owner, count) / np.bincount(shown.owner))[shown.owner]
    columns = np.column_stack([x**power for x in (count, mean) for power in (0.5, 1, 2)])
    scale = np.maximum(columns.std(axis=0), 1e-9)
    return Block(f"company of {label.name}", (columns - columns.mean(axis=0)) / scale, shrunken=False)
