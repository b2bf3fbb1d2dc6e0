"""Rules of re-ranking: against all sets of a small list, by the objective of its docstring written out here."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import Infeasible, InvalidInput, UnknownId

pytestmark = pytest.mark.filterwarnings("ignore::setwise.errors.ScoresGivenUp")


def value(argument, alike, chosen, strength: float) -> float:
    """F(S) with the weights ``alike`` (m, m), word for word."""
    total = 0.0
    for i in chosen:
        copies = sum(alike[i][j] for j in chosen if j != i)
        total += 1 / (1 + np.exp(-(argument[i] - strength * copies / (1 + copies))))
    return total


def by_vectors(x, sharpness: float = 10.0):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.exp(sharpness * (unit @ unit.T - 1))


def sets(m: int, k: int):
    return (chosen for size in range(1, k + 1) for chosen in itertools.combinations(range(m), size))


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 5),
    strength=st.sampled_from([0.0, 0.5, 1.0, 2.4, 4.0]),
    most=st.integers(1, 3),
    pinned=st.booleans(),
    lower=st.booleans(),
)
def test_the_best_set_that_keeps_the_rules(seed, k, strength, most, pinned, lower) -> None:
    rng = np.random.default_rng(seed)
    m = 9
    scores, x = 2 * rng.normal(size=m), rng.normal(size=(m, 2))
    brand, price = rng.choice([*"abc"], size=m), rng.integers(1, 9, size=m)
    include = [int(rng.integers(m))] if pinned else []
    exclude = [int(at) for at in rng.choice(m, 2, replace=False) if at not in include]
    price[include] = 5
    rules = {"at_most": {"brand": most}} | ({"at_least": {"brand": {"a": 1}}} if lower else {})

    def keeps(chosen) -> bool:
        brands = brand[list(chosen)].tolist()
        return (
            all(brands.count(one) <= most for one in brands)
            and (not lower or "a" in brands)
            and set(include) <= set(chosen)
            and not set(exclude) & set(chosen)
            and all(2 <= price[at] <= 7 for at in chosen)
        )

    allowed = [chosen for chosen in sets(m, k) if keeps(chosen)]
    options = {"embeddings": x, "strength": strength, "where": {"price": (2, 7)}, "include": include}
    columns = {"brand": brand, "price": price}
    if not allowed:
        with pytest.raises(Infeasible):
            sw.rerank(scores, k, attributes=columns, exclude=exclude, **options, **rules)
        return
    alike = by_vectors(x)
    best = max(value(scores, alike, chosen, strength) for chosen in allowed)
    order = sw.rerank(scores, k, attributes=columns, exclude=exclude, **options, **rules)
    assert keeps(order.tolist())
    assert order.value == pytest.approx(value(scores, alike, order.tolist(), strength), rel=1e-9)
    assert order.value == pytest.approx(best, rel=1e-6)
    assert order.upper_bound >= best * (1 - 1e-9)
    for strategy in ("mmr", "dpp"):
        if strength <= 4:
            other = {key: part for key, part in options.items() if key != "strength"} | {"diversity": strength / 4}
            chosen = sw.rerank(scores, k, attributes=columns, exclude=exclude, strategy=strategy, **other, **rules)
            assert keeps(chosen.tolist())


@examples(30)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), scale=st.sampled_from([0.5, 1.0, 3.0]))
def test_the_bound_holds_and_is_tight_on_small_lists(seed, k, scale) -> None:
    rng = np.random.default_rng(seed)
    scores, x = rng.normal(size=10), rng.normal(size=(10, 3))
    reward = sw.Logistic(scale, -0.5)
    order = sw.rerank(scores, k, embeddings=x, strength=2.0, reward=reward)
    best = max(value(scale * scores - 0.5, by_vectors(x), chosen, 2.0 * scale) for chosen in sets(10, k))
    assert order.value == pytest.approx(best, rel=1e-9)
    assert order.upper_bound == pytest.approx(best, rel=1e-6)
    assert order.proven == (order.gap == 0)


@examples(20)
@given(seed=st.integers(0, 10**6), diversity=st.sampled_from([0.25, 0.6, 1.0]))
def test_a_longer_search_does_not_beat_the_bound(seed, diversity) -> None:
    rng = np.random.default_rng(seed)
    topic = rng.integers(8, size=80)
    x = rng.normal(size=(8, 6))[topic] + 0.4 * rng.normal(size=(80, 6))
    scores = rng.normal(size=80)
    order = sw.rerank(scores, 8, embeddings=x, diversity=diversity)
    longer = sw.rerank(scores, 8, embeddings=x, diversity=diversity, budget_ms=30)
    assert longer.value <= order.upper_bound
    assert order.value >= 0.97 * longer.value


def test_candidates_are_alike_by_the_share_of_attributes_on_which_they_agree() -> None:
    rng = np.random.default_rng(3)
    m, k = 10, 4
    colour, kind = rng.choice([*"rgb"], m), rng.choice([*"xy"], m)
    alike = ((colour[:, None] == colour) * 0.5 + (kind[:, None] == kind) * 0.5).astype(float)
    columns = {"colour": colour, "kind": kind, "price": rng.random(m), "name": [f"n{i}" for i in range(m)]}
    scores = rng.normal(size=m)
    best = max(value(scores, alike, chosen, 2.0) for chosen in sets(m, k))
    for by in (None, ["colour", "kind"]):
        order = sw.rerank(scores, k, attributes=columns, strength=2.0, by=by)
        assert order.value == pytest.approx(best, rel=1e-9)
    one = sw.rerank(scores, k, attributes=columns, strength=2.0, by="kind")
    assert one.value == pytest.approx(
        max(value(scores, (kind[:, None] == kind).astype(float), chosen, 2.0) for chosen in sets(m, k)), rel=1e-9
    )


def test_without_anything_to_compare_the_highest_scores_are_best() -> None:
    scores = np.random.default_rng(0).normal(size=30)
    assert sw.rerank(scores, 5).tolist() == np.argsort(-scores)[:5].tolist()


TABLE = {
    "id": ["a", "b", "c", "a", "d", "e", "f"],
    "score": [1.0, None, 3.0, 2.0, float("nan"), 4.0, 0.5],
    "vector": [[1.0, 0.0], [1.0, 0.0], None, [0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]],
    "brand": ["x", "x", "y", "y", "z", "z", "x"],
}
NOTED = {"unscored": ["b", "d"], "repeated": ["a"], "without_vector": ["c", "f"], "unknown": ["zz"]}


def records() -> list[dict[str, object]]:
    return [
        {name: cells[at] for name, cells in TABLE.items() if cells[at] is not None} for at in range(len(TABLE["id"]))
    ]


@pytest.mark.parametrize("form", ["columns", "records", "pandas", "polars", "arrow"])
def test_odd_candidates_are_decided_and_reported(form: str) -> None:
    table: object = TABLE
    if form == "records":
        table = records()
    elif form == "pandas":
        table = pytest.importorskip("pandas").DataFrame(TABLE)
    elif form == "polars":
        table = pytest.importorskip("polars").DataFrame(TABLE, strict=False)
    elif form == "arrow":
        table = pytest.importorskip("pyarrow").table(TABLE)
    order = sw.rerank(table, 4, exclude=["zz"], at_most={"brand": 1}, warn_above=2)
    assert order.tolist() == ["e", "c", "f"]
    assert order.notes == NOTED
    assert order.indices.tolist() == [5, 2, 6]
    everything = sw.rerank(table, 10, warn_above=2)
    assert sorted(everything.tolist()) == ["a", "c", "e", "f"]
    assert 3 in everything.indices.tolist()  # the row of the higher score


def test_scores_by_id() -> None:
    assert sw.rerank({"a": 1.0, "b": 3.0, "c": 2.0}, 2).tolist() == ["b", "c"]
    order = sw.rerank(np.array([1.0, np.nan, 2.0]), 2)
    assert (order.tolist(), order.notes) == ([2, 0], {"unscored": [1]})


def test_an_order_is_an_array_that_knows_its_value() -> None:
    order = sw.rerank({"a": 1.0, "b": 3.0, "c": 2.0}, 2)
    assert isinstance(order, np.ndarray)
    assert order.rewards.sum() == order.value <= order.upper_bound
    assert order.to_dict(certify=True)["items"][0]["id"] == "b"
    with pytest.raises(InvalidInput, match="a part or a copy"):
        _ = order[:1].value


@pytest.mark.parametrize(
    ("asked", "kind", "sentence"),
    [
        ({"include": ["zz"]}, UnknownId, "include must be ids of candidates, got 'zz'; pass the id of a candidate, or drop it."),
        ({"include": "c"}, InvalidInput, "include must be a list of ids, got 'c'; put a single one into a list."),
        ({"include": ["b"]}, Infeasible, "include must be candidates with a finite score, got 'b' without one; give it a score."),
        ({"include": ["c"], "exclude": ["c"]}, Infeasible, "include must be candidates that may be chosen, got 'c', excluded or filtered out; drop it from include, or loosen exclude and where."),
        ({"include": ["c"], "where": {"brand": "x"}}, Infeasible, "include must be candidates that may be chosen, got 'c'"),
        ({"include": [["c"]]}, InvalidInput, "include must be a list of ids, got entries that are lists or mappings; pass the ids themselves."),
        ({"include": ["c", "a", "e"]}, Infeasible, "include must be at most k = 2 candidates, got 3; raise k or pin fewer."),
        ({"include": ["c", "a"], "at_most": {"brand": 1}}, Infeasible, "include must be at most 1 of one group, got more; pin fewer or raise at_most."),
        ({"exclude": ["zz"], "unknown": "error"}, UnknownId, "exclude must be ids of candidates, got 'zz'; drop it, or pass unknown='ignore'."),
        ({"exclude": 3}, InvalidInput, "exclude must be a list of ids, got 3; put a single one into a list."),
        ({"exclude": ["a", "c", "e", "f"]}, Infeasible, "where and exclude must be such that a candidate is left, got none; loosen one of them."),
        ({"unknown": "drop"}, InvalidInput, "unknown must be 'ignore' or 'error', got 'drop'; choose one of the two."),
        ({"where": {"brnd": "x"}}, InvalidInput, "attribute must be one the catalogue has (brand), got 'brnd'; did you mean 'brand'?"),
        ({"where": {"brand": 3}}, InvalidInput, "where['brand'] must be a text or a list of texts, got 3; the column holds text"),
        ({"where": "x"}, InvalidInput, "where must be a mapping of attributes, or left out, got 'x'"),
        ({"where": {"brand": "w"}}, Infeasible, "where and exclude must be such that a candidate is left, got none"),
        ({"at_most": {"brnd": 1}}, InvalidInput, "at_most must be about attributes the items have (brand), got 'brnd'; did you mean 'brand'?"),
        ({"at_most": {"brand": 0}}, InvalidInput, "at_most['brand'] must be a whole number of at least 1, got 0; pass 1 or more."),
        ({"at_most": 2}, InvalidInput, "at_most must be a mapping {attribute: n}, got 2; write at_most={'artist': 2}."),
        ({"at_least": {"brand": 1}}, InvalidInput, "at_least must be a mapping {attribute: {value: n}}"),
        ({"at_least": {"brand": {"w": 1}}}, Infeasible, "at_least['brand'] must be about values that candidates have, got 'w'; drop the value."),
        ({"at_least": {"brand": {"x": 3}}}, Infeasible, "at_least, exactly must be"),
        ({"exactly": {"brand": 1}}, Infeasible, "at_least, exactly must be"),
        ({"exactly": ["brand"]}, InvalidInput, "exactly must be a mapping {attribute: n}, got ['brand']"),
        ({"by": "brnd"}, InvalidInput, "by must be attributes that the candidates have (brand), got 'brnd'; did you mean 'brand'?"),
        ({"ids": [1] * 7}, InvalidInput, "ids must be a part of the candidates where these are a table, got both; pass it once."),
        ({"embeddings": np.eye(7)}, InvalidInput, "embeddings must be a part of the candidates where these are a table, got both"),
        ({"attributes": {"a": [1] * 7}}, InvalidInput, "attributes must be a part of the candidates where these are a table, got both"),
        ({"k": 2.5}, InvalidInput, "k must be a whole number of at least 1, got 2.5; pass an int."),
        ({"diversity": "much"}, InvalidInput, "diversity must be a finite number, got 'much'"),
        ({"warn_above": None}, InvalidInput, "warn_above must be a finite number, got None"),
        ({"budget_ms": "10"}, InvalidInput, "budget_ms must be a finite number, got '10'"),
        ({"scores": {"id": ["a"], "scor": [1.0]}}, InvalidInput, "candidates must be with a column 'score', got id, scor; did you mean 'scor'?"),
        ({"scores": [{"id": "a", "points": 1.0}]}, InvalidInput, "candidates must be with a column 'score', got id, points; name the column of the scores so."),
        ({"scores": {"id": ["a", "b"], "score": [1.0]}}, InvalidInput, "ids must be 1, one for each score, got shape (2,); align ids with scores."),
        ({"scores": {"score": ["high", "low"]}}, InvalidInput, "scores must be an array of real numbers"),
        ({"scores": {"score": [1.0, 2.0], "vector": [[1.0], [1.0, 2.0]]}}, InvalidInput, "embeddings must be a rectangular array of numbers"),
        ({"scores": {"score": [1.0, 2.0], "vector": ["a", "b"]}}, InvalidInput, "embeddings must be"),
        ({"scores": {"score": [1.0, 2.0], "brand": [1, "a"]}}, InvalidInput, "attribute 'brand' must be all numbers or all strings, got a mixture; convert the column to one type."),
        ({"scores": {"score": [1.0, 2.0], "tags": [["a"], ["b", "c"]]}}, InvalidInput, "attribute 'tags' must be one value per item, got several"),
        ({"scores": "abc"}, InvalidInput, "scores must be an array of real numbers"),
        ({"scores": 3.0}, InvalidInput, "scores must be an array of shape (m,), got shape ()"),
        ({"scores": []}, Infeasible, "candidates must be at least one, got none; pass the scores of some."),
        ({"scores": {}}, Infeasible, "candidates must be at least one, got none"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(asked, kind, sentence: str) -> None:
    options = {"scores": TABLE, "k": 2, "warn_above": 2.0} | asked
    with pytest.raises(kind) as caught:
        sw.rerank(options.pop("scores"), **options)
    assert sentence in str(caught.value)


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 5),
    strength=st.sampled_from([0.0, 1.0, 2.4]),
    high=st.integers(8, 40),
    low=st.sampled_from([None, 5, 15]),
    limited=st.booleans(),
)
def test_weights_and_sums(seed, k, strength, high, low, limited) -> None:
    rng = np.random.default_rng(seed)
    m = 9
    scores, x = 2 * rng.normal(size=m), rng.normal(size=(m, 2))
    columns = {"margin": 3 * rng.random(m), "price": rng.integers(1, 15, size=m), "brand": rng.choice([*"abc"], size=m)}
    alike = by_vectors(x)

    def worth(chosen) -> float:
        total = 0.0
        for i in chosen:
            copies = sum(alike[i][j] for j in chosen if j != i)
            total += columns["margin"][i] / (1 + np.exp(-(scores[i] - strength * copies / (1 + copies))))
        return total

    def keeps(chosen) -> bool:
        spent, brands = columns["price"][list(chosen)].sum(), columns["brand"][list(chosen)].tolist()
        return (low or 0) <= spent <= high and (not limited or all(brands.count(one) == 1 for one in brands))

    rules = {"sum_at_most": {"price": high}, "sum_at_least": None if low is None else {"price": low}}
    rules |= {"at_most": {"brand": 1}} if limited else {}
    allowed = [chosen for chosen in sets(m, k) if keeps(chosen)]
    options = {"embeddings": x, "attributes": columns, "strength": strength, "weights": "margin"}
    if not allowed:
        with pytest.raises(Infeasible):
            sw.rerank(scores, k, **options, **rules)
        return
    best = max(worth(chosen) for chosen in allowed)
    order = sw.rerank(scores, k, **options, **rules)
    assert keeps(order.tolist())
    assert order.value == pytest.approx(worth(order.tolist()), rel=1e-9)
    assert order.value >= 0.97 * best
    assert order.upper_bound >= best * (1 - 1e-9)
    by_id = dict(enumerate(columns["margin"].tolist()))
    for weights in (columns["margin"], by_id):
        assert sw.rerank(scores, k, **options | {"weights": weights}, **rules).tolist() == order.tolist()
    if low is None:
        for strategy in ("mmr", "dpp"):
            chosen = sw.rerank(scores, k, **{**options, "strength": None, "strategy": strategy}, **rules)
            assert keeps(chosen.tolist())


def test_candidates_without_a_weight_are_left_out() -> None:
    table = {"id": [*"abc"], "score": [1.0, 2.0, 3.0], "margin": [1.0, None, 0.5]}
    order = sw.rerank(table, 3, weights="margin")
    assert order.tolist() == ["a", "c"]
    assert order.notes == {"unweighted": ["b"]}
    assert sw.rerank(table, 3, weights={"b": 2.0}).tolist() == ["b"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"weights": "margn"}, "weights must be about an attribute of numbers (margin), got 'margn'; did you mean 'margin'?"),
        ({"weights": [1.0, 2.0]}, "weights must be an array of shape (3,), got shape (2,)"),
        ({"weights": {"z": 1.0}}, "weights must be known for at least one candidate, got none"),
        ({"weights": [1.0, 2.0, -1.0]}, "weights must be from 0 to 1e+100, got -1.0; leave out candidates"),
        ({"sum_at_most": {"price": 3}}, "sum_at_most['price'] must be about an attribute of numbers (margin), got 'price'"),
        ({"sum_at_most": {"margin": 0.1}}, "sum_at_most must be the number of one candidate at least"),
        ({"sum_at_least": {"margin": 9}}, "sum_at_least must be at most the sum of"),
        ({"sum_at_most": 3}, "sum_at_most must be a mapping {name: limit}, got 3"),
    ],
)  # fmt: skip
def test_mistakes_in_weights_and_sums(asked, sentence: str) -> None:
    table = {"id": [*"abc"], "score": [1.0, 2.0, 3.0], "margin": [1.0, 0.7, 0.5]}
    with pytest.raises(InvalidInput) as caught:
        sw.rerank(table, 2, **asked)
    assert sentence in str(caught.value)
