"""Pictures of effects: numbers that are the effect, and an SVG that can be read."""

from xml.etree import ElementTree

import numpy as np
import pytest
from effect_worlds import World, same_category

from saved_songs import run
from setwise.model.ragged import Ragged
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings
from setwise.training.effects.columns import Shown
from setwise.training.effects.drawing import drawing, picture
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import families_of, fit_effects

SVG = "{http://www.w3.org/2000/svg}"
ITEMS = 30
rng = np.random.default_rng(0)
FEATURES = Features.of(
    {"kind <b>": [f"v{row % 4}" for row in range(ITEMS)], "price": np.exp(rng.normal(size=ITEMS))},
    {"embedding": rng.normal(size=(ITEMS, 3))},
    ITEMS,
)
SHOWN = Shown.of(Ragged.of([rng.permutation(ITEMS)[: rng.integers(2, 7)] for _ in range(40)]))


@pytest.mark.parametrize("family", families_of(FEATURES, SHOWN), ids=lambda family: family.name)
def test_every_family_has_a_picture(family):
    width = family.block(SHOWN).columns.shape[1]
    theta = np.linspace(-1, 1, width) if width > 1 else np.array([-0.7])
    shown = picture(family, theta, 0.01 * np.eye(width))
    root = ElementTree.fromstring(drawing([shown]))
    assert shown["name"] in "".join(root.itertext())
    if "table" in shown:
        assert len(root.findall(f".//{SVG}rect")) == width
        np.testing.assert_allclose(np.ravel(shown["table"]), theta, atol=1e-4)
    else:
        (line,) = root.findall(f".//{SVG}polyline")
        assert len(line.get("points").split()) == len(shown["x"]) == len(shown["y"]) == len(shown["error"])


def test_a_further_item_costs_its_coefficient():
    world = World(same_category, -1.4, seed=101, items=100)
    slates = world.log(2000).slates()
    effects = fit_effects(slates, Features.of(slates.attributes, {}, world.items))
    (shown,) = effects.summary()["pictures"]
    theta = effects.selected.fit.of("same category")[0][0]
    np.testing.assert_allclose(shown["y"], theta * np.arange(6), atol=1e-3)
    assert "<svg" in effects.model(slates).summary._repr_html_()


def test_train_draws_what_it_learned(tmp_path):
    log = World(same_category, -1.4, seed=101, items=60).log(600)
    rows = ["slate,item,clicked,category"]
    rows += [
        f"{number},i{item},{int(click)},c{log.world.category[item]}"
        for number, (items, clicks) in enumerate(zip(log.rows, log.clicks, strict=True))
        for item, click in zip(items, clicks, strict=True)
    ]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    asked = ["train", "slates", tmp_path / "log.csv", "--slate", "slate", "--outcome", "clicked"]
    result = run(*asked, "--out", tmp_path / "model", "--plot", tmp_path / "effects.svg", "--epochs", "1")
    assert result.exit_code == 0, result.output or result.exception
    assert "same category" in (tmp_path / "effects.svg").read_text()
    assert run("index", tmp_path / "model", "--out", tmp_path / "shop").exit_code == 0
    info = ServedArtifact.open(tmp_path / "shop", "1").info(Settings())
    assert any("same category" in words for words in info.effects)
    assert info.drawing == (tmp_path / "effects.svg").read_text()
    (tmp_path / "notes.txt").write_text("mine")
    refused = run(*asked, "--out", tmp_path / "other", "--plot", tmp_path / "notes.txt")
    assert "a new file" in str(refused.exception)
    assert not (tmp_path / "other").exists()
