"""The published suites: all of them read, some of them asked."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import setwise as sw
from setwise import hardness
from setwise.errors import MalformedFile


@pytest.fixture(scope="module")
def published(shared_data):
    return list(hardness.suite(shared_data / "optim"))


def ask(hard: hardness.HardInstance, ranker: str) -> sw.Ranking:
    return sw.rank(hard.build(), hard.k, ranker, include=hard.pinned)


def test_all_are_there_with_what_is_known(published):
    assert Counter(hard.family for hard in published) == {"clique": 18, "knapsack": 184, "quadratic knapsack": 28}
    assert len({hard.name for hard in published}) == len(published)
    assert all(0 < hard.lower <= hard.upper for hard in published)
    known = Counter(hard.family for hard in published if hard.optimum is not None)
    assert known == {"clique": 18, "knapsack": 34}
    sizes = {(hard.name.split("-")[0], hard.k, len(hard.pinned)) for hard in published if "cb" in hard.name}
    assert sizes == {
        ("mknapcb1", 106, 6),
        ("mknapcb3", 506, 6),
        ("mknapcb5", 261, 11),
        ("mknapcb7", 131, 31),
        ("mknapcb9", 531, 31),
    }
    close = [hard for hard in published if hard.name.startswith("mknapcb")]
    assert len(close) == 150
    assert all(hard.upper < 1.05 * hard.lower for hard in close)


@pytest.mark.nightly
def test_no_set_of_any_instance_is_worth_more_than_upper(published):
    rng = np.random.default_rng(0)
    for hard in [*published[:18], *published[18::9]]:
        instance = hard.build()
        assert set(hard.pinned) <= set(range(instance.m))
        for size in (1, hard.k // 2, hard.k):
            rows = np.union1d(hard.pinned, rng.choice(instance.m, size, replace=False)).astype(int)
            value = instance.value(rows)
            assert value <= hard.upper
            if hard.family == "clique":
                assert value == len(hard.decode(rows))


@pytest.mark.nightly
def test_small_optima_are_reached(published):
    names = {"johnson8-2-4": 4, "mknap1-0": 3800, "mknap1-1": 8706.1, "pet2": 87061}
    for hard in published:
        if hard.name in names:
            best = ask(hard, "exhaustive")
            assert best.value == pytest.approx(names[hard.name])
            assert best.value == pytest.approx(hard.optimum)


@pytest.mark.nightly
def test_greedy_gives_solutions_of_the_original_problems(published):
    by_name = {hard.name: hard for hard in published}
    weish, jeu = by_name["weish01"], by_name["jeu_100_25_1"]
    taken = ask(weish, "greedy")
    assert 0 < taken.value <= weish.optimum
    z = weish.decode(taken.indices)
    assert (z.dtype, z.shape) == (np.dtype(bool), (30,))
    picked = ask(jeu, "greedy")
    assert 0.5 * jeu.lower < picked.value <= jeu.lower + 1
    assert jeu.decode(picked.indices).max() < 100
    assert math.isinf(jeu.upper)


# --- a folder of one's own, and what can be wrong with it ---


def small_folder(folder):
    """One problem of every kind, as plain files."""
    for name, text in {
        "clique/triangle.clq": "p edge 4 4\ne 1 2\ne 2 3\ne 1 3\ne 3 4\n",
        "clique/clique_best_known.csv": "file,graph,best_known_clique\ntriangle.clq,triangle,3\n",
        "mkp/mknap1.txt": "1\n2 1 0\n3 4\n2 2\n3\n",
        "mkp/mknapcb1.txt": "1\n2 1 0\n3 4\n2 2\n3\n",
        "mkp/mknapcb_best_known.csv": "file,problem,best_known_1997,lp_relaxation\nmknapcb1.txt,0,4,5.5000\n",
        "mkp/sac94/one.dat": "2 1 4\n3 4\n2 2\n3\n",
        "qkp/jeu.txt": "r\n2\n1 2\n3\n\n0\n5\n2 3\n",
        "qkp/qkp_best_known.csv": "instance,best_known\njeu,6\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_folder_of_plain_files(tmp_path):
    found = {hard.name: hard for hard in hardness.suite(small_folder(tmp_path))}
    bounds = {name: (hard.lower, hard.upper) for name, hard in found.items()}
    assert bounds == {
        "triangle": (3, 3),
        "mknap1-0": (0, math.inf),
        "one": (4, 4),
        "mknapcb1-0": (4, 5),
        "jeu": (6 - 1e-6, math.inf),
    }
    best = {name: ask(hard, "exhaustive") for name, hard in found.items()}
    values = {name: ranking.value for name, ranking in best.items()}
    assert values == pytest.approx({"triangle": 3, "mknap1-0": 4, "one": 4, "mknapcb1-0": 4, "jeu": 6})
    assert found["triangle"].decode(best["triangle"].indices).tolist() == [0, 1, 2]
    assert found["one"].decode(best["one"].indices).tolist() == [False, True]
    assert found["jeu"].decode(best["jeu"].indices).tolist() == [0, 1]
    assert found["mknapcb1-0"].optimum is None


CLIQUES = "file,graph,best_known_clique\n"


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("clique/clique_best_known.csv", "", 1, "must have a column 'file'"),
        ("clique/clique_best_known.csv", "file,graph\ntriangle.clq,t\n", 1, "a column 'best_known_clique'"),
        ("clique/clique_best_known.csv", "file,graph,best_known_clique\nt.clq,t\n", 2, "3 cells, got 2"),
        ("qkp/qkp_best_known.csv", "instance,best_known\njeu,6\njeu,six\n", 3, "best_known must be a whole number"),
        (
            "mkp/mknapcb_best_known.csv",
            "file,problem,best_known_1997,lp_relaxation\nmknapcb1.txt,1,4,5.5\n",
            2,
            "problem must be 0 to 0, got 1",
        ),
        (
            "mkp/mknapcb_best_known.csv",
            "file,problem,best_known_1997,lp_relaxation\nmknapcb1.txt,0,4,nan\n",
            2,
            "lp_relaxation must be a number",
        ),
        (
            "mkp/mknapcb_best_known.csv",
            "file,problem,best_known_1997,lp_relaxation\nmknapcb1.txt,0,6,5.5\n",
            2,
            "best_known_1997 must be at most lp_relaxation, 5, got 6",
        ),
        (
            "mkp/mknapcb_best_known.csv",
            "file,problem,best_known_1997,lp_relaxation\n,0,4,5.5\n",
            2,
            "file must be the plain name of a file, got ''",
        ),
        ("clique/clique_best_known.csv", CLIQUES + "triangle.clq,t,0\n", 2, "best_known_clique must be 1 to 4"),
        ("clique/clique_best_known.csv", CLIQUES + "triangle.clq,t,5\n", 2, "the number of vertices, got 5"),
        ("clique/clique_best_known.csv", CLIQUES + "square.clq,t,2\n", 2, "there is no 'square.clq'"),
        ("clique/clique_best_known.csv", CLIQUES + "../mkp/mknap1.txt,t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + "/etc/passwd,t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + "..,t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + ",t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + "a\0b,t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + "a" * 300 + ",t,2\n", 2, "must be the plain name of a file"),
        ("clique/clique_best_known.csv", CLIQUES + "a" * 140_000 + ",t,2\n", 2, "field larger than field limit"),
        ("clique/clique_best_known.csv", "a" * 140_000, 1, "field larger than field limit"),
        ("qkp/qkp_best_known.csv", "instance,best_known\njeu,6\n../qkp/jeu,6\n", 3, "instance must be the plain name"),
        ("qkp/qkp_best_known.csv", "instance,best_known\nheu,6\n", 2, "there is no 'heu.txt'"),
    ],
)
def test_broken_tables_are_refused_with_their_line(tmp_path, name, text, line, reason):
    (small_folder(tmp_path) / name).write_text(text)
    with pytest.raises(MalformedFile) as caught:
        list(hardness.suite(tmp_path))
    assert caught.value.line == line
    assert reason in str(caught.value)


def test_a_missing_file_is_called_by_its_plain_name(tmp_path):
    (small_folder(tmp_path) / "mkp" / "mknap1.txt").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        list(hardness.suite(tmp_path))
    assert caught.value.filename == str(tmp_path / "mkp" / "mknap1.txt")


@pytest.mark.nightly
def test_every_quadratic_knapsack_is_within_reach(published):
    for hard in published:
        if hard.family == "quadratic knapsack":
            hard.build()
