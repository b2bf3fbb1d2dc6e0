"""Figures 3 and 4 and the scaling study run end to end in miniature, go on after an interruption, and add up."""

from __future__ import annotations

import csv
import gzip
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.datasets import World
from setwise.errors import InvalidInput

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
HEADER = ("session_id", "action_type", "impressions", "prices")


@pytest.fixture(scope="module")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays as those of shared/data/catalogs, and lists of hotels of five towns."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "catalogs").mkdir()
    (folder / "sets" / "trivago_100k").mkdir(parents=True)
    for name, heads, d_v in (("playlists_one_head", 1, 6), ("playlists_four_heads", 4, 3)):
        n = 300
        arrays = {
            "query": 1.5 * rng.normal(size=(n, heads, 4)),
            "key": 1.5 * rng.normal(size=(n, heads, 4)),
            "value": rng.normal(size=(n, heads, d_v)),
            "user_heads": rng.normal(size=(5, heads, d_v)),
        }
        if heads > 1:
            arrays |= {"base": rng.normal(size=(n, 3)), "user_base": rng.normal(size=(5, 3))}
        single = {name: array.astype(np.float32) for name, array in arrays.items()}
        np.savez(
            folder / "catalogs" / f"{name}.npz", **single, scale=1.0, bias=-1.0, history=rng.integers(n, size=(5, 15))
        )
    with gzip.open(folder / "sets" / "trivago_100k" / "sessions.csv.gz", "wt", newline="") as lines:
        writer = csv.DictWriter(lines, HEADER)
        writer.writeheader()
        for number in range(120):
            hotels = 100 * (number % 5) + rng.choice(60, 25, replace=False)
            for session in (number, f"{number} again"):
                writer.writerow({"session_id": session, "impressions": "|".join(map(str, hotels)), "prices": ""})
        writer.writerow({"session_id": "none", "impressions": ""})
    return folder


# --- rows ---


def test_rows_survive_an_interruption_and_refuse_other_settings(tmp_path: Path) -> None:
    kept_rows = import_module("kept_rows")
    path = tmp_path / "rows.csv"
    rows = kept_rows.KeptRows(path, ("name", "value", "odd"), {"seed": 0})
    assert list(rows.missing(["a", "b"], "")) == ["a", "b"]
    rows.add("a", [{"name": "x", "value": 0.1}, {"name": "y", "value": 2, "odd": True}])
    with path.open("a") as file:
        file.write("b,z,1.5,,False\r\nb,w,")  # killed in the middle of unit b
    again = kept_rows.KeptRows(path, ("name", "value", "odd"), {"seed": 0})
    assert again.rows == rows.rows
    assert [(row["name"], row["value"], row["odd"]) for row in again.rows] == [("x", 0.1, None), ("y", 2, True)]
    assert list(again.missing(["a", "b"], "")) == ["b"]
    assert kept_rows.read(path) == again.rows
    with pytest.raises(InvalidInput, match="of other settings"):
        kept_rows.KeptRows(path, ("name", "value", "odd"), {"seed": 1})


# --- catalogues ---


def test_ready_made_catalogues_and_learned_ones(
    monkeypatch: pytest.MonkeyPatch, miniature: Path, tmp_path: Path
) -> None:
    catalogues = import_module("catalogues")
    four = catalogues.opened("playlists_four_heads", miniature)
    assert (len(four.catalog), four.catalog.heads, len(four.users), four.per_head) == (300, 4, 5, 2)
    assert four.users[0].base is not None
    recipe = catalogues.Recipe.quick()
    learned = catalogues.opened("trivago", miniature, tmp_path, recipe)
    assert (len(learned.users), len(learned.catalog), learned.catalog.heads, learned.per_head) == (3, 300, 1, 0)
    assert all(len(seen) == 15 for seen in learned.histories)
    # From the cache, and learned again without it: the same to the last bit.
    monkeypatch.setattr(catalogues, "sessions", None)
    kept = catalogues.opened("trivago", miniature, tmp_path, recipe)
    monkeypatch.undo()
    again = import_module("catalogues").opened("trivago", miniature, None, recipe)
    for other in (kept, again):
        assert np.array_equal(other.catalog.value, learned.catalog.value)
        assert np.array_equal(other.users[2].heads, learned.users[2].heads)
        assert all(map(np.array_equal, other.histories, learned.histories))
    cut = learned.cut(200, 2)
    assert (len(cut.catalog), len(cut.users)) == (200, 2)
    half = four.half(3, seed=1)
    assert (len(half.catalog), half.users) == (150, four.users[3:])
    kept = np.sort(np.random.default_rng(1).permutation(300)[:150])
    assert np.array_equal(half.catalog.value, four.catalog.value[kept])
    assert set(kept[half.histories[0]]) == set(kept) & set(four.histories[3])
    assert all((seen < 200).all() for seen in cut.histories)


