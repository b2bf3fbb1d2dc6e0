"""Honest slates verify; every tampered one is refused, also when the digest was computed again."""

from __future__ import annotations

import ast
import functools
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.errors import DamagedArtifact, InvalidInput, SetwiseError
from setwise.model.added_scores import AddedScores
from setwise.model.eligibility import Eligibility
from setwise.recommend.query import condition_to_json
from setwise.verification import asked, conditions, reference_proof, rounding, slate_file, sum_checks
from setwise.verification import verify as verify_module
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import CHECKS, verify
from worlds import REWARDS, random_catalog

Content = dict
Lie = Content | None  # None where the slate leaves nothing to lie about


def claimed(catalog: sw.Catalog, user: sw.User, rows, places, query: Content, upper_bound=None) -> Content:
    """What a file says about this set: all of it true, unless ``upper_bound`` is not."""
    rewards = sw.item_rewards(catalog, user, rows, places)
    order = np.lexsort((rows, -rewards if places is None else places))
    value = float(rewards[order].sum())
    return query | {
        "catalog": catalog.digest,
        "user": {"heads": user.heads, "base": user.base},
        "scores": None if user.scores is None else user.scores.whole(),
        "scores_floor": None,
        "indices": np.asarray(rows)[order],
        "positions": None if places is None else np.asarray(places)[order],
        "items": catalog.ids[np.asarray(rows)[order]],
        "value": value,
        "rewards": rewards[order],
        "upper_bound": value if upper_bound is None else upper_bound,
        "proven": upper_bound is None,
    }


def constraints(k: int, exclude=(), include=(), where=None, at_most=None) -> Content:
    return {
        "k": k,
        "exclude": list(exclude),
        "include": list(include),
        "where": where,
        "at_most": at_most or {},
        "at_least": {},
        "exactly": {},
    }


def best(catalog: sw.Catalog, user: sw.User, query: Content) -> Content:
    """The content for the optimum, from enumeration."""
    where = query["where"]
    shown = catalog.attributes.matching(where) if where else np.ones(len(catalog), bool)
    rows = np.setdiff1d(np.flatnonzero(shown), query["exclude"])
    instance = sw.Instance.from_catalog(catalog, user, rows)
    pins = np.flatnonzero(np.isin(instance.candidates, query["include"]))
    ranking = sw.rank(instance, query["k"], "exhaustive", include=pins, at_most=query["at_most"])
    places = None if instance.positions is None else instance.positions[ranking.indices]
    return claimed(catalog, user, instance.candidates[ranking.indices], places, query)


@functools.cache
def drawn(seed: int) -> tuple[sw.Catalog, sw.User, Content]:
    """A small catalogue with attributes and ids, a user, and the content for the optimum under random query."""
    rng = np.random.default_rng(seed)
    ordered = bool(rng.random() < 0.2)
    n = int(rng.integers(4, 6 if ordered else 10))
    catalog, user = random_catalog(
        seed,
        n=n,
        heads=int(rng.integers(1, 4)),
        base=bool(rng.random() < 0.5),
        sink=bool(rng.random() < 0.5),
        sharpness=float(rng.choice([0.3, 1.0, 3.0, 30.0, 1e3])),
        rewards=[REWARDS[number] for number in rng.choice(len(REWARDS) - 1, size=2, replace=False)],
        positions=3 if ordered else 0,
        ids=[f"song {row}" for row in range(n)] if rng.random() < 0.5 else None,
        attributes={
            "genre": [["jazz", "folk", None][int(number)] for number in rng.integers(3, size=n)],
            "price": np.where(rng.random(n) < 0.1, np.nan, rng.integers(1, 5, size=n)),
        },
    )
    if rng.random() < 0.3:
        user = user.with_scores(AddedScores.dense(rng.normal(size=n)))
    query = constraints(
        int(rng.integers(2, 4)),
        exclude=np.flatnonzero(rng.random(n) < 0.15)[:2],
        where={"price": (None, 4)} if rng.random() < 0.2 else None,
        at_most={"genre": int(rng.integers(1, 3))} if rng.random() < 0.3 else None,
    )
    free = np.setdiff1d(np.flatnonzero(catalog.attributes.matching(query["where"] or {})), query["exclude"])
    if len(free) < 2:
        return drawn(seed + 1_000_003)
    if rng.random() < 0.2 and not ordered:
        query["include"] = free[:1].tolist()
    return catalog, user, best(catalog, user, query)


