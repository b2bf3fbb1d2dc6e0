"""Learn effects from slates: the base, the families that the log shows beyond doubt, and the model of both.

1. **Which slates count.** Explored ones alone, where the log says which they are, or slates weighted by 1/propensity.
   What the policy's own slates say about an item alone is then one more attribute of it.
2. **Selection** (selection.py) beside place, with the base in the fit.
3. **Identification** (identification.py): where a policy may have known a taste that the model lacks, effects that look
   like taste are not believed. Selection is repeated without them, on slates whose company looks random.
4. **The reward** is fitted to held-out predictions, without place: a set has the average place.

Where one item of a slate is chosen, or none, an item takes choices from the others (choice.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from setwise._progress import Progress
from setwise._types import Floats, Ints
from setwise.datasets.sessions import Slates
from setwise.model.rewards import Exp, Reward
from setwise.training.calibration import fit_logistic
from setwise.training.effects import choice
from setwise.training.effects.base import Base
from setwise.training.effects.columns import Block, Family, Head, Shown
from setwise.training.effects.contrast import ExtremeContrast, MeanContrast
from setwise.training.effects.drawing import Picture, picture
from setwise.training.effects.effect_model import as_model
from setwise.training.effects.features import Features, Label
from setwise.training.effects.identification import (
    Taste,
    Trace,
    all_tastes,
    gradual,
    random_looking,
    tastes_by_effect,
    tastes_by_label,
)
from setwise.training.effects.mistakes import never_differs, notes_on, require_places
from setwise.training.effects.place import Place, Size
from setwise.training.effects.regression import Design, Fit, Rows, errors, fit
from setwise.training.effects.same_value import AnyOther, Each
from setwise.training.effects.selection import BEYOND_DOUBT, MOST_EFFECTS, Folds, Selected, select
from setwise.training.effects.similarity import Cosine, Similarity
from setwise.training.effects.taste import Tastes
from setwise.training.effects.threshold import SIZES, Crowd
from setwise.training.effects.transfer import learned
from setwise.training.effects.value_pairs import ValuePairs
from setwise.training.slate_model import SlateModel

POLICY = "as the policy shows them"  # the base's column of what unexplored slates say
MOST_SELECTED = 50_000  # slates in which effects are looked for; the coefficients are those of all slates
FEWEST = 50  # slates from which effects are learned
ROUNDS, SELECTIONS = 5, 3  # of offsets and fits of choices, and of selections with offsets
MASKED = (
    "Users have tastes for {} that the model does not know, and the log shows them what they like: effects by which "
    "items of one value gain from each other are not believed, and slates whose company looks random count alone."
)
UNTOLD = "Explored slates or propensities would tell taste and effect apart."
LEAST_JUMP = 0.3  # log-odds that a threshold takes, surely, where a taste is beside it
LARGEST_WEIGHT = 20.0  # of a slate, relative to the mean: propensities that are smaller count as if they were not


@dataclass(frozen=True, eq=False)
class Effects:
    """What was learned: the logit of every item alone, the heads of the effects, and what there is to say."""

    alone: Floats
    taste: tuple[Floats, Floats]  # the vectors of Tastes.of_items
    heads: tuple[Head, ...]
    reward: Reward
    selected: Selected
    places: tuple[Place, ...]
    tastes: tuple[Taste, ...]
    slates: int  # how many were fitted
    masked: bool  # whether taste may plainly pass for an effect
    first: Selected  # before any effect was doubted
    explored: Ints | None  # the slates that effects were learned from; None for all
    choices: bool  # whether one item of a slate is chosen, or none
    notes: tuple[str, ...]
    transfer: dict[str, Any]  # the same as data about attributes (transfer.py)

    def words(self) -> list[str]:
        """The effects in words."""
        of = self.selected.fit.of
        lines = [line for place in self.places for line in place.words(*of(place.name))]
        return lines + [line for family in self.selected.families for line in family.words(*of(family.name))]

    def pictures(self) -> list[Picture]:
        """The effects as curves and matrices."""
        families: list[Family | Place] = [*self.places, *self.selected.families]
        return [picture(family, *self.selected.fit.of(family.name)) for family in families]

    def summary(self) -> dict[str, Any]:
        """What a report needs."""
        return {
            "effects": [family.name for family in self.selected.families],
            "words": self.words(),
            "pictures": self.pictures(),
            "effects_tried": [asdict(tried) for tried in self.selected.tried],
            "tastes": [asdict(taste) for taste in self.tastes],
            "notes": list(self.notes),
            "transfer": self.transfer,
        }

    def masked_beside(self, model: SlateModel, features: Features, slates: Slates) -> bool:
        """Whether taste may pass for an effect in what this model, which knows more of it, leaves open."""
        if not self.masked or self.choices:
            return self.masked
        argument = model.arguments(slates.history, slates.shown)
        trace = Trace.of(Shown.of(slates.shown), np.asarray(slates.outcome, np.float64), argument)
        return any(taste.plain for taste in all_tastes(trace, features, self.first.families, self.first.fit))

    def model(self, slates: Slates) -> SlateModel:
        """The model of these items and their users."""
        summary = {
            "stages": {},
            "kept": "effects" if self.heads else "pointwise",
            "calibrated_on": self.slates,
            "log_loss": self.selected.log_loss(),  # of fits without each slate
            **self.summary(),
        }
        ids, attributes = slates.ids, slates.attributes
        model = as_model(self.alone, self.taste, self.heads, self.reward, ids, attributes, summary)
        return choice.model_of_choices(model, slates) if self.choices else model


def families_of(features: Features, shown: Shown) -> list[Family]:
    """All families that these features allow."""
    most, mean_size = shown.rows.shape[1], float(shown.others.mean()) + 1
    result: list[Family] = []
    if np.ptp(shown.others) > 0:
        result.append(Size(features.items, most))
    for label in features.labels:
        result += [Each(label, most), AnyOther(label), ValuePairs.of(label, shown, most)]
        result += [Crowd(label, size, most) for size in SIZES if size < most]
        result += [Crowd(label, size, most, mean_size) for size in (2, *SIZES) if size < most]
    for number in features.numbers:
        result += [MeanContrast(number, mean_size), *(ExtremeContrast(number, highest) for highest in (False, True))]
    for vector in features.vectors:
        result += [Similarity(vector, most), Cosine(vector, most)]
    return result


@dataclass(frozen=True, eq=False)
class Evidence:
    """The slates that are fitted, with the base and the tastes of users: what every fit reads."""

    slates: Slates
    base: Base
    users: Tastes
    seed: int
    offset: Floats | None = None  # of every row: what the others of a slate take, where outcomes are choices
    progress: bool | None = None  # as Progress has it

    @cached_property
    def shown(self) -> Shown:
        """The items of the slates."""
        return Shown.of(self.slates.shown)

    @cached_property
    def rows(self) -> Rows:
        """The outcomes, weighted where propensities are known."""
        rows = _rows(self.slates, self.shown)
        return rows if self.offset is None else replace(rows, offset=self.offset)

    @cached_property
    def places(self) -> list[Place]:
        """The family of places, where they are known."""
        place = self.slates.place
        return [] if place is None or not np.ptp(place) else [Place(np.asarray(place))]

    @cached_property
    def always(self) -> list[Block]:
        """Blocks beside the base that are in every fit: of users and of places."""
        of_users = self.users.blocks(self.slates.history, self.shown)
        return [*of_users, *(place.block(self.shown) for place in self.places)]

    def selected(
        self, candidates: Sequence[Family], losses_only: Sequence[Family] = (), beside: Sequence[Block] = ()
    ) -> Selected:
        """The families among ``candidates`` that enter the model, beside further blocks."""
        folds, blocks = Folds.of(self.shown, self.slates.session, self.seed), [*self.always, *beside]
        data = self.rows, self.base.blocks, blocks, candidates, self.shown, folds, losses_only
        with Progress("looking for effects", MOST_EFFECTS * len(candidates), self.progress) as bar:
            return select(*data, bar.advance)

    def utility(self, result: Fit, families: Sequence[Family]) -> Floats:
        """The logit of every row but for its offset."""
        blocks = [*self.always, *(family.block(self.shown) for family in families)]
        logit = result.argument(self.rows, Design.of(self.rows, self.base.blocks, blocks))
        return np.asarray(logit - self.rows.offset)

    def with_offsets(self, result: Fit, families: Sequence[Family] = ()) -> Evidence:
        """Choices, of which the others of a slate take as much as this fit says."""
        return replace(self, offset=choice.offsets(self.utility(result, families), self.shown))

    def as_choices(self) -> Evidence:
        """Choices, of which the others of a slate take as much as they do by the base alone."""
        rows = choice.against_nothing(self.rows, self.shown)
        result = fit(rows, Design.of(rows, self.base.blocks, self.always))
        evidence = self.with_offsets(result)
        for _ in range(ROUNDS):
            result = fit(evidence.rows, Design.of(evidence.rows, self.base.blocks, self.always), result)
            evidence = evidence.with_offsets(result)
        return evidence

    def sampled(self) -> Evidence:
        """At most ``MOST_SELECTED`` of the slates, drawn at random."""
        if len(self.slates) <= MOST_SELECTED:
            return self
        drawn = np.random.default_rng(self.seed).permutation(len(self.slates))[:MOST_SELECTED]
        return self._taken(np.sort(drawn))

    def _taken(self, numbers: Ints) -> Evidence:
        offset = None if self.offset is None else self.offset[np.isin(self.shown.owner, numbers)]
        return replace(self, slates=self.slates.taken(numbers), offset=offset)

    def only(self, numbers: Ints) -> Evidence:
        """These slates alone; what the rest say about each item alone is one more column of the base."""
        others = self.slates.taken(np.setdiff1d(np.arange(len(self.slates)), numbers))
        base = self.base
        if len(others) >= FEWEST:
            rows = _rows(others, Shown.of(others.shown))
            base = base.with_column(POLICY, base.alone(fit(rows, Design.of(rows, base.blocks, []))))
        return replace(self._taken(numbers), base=base)


def fit_effects(
    slates: Slates,
    features: Features,
    seed: int = 0,
    names: Collection[str] | None = None,
    progress: bool | None = None,
) -> Effects:
    """Learn the base and the effects of these slates; ``names`` are the families to look for, by default all."""
    require_places(slates)
    notes = [*features.notes, *notes_on(slates, features)]
    users = Tastes.of(features, slates.history)
    evidence = Evidence(slates, Base.of(features), users, seed, progress=progress)
    explored = _explored(slates, notes)
    if explored is not None:
        evidence = evidence.only(explored)
    whole_log, evidence = evidence, evidence.sampled()
    names = () if never_differs(slates) else names
    candidates = [family for family in families_of(features, evidence.shown) if names is None or family.name in names]
    choices = choice.are_choices(slates) and choice.some_without(slates)
    evidence, first = _selected(evidence, candidates, choices)
    selected = first
    tastes: list[Taste] = []
    if explored is None and slates.propensity is None:
        trace = Trace.of(evidence.shown, evidence.rows.outcome, selected.held_out)
        of_labels = tastes_by_label(trace, features)
        of_effects = tastes_by_effect(trace, selected.families, selected.fit)
        tastes = [*of_labels, *of_effects]
        if any(taste.suspected for taste in tastes):
            evidence, selected = _in_doubt(evidence, features, candidates, of_labels, of_effects, notes)
    if len(whole_log.slates) > len(evidence.slates) == MOST_SELECTED:  # a sample of the log, no slate of it doubted
        whole_log = whole_log.with_offsets(selected.fit, selected.families) if choices else whole_log
        blocks = [*whole_log.always, *(family.block(whole_log.shown) for family in selected.families)]
        refitted = fit(
            whole_log.rows, Design.of(whole_log.rows, whole_log.base.blocks, blocks), selected.fit, learned="new"
        )
        selected = replace(selected, fit=refitted)
    masked = any(taste.plain for taste in tastes)
    return _as_effects(evidence, first, selected, features, tuple(tastes), masked, explored, choices, tuple(notes))


def _selected(evidence: Evidence, candidates: Sequence[Family], choices: bool) -> tuple[Evidence, Selected]:
    """The families that enter; for choices again with what the others of a slate take if they have these effects."""
    if not choices:
        return evidence, evidence.selected(candidates)
    evidence = evidence.as_choices()
    selected = evidence.selected(candidates)
    for _ in range(SELECTIONS):
        before, evidence = selected, evidence.with_offsets(selected.fit, selected.families)
        selected = evidence.selected(candidates)
        if set(selected.families) == set(before.families):
            break
    return evidence, selected


def _as_effects(
    evidence: Evidence,
    first: Selected,
    selected: Selected,
    features: Features,
    tastes: tuple[Taste, ...],
    masked: bool,
    explored: Ints | None,
    choices: bool,
    notes: tuple[str, ...],
) -> Effects:
    """The heads of the families, and the reward of a set, which has the average place."""
    places = [place.block(evidence.shown) for place in evidence.places]
    by_place = sum((block.columns @ selected.fit.of(block.name)[0] for block in places), np.zeros(1))
    average = float(np.log(np.exp(by_place).mean())) if choices else 0.0
    return Effects(
        alone=evidence.base.alone(selected.fit) + average,
        taste=evidence.users.of_items(selected.fit),
        heads=tuple(head for family in selected.families for head in family.heads(selected.fit.of(family.name)[0])),
        reward=Exp() if choices else fit_logistic(selected.held_out - by_place, evidence.rows.outcome),
        selected=selected,
        places=tuple(evidence.places),
        tastes=tastes,
        slates=len(evidence.slates),
        masked=masked,
        first=first,
        explored=explored,
        choices=choices,
        notes=notes,
        transfer=learned(features, selected.families, selected.fit),
    )


def _in_doubt(
    evidence: Evidence,
    features: Features,
    candidates: Sequence[Family],
    of_labels: Sequence[Taste],
    of_effects: Sequence[Taste],
    notes: list[str],
) -> tuple[Evidence, Selected]:
    """The slates that look random, and the effects that taste cannot explain; adds to ``notes`` what is doubted."""
    whole_log = evidence
    names = {taste.name for taste in of_labels if taste.suspected}
    refused = {taste.name for taste in of_effects if taste.suspected}
    labels = [label for label in features.labels if label.name in names]
    doubted = [family for family in candidates if getattr(family, "label", None) in labels]
    refused |= {family.name for family in doubted if isinstance(family, (AnyOther, ValuePairs))}
    if labels:
        notes.append(f"{MASKED.format(' and '.join(sorted(names)))} {UNTOLD}")
        numbers = random_looking(labels, evidence.shown)
        if len(numbers) >= FEWEST:
            evidence = evidence.only(numbers)
    notes += [
        f"'{taste.name}' looks like the taste of users: not believed. {UNTOLD}"
        for taste in of_effects
        if taste.suspected
    ]
    kept = [family for family in candidates if family.name not in refused]
    selected = evidence.selected(kept, losses_only=doubted)
    return evidence, _with_thresholds(selected, whole_log, labels, candidates)


def _with_thresholds(
    selected: Selected, whole_log: Evidence, labels: Sequence[Label], candidates: Sequence[Family]
) -> Selected:
    """With a threshold for each of these labels if all slates show a jump; slates that look random have no crowds."""
    known = [family.label for family in selected.families if isinstance(family, Crowd)]
    crowds = [family for family in candidates if isinstance(family, Crowd) and family.label in labels]
    crowds = [family for family in crowds if family.label not in known]
    if not crowds:
        return selected
    beside = [gradual(label, whole_log.shown) for label in labels]
    jumps = whole_log.selected(crowds, losses_only=crowds, beside=beside)
    for crowd in crowds:
        if crowd not in jumps.families or crowd.label in known:
            continue
        theta, covariance = jumps.fit.of(crowd.name)
        if theta[0] + BEYOND_DOUBT * errors(covariance)[0] < -LEAST_JUMP:
            known.append(crowd.label)
            block = Block(crowd.name, np.empty((0, 1)), shrunken=False)
            joined = selected.fit.joined(block, theta, covariance)
            tried = tuple(trial for trial in selected.tried if trial.name != crowd.name)
            selected = replace(
                selected,
                families=(*selected.families, crowd),
                fit=joined,
                tried=(*tried, next(trial for trial in jumps.tried if trial.name == crowd.name)),
            )
    return selected


def _rows(slates: Slates, shown: Shown) -> Rows:
    """The items shown with their outcomes, as rows of a fit, weighted by 1/propensity where it is known."""
    outcome = np.asarray(slates.outcome, np.float64)
    weight = np.ones(len(outcome))
    if slates.propensity is not None:
        by_slate = 1 / np.asarray(slates.propensity, np.float64)
        by_slate = np.minimum(by_slate / by_slate.mean(), LARGEST_WEIGHT)
        weight = (by_slate / by_slate.mean())[shown.owner]
    return Rows(shown.item, outcome, np.zeros(len(outcome)), weight, len(slates.ids))


def _explored(slates: Slates, notes: list[str]) -> Ints | None:
    """The explored slates, if the log says which they are and there are enough of them."""
    if slates.explored is None:
        return None
    explored = np.flatnonzero(slates.explored)
    if len(explored) < FEWEST:
        few = f"{len(explored)} slates are explored, in all their rows, fewer than {FEWEST}"
        notes.append(f"{few}: effects are learned from all slates.")
        return None
    notes.append(f"Effects are learned from the {len(explored):,} explored slates of {len(slates):,}.")
    return explored
