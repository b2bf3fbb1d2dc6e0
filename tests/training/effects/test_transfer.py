"""Effects of attributes on candidates that the log never had."""

from __future__ import annotations

import json

import numpy as np
import pytest
from effect_worlds import World, same_category
from services import error_message, here, post

import setwise as sw
from saved_songs import run
from setwise.errors import InvalidInput
from setwise.model.attributes import Attributes
from setwise.model.ragged import Ragged
from setwise.service.served_lists import ListsOnly
from setwise.training.effects.columns import Shown
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import families_of, fit_effects
from setwise.training.effects.transfer import _family, for_candidates

ITEMS = 30
RNG = np.random.default_rng(0)
COLUMNS = {
    "kind": [f"v{row % 4}" for row in range(ITEMS)],
    "price": np.exp(RNG.normal(size=ITEMS)),
    "size": RNG.normal(size=ITEMS),
    "new": RNG.random(ITEMS) < 0.3,
}
VECTORS = RNG.normal(size=(ITEMS, 3))
FEATURES = Features.of(COLUMNS, {"embeddings": VECTORS}, ITEMS)
SHOWN = Shown.of(Ragged.of([RNG.permutation(ITEMS)[: RNG.integers(2, 7)] for _ in range(40)]))
NUMBERS = {one.name: {"centre": one.centre, "scale": one.scale, "logged": one.logged} for one in FEATURES.numbers}


@pytest.mark.parametrize("family", families_of(FEATURES, SHOWN), ids=lambda family: family.name)
def test_every_family_has_the_same_heads_by_attributes(family) -> None:
    width = family.block(SHOWN).columns.shape[1]
    theta = np.linspace(-1, 1, width) if width > 1 else np.array([-0.7])
    known = {"constant": 0.5, "labels": {}, "numbers": {}, "vectors": {}, "families": [_family(family, theta)]}
    known["numbers"] = {name: {**part, "alone": []} for name, part in NUMBERS.items()}
    made = for_candidates(known, Attributes.of(COLUMNS, ITEMS), VECTORS)
    heads = family.heads(theta)
    assert len(made.heads) == len(heads)
    for mine, theirs in zip(made.heads, heads, strict=True):
        np.testing.assert_allclose(mine.query @ mine.key.T, theirs.query @ theirs.key.T, atol=1e-9)
        np.testing.assert_allclose(mine.value, theirs.value)
        assert mine.sink == pytest.approx(theirs.sink)


def learned():
    world = World(same_category, -1.4, seed=101, items=100)
    slates = world.log(2000).slates()
    effects = fit_effects(slates, Features.of(slates.attributes, {}, world.items))
    return slates, effects


def test_the_base_of_attributes_is_that_of_the_items_without_their_intercepts() -> None:
    slates, effects = learned()
    table = Attributes.of(slates.attributes, len(slates.ids))
    made = for_candidates(effects.transfer, table, None)
    fit = effects.selected.fit
    np.testing.assert_allclose(made.alone, effects.alone - fit.intercept, atol=1e-9)


def test_a_list_of_new_candidates_avoids_what_takes_clicks(tmp_path) -> None:
    slates, effects = learned()
    effects.model(slates).save(tmp_path / "model")
    model = sw.SimpleTransformer.load(tmp_path / "model")
    theta = effects.selected.fit.of("same category")[0][0]
    columns = {name: [column[0]] * 30 for name, column in slates.attributes.items()}
    columns["category"] = [f"new {at // 3}" for at in range(30)]  # categories that were never seen
    scores = np.linspace(0.5, 0.0, 30)
    order = sw.rerank(scores, 5, attributes=columns, effects=model)
    category = np.arange(30)[order] // 3
    assert len(set(category.tolist())) == 5
    reward = model.catalog().rewards[0]
    top = sw.rerank(scores, 5, attributes=columns)
    expected = [
        1 / (1 + np.exp(-(scores[at] + reward.scale * theta * (np.sum(top // 3 == at // 3) - 1)))) for at in top
    ]
    instance_value = sw.rerank(scores, 5, attributes=columns, effects=model, include=top.tolist()).value
    assert instance_value == pytest.approx(sum(expected), rel=0.02)
    assert order.value > instance_value
    assert order.upper_bound >= order.value


def test_the_service_and_the_command_hold_effects(tmp_path) -> None:
    slates, effects = learned()
    effects.model(slates).save(tmp_path / "model")
    model = sw.SimpleTransformer.load(tmp_path / "model")
    scores = np.linspace(0.5, 0.0, 12).tolist()
    columns = {"id": [f"p{at}" for at in range(12)], "score": scores}
    columns |= {name: [column[0]] * 12 for name, column in slates.attributes.items()}
    columns["category"] = [f"c{at // 4}" for at in range(12)]
    order = sw.rerank(columns, 4, effects=model)
    with here(tmp_path / "model", cluster=ListsOnly(tmp_path / "model")) as service:
        answer = post(service, "/v1/rerank", {"candidates": columns, "k": 4})
        assert [item["id"] for item in answer["items"]] == order.tolist()
        plain = post(service, "/v1/rerank", {"candidates": columns, "k": 4, "effects": False, "diversity": 0})
        assert [item["id"] for item in plain["items"]] == ["p0", "p1", "p2", "p3"]
        refused = error_message(service.client.post("/v1/rerank", json={"candidates": columns, "diversity": 0.5}), 422)
        assert "diversity must be absent with effects" in refused
        assert any("same category" in words for words in service.client.get("/v1/info").json()["effects"])
    (tmp_path / "list.jsonl").write_text(
        "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))
    )
    said = run("rerank", tmp_path / "list.jsonl", "--effects", tmp_path / "model", "--k", 4, "--json")
    assert [item["id"] for item in json.loads(said.stdout)["items"]] == order.tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attributes": {}}, "attributes must be with 'category', which the effects are about, got none; pass the column."),
        ({"diversity": 0.5}, "diversity must be absent with effects, which say what candidates do to each other"),
        ({"strategy": "mmr"}, "strategy must be absent with effects"),
        ({"effects": 3}, "effects must be a model that was trained on slates, got int; pass SimpleTransformer.load(folder)."),
        ({"effects": "other"}, "effects must be a model of effects of attributes, got another model; train it on slates"),
    ],
)  # fmt: skip
def test_mistakes(options, sentence: str) -> None:
    slates, effects = learned()
    model = effects.model(slates)
    given = {"attributes": {"category": ["a", "b"]}, "effects": model} | options
    if given["effects"] == "other":
        given["effects"] = sw.SimpleTransformer(model.catalog(), model.encoder)
    with pytest.raises(InvalidInput) as caught:
        sw.rerank([1.0, 0.5], 1, **given)
    assert sentence in str(caught.value)