QUERY = ("user", "scores", "scores_floor", "k", "exclude", "include", "where", "at_most", "at_least", "exactly")


def written(catalog: sw.Catalog, content: Content) -> Content:
    """The content as a file has it: the parts of the query in one object, ids for rows, ranges with two ends."""
    query = {key: content[key] for key in QUERY} | {"budget_ms": None, "ranker": "swap", "certify": True}
    for key in ("exclude", "include"):
        rows = np.asarray(query[key], np.int64)
        query[key] = [catalog.ids[[row]].tolist()[0] if row < len(catalog) else 10**6 + int(row) for row in rows]
    query["where"] = {name: condition_to_json(one) for name, one in (query["where"] or {}).items()}
    return {key: part for key, part in content.items() if key not in QUERY} | {"query": query}


def result_of(path: Path, catalog: sw.Catalog, content: Content, **options) -> verify_module.Verification:
    write_slate(path, written(catalog, content))
    return verify(path, catalog, **options)


def refused(path: Path, catalog: sw.Catalog) -> set[str]:
    """The checks that a file fails; {"error"} if it is not even read."""
    try:
        result = verify(path, catalog)
    except SetwiseError:
        return {"error"}
    return {check.name for check in result.checks if not check.ok}


# --- honest ----------------------------------------------------------------------------------------------------------


def test_optimal_slates_verify(tmp_path: Path, count) -> None:
    for seed in range(count(1_000)):
        catalog, user, content = drawn(seed)
        result = result_of(tmp_path / "slate.json", catalog, content, user=user)
        assert result.ok, (seed, [check for check in result.checks if not check.ok])
        assert [check.name for check in result.checks] == list(CHECKS)
        assert result.value == pytest.approx(content["value"])
        assert result.upper_bound == content["upper_bound"]


def test_any_bound_above_the_optimum_verifies(tmp_path: Path) -> None:
    catalog, _, content = drawn(3)
    for bound in (content["value"] + 1e-6, content["value"] * 1.1 + 1, math.inf):
        assert result_of(tmp_path / "s", catalog, content | {"upper_bound": bound, "proven": False}).ok


def test_a_slate_that_is_not_optimal_with_a_true_bound(tmp_path: Path) -> None:
    catalog, user = random_catalog(5, n=9, heads=2)
    optimum = best(catalog, user, constraints(3))["value"]
    poor = claimed(catalog, user, [0, 1], None, constraints(3), upper_bound=optimum)
    result = result_of(tmp_path / "s", catalog, poor)
    assert result.ok
    assert result.value == pytest.approx(sw.set_value(catalog, user, [0, 1]))


def test_bounds_of_the_whole_catalogue_search_verify(tmp_path: Path) -> None:
    for heads, seed in ((1, 0), (1, 1), (2, 2), (3, 3)):
        catalog, user = random_catalog(seed, n=1500, heads=heads, sharpness=2.0, base=heads > 1, sink=seed == 3)
        candidates = np.argsort(-(catalog.value @ user.heads.T).sum(axis=(1, 2)))[:100]
        found = sw.rank(sw.Instance.from_catalog(catalog, user, candidates), 4, "swap")
        cells = CellBounds.build(catalog, cells=60)
        for budget in (0.0, 50.0):
            bound = whole_catalog_bound(
                cells, user, 4, found.value, eligible=Eligibility.of(catalog, exclude=[7]), budget_ms=budget
            )
            rows = candidates[found.indices] if bound.better is None else bound.better
            content = claimed(catalog, user, rows, None, constraints(4, exclude=[7]), upper_bound=bound.upper_bound)
            assert result_of(tmp_path / "s", catalog, content).ok


