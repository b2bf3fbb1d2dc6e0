"""``setwise evaluate`` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from saved_songs import N, model, run, said, sessions_file
from setwise.datasets import read
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.model.encoder import Encoder
from setwise.training import SimpleTransformer

IDS = [f"s{i}" for i in range(N)]


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "songs"
    sw.Recommender.from_model(model(), cells=4).save(folder)
    return folder


def test_hits_are_counted(songs: Path, tmp_path: Path) -> None:
    file = sessions_file(tmp_path, IDS)
    result = run("evaluate", songs, file, "--k", 5, "--ranker", "greedy", "--ranker", "knn", "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["sessions"], report["unknown_entries"], report["k"]) == (12, 0, 5)
    rec, sessions = sw.Recommender.load(songs), read(file)
    for row in report["rankers"]:
        predicted, observed = [], []
        for known, rest in zip(*(lists(HistorySplit.first(sessions), sessions.ids)), strict=True):
            slate = rec.recommend(history=known, k=5, ranker=row["ranker"], certify=False)
            predicted.append(slate.value)
            observed.append(len(set(slate.items.tolist()) & set(rest)))
        assert row["predicted"] == pytest.approx(np.mean(predicted))
        assert row["observed"] == pytest.approx(np.mean(observed))
        assert row["error"] == pytest.approx(np.std(observed) / np.sqrt(12))
        assert row["milliseconds"] > 0
    assert report["reliability"]["ranker"] == "greedy"
    shown = sum(row["count"] for row in report["reliability"]["rows"])
    hits = sum(row["count"] * row["observed"] for row in report["reliability"]["rows"])
    assert hits == pytest.approx(12 * report["rankers"][0]["observed"])
    assert shown <= 12 * 5


def test_digits_of_a_text_file_are_whole_number_ids(tmp_path: Path) -> None:
    """The table of ``train --held-out`` is text, also where the ids of the data were numbers; "007" is not 7."""
    rng, zeros = np.random.default_rng(1), np.zeros((N, 1, 2), np.float32)
    ids = [-3, 7, *range(100, 98 + N)]
    catalog = sw.Catalog(zeros, zeros, zeros, base=rng.normal(size=(N, 3)), ids=ids)
    encoder = Encoder(rng.normal(size=(N, 3)), np.zeros((1, 2, 3)), np.zeros((1, 2)), np.eye(3), np.zeros(3))
    sw.Recommender.from_model(SimpleTransformer(catalog, encoder), cells=4).save(tmp_path / "numbers")
    file = tmp_path / "held_out.csv"
    file.write_text("session,item\n0,-3\n0,100\n0,101\n1,7\n1,102\n1,007\n1,x\n")
    result = run("evaluate", tmp_path / "numbers", file, "--k", 3, "--ranker", "knn", "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["sessions"], report["unknown_entries"]) == (2, 2)


def test_a_model_without_attention_needs_no_search(tmp_path: Path) -> None:
    """Greedy and beam search are left out unless they are asked for, and have the same hits if they are."""
    rng, ids = np.random.default_rng(1), list(IDS)
    zeros = np.zeros((N, 1, 2), np.float32)
    catalog = sw.Catalog(zeros, zeros, zeros, base=rng.normal(size=(N, 3)), ids=ids)
    encoder = Encoder(rng.normal(size=(N, 3)), np.zeros((1, 2, 3)), np.zeros((1, 2)), np.eye(3), np.zeros(3))
    sw.Recommender.from_model(SimpleTransformer(catalog, encoder), cells=4).save(tmp_path / "plain")
    file = sessions_file(tmp_path, IDS)
    report = json.loads(run("evaluate", tmp_path / "plain", file, "--k", 5, "--json").stdout)
    assert not {"greedy", "beam"} & {row["ranker"] for row in report["rankers"]}
    assert "The model has no attention" in said(run("evaluate", tmp_path / "plain", file, "--k", 5))
    asked = ("--ranker", "swap", "--ranker", "beam", "--ranker", "greedy", "--ranker", "top-k")
    report = json.loads(run("evaluate", tmp_path / "plain", file, "--k", 5, *asked, "--json").stdout)
    assert len({row["observed"] for row in report["rankers"]}) == 1


def test_the_latest_sessions_by_time(songs: Path, tmp_path: Path) -> None:
    """Sessions in a random order of the file: the latest eight are evaluated, two a period, each as if alone."""
    rng, file = np.random.default_rng(0), tmp_path / "timed.csv"
    days = rng.permutation(20)
    picks = {day: rng.choice(IDS, 6, replace=False) for day in days}
    rows = [f"{day},{one},2024-03-{day + 1:02}T10:{at:02}" for day in days for at, one in enumerate(picks[day])]
    file.write_text("\n".join(["playlist,track,time", *rows]) + "\n")
    arguments = ("evaluate", songs, file, "--k", 5, "--ranker", "greedy", "--split", "time", "--most", 8)
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["sessions"], report["split"]) == (8, "time")
    rec, (row,) = sw.Recommender.load(songs), report["rankers"]
    observed = []
    for day in range(12, 20):
        slate = rec.recommend(history=picks[day][:3].tolist(), k=5, ranker="greedy", certify=False)
        observed.append(len({*slate.items.tolist()} & {*picks[day][3:]}))
    assert row["observed"] == pytest.approx(np.mean(observed))
    assert [part["sessions"] for part in row["by_time"]] == [2, 2, 2, 2]
    assert [part["observed"] for part in row["by_time"]] == pytest.approx(np.reshape(observed, (4, 2)).mean(1).tolist())
    text = said(run(*arguments))
    assert "8 sessions of 20 (--most), the latest." in text
    assert "Hits by time, from the earliest sessions to the latest" in text


def lists(cuts: HistorySplit, ids: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    return tuple([[ids[row] for row in one] for one in part] for part in (cuts.history, cuts.targets))


def test_every_ranker_in_tables(songs: Path, tmp_path: Path) -> None:
    file = sessions_file(tmp_path, [*IDS[:20], "unheard of"], count=6)
    columns = ("--session", "playlist", "--item", "track")
    result = run("evaluate", songs, file, *columns, "--k", 3, "--most", 4)
    assert result.exit_code == 0, result.output or result.exception
    for part in (
        "4 sessions",
        "not in the catalogue",
        "swap",
        "greedy",
        "beam",
        "knn",
        "predicted",
        "Predictions of swap",
        "may still be relevant",
    ):
        assert part in said(result), part


def test_files_of_slates_with_one_name_are_told_apart(songs: Path, tmp_path: Path) -> None:
    file, paths = sessions_file(tmp_path, IDS), [tmp_path / one / "slates.jsonl" for one in ("als", "knn")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("".join(json.dumps({"session": number, "items": []}) + "\n" for number in range(12)))
    given = [text for path in paths for text in ("--slates", path)]
    report = run("evaluate", songs, file, "--ranker", "greedy", *given, "--json")
    assert [row["name"] for row in json.loads(report.stdout)["others"]] == [str(path) for path in paths]


def test_slates_of_another_system_join_the_table(songs: Path, tmp_path: Path) -> None:
    file, known, other = sessions_file(tmp_path, IDS), tmp_path / "known.jsonl", tmp_path / "popular.jsonl"
    result = run("evaluate", songs, file, "--histories", known)
    assert "12 histories are in" in said(result)
    again = run("evaluate", songs, file, "--histories", known, "--json")
    assert json.loads(again.stdout) == {"histories": 12, "saved": str(known)}
    lines = [json.loads(line) for line in known.read_text().splitlines()]
    cuts = HistorySplit.first(read(file))
    wanted, targets = lists(cuts, read(file).ids)
    assert [line["history"] for line in lines] == wanted
    shown = [["not sold", *line["history"], *targets[line["session"]][1:2], *IDS[:9]] for line in lines]
    answers = [{"session": line["session"], "items": items} for line, items in zip(lines, shown, strict=True)]
    answers[0]["items"][0] = "not\u2028sold"  # a separator of lines that JSON leaves as it is
    texts = [json.dumps(one, ensure_ascii=False) for one in reversed(answers)]
    other.write_text("\ufeff" + "\n".join(texts))  # with a byte order mark, as Windows writes it
    report = run("evaluate", songs, file, "--k", 4, "--ranker", "greedy", "--slates", other, "--json")
    row = json.loads(report.stdout)["others"][0]
    slates = [
        [one for one in dict.fromkeys(items[1:]) if one not in seen][:4]
        for items, seen in zip(shown, wanted, strict=True)
    ]
    hits = [[one in rest for one in slate] for slate, rest in zip(slates, targets, strict=True)]
    gains = [sum(hit / np.log2(rank + 2) for rank, hit in enumerate(slate)) for slate in hits]
    most = sum(1 / np.log2(rank + 2) for rank in range(4))  # four targets in each session of eight items
    assert row["name"] == "popular"
    assert row["observed"] == pytest.approx(np.mean([sum(slate) for slate in hits]))
    assert row["any_hit"] == 1.0
    assert row["ndcg"] == pytest.approx(np.mean(gains) / most)
    precision = [sum(hit * sum(slate[: rank + 1]) / (rank + 1) for rank, hit in enumerate(slate)) / 4 for slate in hits]
    assert row["map"] == pytest.approx(np.mean(precision))
    seen = {one: sum(one in history for history in wanted) for one in IDS}
    novelty = [-np.log2((seen[one] + 0.5) / 13) for slate in slates for one in slate]
    assert row["novelty"] == pytest.approx(np.mean(novelty))
    catalog = sw.Recommender.load(songs).index.catalog
    cosines = []
    for slate in slates:
        x = catalog.embeddings(catalog.rows_of(slate))
        pairs = [(i, j) for i in range(len(x)) for j in range(i)]
        cosines.append(np.mean([x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for i, j in pairs]))
    assert row["similarity"] == pytest.approx(np.mean(cosines))
    assert row["coverage"] == pytest.approx(len({one for slate in slates for one in slate}) / N)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "line 1 of other.jsonl"),
        ('{"session": "0", "items": []}', "line 1 of other.jsonl"),
        ('{"session": 12, "items": []}', "--slates must be sessions 0 to 11"),
        ('{"session": 0, "items": []}\n{"session": 0, "items": []}', "session 0 twice"),
        ('{"session": 0, "items": []}\n', "none of 1"),
    ],
)
def test_slates_that_do_not_fit_are_refused(songs: Path, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "other.jsonl").write_text(text)
    result = run("evaluate", songs, sessions_file(tmp_path, IDS), "--slates", tmp_path / "other.jsonl")
    assert isinstance(result.exception, InvalidInput)
    assert sentence in str(result.exception)


def test_errors(songs: Path, tmp_path: Path) -> None:
    result = run("evaluate", songs, sessions_file(tmp_path, [f"other {i}" for i in range(9)]))
    assert isinstance(result.exception, InvalidInput)
    assert "sessions must be some with two items of the catalogue or more, got none: the file has ids such as" in str(
        result.exception
    )
    (tmp_path / "shown.csv").write_text("session,slate,item,outcome\n1,1,s1,1\n1,1,s2,0\n")
    result = run("evaluate", songs, tmp_path / "shown.csv")
    assert "sessions must be sessions of items, got shown.csv with slates and outcomes" in str(result.exception)
    sw.Recommender(sw.Index.build(model().catalog()), certify=False).save(tmp_path / "plain")
    result = run("evaluate", tmp_path / "plain", sessions_file(tmp_path, IDS))
    assert "this recommender has no encoder" in str(result.exception)
