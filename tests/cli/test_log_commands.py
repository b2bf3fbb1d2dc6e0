"""``setwise train --from-log`` and ``setwise evaluate --log``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from saved_songs import N, model, run, said
from setwise.storage.slate_log import ItemOutcome, ShownSlate, SlateLog, new_id, week_of
from setwise.training import SimpleTransformer

SMALL = ("--dim", "4", "--heads", "1", "--epochs", "2")
WEEK = 7 * 86_400.0


def write_log(folder: Path, count: int, hit_rate: float = 0.2) -> None:
    """Slates of three songs that promise 1.5 hits; each song is a hit with the same probability."""
    rng, log, now = np.random.default_rng(0), SlateLog(folder), time.time()
    slates, outcomes = [], []
    for number in range(count):
        items = [f"s{row}" for row in rng.choice(N, 3, replace=False)]
        made = now - (1.2 if number % 2 else 2.2) * WEEK
        slates.append(
            ShownSlate(new_id(made), f"u{number % 9}", "v1", json.dumps(items), [0.5] * 3, 1.0, number % 10 == 0)
        )
        outcomes += [ItemOutcome(slates[-1].id, one) for one in items if rng.random() < hit_rate]
    log.write([slates, outcomes])
    log.close()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder, 400)
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    model().save(folder)
    return folder


def test_promised_against_had_by_week(log: Path) -> None:
    result = run("evaluate", "--log", log, "--json")
    assert result.exit_code == 0, result.output or result.exception
    rows = json.loads(result.stdout)["rows"]
    weeks = {week_of(time.time() - 1.2 * WEEK), week_of(time.time() - 2.2 * WEEK)}
    assert {row["week"] for row in rows} == weeks
    assert sum(row["slates"] for row in rows) == 400
    assert sum(row["slates"] for row in rows if row["explored"]) == 40
    for row in rows:
        assert row["promised"] == 1.5
        assert row["difference"] == pytest.approx(row["had"] - 1.5)
        assert abs(row["had"] - 0.6) < 5 * row["error"]
        assert 0 < row["with_outcome"] < row["slates"]
    text = said(run("evaluate", "--log", log))
    for part in ("promised", "1.500", "explored", "answered", "counts as a miss", *weeks):
        assert part in text, part


@pytest.mark.nightly
def test_a_model_is_recalibrated_or_replaced(log: Path, served: Path, tmp_path: Path) -> None:
    result = run("train", "--from-log", log, "--model", served, "--out", tmp_path / "new", *SMALL, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert report["read"]["slates"] == 400
    assert report["read"]["held_out"] == 40
    rows = {row["model"]: row for row in report["quality"]["rows"]}
    assert set(rows) == {"as it was served", "recalibrated", "trained on the log"}
    assert rows["recalibrated"]["log_loss"] < rows["as it was served"]["log_loss"], "the served model is random"
    assert rows["recalibrated"]["promised"] == pytest.approx(0.6, abs=0.15)
    better = rows["trained on the log"]["more"] < -2 * rows["trained on the log"]["error"]
    assert report["kept"] == ("trained on the log" if better else "recalibrated")
    new = SimpleTransformer.load(tmp_path / "new")
    assert new.catalog().ids[np.arange(3)].tolist() == ["s0", "s1", "s2"]
    assert new.catalog().attributes["title"][0] == "Song [0]"
    text = said(run("train", "--from-log", log, "--model", served, "--out", tmp_path / "new", *SMALL))
    for part in ("Read 400 logged slates", "held out", "recalibrated", "Kept: the model", "setwise index"):
        assert part in text, part


def test_few_slates_recalibrate_the_model(served: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "log", 30)
    result = run("train", "--from-log", tmp_path / "log", "--model", served, "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output or result.exception
    assert "fewer than 200" in said(result)
    assert SimpleTransformer.load(tmp_path / "new").summary["calibrated_on"] == 30


def test_a_new_model_from_the_log_alone(log: Path, tmp_path: Path) -> None:
    result = run("train", "--from-log", log, "--out", tmp_path / "new", *SMALL, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["read"]["kind"], report["read"]["slates"], report["read"]["held_out"]) == ("slates", 400, 40)


@pytest.mark.parametrize(("count", "n_items"), [(60, 6000), pytest.param(400, 100_000, marks=pytest.mark.nightly)])
def test_few_slates_of_many_items(tmp_path: Path, count: int, n_items: int) -> None:
    """Long histories name most items, none of them often: no step of the training may take long for that."""
    rng, log, made = np.random.default_rng(0), SlateLog(tmp_path / "log"), time.time() - 2 * WEEK
    slates, outcomes, histories = [], [], []
    for number, seen in enumerate(np.array_split(rng.permutation(n_items), count)):
        items = [f"s{row}" for row in rng.choice(n_items, 10, replace=False)]
        slates.append(ShownSlate(new_id(made + number), f"u{number}", "v1", json.dumps(items), [0.5] * 10, 1.0, False))
        outcomes += [ItemOutcome(slates[-1].id, item) for item in items if rng.random() < 0.2]
        histories.append(json.dumps({"key": f"u{number}", "history": [f"s{row}" for row in seen]}))
    log.write([slates, outcomes])
    log.close()
    (tmp_path / "histories.jsonl").write_text("\n".join(histories))
    named = ("--log-histories", tmp_path / "histories.jsonl", "--out", tmp_path / "new", "--json")
    result = run("train", "log", tmp_path / "log", *named, *(SMALL if count < 400 else ()))
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["read"]["slates"], report["read"]["items"]) == (count, n_items)
    model = SimpleTransformer.load(tmp_path / "new")
    assert len(model.catalog()) == n_items
    assert np.isfinite(model.user(["s1", "s2"]).base).all()


def test_an_interrupted_run_resumes_while_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from setwise.training import trainer

    log, save, clock = tmp_path / "log", trainer._Run.save, time.time
    write_log(log, 300)
    command = ("train", "--from-log", log, *SMALL)
    unbroken = run(*command, "--out", tmp_path / "unbroken", "--json")

    def save_and_stop(self, *arguments) -> None:
        save(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(trainer._Run, "save", save_and_stop)
        assert run(*command, "--out", tmp_path / "new").exit_code != 0
    monkeypatch.setattr(time, "time", lambda: clock() + 3 * WEEK)
    write_log(log, 40)  # slates that have settled since
    resumed = run(*command, "--out", tmp_path / "new", "--json")
    assert resumed.exit_code == 0, resumed.output or resumed.exception
    assert json.loads(resumed.stdout)["quality"] == json.loads(unbroken.stdout)["quality"]
    assert not (tmp_path / "new.checkpoint").exists()
    later = run(*command, "--out", tmp_path / "new", "--json")
    assert json.loads(later.stdout)["read"]["slates"] == 340


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--out", "{tmp}/m"), "FILE or --from-log must be given, and not both, got neither"),
        (("train", "a.csv", "--from-log", "{log}", "--out", "{tmp}/m"), "got both a.csv and"),
        (
            ("train", "a.csv", "--model", "{log}", "--out", "{tmp}/m"),
            "--model must be left out for a file of sessions or slates, got",
        ),
        (("train", "--from-log", "{tmp}", "--out", "{tmp}/m"), "pass the folder of setwise serve --log"),
        (("train", "--from-log", "{log}", "--wait", "9999", "--out", "{tmp}/m"), "lower --wait"),
        (("evaluate", "--log", "{tmp}"), "pass the folder of setwise serve --log"),
        (("evaluate", "--log", "{log}", "--wait", "9999"), "lower --wait"),
        (("train", "--from-log", "{log}", "--wait", "inf", "--out", "{tmp}/m"), "lower --wait"),
        (("evaluate", "--log", "{log}", "--wait", "1e308"), "lower --wait"),
        (("evaluate", "songs", "--log", "{log}"), "FOLDER must be left out beside --log, got songs"),
        (("evaluate",), "FOLDER must be given, or --log DIR"),
        (("evaluate", "--log", "{log}", "--split", "time"), "--split must be left out beside --log, got time"),
        (("evaluate", "songs", "a.csv", "--wait", "2"), "--wait must be given with --log only, got 2"),
        (
            ("train", "a.csv", "--wait", "2", "--out", "{tmp}/m"),
            "--wait must be left out for a file of sessions or slates, got 2; leave it out, or use setwise train log",
        ),
        (
            ("train", "--from-log", "{log}", "--item", "song", "--out", "{tmp}/m"),
            "--item must be left out for log (--from-log is given)",
        ),
        (
            ("train", "--from-log", "{log}", "--held-out", "a.csv", "--out", "{tmp}/m"),
            "--held-out must be left out for log",
        ),
    ],
)
def test_mistakes(log: Path, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run(*(one.format(log=log, tmp=tmp_path) for one in arguments))
    assert result.exit_code
    assert words in str(result.exception)
