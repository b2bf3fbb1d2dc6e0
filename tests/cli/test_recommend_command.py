"""``setwise recommend`` through its command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from mistakes import refused
from saved_songs import model, run, said
from setwise.errors import InvalidInput, UnknownId


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    sw.Recommender.from_model(model(), cells=4).save(folder / "songs")
    sw.Recommender.from_model(model(text_ids=False), cells=4).save(folder / "numbered")
    return folder


def asked(songs: Path, *arguments: object, folder: str = "songs") -> dict:
    result = run("recommend", songs / folder, *arguments, "--json")
    assert result.exit_code == 0, result.output or result.exception
    return json.loads(result.stdout)


def test_a_history(songs: Path) -> None:
    answer = asked(songs, "--history", "s1,s2", "--history", "s3", "--k", 4)
    rec = sw.Recommender.load(songs / "songs")
    slate = rec.recommend(history=["s1", "s2", "s3"], k=4)
    assert [item["id"] for item in answer["items"]] == slate.items.tolist()
    assert [item["reward"] for item in answer["items"]] == pytest.approx(slate.rewards.tolist())
    assert answer["items"][0]["attributes"]["title"] == f"Song [{slate.indices[0]}]"
    assert answer["value"] == pytest.approx(slate.value)
    assert answer["value"] <= answer["upper_bound"]
    assert answer["proven"] == (answer["gap"] == 0)
    assert set(answer["timings"]) == {"retrieve", "rank", "certify"}


def test_other_ways_to_ask(songs: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("s1\n\ns2\n")
    (tmp_path / "numbers.txt").write_text("101\n102\n")
    by_file = asked(songs, "--history-file", tmp_path / "ids.txt")
    assert by_file["items"] == asked(songs, "--history", "s1,s2")["items"]
    user = model().user(["s1", "s2"])
    (tmp_path / "user.json").write_text(json.dumps({"heads": user.heads.tolist(), "base": user.base.tolist()}))
    by_user = asked(songs, "--user-json", tmp_path / "user.json", "--exclude", "s1,s2")
    assert [item["id"] for item in by_user["items"]] == [item["id"] for item in by_file["items"]]
    numbered = asked(songs, "--history-file", tmp_path / "numbers.txt", folder="numbered")
    assert [f"s{item['id'] - 100}" for item in numbered["items"]] == [item["id"] for item in by_file["items"]]
    (tmp_path / "ids.txt").write_bytes("\ufeffs1\r\ns2\r\n".encode())  # as Windows writes it
    assert asked(songs, "--history-file", tmp_path / "ids.txt")["items"] == by_file["items"]
    new_user = asked(songs, "--history", "")
    assert new_user["value"] == pytest.approx(sw.Recommender.load(songs / "songs").recommend(history=[]).value)


def test_a_user_of_one_head(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    catalog = sw.Catalog(*(rng.normal(size=(30, 3)) for _ in range(3)))
    sw.Recommender(sw.Index.build(catalog)).save(tmp_path / "plain")
    (tmp_path / "user.json").write_text("[1.0, 2.0, -1.0]")
    result = run("recommend", tmp_path / "plain", "--user-json", tmp_path / "user.json", "--k", 3)
    assert result.exit_code == 0, result.output
    assert "Value" in result.output


def test_query_options(songs: Path) -> None:
    constraints = (
        "--where",
        "price=10..50",
        "--where",
        "year=1990",
        "--where",
        "year=1992",
        "--at-most",
        "artist=1",
        "--include",
        "s12",
    )
    answer = asked(
        songs, "--history", "s1", "--exclude", "s20", *constraints, "--k", 5, "--budget-ms", 50, "--ranker", "greedy"
    )
    shown = [item["attributes"] for item in answer["items"]]
    assert all(10 <= one["price"] <= 50 and one["year"] in (1990, 1992) for one in shown)
    artists = [one["artist"] for one in shown if one["artist"]]
    assert len(set(artists)) == len(artists)
    assert "s12" in [item["id"] for item in answer["items"]]
    by_artist = asked(
        songs, "--history", "", "--where", "artist=artist 1", "--where", "artist=artist 2", "--where", "price=..40"
    )
    assert {item["attributes"]["artist"] for item in by_artist["items"]} <= {"artist 1", "artist 2"}
    for_later = asked(songs, "--history", "", "--where", "price=50..")
    assert all(item["attributes"]["price"] >= 50 for item in for_later["items"])


def test_missing_cells_are_null(songs: Path) -> None:
    answer = asked(songs, "--history", "", "--include", "s0,s7,s9", "--k", 5)
    cells = {item["id"]: item["attributes"] for item in answer["items"]}
    assert cells["s7"]["artist"] is None
    assert cells["s9"]["price"] is None


def test_tables(songs: Path) -> None:
    result = run("recommend", songs / "songs", "--history", "s1", "--k", 3, "--explain")
    assert result.exit_code == 0, result.output
    text = said(result)
    for part in (
        "The slate",
        "Song [",
        "Value",
        "over the whole catalogue",
        "Contribution of the column's item",
        "knn",
        "greedy",
        "beam",
        "swap",
    ):
        assert part in text, part


def test_what_cannot_be_had_is_said(songs: Path) -> None:
    result = run("recommend", songs / "songs", "--history", "s1,gone", "--k", 5000)
    assert result.exit_code == 0, result.output
    assert "Ignored, as the catalogue does not have them: gone. An id must match exactly" in said(result)
    assert "items are eligible, fewer than --k 5000." in said(result)


def test_without_a_certificate(tmp_path: Path) -> None:
    sw.Recommender.from_model(model(), certify=False).save(tmp_path / "quick")
    assert "without an upper bound" in said(run("recommend", tmp_path / "quick", "--history", "s1"))
    answer = json.loads(run("recommend", tmp_path / "quick", "--history", "s1", "--json").stdout)
    assert answer["upper_bound"] is None
    assert answer["gap"] is None


def test_an_unproven_slate_has_a_gap(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    catalog = sw.Catalog(*(rng.normal(size=(3000, 8)) for _ in range(3)), reward=sw.Logistic(1.0, -8.0))
    sw.Recommender(sw.Index.build(catalog)).save(tmp_path / "large")
    (tmp_path / "user.json").write_text(json.dumps(rng.normal(size=8).tolist()))
    result = run("recommend", tmp_path / "large", "--user-json", tmp_path / "user.json", "--budget-ms", 1)
    pattern = r"Value (\S+) \(expected hits; a reward is the chance of one\), upper bound over the whole catalogue (\S+) \(at least (\S+) % of the optimum\)"
    found = re.search(pattern, said(result))
    value, bound, share = map(float, found.groups())
    assert value <= bound
    assert share <= 100 * value / bound + 0.01, "never rounded up"
    losing = sw.Catalog(catalog.query, catalog.key, catalog.value, reward=sw.Linear(1.0, -1000.0))
    sw.Recommender(sw.Index.build(losing)).save(tmp_path / "losing")
    result = run("recommend", tmp_path / "losing", "--user-json", tmp_path / "user.json", "--include", "1,2,3")
    # The pinned items alone are best, as every further one costs about 1000; no share of a negative value is stated.
    assert "Value -30" in said(result)
    assert "proven optimal over the whole catalogue" in said(result)
    assert "of the optimum" not in said(result)


def test_explanation_as_json(songs: Path) -> None:
    answer = asked(songs, "--history", "s1", "--k", 3, "--explain")
    size = len(answer["items"])
    assert np.shape(answer["lent"]) == (size, size)
    assert np.shape(answer["attention"]) == (2, size, size)
    assert answer["sink"] is None
    assert len(answer["alone"]) == size
    values = {rival["ranker"]: rival["value"] for rival in answer["rivals"]}
    assert set(values) == {"top-k", "knn", "mmr", "dpp", "greedy", "beam", "swap"}
    assert answer["gain_over_top_k"] == pytest.approx(answer["value"] - values["top-k"])
    assert answer["gain_over_greedy"] == pytest.approx(answer["value"] - values["greedy"])


def test_the_saved_slate_is_verified(songs: Path, tmp_path: Path) -> None:
    constraints = ("--where", "price=5..50", "--where", "year=1990", "--where", "year=1991", "--at-most", "artist=1")
    asked(songs, "--history", "s1", "--k", 3, *constraints, "--save", tmp_path / "slate.json")
    result = run("verify", tmp_path / "slate.json", "--catalog", songs / "songs")
    assert result.exit_code == 0, result.output


def test_unknown_ids_of_a_history(songs: Path) -> None:
    for options in ((), ("--unknown", "ignore")):
        result = run("recommend", songs / "songs", "--history", "s1,gone,lost", *options)
        assert result.exit_code == 0, result.output
        assert "Ignored, as the catalogue does not have them: gone, lost." in said(result)
    result = run("recommend", songs / "songs", "--history", "s1", "--unknown", "error")
    assert "Ignored" not in said(result)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((), InvalidInput, "the user must be described by exactly one of --history, --history-file, --user-json, --features, or by scores alone, got none of them; pass one of them, --history '' for an empty history, or --scores alone."),
        (("--history", "s1", "--user-json", "x"), InvalidInput, "got --history and --user-json; pass one of them"),
        (("--history", "s1", "--include", "unknown"), UnknownId, "'unknown'"),
        (("--history", "s1,gone", "--unknown", "error"), UnknownId, "got 'gone'; check its spelling"),
        (("--history", "s1", "--unknown", "perhaps"), InvalidInput, "unknown must be 'ignore' or 'error', got 'perhaps'; choose one of the two"),
        (("--history", "s1", "--exclude", "gone", "--unknown", "error"), UnknownId, "got 'gone'; check its spelling"),
        (("--history", "", "--where", "price"), InvalidInput, "--where must be like city=Rome or price=..200, got 'price'"),
        (("--history", "", "--where", "price=cheap"), InvalidInput, "--where price must be a number, or a range such as 50..200, got 'cheap'"),
        (("--history", "", "--where", "price=1..3", "--where", "price=4..5"), InvalidInput, "--where price must be one range, or numbers, got '1..3' and '4..5'"),
        (("--history", "", "--where", "mood=sad"), InvalidInput, "an attribute of --where must be one the catalogue has"),
        (("--history", "", "--at-most", "artist=two"), InvalidInput, "--at-most artist must be a whole number, got 'two'"),
        (("--history", "", "--at-most", "artist=1", "--at-most", "artist=2"), InvalidInput, "--at-most must be given once for each name, got artist twice"),
        (("--history", "", "--at-least", "artist=a:1", "--at-least", "artist=a:2"), InvalidInput, "--at-least artist must be given once for each name, got a twice"),
        (("--features", "size=1,size=2"), InvalidInput, "--features must be given once for each name, got size twice"),
        (("--history", "", "--ranker", "best"), InvalidInput, "ranker must be one of"),
        (("--history-file", "nowhere.txt"), InvalidInput, "--history-file must be a text file that can be read, got nowhere.txt (No such file or directory)"),
    ],
)  # fmt: skip
def test_errors(songs: Path, arguments, error, sentence: str) -> None:
    result = run("recommend", songs / "songs", *arguments)
    assert isinstance(result.exception, error), result.output
    assert sentence in str(result.exception)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"{", "a file of JSON"), (b'{"head": [1]}', "an object with heads"), (b"\xff", "not UTF-8")],
)
def test_invalid_user_files(songs: Path, tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "user.json").write_bytes(content)
    result = run("recommend", songs / "songs", "--user-json", tmp_path / "user.json")
    assert isinstance(result.exception, InvalidInput)
    assert sentence in str(result.exception)


def test_numeric_ids_must_be_numbers(songs: Path) -> None:
    result = run("recommend", songs / "numbered", "--history", "first")
    sentence = str(result.exception)
    assert "id of --history must be a whole number, as the ids of this catalogue are (such as 100)" in sentence
    assert "got 'first'" in sentence


def test_an_error_is_one_sentence_and_exit_status_2(songs: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    sentence = refused(monkeypatch, capsys, f"recommend {songs / 'songs'} --history s1 --include unknown")
    assert (
        sentence == "an id of --include must be one of the known ids, got 'unknown'; check its spelling and its type."
    )


@pytest.mark.parametrize("verb", ["index", "recommend", "evaluate"])
def test_help_has_an_example(verb: str) -> None:
    assert f"Example: setwise {verb} " in said(run(verb, "--help"))


def test_own_scores(songs: Path, tmp_path: Path) -> None:
    rec = sw.Recommender.load(songs / "songs")
    dense = np.random.default_rng(0).normal(size=60)
    named = {f"s{row}": float(dense[row]) for row in range(0, 60, 2)}
    (tmp_path / "dense.json").write_text(json.dumps(dense.tolist()))
    (tmp_path / "named.json").write_text(json.dumps(named))
    (tmp_path / "named.csv").write_text("item_id,score\n" + "".join(f"{one},{score}\n" for one, score in named.items()))
    numbers = {str(100 + row): dense[row] for row in range(0, 60, 2)}  # with a byte order mark, as Windows writes it
    (tmp_path / "plain.csv").write_text("\ufeff" + "".join(f"{one},{score}\n" for one, score in numbers.items()))
    (tmp_path / "numbers.json").write_text("\ufeff" + json.dumps(numbers))
    expected = rec.recommend(history=["s1"], scores=dense, k=4)
    answer = asked(songs, "--history", "s1", "--scores", tmp_path / "dense.json", "--k", 4)
    assert [item["id"] for item in answer["items"]] == expected.items.tolist()
    assert answer["value"] == pytest.approx(expected.value)
    expected = rec.recommend(scores=named, k=4)
    for name in ("named.json", "named.csv"):
        answer = asked(songs, "--scores", tmp_path / name, "--k", 4, "--save", tmp_path / "slate.json")
        assert [item["id"] for item in answer["items"]] == expected.items.tolist()
        assert run("verify", tmp_path / "slate.json", "--catalog", songs / "songs").exit_code == 0
    for name in ("plain.csv", "numbers.json"):
        answer = asked(songs, "--scores", tmp_path / name, "--k", 4, folder="numbered")
        assert [f"s{item['id'] - 100}" for item in answer["items"]] == expected.items.tolist()
    floored = asked(songs, "--history", "s1", "--scores", tmp_path / "named.csv", "--scores-floor", -1, "--k", 4)
    expected = rec.recommend(history=["s1"], scores=named, scores_floor=-1.0, k=4)
    assert [item["id"] for item in floored["items"]] == expected.items.tolist()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "--scores must be a file of JSON or CSV"),
        ('{"s1": 1.0, "s1": 2.0}', "--scores must be about each id once, got 's1' twice"),
        ("s1,1.0\ns1,2.0\n", "--scores must be about each id once, got 's1' twice"),
        ("id,score\ns1\n", "a line of scores must be id,score, got 's1'"),
        ("s1,high\ns2,1.0\n", "a line of scores must be id,score, got 's1,high'"),
        ("s1,1.0\ns2,high\n", "a line of scores must be id,score, got 's2,high'"),
        ("s1,nan\n", r"scores\['s1'\] must be a finite number"),
        ("[1.0]", "scores must be one for each of 60 items, got 1"),
        ('{"nowhere": 1.0}', "one of the known ids"),
        ("", "scores must be a mapping with at least one item"),
    ],
)
def test_score_files_that_are_wrong(songs: Path, tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "scores").write_text(content)
    result = run("recommend", songs / "songs", "--scores", tmp_path / "scores")
    assert isinstance(result.exception, InvalidInput)
    assert re.search(sentence, str(result.exception))


def test_lower_limits(songs: Path) -> None:
    artists = sw.Recommender.load(songs / "songs").index.catalog.attributes["artist"]
    two = [artists[1], artists[2]]
    stated = [part for artist in two for part in ("--at-least", f"artist={artist}:1")]
    answer = asked(songs, "--history", "s7", "--k", 3, *stated)
    assert set(two) <= {item["attributes"]["artist"] for item in answer["items"]}
    of_each = asked(songs, "--history", "s7", "--k", 4, "--where", f"artist={two[0]}", "--exactly", "artist=2")
    assert [item["attributes"]["artist"] for item in of_each["items"]] == [two[0]] * 2
    for option, text in (("--at-least", "artist=2"), ("--at-least", "artist"), ("--exactly", "artist=many")):
        result = run("recommend", songs / "songs", "--history", "s7", option, text)
        assert isinstance(result.exception, InvalidInput)
        assert option in str(result.exception)


def test_a_history_of_unknown_ids_alone(songs: Path) -> None:
    text = said(run("recommend", songs / "songs", "--history", "s1;s2"))
    assert "a title is none. Nothing is left of the history, so this is the slate of a user without" in text
    assert "separated by commas; --unknown error refuses ids" in text
    assert "Nothing is left" not in said(run("recommend", songs / "songs", "--history", "s1,gone"))


def test_what_was_saved_and_how_to_check_it(songs: Path, tmp_path: Path) -> None:
    file = tmp_path / "slate.json"
    result = run("recommend", songs / "songs", "--history", "s1", "--save", file)
    assert f"Saved in {file}. To check it: setwise verify {file} --catalog {songs / 'songs'}" in said(result)


def test_a_model_without_attention_is_explained_in_a_sentence(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    still = sw.Catalog(points, points, np.zeros((20, 1)), base=points, reward=sw.Logistic())
    sw.Recommender(sw.Index.build(still, cells=2)).save(tmp_path / "still")
    (tmp_path / "user.json").write_text(json.dumps({"heads": [[0.0]], "base": [1.0, 0.5]}))
    text = said(run("recommend", tmp_path / "still", "--user-json", tmp_path / "user.json", "--k", 3, "--explain"))
    assert "No item of the slate contributes to another: each reward is that of the item alone." in text
    assert "Contribution of the column's item" not in text


def test_codes_that_control_a_terminal_are_escaped(tmp_path: Path) -> None:
    """Ids and titles come from data of others: the title of a product could clear the screen or hide a line."""
    vectors, title = np.eye(1, 4), {"title": ["\x1b]0;\x07"]}
    catalog = sw.Catalog(vectors, vectors, vectors, ids=["\x1b[2J 0\r\x85"], attributes=title)
    sw.Recommender(sw.Index.build(catalog)).save(tmp_path / "songs")
    (tmp_path / "user.json").write_text('{"heads": [[1, 0, 0, 0]]}')
    result = run("recommend", tmp_path / "songs", "--user-json", tmp_path / "user.json", "--k", 1)
    assert result.exit_code == 0, result.output
    assert not re.search("[\x1b\r\x85\x07]", result.stdout)
    assert r"\x1b[2J 0\r\x85" in result.stdout