def test_the_trivial_bound_takes_one_node(tmp_path: Path, shared_data: Path) -> None:
    arrays = np.load(shared_data / "catalogs" / "playlists_one_head.npz")
    reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
    catalog = sw.Catalog(arrays["query"], arrays["key"], arrays["value"], reward)
    user = sw.User(arrays["user_heads"][0])
    score = catalog.value[:, 0].astype(float) @ user.heads[0]
    rows = np.argsort(-score)[:10]
    trivial = 10 * float(reward.value(score.max()))
    content = claimed(catalog, user, rows, None, constraints(10), upper_bound=trivial)
    assert result_of(tmp_path / "s", catalog, content, nodes=1).ok
    low = result_of(tmp_path / "s", catalog, content | {"upper_bound": content["value"] * 1.0001}, nodes=50)
    assert [check.name for check in low.checks if not check.ok] == ["bound"]


def test_a_proof_that_takes_too_long_says_so(tmp_path: Path) -> None:
    catalog, user = random_catalog(1, n=12, sharpness=3.0)
    result = result_of(tmp_path / "s", catalog, best(catalog, user, constraints(3)), nodes=1)
    assert not result.ok
    assert "could not be proven within 1 nodes" in result.checks[-1].sentence
    closed = [0]
    for nodes in range(2, 10_000):
        content = best(catalog, user, constraints(3))
        sentence = result_of(tmp_path / "s", catalog, content, nodes=nodes).checks[-1].sentence
        found = re.search(r"; (\d+) of (\d+) parts of the search were complete", sentence)
        if found is None:
            assert "proven again" in sentence
            break
        closed.append(int(found[1]))
        assert closed[-2] <= closed[-1] < max(int(found[2]), 1)
    assert max(closed) > 0


def test_rewards_that_overflow(tmp_path: Path) -> None:
    catalog, user = random_catalog(0, n=5, rewards=[sw.Exp(1000.0)])
    user = sw.User(100 * user.heads)
    rows = [int(np.argmax(catalog.value[:, 0] @ user.heads[0]))]
    content = claimed(catalog, user, rows, None, constraints(2), upper_bound=math.inf)
    assert content["value"] == math.inf
    assert result_of(tmp_path / "s", catalog, content).ok
    for lie in ({"value": -math.inf}, {"value": 1.0}, {"upper_bound": 5.0}, {"rewards": [1.0]}):
        assert not result_of(tmp_path / "s", catalog, content | lie).ok


# --- the proof -------------------------------------------------------------------------------------------------------


def test_a_limit_just_below_the_optimum_is_refuted_and_just_above_it_proven(count) -> None:
    for seed in range(count(2_000)):
        catalog, user, content = drawn(seed)
        shown = catalog.attributes.matching(content["where"] or {})
        rows = np.setdiff1d(np.flatnonzero(shown), content["exclude"])
        groups = [
            (catalog.attributes.labels(name, np.arange(len(catalog))), n) for name, n in content["at_most"].items()
        ]
        proof = reference_proof.ReferenceProof(catalog, user, content["k"], rows, content["include"], groups)
        value, slack = content["value"], 1e-9 * (1 + abs(content["value"]))
        above, below = proof.run(value + slack, 10**6), proof.run(value - slack, 10**6)
        assert above.complete, seed
        assert not below.complete, seed
        assert below.value == pytest.approx(value), seed


