"""Re-ranking in one line: the objective of its docstring, maximised, against all sets of a small list."""

from __future__ import annotations

import itertools
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import processes
import setwise as sw
from counts import examples
from setwise.errors import Infeasible, InvalidInput, ScoresGivenUp
from setwise.recommend.score_scaling import fitted

# Most cases here are small lists in which variety costs much; the tests of the warning set their own filters.
pytestmark = pytest.mark.filterwarnings("ignore::setwise.errors.ScoresGivenUp")


def logistic(a: float) -> float:
    return 1 / (1 + np.exp(-a))


def competing_rewards(scores, x, chosen, strength: float = 2.0, sharpness: float = 10.0, f=logistic) -> list[float]:
    """f(a_i(S)) of the docstring, word for word."""
    rewards = []
    for i in chosen:
        copies = 0.0
        for j in chosen:
            if i != j:
                cosine = x[i] @ x[j] / (np.linalg.norm(x[i]) * np.linalg.norm(x[j]))
                copies += np.exp(sharpness * (cosine - 1))
        rewards.append(f(scores[i] - strength * copies / (1 + copies)))
    return rewards


def competing_value(*problem, **options) -> float:
    return sum(competing_rewards(*problem, **options))


def attending_value(scores, q, k, chosen, f=logistic) -> float:
    """F(S) with query and key (m, H, d) and scores (m, H)."""
    total = 0.0
    for i in chosen:
        a = 0.0
        for h in range(q.shape[1]):
            weight = np.array([np.exp(q[i, h] @ k[j, h]) for j in chosen])
            a += weight @ scores[list(chosen), h] / weight.sum()
        total += f(a)
    return total


def best(m: int, k: int, value, allowed=lambda chosen: True) -> float:
    sets = (chosen for size in range(1, k + 1) for chosen in itertools.combinations(range(m), size))
    return max(value(chosen) for chosen in sets if allowed(chosen))


@examples(25)
@given(
    st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 1.0, 2.0, 5.0]), st.sampled_from([0.0, 3.0, 10.0])
)
def test_similar_candidates_compete(seed, k, strength, sharpness) -> None:
    rng = np.random.default_rng(seed)
    scores, x = rng.normal(size=9), rng.normal(size=(9, 2))
    options = {"strength": strength, "sharpness": sharpness}

    def value(chosen) -> float:
        return competing_value(scores, x, chosen, **options)

    chosen = sw.rerank(scores, k, embeddings=x, **options)
    assert value(chosen) == pytest.approx(best(9, k, value), rel=1e-9)
    assert len(set(chosen.tolist())) == len(chosen) <= k


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 2))
def test_candidates_attend_as_a_layer_says(seed, k, heads) -> None:
    rng = np.random.default_rng(seed)
    q, keys, scores = rng.normal(size=(9, heads, 3)), rng.normal(size=(9, heads, 3)), rng.normal(size=(9, heads))

    def value(chosen) -> float:
        return attending_value(scores, q, keys, chosen)

    chosen = sw.rerank(scores, k, query=q, key=keys)
    assert value(chosen) == pytest.approx(best(9, k, value), rel=1e-9)
    if heads == 1:
        same = sw.rerank(scores[:, 0], k, query=q[:, 0], key=keys[:, 0])
        np.testing.assert_array_equal(same, chosen)


def test_no_more_than_so_many_of_a_group() -> None:
    rng = np.random.default_rng(1)
    scores, x = rng.normal(size=9), rng.normal(size=(9, 2))
    artist = np.array(["a", "b", "a", "b", "a", "c", "a", "b", "c"])

    def allowed(chosen) -> bool:
        return np.unique(artist[list(chosen)], return_counts=True)[1].max() <= 1

    for groups in (artist, artist.tolist(), [ord(one) for one in artist], [ord(one) / 2 for one in artist]):
        chosen = sw.rerank(scores, 4, embeddings=x, strength=2, attributes={"artist": groups}, at_most={"artist": 1})
        assert allowed(chosen)
        found = competing_value(scores, x, chosen)
        assert found == pytest.approx(best(9, 4, lambda one: competing_value(scores, x, one), allowed))


def test_candidates_of_no_group_are_not_limited() -> None:
    x = np.eye(4)
    columns = {"artist": ["a", "a", None, None]}
    assert len(sw.rerank(np.ones(4), 4, embeddings=x, attributes=columns, at_most={"artist": 1})) == 3


def test_a_near_copy_gives_way() -> None:
    """The two best are copies of each other: without competition both are taken, with it one makes room."""
    scores = np.array([1.0, 0.9, 0.5])
    x = np.array([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]])
    assert sw.rerank(scores, 2, embeddings=x, strength=0).tolist() == [0, 1]
    assert sw.rerank(scores, 2, embeddings=x, strength=2).tolist() == [0, 2]


def test_scores_that_are_worth_themselves() -> None:
    rng = np.random.default_rng(2)
    scores, x = rng.random(9), rng.normal(size=(9, 2))

    def value(chosen) -> float:
        return competing_value(scores, x, chosen, strength=0.5, f=float)

    chosen = sw.rerank(scores, 4, embeddings=x, strength=0.5, reward=sw.Linear())
    assert value(chosen) == pytest.approx(best(9, 4, value), rel=1e-9)


