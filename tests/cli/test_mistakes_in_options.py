"""Mistakes in the options of every command, and what it says: the option, the value that came, what to do."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from mistakes import check_mistake, check_sentence, each_of, refused
from saved_songs import N, model
from setwise import cli
from setwise.storage import artifact

SESSIONS = "playlist,track\n" + "".join(f"{i // 4},s{i * 7 % N}\n" for i in range(80))
# Slates of four of twelve items: the first is clicked, the second in half of them; the rank is that of the outcome.
SHOWN = "slate,item,clicked,rank,bought,kind,x0,x1\n" + "".join(
    f"{slate},s{item},{int(place <= slate % 2)},{place + 2},{int(place <= slate % 2)},k{item % 3},{item % 4}.5,{item}.5\n"
    for slate in range(200)
    for place, item in enumerate((slate * 7 + step * (1 + slate % 2)) % 12 for step in range(4))
)
SLATES = "train slates shown.csv --slate slate --item item --outcome clicked --out m"
ASK = "recommend songs --history s1"

MISTAKES = [
    # commands and options as such
    ("trian good.csv --out m", "'trian'", "'train'", "setwise --help"),
    ("train good.csv", "--out", "nothing", "setwise train sessions --help"),
    ("train sets", "FILE", "nothing", "setwise train sets --help"),
    ("train slates good.csv --out m", "--slate", "good.csv with playlist, track", "name the column with --slate"),
    ("{slates} --feature clicked", "--feature", "the column of the outcome", "such as a category or a price"),
    ("{slates} --feature item", "--feature", "the column of the item", "such as a category or a price"),
    ("{slates} --feature colour", "--feature", "'colour'", "check the spelling"),
    ("{slates} --embedding x0,x9", "--embedding", "'x9'", "check the spelling"),
    ("{slates} --feature x0 --embedding x0,x1", "--feature", "'x0'", "name it in one of them"),
    (
        "{slates} --feature bought",
        "--feature",
        "differs between rows of one item",
        "such as an outcome, is no attribute",
    ),
    ("{slates} --embedding x0,kind", "--embedding", "in 'kind'", "leave that column out"),
    ("{slates} --no-features --feature kind", "--no-features", "both", "leave one out"),
    ("{slates} --position rank", "--position", "sort the outcomes of 100%", "use the places that users saw"),
    ("{slates} --position kind", "shown.csv", "must be a number", "--on-error skip"),
    ("{slates} --propensity rank", "shown.csv", "above 0 and at most 1", "--on-error skip"),
    ("{slates} --explored kind", "shown.csv", "true or false", "--on-error skip"),
    ("train sets good.csv --minutes 3 --out m", "--minutes", "unknown", "setwise train sets --help"),
    ("train --out m", "FILE or --from-log", "neither", "name one of them"),
    ("train good.csv more.csv --out m", "more.csv", "setwise train sessions --help"),
    ("train good.csv --seesion playlist --out m", "--seesion", "unknown", "did you mean '--session'?"),
    ("train good.csv --colour red --out m", "--colour", "unknown", "setwise train --help"),
    ("train good.csv --k 0 --out m", "--k", "'0'", "greater than or equal to 1"),
    ("train good.csv --k=ten --out m", "--k", "'ten'", "integer"),
    ("train good.csv --minutes nan --out m", "--minutes", "'nan'", "0.01"),
    ("train good.csv --device tpu --out m", "--device", "'tpu'", "leave it out"),
    # index
    ("index missing --out i", "missing", "there is no folder", "check the path"),
    ("index modle --out i", "modle", "there is no folder", "did you mean 'model'?"),
    ("index good.csv --out i", "good.csv", "it is a file", "check the path"),
    ("index taken --out i", "taken", "no manifest.json", "check the path"),
    ("index songs --out i", "songs", "indexed already", "pass it to the next command"),
    ("index model --out taken", "--out", "taken with other files", "choose a folder"),
    ("index model --out model", "--out", "holds a model", "choose another folder"),
    ("demo --out model", "--out", "holds a model", "choose another folder"),
    ("train good.csv --held-out ./good.csv --out m", "--held-out", "good.csv, which is one", "choose a new name"),
    ("evaluate songs good.csv --histories ./good.csv", "--histories", "good.csv, which is one", "choose a new name"),
    ("index model --out i --cells 0", "--cells", "'0'", "greater than or equal to 1"),
    ("index model --out i --backend scann", "--backend", "'scann'", "did you mean 'scan'?"),
    ("index bad.npz --out i", "bad.npz", "not a zip file", "numpy.savez"),
    ("index no_key.npz --out i", "no_key.npz", "no key", "add it"),
    ("index extra.npz --out i", "extra.npz", "'keys'", "rename or drop it"),
    ("index shape.npz --out i", "key", "(4, 1, 2)", "reshape it"),
    ("index nan.npz --out i", "query", "nan at (0, 0, 0)", "remove or replace"),
    # recommend
    ("recommend model --history s1", "model", "the kind is 'model'", "setwise index"),
    ("recommend newer --history s1", "newer", "version is 99", "install the version that saved it"),
    ("recommend damaged --history s1", "damaged", "sha256", "save it again"),
    ("recommend songs", "--history", "none", "pass one of them"),
    ("recommend songs --history s1 --features size=3", "--history and --features", "pass one of them"),
    (f"{ASK} --k 0", "--k", "'0'", "greater than or equal to 1"),
    (f"{ASK} --k 2.5", "--k", "'2.5'", "integer"),
    ("recommend songs --history S1 --unknown error", "--history", "'S1'", "did you mean 's1'?"),
    (f"{ASK} --unknown refuse", "--unknown", "'refuse'", "'ignore' or 'error'"),
    (f"{ASK} --budget-ms 0", "--budget-ms", "0.0", "pass milliseconds"),
    (f"{ASK} --budget-ms nan", "--budget-ms", "nan", "finite"),
    (f"{ASK} --budget-ms fast", "--budget-ms", "'fast'", "number"),
    (f"{ASK} --where artst=x", "--where", "'artst'", "did you mean 'artist'?"),
    (f"{ASK} --where artist", "--where", "'artist'", "write an attribute, =, and a value"),
    (f"{ASK} --where 'artist=Artist  3'", "--where artist", "'Artist  3'", "did you mean 'artist 3'?"),
    (f"{ASK} --where price=cheap", "--where price", "'cheap'", "50..200"),
    (f"{ASK} --where price=200..50", "--where price", "'200..50'", "exchange its ends"),
    (f"{ASK} --where price=5000..", "--where price", "(5000.0, None)", "loosen it"),
    (f"{ASK} --at-most artist=0", "--at-most artist", "got 0", "pass 1 or more"),
    (f"{ASK} --at-most artist=two", "--at-most artist", "'two'", "check its spelling"),
    (f"{ASK} --at-most artst=2", "--at-most", "'artst'", "did you mean 'artist'?"),
    (f"{ASK} --at-least artist=2", "--at-least", "'artist=2'", "write an attribute"),
    (f"{ASK} --at-least artist=nobody:2", "--at-least artist", "'nobody', 0", "check the value"),
    (f"{ASK} --exactly artist=3 --k 5", "--exactly artist", "30 of 10 values", "raise k"),
    (f"{ASK} --include zz", "--include", "'zz'", "check its spelling"),
    (f"{ASK} --include s2 --exclude s2", "--include", "'s2'", "drop it"),
    (f"{ASK} --include s2,s3,s4 --k 2", "--include", "k = 2", "got 3", "raise k"),
    (f"{ASK} --exclude zz --unknown error", "--exclude", "'zz'", "check its spelling"),
    (f"{ASK} --ranker swop", "--ranker", "'swop'", "did you mean 'swap'?"),
    (f"{ASK} --ranker exhaustive --k 30", "exhaustive", "k = 30", "lower k"),
    (f"{ASK} --scores missing.csv", "--scores", "missing.csv", "check the path"),
    (f"{ASK} --scores user.json", "--scores", "'vector'", "check its spelling"),
    (f"{ASK} --save nowhere/slate.json", "--save", "nowhere/slate.json", "choose a file"),
    ("recommend numbered --history abc", "--history", "'abc'", "such as 100"),
    ("recommend plain --history s1", "--history", "no encoder", "pass a user"),
    ("recommend songs --features size=3", "--features", "no encoder", "pass a user or a history"),
    ("recommend songs --history-file missing.txt", "--history-file", "missing.txt", "check the path"),
    ("recommend songs --user-json good.csv", "--user-json", "good.csv", "write the user as"),
    ("recommend songs --user-json user.json", "--user-json", "vector", "rename the keys"),
    # verify
    ("verify missing.json --catalog songs", "missing.json", "where there is none", "check the path"),
    ("verify good.csv --catalog songs", "good.csv", "not JSON", "restore it"),
    ("verify slate.json", "--catalog", "nothing", "setwise verify --help"),
    ("verify slate.json --catalog model", "model", "the kind is 'model'", "pass the folder of one"),
    # evaluate
    ("evaluate songs", "SESSIONS", "nothing", "--log DIR"),
    ("evaluate songs missing.csv", "SESSIONS", "'missing.csv'", "check the path"),
    ("evaluate songs good.csv --item tracks", "--item", "'tracks'", "did you mean 'track'?"),
    ("evaluate songs good.csv --ranker bean", "--ranker", "'bean'", "did you mean 'beam'?"),
    ("evaluate songs good.csv --most 0", "--most", "'0'", "greater than or equal to 1"),
    ("evaluate songs good.csv --slates good.csv", "--slates", "'playlist,track'", "write JSON lines"),
    ("evaluate songs good.csv --histories nowhere/h", "--histories", "nowhere/h", "choose a file"),
    ("evaluate songs good.csv --split week", "--split", "'week'", "choose one of the two"),
    ("evaluate songs good.csv --split time", "--split", "without times", "--time"),
    ("train good.csv --split tiem --out m", "--split", "'tiem'", "did you mean 'time'?"),
    ("train good.csv --split time --out m", "--split", "without times", "--time"),
    ("evaluate numbered good.csv", "SESSIONS", "'s0'", "100", "--item"),
    ("evaluate model good.csv", "model", "the kind is 'model'", "setwise index"),
    # serve
    ("serve missing", "missing", "there is no folder", "check the path"),
    ("serve songs --port 99999", "--port", "'99999'", "65535"),
    ("serve songs --port {port}", "--port", "{port}", "choose another --port"),
    ("serve songs --host no.such.host.invalid --api-key {key}", "--host", "no.such.host.invalid", "try 0.0.0.0"),
    ("serve songs --host 0.0.0.0", "--api-key", "0.0.0.0", "serve on 127.0.0.1"),
    ("serve songs --api-key short", "--api-key", "5 characters", "choose a longer"),
    ("serve songs --deadline-ms 0", "--deadline-ms", "'0'", "10"),
    ("serve songs --log good.csv", "--log", "good.csv", "choose a folder"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved objects of every kind, intact, damaged and newer, and files that are none."""
    made = tmp_path_factory.mktemp("saved")
    recommender = sw.Recommender.from_model(model(), cells=4)
    recommender.save(made / "songs")
    recommender.recommend(history=["s1"], k=3).save(made / "slate.json")
    sw.Recommender.from_model(model(text_ids=False), cells=4).save(made / "numbered")
    sw.Recommender(sw.Index.build(model().catalog(), cells=4)).save(made / "plain")
    model().save(made / "model")
    shutil.copytree(made / "songs", made / "damaged")
    arrays = max((made / "damaged").glob("arrays*"), key=lambda file: file.stat().st_size)
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"\0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifact, "FORMAT_VERSION", 99)
        recommender.save(made / "newer")
    (made / "taken").mkdir()
    (made / "taken" / "notes.txt").write_text("x")
    (made / "good.csv").write_text(SESSIONS)
    (made / "shown.csv").write_text(SHOWN)
    (made / "user.json").write_text('{"vector": [1.0]}')
    (made / "bad.npz").write_text("x")
    three, four = np.zeros((3, 2)), np.zeros((4, 2))
    np.savez(made / "no_key.npz", query=three, value=three)
    np.savez(made / "extra.npz", query=three, key=three, value=three, keys=three)
    np.savez(made / "shape.npz", query=three, key=four, value=three)
    np.savez(made / "nan.npz", query=three + np.nan, key=three, value=three)
    return made


@each_of(MISTAKES)
def test_a_mistake_is_explained(
    command: str,
    words: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        known = {"port": taken.getsockname()[1], "key": "a-key-that-is-long-enough", "slates": SLATES}
        check_mistake(monkeypatch, capsys, folder, command.format(**known), [word.format(**known) for word in words])


def test_an_option_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SETWISE_DEADLINE_MS", "soon")
    sentence = refused(monkeypatch, capsys, f"serve {folder / 'songs'}")
    check_sentence(sentence, "--deadline-ms", "'soon' from SETWISE_DEADLINE_MS", "setwise serve --help")


def test_a_slate_of_another_catalogue_is_not_valid(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1, as documented: the file can be read, and a check fails."""
    slate, other = str(folder / "slate.json"), str(folder / "numbered")
    monkeypatch.setattr(sys, "argv", ["setwise", "verify", slate, "--catalog", other])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert "The slate is not valid" in capsys.readouterr().out