def test_larger_sets_are_proven_and_refuted_too(count) -> None:
    for seed in range(count(300)):
        rng = np.random.default_rng(seed)
        catalog, user = random_catalog(
            seed,
            n=16,
            heads=int(rng.integers(1, 4)),
            sink=bool(rng.random() < 0.3),
            sharpness=float(rng.choice([0.3, 3.0, 10.0, 100.0, 1e4])),
            rewards=[REWARDS[number] for number in rng.choice(len(REWARDS), size=2, replace=False)],
        )
        k = int(rng.integers(3, 6))
        value = best(catalog, user, constraints(k))["value"]
        proof = reference_proof.ReferenceProof(catalog, user, k, np.arange(16), [], [])
        slack = 1e-9 * (1 + abs(value))
        assert proof.run(value + slack, 10**6).complete, seed
        assert proof.run(value - slack, 10**6).value == pytest.approx(value), seed


def test_the_largest_average_is_found(count) -> None:
    for seed in range(count(1_000)):
        rng = np.random.default_rng(seed)
        rows, size, joining = 3, int(rng.integers(1, 7)), int(rng.integers(0, 5))
        average, score = rng.normal(size=rows), rng.normal(size=size)
        weight = np.exp(np.minimum(rng.choice([1.0, 10.0, 100.0, 300.0]) * rng.normal(size=(rows, size)), 600.0))
        highest = reference_proof._largest_averages(average, weight, score, joining)
        for row in range(rows):
            true = max(
                math.fsum([average[row], *(weight[row, list(s)] * score[list(s)])])
                / math.fsum([1.0, *weight[row, list(s)]])
                for many in range(min(joining, size) + 1)
                for s in itertools.combinations(range(size), many)
            )
            assert highest[row] >= true - 1e-12
            if weight[row].max() < 1e3:
                assert highest[row] == pytest.approx(true, abs=1e-9)


def test_constraints_that_no_set_keeps() -> None:
    catalog, user = random_catalog(0, n=5)
    rows, labels = np.arange(4), np.zeros(5, np.int64)
    for k, pinned, groups in ((3, [4], []), (1, [0, 1], []), (3, [0, 1], [(labels, 1)])):
        assert reference_proof.ReferenceProof(catalog, user, k, rows, pinned, groups).run(-1.0, 10).complete


# --- tampered --------------------------------------------------------------------------------------------------------


def outside(content: Content, catalog: sw.Catalog) -> np.ndarray:
    return np.setdiff1d(np.arange(len(catalog)), content["indices"])


def other_item(content: Content, catalog: sw.Catalog, rng: np.random.Generator) -> Content:
    rows = content["indices"].copy()
    rows[rng.integers(len(rows))] = rng.choice(outside(content, catalog))
    return {"indices": rows, "items": catalog.ids[rows]}


def is_less(value: float, optimum: float) -> bool:
    return value < optimum - 1e-6 * (1 + abs(optimum))


def worse_slate(content: Content, catalog: sw.Catalog, rng: np.random.Generator) -> Lie:
    """Honest in all but one thing: it is stated optimal."""
    free = np.setdiff1d(outside(content, catalog), content["exclude"])
    if not len(free):
        return None
    rows = np.array([rng.choice(free), *content["include"]])
    places = None if content["positions"] is None else np.arange(len(rows))
    worse = claimed(catalog, sw.User(**content["user"], scores=content["scores"]), rows, places, {})
    return worse if is_less(worse["value"], content["value"]) else None


def bound_below(content: Content, catalog: sw.Catalog, rng: np.random.Generator) -> Lie:
    """A worse slate, with a bound between its value and the optimum."""
    worse = worse_slate(content, catalog, rng)
    if worse is None:
        return None
    middle = worse["value"] + rng.uniform(0, 0.9) * (content["value"] - worse["value"])
    return worse | {"upper_bound": middle, "proven": False}


def more_allowed(content: Content, catalog: sw.Catalog, wider: Content) -> Lie:
    """The same claims, although more sets are feasible and one of them is better."""
    optimum = best(catalog, sw.User(**content["user"], scores=content["scores"]), content | wider)["value"]
    return wider if is_less(content["value"], optimum) else None