def test_sizes_of_embeddings_do_not_count() -> None:
    rng = np.random.default_rng(3)
    scores, x = rng.normal(size=50), rng.normal(size=(50, 4))
    plain = sw.rerank(scores, 8, embeddings=x, diversity=0.5)
    np.testing.assert_array_equal(sw.rerank(scores, 8, embeddings=1e-90 * x, diversity=0.5), plain)
    np.testing.assert_array_equal(
        sw.rerank(scores, 8, embeddings=2.0 ** np.arange(50)[:, None] * x, diversity=0.5), plain
    )
    x[3] = 0.0  # no direction: like nobody
    assert 3 in sw.rerank(np.where(np.arange(50) == 3, 4.0, scores), 8, embeddings=x)


def test_best_first_and_within_a_budget() -> None:
    rng = np.random.default_rng(4)
    scores, x = rng.normal(size=300), rng.normal(size=(300, 8))
    for budget_ms in (None, 3.0):
        chosen = sw.rerank(scores, 10, embeddings=x, strength=2, budget_ms=budget_ms)
        rewards = competing_rewards(scores, x, chosen)
        assert (np.diff(rewards) <= 1e-12).all()
        assert sum(rewards) >= competing_value(scores, x, np.argsort(-scores)[:10]) - 1e-9
    np.testing.assert_array_equal(sw.rerank(scores, 10, embeddings=x), sw.rerank(scores, 10, embeddings=x))


ONES = np.ones((3, 2))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"key": ONES}, "rerank's arguments must be either embeddings alone or query and key together, got key; pass one of the two."),
        ({"embeddings": ONES, "query": ONES, "key": ONES}, "rerank's arguments must be either"),
        ({"query": ONES}, "rerank's arguments must be either"),
        ({"embeddings": np.ones((4, 2))}, "embeddings must be an array of shape (3, d), got shape (4, 2); reshape it or check its source."),
        ({"embeddings": ONES, "scores": np.ones((3, 1))}, "scores must be an array of shape (m,)"),
        ({"embeddings": ONES, "scores": [np.inf, np.nan, None]}, "scores must be finite for at least one candidate, got none; check where they come from."),
        ({"embeddings": ONES, "strength": -1}, "strength must be at least 0, got -1; pass 0 to switch it off."),
        ({"embeddings": ONES, "sharpness": "much"}, "sharpness must be a finite number"),
        ({"embeddings": ONES, "at_most": 1}, "at_most must be a mapping {attribute: n}, got 1; write at_most={'artist': 2}."),
        ({"embeddings": ONES, "at_most": {"brand": 1}}, "at_most must be about attributes the items have (none), got 'brand'"),
        ({"attributes": {"a": ["a"]}, "at_most": {"a": 1}}, "attribute 'a' must be 3 values, one per item, got 1"),
        ({"embeddings": ONES, "k": 0}, "k must be a whole number of at least 1"),
        ({"query": ONES, "key": np.ones((3, 3))}, "key must be an array of shape (3, 1, 2)"),
        ({"query": np.ones((3, 2, 2)), "key": np.ones((3, 2, 2))}, "query must be an array of shape (3, 1, d)"),
        ({"embeddings": ONES, "budget_ms": 0}, "budget_ms must be above 0"),
        ({"embeddings": ONES, "strategy": "xquad"}, "strategy must be one of setwise, mmr, dpp, got 'xquad'; choose one of those."),
        ({"embeddings": ONES, "diversity": 2}, "diversity must be from 0 (scores alone) to 1 (variety alone), got 2.0"),
        ({"embeddings": ONES, "diversity": 0.5, "strength": 1}, "diversity and strength must be one of the two, got both"),
        ({"embeddings": ONES, "scale": "odds"}, "scale must be one of auto, log-odds, got 'odds'"),
        ({"embeddings": ONES, "scale": "auto", "outcomes": ([0.0], [1])}, "scale and outcomes must be one of the two"),
        ({"embeddings": ONES, "outcomes": ([0.0, 1.0], [1, 1])}, "outcomes must be scores that differ, with some outcomes of 0 and some of 1"),
        ({"embeddings": ONES, "outcomes": ([0.0, 1.0, 2.0], [1, 0, 0])}, "past scores must be higher where outcomes are better"),
        ({"embeddings": ONES, "ids": ["a"]}, "ids must be 3, one for each score, got shape (1,)"),
        ({"query": ONES, "key": ONES, "diversity": 0.3}, "diversity must be absent with query and key"),
        ({"query": ONES, "key": ONES, "strategy": "mmr"}, "strategy must be absent with query and key"),
    ],
)  # fmt: skip
def test_invalid_arguments(asked, sentence: str) -> None:
    option = {"scores": np.ones(3)} | asked
    with pytest.raises(InvalidInput) as caught:
        sw.rerank(option.pop("scores"), **option)
    assert sentence in str(caught.value)


def test_nothing_to_rank() -> None:
    with pytest.raises(Infeasible):
        sw.rerank([], embeddings=np.zeros((0, 2)))