def test_slates_to_learn_from_hold_five_true_ones(miniature: Path) -> None:
    catalogues = import_module("catalogues")
    everything = catalogues.sessions("trivago", miniature)
    network = catalogues.SimpleNetwork(everything.n_items, catalogues.Shape(4, 1, 2, 4, False, False))
    slates = catalogues._mixed(network, everything, catalogues.Recipe(top=40), 0)
    held = everything.items
    for number, (seen, shown) in enumerate(zip(slates.history, slates.shown, strict=True)):
        outcome = slates.outcome[slates.shown.offsets[number] : slates.shown.offsets[number + 1]]
        assert np.array_equal(outcome == 1, np.isin(shown, held[number]))
        assert outcome.sum() == 5
        assert len(np.unique(shown)) == len(shown)
        assert not np.isin(shown, seen).any()


# --- the best known ---


@pytest.mark.parametrize("heads", [1, 3])
def test_exchanged_values_are_reference_values(heads: int) -> None:
    best_known = import_module("best_known")
    world = World.make(80, n_users=1, heads=heads, seed=heads)
    rng = np.random.default_rng(heads)
    plain = sw.Catalog(*(rng.normal(size=(80, heads, 3)) for _ in range(3)))
    for catalog, user in ((world.catalog, world.user(world.histories[0])), (plain, rng.normal(size=(heads, 3)))):
        chosen, checked = np.array([7, 30, 2, 55]), catalog.user(user)
        values = best_known.exchanged(catalog, checked, chosen)
        for out in range(4):
            for joiner in (0, 11, 79):
                proposal = chosen.copy()
                proposal[out] = joiner
                assert values[out, joiner] == pytest.approx(sw.set_value(catalog, user, proposal), rel=1e-12)


def test_the_heavy_search_finds_the_optimum_of_a_small_catalogue() -> None:
    catalogues, best_known = import_module("catalogues"), import_module("best_known")
    rng = np.random.default_rng(4)
    catalog = sw.Catalog(*(rng.normal(size=(30, 3)) for _ in range(3)))
    users = [sw.User(rng.normal(size=3)) for _ in range(3)]
    trained = catalogues.Trained("small", catalog, users, [np.array([0, 1])] * 3)
    index, nearest = (sw.Index.build(catalog, cells=cells) for cells in (4, 1))
    heaviness, bounds = best_known.Heaviness(5, 5, 3, 50, 50.0), CellBounds.build(catalog)
    search = best_known.HeavySearch(trained, index, nearest, bounds, heaviness)
    for number, user in enumerate(users):
        found = search(number, 3)
        every = sw.Instance.from_catalog(catalog, user, np.arange(2, 30))
        optimum = sw.rank(every, 3, "exhaustive").value
        assert found.value == pytest.approx(optimum, rel=1e-12)
        assert found.value <= found.upper_bound
        assert not np.isin(found.items, [0, 1]).any()


# --- Figure 3 ---