def limit_broken(content: Content, catalog: sw.Catalog) -> Lie:
    label = catalog.attributes.labels("price", content["indices"])
    return {"at_most": {"price": int(np.bincount(label[label >= 0]).max()) - 1}} if label.max() >= 0 else None


def another_user(content: Content, catalog: sw.Catalog, rng: np.random.Generator) -> Lie:
    user = content["user"] | {"heads": rng.normal(size=content["user"]["heads"].shape)}
    value = sw.set_value(catalog, sw.User(**user, scores=content["scores"]), content["indices"], content["positions"])
    return {"user": user} if abs(value - content["value"]) > 1e-6 * (1 + abs(value)) else None


def fewer_places(content: Content) -> Lie:
    return {"k": len(content["indices"]) - 1} if len(content["indices"]) > 1 else None


def backwards(content: Content) -> Lie:
    """The right set in the wrong order."""
    parts = ("indices", "items", "rewards") + (("positions",) if content["positions"] is not None else ())
    differ = content["positions"] is not None or is_less(content["rewards"][-1], content["rewards"][0])
    return {part: content[part][::-1] for part in parts} if differ and len(content["indices"]) > 1 else None


def other_places(content: Content, rng: np.random.Generator) -> Lie:
    """Places where there are none, none where there are some, or two items in one place."""
    length = len(content["indices"])
    if content["positions"] is None:
        return {"positions": list(range(length))}
    return {"positions": [None, [0] * length, [7] * length][rng.integers(3)]} if length > 1 else None


def moved(number: float, rng: np.random.Generator) -> float:
    return number + rng.choice([-1, 1]) * (1 + abs(number)) * 10 ** rng.uniform(-6, 1)


