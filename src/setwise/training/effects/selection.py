"""Which effects are there: families enter one by one while the cross-validated log loss falls beyond doubt.

The loss is that of all slates, each predicted by a fit without its fold; the gain of a family is the mean difference
over the slates, with its standard error. A family that is tried and does not enter has an answer too: the smallest
effect that the log would have shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import Block, Family, Shown
from setwise.training.effects.regression import Curvature, Design, Fit, Rows, fit, losses
from setwise.training.effects.score_test import Score, ScoreTest

FOLDS = 5
BEYOND_DOUBT = 3.0  # standard errors
MOST_EFFECTS = 6
AT_ONCE = 4  # families that are fitted before one of them is chosen
SMALLEST = 3.0  # standard errors that an effect needs to be seen


@dataclass(frozen=True, eq=False)
class Tried:
    """A family, and by how much it lowers the held-out loss of a slate: 0 where one step shows that it will not."""

    name: str
    gain: float
    error: float
    smallest: float | None  # the smallest effect that this log would have shown, of a family of one coefficient
    entered: bool = False

    @property
    def beyond_doubt(self) -> bool:
        """Whether the gain is not chance."""
        return self.gain > BEYOND_DOUBT * self.error


@dataclass(frozen=True, eq=False)
class Selected:
    """The fit of the base and the families that entered, and its cross-validated logits."""

    families: tuple[Family, ...]
    fit: Fit
    rows: Rows
    held_out: Floats  # the logit of every row by the fit without its fold
    base_held_out: Floats  # the same of the base alone
    tried: tuple[Tried, ...]

    def log_loss(self) -> dict[str, float]:
        """The held-out log loss of an item, by the base alone and with the effects."""
        both = {"base": self.base_held_out, "effects": self.held_out}
        by_fit = {name: losses(argument, self.rows.outcome) for name, argument in both.items()}
        return {name: float(np.average(part, weights=self.rows.weight)) for name, part in by_fit.items()}


@dataclass(frozen=True, eq=False)
class Folds:
    """Which rows are fitted and which predicted, fold by fold."""

    fold: Ints  # of every row
    owner: Ints  # the slate of every row

    @classmethod
    def of(cls, shown: Shown, group: Ints | None, seed: int) -> Folds:
        """Slates of the same group (a session, a user) are in the same fold."""
        label = np.arange(len(shown.rows)) if group is None else np.unique(group, return_inverse=True)[1]
        number = np.random.default_rng(seed).permutation(int(label.max(initial=0)) + 1) % FOLDS
        return cls(number[label][shown.owner], shown.owner)

    def held_out(self, rows: Rows, design: Design, whole: Fit) -> Floats:
        """The logit of every row by the fit to the other folds; variances are those of the fit to all."""
        result = np.empty(len(rows.item))
        p = 1 / (1 + np.exp(-whole.argument(rows, design)))
        weight = rows.weight * p * (1 - p)
        by_fold = []
        for number in range(int(self.fold.max(initial=0)) + 1):
            inside = np.flatnonzero(self.fold == number)
            by_fold.append((inside, Curvature.of(design.taken(rows.taken(inside), inside), weight[inside])))
        total = Curvature.total([part for _, part in by_fold])
        for inside, part in by_fold:
            others = replace(rows, weight=np.where(np.isin(np.arange(len(weight)), inside), 0.0, rows.weight))
            fitted = fit(others, design, whole, learned="none", curvature=total.without(part))
            result[inside] = fitted.argument(rows, design)[inside]
        return result

    def by_slate(self, rows: Rows, argument: Floats) -> Floats:
        """The loss of every slate: the sum over its rows."""
        of_row = rows.weight * losses(argument, rows.outcome)
        return np.asarray(np.bincount(self.owner, of_row, int(self.owner.max()) + 1), np.float64)


def select(
    rows: Rows,
    base: Sequence[Block],
    nuisance: Sequence[Block],
    candidates: Sequence[Family],
    shown: Shown,
    folds: Folds,
    losses_only: Collection[Family] = (),
    advance: Callable[[int, str], None] = lambda count, name: None,
) -> Selected:
    """Forward selection among the candidates, beside the blocks of the items and those that are always there.

    Those whose score is highest are fitted first; the others only if none of these pays. Families of ``losses_only``
    enter only if items lose by them. ``advance`` is called for each family that is tried.
    """
    blocks: list[Block] = list(nuisance)
    design = Design.of(rows, base, blocks)
    whole = fit(rows, design)
    held_out = base_held_out = folds.held_out(rows, design, whole)
    families: list[Family] = []
    tried: dict[str, Tried] = {}
    columns = {family.name: family.block(shown) for family in candidates}
    while len(families) < MOST_EFFECTS:
        before = folds.by_slate(rows, held_out)
        tests: list[tuple[Family, Score]] = []
        test_of = ScoreTest(rows, design, whole)
        for family in candidates:
            advance(1, family.name)
            if family not in families and _varies(columns[family.name]):
                tests.append((family, test_of.of(columns[family.name])))
        tests.sort(key=lambda pair: -pair[1].excess)
        best: tuple[Tried, Family, Fit, Floats] | None = None
        for number, (family, test) in enumerate(tests):
            if number % AT_ONCE == 0 and best is not None:
                break
            smallest = SMALLEST * float(test.errors[0]) if len(test.errors) == 1 else None
            if not test.promising:
                tried.setdefault(family.name, Tried(family.name, 0.0, 0.0, smallest))
                continue
            widened = Design.of(rows, base, [*blocks, columns[family.name]])
            wider = fit(rows, widened, whole, learned="new")
            argument = folds.held_out(rows, widened, wider)
            gain = before - folds.by_slate(rows, argument)
            trial = Tried(family.name, float(gain.mean()), float(gain.std() / np.sqrt(len(gain))), smallest)
            tried.setdefault(family.name, trial)
            gains = family in losses_only and wider.of(family.name)[0][0] > 0
            if trial.beyond_doubt and not gains and (best is None or trial.gain > best[0].gain):
                best = (trial, family, wider, argument)
        if best is None:
            break
        trial, family, whole, held_out = best
        tried[family.name] = Tried(trial.name, trial.gain, trial.error, trial.smallest, entered=True)
        families.append(family)
        blocks.append(columns[family.name])
        design = Design.of(rows, base, blocks)
    whole = fit(rows, design, whole)
    return Selected(tuple(families), whole, rows, held_out, base_held_out, tuple(tried.values()))


def _varies(block: Block) -> bool:
    """Whether the log has the effect in different amounts."""
    if not isinstance(block.columns, np.ndarray):
        return bool(block.columns.nnz)
    return bool((np.ptp(block.columns, axis=0) > 1e-9).any())
