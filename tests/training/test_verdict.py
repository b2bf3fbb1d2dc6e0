"""What ``setwise train`` says to deploy: by differences on the same sessions, with their standard errors."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.training.comparison import Compared, verdict

HARD = np.random.default_rng(0).poisson(2.0, 400).astype(float)  # sessions differ far more than methods do


def method(name: str, more: float, spread: float = 0.1) -> Compared:
    rng = np.random.default_rng([*name.encode()])  # the same whichever tests ran before
    hits = HARD + more + spread * rng.normal(size=400)
    return Compared(name, float(hits.mean()), float(hits.std() / 20), 1.0, 0.5, None, hits)


@pytest.mark.parametrize(
    ("ours", "theirs", "begin", "words"),
    [
        (0.0, -0.1, "Deploy this model: it has 0.", ("more than EASE", "which is significant")),
        (0.0, 0.1, "Deploy EASE: this model has 0.", ("fewer than EASE", "which is significant")),
        (0.0, 0.0, "Either will do: this model has 0.00", ("than EASE", "no significant difference")),
    ],
)
def test_differences_on_the_same_sessions_decide(
    ours: float, theirs: float, begin: str, words: tuple[str, ...]
) -> None:
    """A difference of 0.1 is within one standard error of either mean, and twenty of the paired difference."""
    rows = [method("popularity", -1.0), method("EASE", theirs), method("their blend", ours)]
    text = verdict(rows)
    assert text.startswith(begin), text
    for word in words:
        assert word in text, text
    assert rows[1].error > 0.06
    assert "of_sessions" not in rows[0].row()


def test_attention_is_named_if_it_was_kept() -> None:
    rows = [method("EASE", 0.0), method("their blend", 0.1), method("blend and attention", 0.3)]
    assert "optimise its slates" in verdict(rows)
    assert "k items of highest score" in verdict(rows[:2])
