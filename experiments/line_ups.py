"""Line-ups: two teams of five heroes, and who won; what heroes say together beyond each by itself.

    python experiments/line_ups.py --data ../shared/data                   or:  setwise reproduce

Dota 2 (UCI), 102,944 matches. A match is a set of ten items: a hero of the one team is another item than the same hero
of the other. The outcome is whether the first team won. Models learn from half of the other matches (of all, it takes
twice as long, and the gain was -0.0094 ± 0.0023). Log loss on the official test matches of an additive model, of
a pairwise model, and of ``OutcomeModel``, all with a logistic link (training/set_comparison.py); errors are of paired
differences over matches. The placebo fits ``OutcomeModel`` to line-ups whose second team comes from another match with
the same outcome: the heroes keep their own worth, but opponents did not meet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from interaction_report import ALONE, INTERACTION, PLACEBO, gain, run_parts
from kept_rows import Row

from setwise.datasets.outcome_sets import OutcomeSets
from setwise.training.outcome_links import losses
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.set_pairs import fit_pairs

FILE = "sets/dota2_uci/dota2_matches.npz"
PAIRWISE = "pairwise"
HALF = 2  # of so many training matches one is taken


def read(data: Path) -> tuple[OutcomeSets, np.ndarray]:
    """The matches, and which of them are official test matches."""
    arrays = np.load(data / FILE)
    one, two = arrays["radiant"].astype(np.int64), arrays["dire"].astype(np.int64)
    heroes = int(max(one.max(), two.max())) + 1
    ids = [f"{side}:{hero}" for side in ("radiant", "dire") for hero in range(heroes)]
    sets = np.concatenate([one, two + heroes], axis=1)
    return OutcomeSets(sets, arrays["radiant_win"].astype(float), ids), arrays["official_test"].astype(bool)


def with_other_opponents(data: OutcomeSets, seed: int) -> OutcomeSets:
    """The second teams exchanged among matches of one outcome."""
    sets, rng, half = data.sets.copy(), np.random.default_rng(seed), data.sets.shape[1] // 2
    for won in (0.0, 1.0):
        rows = np.flatnonzero(data.outcome == won)
        sets[rows, half:] = data.sets[rng.permutation(rows), half:]
    return OutcomeSets(sets, data.outcome, data.ids)


def run(name: str, training: OutcomeSets, test: OutcomeSets, epochs: int, seed: int) -> list[Row]:
    """All models on the test matches."""
    known = (training.n_items, "logistic", "logistic", seed)
    fitted = {"link": "logistic", "epochs": epochs, "seed": seed}
    shuffled, sets, outcome = with_other_opponents(training, seed), training.sets, training.outcome
    member = fit_pairs(sets, outcome, *known)  # the pairwise model is a member of ours
    values = {
        ALONE: fit_pairs(sets, outcome, *known, additive=True).values(test.sets),
        INTERACTION: OutcomeModel.fit(sets, outcome, training.n_items, pairs=member, **fitted).values(test.sets),
        PLACEBO: OutcomeModel.fit(shuffled.sets, shuffled.outcome, training.n_items, **fitted).values(test.sets),
        PAIRWISE: member.values(test.sets),
    }
    each = {name: losses("logistic", "logistic", f, test.outcome) for name, f in values.items()}
    matches, unit = np.arange(len(test)), np.ones(len(test))
    rows = []
    for model, loss in each.items():
        better, error = gain(each[ALONE], loss, matches, unit)
        rows.append(
            {
                "data": name, "seed": seed, "model": model, "slates": len(test), "items": len(test),
                "loss": loss.mean(), "gain": better, "error": error, "order": None,
            }
        )  # fmt: skip
    return rows


def rows_of(part: str, data: Path, seed: int, quick: bool) -> list[Row]:
    """The official split."""
    matches, official = read(data)
    train, test = np.flatnonzero(~official)[::HALF], np.flatnonzero(official)
    if quick:
        train, test = train[:1000], test[:300]
    return run(part, matches.taken(train), matches.taken(test), 2 if quick else 6, seed)


def main() -> None:
    """Run once, on the official split."""
    run_parts("Line-ups", ["Dota 2"], rows_of)


if __name__ == "__main__":
    main()
