"""The knob from outcomes: a planted strength is found within its error, and none where there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

import setwise as sw
from saved_songs import run
from setwise.errors import InvalidInput


def shown(strength: float, lists: int, seed: int = 0, size: int = 8, decay: float = 0.0) -> dict:
    """Lists of a policy that ignores likeness, and outcomes by the model of ``diversity.py``, written out here."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list] = {name: [] for name in ("list", "score", "brand", "clicked", "place")}
    for number in range(lists):
        score, brand = np.sort(rng.normal(size=size))[::-1], rng.integers(4, size=size)
        for place in range(size):
            copies = (brand == brand[place]).sum() - 1
            logit = 1.5 * score[place] - 0.5 - strength * copies / (1 + copies) - decay * np.log1p(place)
            row = (number, score[place], f"b{brand[place]}", float(rng.random() < 1 / (1 + np.exp(-logit))), place)
            for name, cell in zip(columns, row, strict=True):
                columns[name].append(cell)
    return columns


@pytest.mark.parametrize("strength", [0.8, 2.0])
def test_a_planted_strength_is_found(strength: float) -> None:
    learned = sw.fit_diversity(shown(strength, 3000), by="brand")
    assert learned.found
    assert abs(learned.strength - strength) < 4 * learned.error
    assert learned.error < 0.2
    assert learned.slope == pytest.approx(1.5, abs=0.15)
    assert str(learned).startswith("your data want a diversity of ")
    assert learned.diversity == pytest.approx(learned.strength / 4)


def test_none_is_found_where_there_is_none() -> None:
    learned = [sw.fit_diversity(shown(0.0, 400, seed), by="brand") for seed in range(20)]
    assert sum(one.found for one in learned) <= 3
    assert abs(np.mean([one.strength / one.error for one in learned])) < 1.0
    assert "no diversity was found" in str(min(learned, key=lambda one: one.strength))
    assert min(learned, key=lambda one: one.strength).diversity == 0.0


def test_errors_are_those_of_many_logs() -> None:
    learned = [sw.fit_diversity(shown(1.0, 200, seed), by="brand") for seed in range(40)]
    spread = np.std([one.strength for one in learned])
    assert 0.6 < np.mean([one.error for one in learned]) / spread < 1.6


def test_places_do_not_pass_for_diversity() -> None:
    learned = sw.fit_diversity(shown(1.0, 3000, decay=1.0), by="brand")
    assert abs(learned.strength - 1.0) < 4 * learned.error
    assert learned.slope == pytest.approx(1.5, abs=0.2)


def test_rerank_takes_what_was_learned() -> None:
    learned = sw.fit_diversity(shown(2.0, 2000), by="brand")
    brand, scores = [*"aabbcc"], np.array([1.0, 0.9, 0.8, 0.1, 0.5, 0.0])
    order = sw.rerank(scores, 3, attributes={"brand": brand}, diversity=learned, warn_above=9)
    argument = learned.slope * scores + learned.offset
    same = sw.rerank(argument, 3, attributes={"brand": brand}, by="brand", strength=learned.strength, warn_above=9)
    assert order.tolist() == same.tolist()
    assert order.value == pytest.approx(same.value)
    nothing = sw.fit_diversity(shown(0.0, 400, seed=1), by="brand")
    assert not nothing.found
    assert sw.rerank(scores, 3, attributes={"brand": brand}, diversity=nothing).tolist() == [0, 1, 2]


def test_the_command(tmp_path) -> None:
    columns = shown(2.0, 300)
    rows = zip(*columns.values(), strict=True)
    (tmp_path / "shown.csv").write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    said = run("diversity", tmp_path / "shown.csv", "--by", "brand")
    assert said.exit_code == 0, said.output
    learned = sw.fit_diversity(columns, by="brand")
    assert said.stdout.strip() == f"Y{str(learned)[1:]}."
    content = json.loads(run("diversity", tmp_path / "shown.csv", "--by", "brand", "--json").stdout)
    assert content["strength"] == pytest.approx(learned.strength)
    assert content["found"]


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"clicked": None}, {"by": "brand"}, "table must be one with a column outcome or clicked or hit"),
        ({"list": None}, {"by": "brand"}, "group must be one of the columns"),
        ({"score": None}, {"by": "brand"}, "table must be one with a column 'score'"),
        ({"clicked": [1.0] * 240}, {"by": "brand"}, "outcomes must be from 0 to 1 and not all the same, of 20 lists or more"),
        ({"clicked": ["yes"] * 240}, {"by": "brand"}, "the column 'clicked' must be numbers, the outcome, got others"),
        ({"score": [1.0] * 240}, {"by": "brand"}, "scores and likeness must be different between candidates"),
        ({"brand": ["a"] * 240}, {"by": "brand"}, "scores and likeness must be different between candidates"),
        ({}, {"by": "brnd"}, "by must be attributes that the candidates have (brand), got 'brnd'; did you mean 'brand'?"),
        ({"brand": None}, {}, "diversity (or strength) must be left out where nothing says which candidates are alike"),
    ],
)  # fmt: skip
def test_mistakes(changes, options, sentence: str) -> None:
    columns = {name: cells for name, cells in (shown(1.0, 30) | changes).items() if cells is not None}
    with pytest.raises(InvalidInput) as caught:
        sw.fit_diversity(columns, **options)
    assert sentence in str(caught.value)