def test_figure_3_in_miniature(miniature: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure, kept_rows = import_module("figure_3_budget"), import_module("kept_rows")
    out, names = tmp_path / "figure_3.csv", ["playlists_one_head", "playlists_four_heads"]
    command = ["--quick", "--data", str(miniature), "--out", str(out), "--catalogues", *names]
    rows = figure.main(command)
    assert "+20.86" in capsys.readouterr().out
    assert rows == kept_rows.read(out)
    assert figure.main(command) == rows  # nothing is left to do
    methods = {(row["retrieval"], row["ranker"]) for row in rows}
    every = {(one, other) for one in figure.RETRIEVALS for other in figure.RANKERS}
    assert methods == every - {("k-nn", other) for other in figure.ONLY_NEAR} | {
        ("whole catalogue", "best known"),
        *((retrieval, figure.POSSIBLE) for retrieval in figure.RETRIEVALS),
    }
    for unit in {row["unit"] for row in rows}:
        mine = [row for row in rows if row["unit"] == unit]
        counts = {row["candidates"] for row in mine if row["ranker"] != "best known"}
        for retrieval in figure.RETRIEVALS:
            values = {row["ranker"]: row["value"] for row in mine if row["retrieval"] == retrieval}
            assert values[figure.POSSIBLE] == max(values.values())
        assert len(counts) == 1  # both retrievals hand on as many
        bound = mine[-1]["upper_bound"]
        assert all(row["value"] <= bound * (1 + 1e-9) for row in mine)
    for values in figure.curves(rows, 10).values():
        assert values.shape == (3, 10)
        assert (np.diff(values, axis=1) >= 0).all()


def test_what_figure_3_reports_is_what_the_rankers_find(miniature: Path) -> None:
    figure, catalogues = import_module("figure_3_budget"), import_module("catalogues")
    trained = catalogues.opened("playlists_one_head", miniature)
    heaviness = import_module("best_known").Heaviness.quick()
    experiment = figure.Experiment(figure.Prepared.of(trained), 4, 60, 0, heaviness, 7, 0)
    rows = experiment.rows(1, ("swap", "beam", "beam, last", "paper"))
    user, seen = trained.users[1], trained.histories[1]
    cells = experiment.index.candidates(user, 4, seen)
    score = (trained.catalog.value[:, 0] @ user.heads[0]).astype(np.float64)
    score[seen] = -np.inf
    candidates = {"phase one": cells, "k-nn": np.sort(np.argsort(-score)[: len(cells)])}
    values = figure.curves(rows, 7)
    for (_, k, retrieval, ranker), curve in values.items():
        instance = sw.Instance.from_catalog(trained.catalog, user, candidates[retrieval])
        for solutions in (1, 4, 7):
            options = {"evaluations": solutions * k * len(cells)} if ranker == "swap" else {"solutions": solutions}
            if ranker == "beam, last":
                options |= {"order": "last"}
            if ranker == "paper":  # its last solution is the best single item, whatever the budget
                found = sw.rank(instance, k, "paper", solutions=7).trace[solutions - 1]
            else:
                found = sw.rank(instance, k, ranker.split(",")[0], **options).value
            assert curve[0, solutions - 1] == pytest.approx(found, rel=1e-12)


def handmade() -> list[dict[str, object]]:
    """Two users, three budgets; only changes of a curve are listed."""
    curves = {
        ("phase one", "paper"): [[(1, 2.0), (3, 4.0)], [(1, 4.0)]],
        ("phase one", "beam"): [[(1, 2.0)], [(1, 2.0), (2, 3.0)]],
        ("k-nn", "paper"): [[(1, 1.0), (2, 3.0)], [(1, 3.0)]],
        ("k-nn", "beam"): [[(1, 1.0)], [(1, 1.0), (3, 3.0)]],
        ("phase one", "swap"): [[(1, 2.0), (2, 4.0), (9, 5.0)], [(1, 4.0)]],
    }
    about = {"catalogue": "c", "k": 5, "ms": None, "upper_bound": None}
    rows = [
        about | {"user": user, "retrieval": retrieval, "ranker": ranker, "solutions": solutions, "value": value}
        for (retrieval, ranker), users in curves.items()
        for user, pairs in enumerate(users)
        for solutions, value in pairs
    ]
    known = about | {"retrieval": "whole catalogue", "ranker": "best known", "solutions": None}
    return rows + [known | {"user": user, "value": 4.5, "upper_bound": 6.0} for user in range(2)]


def test_margins_recomputed_by_hand() -> None:
    figure = import_module("figure_3_budget")
    rows = handmade()
    known = figure.curves(rows, 3)
    assert known["c", 5, "phase one", "paper"].tolist() == [[2, 2, 4], [4, 4, 4]]
    # Mean curves: phase one + paper 3, 3, 4; + beam 2, 2.5, 2.5; k-nn + paper 2, 3, 3; + beam 1, 1, 2.
    retrieval = figure.retrieval_margins(known)
    assert retrieval["c", 5, "phase one", "paper"] == pytest.approx(100 * (3 / 2 + 3 / 3 + 4 / 3 - 3) / 3)
    assert retrieval["c", 5, "phase one", "beam"] == pytest.approx(100 * (2 / 1 + 2.5 / 1 + 2.5 / 2 - 3) / 3)
    assert ("c", 5, "phase one", "swap") not in retrieval  # its rival was not run
    ranking = figure.ranking_margins(known)
    assert ranking["c", 5, "phase one", "paper"] == pytest.approx(100 * (3 / 2 + 3 / 2.5 + 4 / 2.5 - 3) / 3)
    assert ranking["c", 5, "k-nn", "paper"] == pytest.approx(100 * (2 / 1 + 3 / 1 + 3 / 2 - 3) / 3)
    last = figure.margin_at_the_end(known["c", 5, "phase one", "paper"], known["c", 5, "phase one", "beam"])
    assert last == pytest.approx((60, 100 * np.std([4 - 1.6 * 2, 4 - 1.6 * 3], ddof=1) / np.sqrt(2) / 2.5))
    best, bound = figure.best_known(rows)["c", 5]
    assert best.tolist() == [5.0, 4.5]  # swap found more than the heavy search for the first user
    assert bound.tolist() == [6.0, 6.0]
    assert figure.leads(known, "c", 5, "paper") == 1.0
    assert figure.leads(known, "c", 5, "swap") is None
    assert figure.table_of_curves(rows, 3).row_count == 5
    assert figure.table_of_margins(rows, 3).row_count == 2 + 1 + 3 + 1
    assert figure.table_of_best_known(rows, 3).row_count == 1


# --- Figure 4 ---


def test_figure_4_in_miniature(miniature: Path, tmp_path: Path) -> None:
    figure = import_module("figure_4_scatter")
    command = ["--quick", "--data", str(miniature), "--out", str(tmp_path / "figure_4.csv")]
    rows = figure.main([*command, "--catalogues", "playlists_one_head", "trivago", "--cache", str(tmp_path / "cache")])
    assert len(rows) == 2 * 3 * (9 + 6) * 6  # catalogues, users, rankers in their readings, pairs
    assert {row["solution"] for row in rows} == set(range(1, 7))
    assert all(0 < row["beam"] <= row["possible"] <= 5 for row in rows)
    assert all(row["ours"] <= row["possible"] for row in rows)
    assert figure.table(rows).row_count == 2 * 15
    by_reading = {name: [row for row in rows if row["reading"] == name] for name in figure.READINGS}
    ours = {
        row["solution"]: row["ours"]
        for row in by_reading["best so far"]
        if row["user"] == 0 and row["ranker"] == "paper"
    }
    mixed = [row for row in by_reading["best so far against single"] if row["user"] == 0 and row["ranker"] == "paper"]
    assert all(row["ours"] == ours[row["solution"]] for row in mixed if row["catalogue"] == rows[-1]["catalogue"])
    last = [row for row in by_reading["single, (1,…,1,j)"] if row["ranker"] == "paper"]
    first = {(row["catalogue"], row["user"]): row["beam"] for row in last if row["solution"] == 1}
    assert all(row["beam"] <= first[row["catalogue"], row["user"]] + 1e-12 for row in last), "never above greedy"
    few = [*command[:-1], str(tmp_path / "few.csv"), "--catalogues", "playlists_one_head", "--rankers", "paper", "swap"]
    wanted = [row for row in rows if row["catalogue"] == "playlists_one_head" and row["ranker"] in ("paper", "swap")]
    assert figure.main(few) == wanted  # fewer rankers, the same rows


def test_the_two_best_alone_are_in_every_matched_solution() -> None:
    figure = import_module("figure_4_scatter")
    rng = np.random.default_rng(1)
    instance = sw.Instance(2 * rng.normal(size=(1, 12, 12)), rng.normal(size=(1, 12)), sw.Logistic())
    top = figure.pinned(instance)
    assert set(top) == set(np.argsort(-instance.score[0])[:2])  # one head: alone, an item sees its own score
    optimum = sw.rank(instance, 4, "exhaustive", include=top).value
    for ranker in ("beam", "paper", "swap"):
        values = figure.made(instance, top, 4, 8, ranker)["best so far"]
        assert len(values) == 8
        assert values.max() <= optimum + 1e-12
    first = figure.made(instance, top, 4, 8, "beam")["best so far"][0]
    assert first == sw.rank(instance, 4, "greedy", include=top).value


@pytest.mark.parametrize("ranker", ["beam", "paper"])
def test_single_solutions_make_up_the_best_so_far(ranker: str) -> None:
    figure = import_module("figure_4_scatter")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        instance = sw.Instance(2 * rng.normal(size=(2, 30, 30)), rng.normal(size=(2, 30)), sw.Logistic())
        top = figure.pinned(instance)
        made = figure.made(instance, top, 5, 12, ranker)
        values, trace = made["single"], made["best so far"]
        assert 8 < len(values) <= 12  # a search may end early
        assert (np.diff(values) < 0).any()  # not only the best so far
        alone = instance.value(top)
        reached = figure.padded(np.maximum(np.maximum.accumulate(values), alone), 12)
        np.testing.assert_allclose(reached, trace, rtol=1e-12)


def test_wins_ties_and_improvement_by_hand() -> None:
    figure = import_module("figure_4_scatter")
    pairs = [(3.0, 2.0), (2.0, 2.0 * (1 + 1e-15)), (1.0, 2.0), (4.0, 2.0)]
    summary = figure.summary([{"ours": ours, "beam": beam, "possible": 5.0} for ours, beam in pairs])
    assert summary["possible"] == pytest.approx(150)
    assert [summary[name] for name in ("wins", "ties", "losses")] == [50.0, 25.0, 25.0]
    assert summary["improvement"] == pytest.approx(100 * (0.5 + 0 - 0.5 + 1) / 4)


# --- reach ---


def test_shares_of_the_best_known_by_hand() -> None:
    reach = import_module("reach")
    about = {"catalogue": "c", "k": 5, "candidates": None, "solutions": None, "ms": None, "upper_bound": None}
    rows = [about | {"user": user, "method": "best known", "value": 4.0, "upper_bound": 5.0} for user in range(2)]
    rows += [about | {"user": user, "method": "greedy", "value": 3.0 - user, "ms": 1.0 + user} for user in range(2)]
    assert reach.shares(rows) == {("c", 5, "greedy", None, None): (0.625, 0.5, 1.5)}
    assert reach.certified_gap(rows, "c", 5) == pytest.approx(0.2)
    assert reach.table(rows).row_count == 1


# --- scaling ---


def test_scaling_in_miniature(miniature: Path, tmp_path: Path) -> None:
    scaling, kept_rows = import_module("scaling"), import_module("kept_rows")
    out = tmp_path / "scaling.csv"
    rows = scaling.main(["--quick", "--data", str(miniature), "--out", str(out)])
    assert rows == kept_rows.read(out)
    studied = {(row["study"], row["source"]) for row in rows}
    assert studied == {(study, source) for study in ("n", "k", "heads", "cells") for source in scaling.SOURCES}
    assert {row["backend"] for row in rows if row["study"] == "n"} == {"scan", "tree"}
    assert all(row["total_ms"] >= row["retrieve_ms"] > 0 and 0 < row["value"] <= row["k"] for row in rows)
    assert all(row["total_cpu_ms"] > 0 and row["retrieve_cpu_ms"] > 0 for row in rows)


def test_the_bootstrap_keeps_directions(miniature: Path) -> None:
    scaling = import_module("scaling")
    catalog, users = scaling.bootstrapped(miniature, 2000, 4, 2, seed=0)
    again, _ = scaling.bootstrapped(miniature, 2000, 4, 2, seed=0)
    assert np.array_equal(catalog.value, again.value)
    assert (len(catalog), catalog.heads, len(users)) == (2000, 4, 2)
    source = import_module("catalogues").opened("playlists_four_heads", miniature).catalog
    for name in ("query", "value", "base"):
        drawn, given = (getattr(each, name).reshape(len(each), -1) for each in (catalog, source))
        nearest = np.array([np.abs(given - one).max(axis=1).min() for one in drawn[:20]])
        assert (nearest < 6 * scaling.JITTER * given.std()).all()
        assert (nearest > 0).all()


def test_exponents_by_hand() -> None:
    scaling = import_module("scaling")
    about = {"study": "n", "source": "simulated", "k": 10, "heads": 2, "cells": 256, "backend": "scan"}
    rows = [
        about | {"n": n, "user": user, "total_cpu_ms": 7 * n**0.5 * factor, "retrieve_cpu_ms": 3.0 * n * factor}
        for n in (1000, 100_000, 1_000_000)
        for user, factor in enumerate((0.5, 1.0, 90.0))  # the median is the one in the middle
    ]
    rows[0]["total_cpu_ms"] = 1e9  # below the sizes that count
    slope, least, most = scaling.exponent(rows, "simulated", "scan", "total_cpu_ms")
    assert (slope, least, most) == (pytest.approx(0.5), 100_000, 1_000_000)
    assert scaling.exponent(rows, "simulated", "scan", "retrieve_cpu_ms", 0)[0] == pytest.approx(1.0)
    assert scaling.exponent(rows, "simulated", "tree", "total_ms") is None
    assert scaling.median(rows[3:6], "total_cpu_ms") == pytest.approx(7 * math.sqrt(100_000))
    assert scaling.exponents(rows).row_count == 1
    points = scaling.settings(scaling.SOURCES, (1000,), 500, (5,), (1, 2, 4), (8,))
    assert all(scaling.Setting.of(each.unit) == each for each in points)
    assert [each.heads for each in points if (each.study, each.source) == ("heads", "bootstrapped")] == [1, 4]