# --- scores of any scale ---

STRATEGIES = pytest.mark.parametrize("strategy", ["setwise", "mmr", "dpp"])


@STRATEGIES
def test_without_diversity_the_highest_scores_are_chosen(strategy: str) -> None:
    rng = np.random.default_rng(5)
    scores, x = rng.normal(size=60), rng.normal(size=(60, 4))
    chosen = sw.rerank(scores, 10, embeddings=x, strategy=strategy, diversity=0)
    assert chosen.tolist() == np.argsort(-scores)[:10].tolist()


@STRATEGIES
@pytest.mark.parametrize(("factor", "shift"), [(0.001, 0.0), (1000.0, -5.0), (1.0, 300.0)])
def test_the_scale_of_scores_does_not_matter(strategy: str, factor: float, shift: float) -> None:
    rng = np.random.default_rng(6)
    scores, x = rng.normal(size=60), rng.normal(size=(60, 4))
    one = sw.rerank(scores, 10, embeddings=x, strategy=strategy, diversity=0.4)
    other = sw.rerank(factor * scores + shift, 10, embeddings=x, strategy=strategy, diversity=0.4)
    assert one.tolist() == other.tolist()


@STRATEGIES
def test_more_diversity_is_less_alike(strategy: str) -> None:
    rng = np.random.default_rng(7)
    topic = rng.integers(12, size=150)
    x = rng.normal(size=(12, 16))[topic] + 0.2 * rng.normal(size=(150, 16))
    scores = 0.01 * (rng.normal(size=12)[topic] + 0.3 * rng.normal(size=150))  # as of a factor model, not log-odds
    topics = [
        len(set(topic[sw.rerank(scores, 8, embeddings=x, strategy=strategy, diversity=d, warn_above=2)].tolist()))
        for d in (0.0, 0.5, 1.0)
    ]
    assert topics[0] < topics[1] <= topics[2]


def test_a_set_that_gives_up_much_of_the_scores_is_reported() -> None:
    rng = np.random.default_rng(8)
    x = np.repeat(rng.normal(size=(10, 16)), 5, axis=0)
    scores = np.linspace(0.05, 0.0, 50)  # five copies of each item side by side, in small units
    with pytest.warns(ScoresGivenUp, match=r"gave up \d+% of the scores: the 5 best are 0.04\d* on average") as caught:
        sw.rerank(scores, 5, embeddings=x, strength=2.0)  # as if they were log-odds
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.rerank(scores, 5, embeddings=x)
        sw.rerank(scores, 5, embeddings=x, strength=2.0, warn_above=10.0)


def test_limits_of_groups_are_not_a_loss() -> None:
    scores, x = np.array([9.0, 8.0, 7.0, 0.0, 0.0]), np.eye(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = sw.rerank(scores, 3, embeddings=x, attributes={"group": [*"aaabc"]}, at_most={"group": 1})
    assert sorted(chosen.tolist()) == [0, 3, 4]


def test_outcomes_fit_the_scale() -> None:
    rng = np.random.default_rng(9)
    past = rng.normal(size=20_000)
    outcome = rng.random(20_000) < 1 / (1 + np.exp(-(3.0 * past - 2.0)))
    slope, offset = fitted((past, outcome))
    assert slope == pytest.approx(3.0, rel=0.05)
    assert offset == pytest.approx(-2.0, rel=0.05)
    scores, x = rng.normal(size=40), rng.normal(size=(40, 3))
    as_log_odds = sw.rerank(slope * scores + offset, 6, embeddings=x, diversity=0.5, scale="log-odds")
    assert sw.rerank(scores, 6, embeddings=x, diversity=0.5, outcomes=(past, outcome)).tolist() == as_log_odds.tolist()
    assert np.isfinite(fitted(([0.0, 1.0], [0, 1]))).all(), "separated outcomes"


def test_ids_instead_of_positions() -> None:
    rng = np.random.default_rng(10)
    scores, x = rng.normal(size=20), rng.normal(size=(20, 3))
    names = np.array([f"item {i}" for i in range(20)])
    for options in ({"embeddings": x}, {"query": x, "key": x}):
        places = sw.rerank(scores, 4, **options)
        assert sw.rerank(scores, 4, ids=names.tolist(), **options).tolist() == names[places].tolist()


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # importing it is an ImportError
import numpy as np
import setwise as sw
rng = np.random.default_rng(0)
scores, x, artists = rng.normal(size=60), rng.normal(size=(60, 8)), np.arange(60) % 7
for strategy in ("mmr", "dpp"):
    print(len(sw.rerank(scores, k=10, embeddings=x, strategy=strategy, attributes={"artist": artists}, at_most={"artist": 2})))
assert not any(name.startswith(("numba", "llvmlite", "torch", "scipy")) for name, module in sys.modules.items() if module)
"""


def test_mmr_and_dpp_need_numpy_alone() -> None:
    """The smallest use of the library compiles nothing and opens no compiler."""
    done = processes.run([sys.executable, "-W", "ignore", "-c", WITHOUT_NUMBA], check=True)
    assert done.stdout.split() == ["10", "10"]