def changed(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    result = np.array(numbers)
    at = tuple(rng.integers(size) for size in result.shape)
    result[at] = moved(result[at], rng)
    return result


def scores_changed(content: Content, rng: np.random.Generator) -> np.ndarray:
    """Other scores of the items shown."""
    scores = np.array(content["scores"])
    scores[np.asarray(content["indices"])] += 0.1 + rng.random()
    return scores


def other_scores(content: Content, catalog: sw.Catalog, scores: np.ndarray | None) -> Lie:
    """A lie only where it changes the value: rewards may have reached their largest, or do not grow in between."""
    user = sw.User(**content["user"], scores=scores)
    value = sw.set_value(catalog, user, content["indices"], content["positions"])
    return {"scores": scores} if abs(value - content["value"]) > 1e-6 * (1 + abs(value)) else None


LIES: dict[str, Callable[[Content, sw.Catalog, np.random.Generator], Lie]] = {
    "value": lambda content, catalog, rng: {"value": moved(content["value"], rng)},
    "reward": lambda content, catalog, rng: {"rewards": changed(content["rewards"], rng)},
    "rewards too many": lambda content, catalog, rng: {"rewards": [*content["rewards"], 0.0]},
    "other item": other_item,
    "item twice": lambda content, catalog, rng: {"indices": np.repeat(content["indices"][:1], 2)},
    "no item": lambda content, catalog, rng: {"indices": [], "items": [], "rewards": [], "value": 0.0},
    "no such row": lambda content, catalog, rng: {"indices": [len(catalog), *content["indices"][1:]]},
    "huge row": lambda content, catalog, rng: {"indices": [10**30, *content["indices"][1:]]},
    "item dropped": lambda content, catalog, rng: {"indices": content["indices"][1:], "items": content["items"][1:]},
    "id": lambda content, catalog, rng: {"items": [*content["items"][:-1], catalog.ids[outside(content, catalog)][0]]},
    "k too small": lambda content, catalog, rng: fewer_places(content),
    "k larger": lambda content, catalog, rng: more_allowed(content, catalog, {"k": content["k"] + 1}),
    "shown although excluded": lambda content, catalog, rng: {"exclude": [rng.choice(content["indices"])]},
    "exclude no such row": lambda content, catalog, rng: {"exclude": [len(catalog) + 5]},
    "exclude forgotten": lambda content, catalog, rng: more_allowed(content, catalog, {"exclude": []}),
    "pinned but not shown": lambda content, catalog, rng: {"include": [rng.choice(outside(content, catalog))]},
    "filtered out": lambda content, catalog, rng: {"where": {"price": [99]}},
    "filter of another type": lambda content, catalog, rng: {"where": {"price": "cheap"}},
    "no such attribute": lambda content, catalog, rng: {"at_most": {"colour": 1}},
    "limit broken": lambda content, catalog, rng: limit_broken(content, catalog),
    "another user": another_user,
    "a user that does not fit": lambda content, catalog, rng: {"user": content["user"] | {"heads": [[1.0]]}},
    "bound below the value": lambda content, catalog, rng: {"upper_bound": content["value"] - (1 + abs(content["value"])) * 10 ** rng.uniform(-7, 0)},
    "bound of minus infinity": lambda content, catalog, rng: {"upper_bound": -math.inf},
    "bound below the optimum": bound_below,
    "stated optimal": worse_slate,
    "proven without a bound": lambda content, catalog, rng: {"upper_bound": math.inf, "proven": True},
    "proven above": lambda content, catalog, rng: {"upper_bound": content["value"] + (1 + abs(content["value"])) * 10 ** rng.uniform(-5, 1)},
    "another catalogue": lambda content, catalog, rng: {"catalog": "0" * 64},
    "places": lambda content, catalog, rng: other_places(content, rng),
    "limit forgotten": lambda content, catalog, rng: more_allowed(content, catalog, {"at_most": {}}),
    "pin forgotten": lambda content, catalog, rng: more_allowed(content, catalog, {"include": []}),
    "backwards": lambda content, catalog, rng: backwards(content),
    "scores forgotten": lambda content, catalog, rng: None if content["scores"] is None else other_scores(content, catalog, None),
    "scores of a slate without": lambda content, catalog, rng: other_scores(content, catalog, np.full(len(catalog), 0.01)) if content["scores"] is None else None,
    "a score of another length": lambda content, catalog, rng: {"scores": [1.0]},
    "a score changed": lambda content, catalog, rng: None if content["scores"] is None else other_scores(content, catalog, scores_changed(content, rng)),
    "a floor left out": lambda content, catalog, rng: {"scores": {str(catalog.ids[int(content["indices"][0])]): 0.0}} if len(content["indices"]) > 1 else None,
}  # fmt: skip


THE_PROOF_SEES = {
    "k larger",
    "exclude forgotten",
    "limit forgotten",
    "pin forgotten",
    "bound below the optimum",
    "stated optimal",
}


@pytest.mark.promise("certificates")
@pytest.mark.parametrize("name", LIES)
def test_lies_with_the_digest_computed_again(name: str, tmp_path: Path, count, record_property) -> None:
    path, lies, wanted = tmp_path / "slate.json", 0, count(200, 66)
    for seed in range(10_000):
        catalog, _, content = drawn(seed)
        lie = LIES[name](content, catalog, np.random.default_rng(seed)) if len(outside(content, catalog)) else None
        if lie is not None:
            write_slate(path, written(catalog, content | lie))
            found = refused(path, catalog)
            assert "bound" in found if name in THE_PROOF_SEES else found, seed
            lies += 1
        if lies == wanted:
            record_property("seen", f"{name}: {lies}")
            return
    pytest.fail(f"only {lies} slates could be lied about")


@pytest.mark.promise("certificates")
def test_changed_bytes(tmp_path: Path, count) -> None:
    path = tmp_path / "slate.json"
    for seed in range(count(2_000, 40)):
        catalog, _, content = drawn(seed % 20)
        rng = np.random.default_rng(seed)
        path.unlink(missing_ok=True)
        write_slate(path, written(catalog, content))
        raw = bytearray(path.read_bytes())
        how = rng.integers(4)
        at = int(rng.integers(len(raw)))
        if how == 0:
            raw[at] ^= 1 << int(rng.integers(8))
        elif how == 1:
            raw[at] = (raw[at] + 1 + int(rng.integers(255))) % 256
        elif how == 2:
            del raw[at:]
        else:
            raw.insert(at, int(rng.choice([32, 10, 48])))
        path.write_bytes(raw)
        with pytest.raises(DamagedArtifact):
            verify(path, catalog)


@pytest.mark.promise("certificates")
def test_the_wrong_user(tmp_path: Path) -> None:
    catalog, user, content = drawn(1)
    write_slate(tmp_path / "s", written(catalog, content))
    assert verify(tmp_path / "s", catalog, user).ok
    other = verify(tmp_path / "s", catalog, sw.User(user.heads + 1e-12, user.base))
    assert [check.name for check in other.checks if not check.ok] == ["user"]
    misfit = verify(tmp_path / "s", catalog, sw.User(np.ones((9, 9))))
    assert [check.name for check in misfit.checks if not check.ok] == ["user"]


@pytest.mark.promise("certificates")
def test_the_wrong_catalogue(tmp_path: Path) -> None:
    catalog, user = random_catalog(0)
    write_slate(tmp_path / "s", written(catalog, best(catalog, user, constraints(2))))
    for stranger in (random_catalog(1)[0], random_catalog(0, n=2)[0], random_catalog(0, heads=2)[0]):
        failed = {check.name for check in verify(tmp_path / "s", stranger).checks if not check.ok}
        assert {"catalogue", "bound"} <= failed


# --- the file --------------------------------------------------------------------------------------------------------


def test_floats_and_filters_come_back(tmp_path: Path) -> None:
    catalog, _, content = drawn(2)
    where = {
        "genre": {"jazz", "folk"},
        "price": (None, 2.5),
        "year": np.array([1, 2]),
        "new": True,
        "weight": (-math.inf, np.float64(0.1)),
        "city": "Rome",
    }
    heads = np.array([[0.1, -0.0, 5e-324], [1e300, 1 / 3, 2.0]])
    changes = {"where": where, "user": {"heads": heads, "base": None}, "upper_bound": math.inf}
    write_slate(tmp_path / "s", written(catalog, content | changes))
    back = read_slate(tmp_path / "s")
    assert np.array(back["query"]["user"]["heads"]).tobytes() == heads.tobytes()
    assert back["upper_bound"] == math.inf
    assert np.array(back["rewards"]).tobytes() == content["rewards"].tobytes()
    assert back["query"]["where"] == {
        "genre": ["folk", "jazz"],
        "price": {"from": None, "to": 2.5},
        "year": [1, 2],
        "new": True,
        "weight": {"from": None, "to": 0.1},
        "city": "Rome",
    }
    write_slate(tmp_path / "t", {key: part for key, part in back.items() if key != "digest"})
    assert (tmp_path / "t").read_bytes() == (tmp_path / "s").read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["s", "t"]


@pytest.mark.parametrize(
    "change",
    [
        {"value": math.nan}, {"value": "much"}, {"k": 0}, {"k": 2.0}, {"k": True}, {"indices": [-1]}, {"indices": "ab"},
        {"proven": 1}, {"colour": 1}, {"version": 1}, {"format": "x"}, {"user": {"heads": [[1.0], []], "base": None}},
        {"user": {"heads": [[math.inf]], "base": None}}, {"user": [1.0]}, {"where": {"a": {"from": 1}}}, {"where": {"a": None}},
        {"where": {"a": math.inf}}, {"where": {"a": {"from": "x", "to": 1}}}, {"exclude": [1.5]}, {"ranker": 1}, {"scores": 1.0}, {"scores": ["a"]}, {"scores": {"a": None}}, {"scores_floor": "low"}, {"scores": [math.nan]}, {"certify": 1}, {"at_most": {"a": 1.5}}, {"items": [1.5]}, {"items": ["\ud800"]}, {"rewards": 5},
    ],
)  # fmt: skip
def test_contents_that_are_not_written(change: Content, tmp_path: Path) -> None:
    catalog, _, content = drawn(2)
    content = written(catalog, content)
    if change.keys() <= content["query"].keys():
        change = {"query": content["query"] | change}
    with pytest.raises(InvalidInput, match=r"^slate must be "):
        write_slate(tmp_path / "s", content | change)
    assert not list(tmp_path.iterdir())


def test_a_slate_larger_than_can_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slate_file, "MAX_BYTES", 1000)
    with pytest.raises(InvalidInput, match=r"^slate must be at most 1,000 bytes, got "):
        write_slate(tmp_path / "s", written(drawn(2)[0], drawn(2)[2] | {"exclude": list(range(300))}))


def test_missing_keys_and_folders(tmp_path: Path) -> None:
    catalog, _, content = drawn(2)
    content = written(catalog, content)
    for key in content:
        with pytest.raises(InvalidInput, match=f"no key '{key}'"):
            write_slate(tmp_path / "s", {name: part for name, part in content.items() if name != key})
    for key in content["query"]:
        query = {name: part for name, part in content["query"].items() if name != key}
        with pytest.raises(InvalidInput, match=f"no key '{key}'"):
            write_slate(tmp_path / "s", content | {"query": query})
    with pytest.raises(InvalidInput, match="path must be a file that can be written"):
        write_slate(tmp_path / "no such folder" / "s", content)
    with pytest.raises(InvalidInput, match="path must be a file that can be written"):
        write_slate(tmp_path, content)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"[1, 2]", "no setwise slate"),
        (b"\xff\xfe", "not JSON"),
        (b'{"format": "setwise slate", "version": 1}', "version is 1, not 4.*save the slate anew"),
        (b'{"format": "setwise slate", "version": NaN}', "not JSON"),
        (b'{"format": "setwise slate", "version": 4, "k": 1e999}', "not JSON"),
        (b'{"format": "setwise slate", "version": 4, "k": "\\ud800"}', "not JSON"),
        (b'{"format": "setwise slate", "version": 4}', "no key 'catalog'"),
        (b'{"format": "setwise slate", "version": 4, "x": 1}', "the unknown key 'x'"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 10_000, "not JSON"),
        (b" " * (slate_file.MAX_BYTES + 1), "more than 67,108,864 bytes"),
    ],
)
def test_files_that_are_not_slates(raw: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(raw)
    with pytest.raises(DamagedArtifact, match=reason):
        read_slate(tmp_path / "s")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(DamagedArtifact, match="cannot be read"):
            read_slate(path)


def test_another_encoding_with_the_right_digest(tmp_path: Path) -> None:
    catalog, _, content = drawn(2)
    write_slate(tmp_path / "s", written(catalog, content))
    (tmp_path / "s").write_text(json.dumps(json.loads((tmp_path / "s").read_text())))
    with pytest.raises(DamagedArtifact, match="not encoded as setwise encodes it"):
        read_slate(tmp_path / "s")


# --- independence ----------------------------------------------------------------------------------------------------


def test_verification_imports_the_reference_objective_only() -> None:
    allowed = {"_types", "_validation", "_progress", "errors", "model", "storage"}
    own = {
        f"setwise.verification.{name}"
        for name in ("slate_file", "asked", "conditions", "sum_checks", "reference_proof", "rounding")
    }
    for module in (verify_module, slate_file, asked, conditions, sum_checks, reference_proof, rounding):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"setwise.{alias.name}" for alias in node.names] if node.module == "setwise" else [node.module]
            for name in names:
                if name.startswith("setwise"):
                    assert name in own or name.split(".")[1] in allowed, name
