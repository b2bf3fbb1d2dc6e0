"""``setwise train``: output, JSON, checkpoints and errors."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import processes
from setwise import cli
from setwise.cli.train.data import MOST_HELD, RANDOM, hold_out, prepared
from setwise.datasets import Sessions, read
from setwise.training import SimpleTransformer

SMALL = ("--dim", "4", "--heads", "1", "--epochs", "2", "--k", "3")


@pytest.fixture(scope="module")
def baskets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 orders of five of thirty products, ten to a shelf; one row without an order, one product seen once."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "baskets.csv"
    rows = [
        f"{order},p{10 * (order % 3) + product},Product {product}"
        for order in range(120)
        for product in rng.permutation(10)[:5]
    ]
    file.write_text("\n".join(["order,product,name", *rows, ",p1,Product 1", "0,rare,Rare"]) + "\n")
    return file


@pytest.fixture(scope="module")
def impressions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 visitors, two slates of four each; even products are clicked."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "shown.csv"
    rows = [
        f"{visitor},{slate},p{product},{int(product % 2 == 0)}"
        for visitor in range(100)
        for slate in range(2)
        for product in rng.permutation(20)[:4]
    ]
    file.write_text("\n".join(["session,slate,item,outcome", *rows]) + "\n")
    return file


def run(*arguments: object):
    return CliRunner().invoke(cli.app, ["train", *map(str, arguments)])


def said(result) -> str:
    return " ".join(result.output.split())


COLUMNS = ("--session", "order", "--item", "product", "--attribute", "name")


def test_held_out_sessions_can_be_evaluated(baskets: Path, tmp_path: Path) -> None:
    """They are whole sessions of the file, none of them was trained on, and setwise evaluate reads them as printed."""
    file = tmp_path / "new" / "held_out.csv"
    result = run(baskets, *COLUMNS, "--out", tmp_path / "model", "--held-out", file, *SMALL)
    assert result.exit_code == 0, result.output
    assert "were held out to evaluate the model. They are in" in said(result)
    command = f"setwise evaluate service/ {file} --k 3 --most 12 --ranker swap --ranker top-k"
    assert command in result.output
    rows = [line.split(",") for line in file.read_text().splitlines()]
    assert rows[0] == ["session", "item"]
    held = [
        sorted(item for session, item in rows[1:] if session == one) for one in sorted({row[0] for row in rows[1:]})
    ]
    data = prepared(baskets, {"session": "order", "item": "product"}, None, 0)[0]
    written = [sorted(data.ids[row] for row in items) for items in data.items]
    assert len(held) == 12
    assert all(one in written for one in held)
    service = tmp_path / "service"
    assert CliRunner().invoke(cli.app, ["index", str(tmp_path / "model"), "--out", str(service)]).exit_code == 0
    printed = [str(service), str(file), *command.split()[4:], "--json"]
    evaluated = CliRunner().invoke(cli.app, ["evaluate", *printed])
    assert evaluated.exit_code == 0, evaluated.output
    report = json.loads(evaluated.stdout)
    assert (report["sessions"], report["of"]) == (12, 12)
    hits = f"{report['rankers'][0]['predicted']:.3f} │ {report['rankers'][0]['observed']:.3f} │"
    assert f"│ the optimised slate │ {hits}" in said(result)  # both commands count the same hits


@pytest.mark.nightly
def test_held_out_sessions_keep_their_times(tmp_path: Path) -> None:
    """They had none in the file, so that --split time could not evaluate them."""
    rng, held, model, index = (
        np.random.default_rng(0),
        tmp_path / "held_out.csv",
        tmp_path / "model",
        tmp_path / "songs",
    )
    rows = [
        f"s{number},p{10 * (number % 3) + product},2026-01-{1 + number // 6:02}T{number % 6:02}:{minute:02}:30.25Z"
        for number in rng.permutation(120)
        for minute, product in enumerate(rng.permutation(10)[:5])
    ]
    file = tmp_path / "sessions.csv"
    file.write_text("\n".join(["session,item,time", *rows]) + "\n")
    result = run(file, "--split", "time", "--out", model, "--held-out", held, *SMALL)
    assert result.exit_code == 0, result.output
    assert held.read_text().startswith("session,item,time\n")
    written, whole = (read(one, session="session", item="item", time="time") for one in (held, file))
    latest = [[whole.ids[row] for row in whole.items[at]] for at in np.argsort(whole.starts)[-len(written) :]]
    assert [[written.ids[row] for row in items] for items in written.items] == latest
    assert CliRunner().invoke(cli.app, ["index", str(model), "--out", str(index)]).exit_code == 0
    words = ["evaluate", index, held, "--k", 3, "--ranker", "top-k", "--split", "time", "--json"]
    evaluated = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert evaluated.exit_code == 0, evaluated.output
    assert json.loads(evaluated.output)["sessions"] == len(written)


def test_sets_have_no_held_out_sessions(impressions: Path, tmp_path: Path) -> None:
    sets = ("--set", "slate", "--item", "item", "--outcome", "outcome", "--held-out", tmp_path / "held.csv")
    result = run(impressions, *sets, "--out", tmp_path / "model")
    assert "--held-out must be left out for sets (--set is given), got" in str(result.exception)


def test_a_held_out_file_that_cannot_be_written(baskets: Path, tmp_path: Path) -> None:
    """It is said before the training."""
    result = run(baskets, *COLUMNS, "--out", tmp_path / "model", "--held-out", baskets / "inside.csv", *SMALL)
    assert "--held-out must be a file that can be written" in str(result.exception)
    assert not (tmp_path / "model").exists()


def test_slates_have_no_held_out_sessions(impressions: Path, tmp_path: Path) -> None:
    result = run(impressions, "--out", tmp_path / "model", "--held-out", tmp_path / "held.csv", *SMALL)
    assert "--held-out must be left out for slates (it has slates 'slate' with outcomes 'outcome')" in str(
        result.exception
    )
    assert not (tmp_path / "model").exists()


def test_sessions(baskets: Path, tmp_path: Path) -> None:
    result = run(baskets, *COLUMNS, "--out", tmp_path / "model", *SMALL)
    assert result.exit_code == 0, result.output
    text = said(result)
    for part in (
        "Read 120 sessions of 30 items, 600 entries.",
        "Left out 1 rare items (see --least-sessions).",
        "Skipped 1 rows without a session.",
        "12 sessions, drawn at random, were held out to evaluate the model",
        "was kept: loss",
        "the optimised slate",
        "top-k",
        "this model",
        "vector search by score",
        "a miss may still be relevant",
        "setwise serve service/",
    ):
        assert part in text, part
    model = SimpleTransformer.load(tmp_path / "model")
    assert len(model.catalog()) == 30
    assert model.catalog().attributes["name"][0].startswith("Product")
    assert model.catalog().heads == 1
    assert not (tmp_path / "model.checkpoint").exists(), "the checkpoint is removed"


def test_slates(impressions: Path, tmp_path: Path) -> None:
    result = run(impressions, "--out", tmp_path / "model", *SMALL)
    assert result.exit_code == 0, result.output
    text = said(result)
    for part in ("Read 200 slates of 20 items, 800 entries.", "the logged slate", "Log loss", "model.calibrated"):
        assert part in text, part
    assert "top-k" not in text, "what was not shown has no outcome"


@pytest.mark.parametrize("kind", ["sessions", "slates"])
def test_json(baskets: Path, impressions: Path, tmp_path: Path, kind: str) -> None:
    file = (baskets, *COLUMNS) if kind == "sessions" else (impressions,)
    result = run(*file, "--out", tmp_path / "model", *SMALL, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["read"]["kind"] == kind
    assert report["read"]["held_out"] == report["read"][kind] // 10
    assert all(1 <= one["kept_epoch"] <= one["epochs"] <= 2 for one in report["training"]["stages"])
    assert report["saved"] == str(tmp_path / "model")
    quality = report["quality"]
    assert len(quality["reliability"]) == 5
    assert all(row["predicted"] >= 0 and row["observed"] >= 0 for row in quality["slates"])
    assert [row["slate"] for row in quality["slates"]] == (
        ["the optimised slate", "top-k", "greedy", "MMR", "DPP", "vector search by score"]
        if kind == "sessions"
        else ["the logged slate"]
    )
    observed = sum(row["observed"] * row["count"] for row in quality["reliability"])
    assert observed == pytest.approx(quality["slates"][0]["observed"] * report["read"]["held_out"], abs=1e-4)


@pytest.mark.nightly
def test_the_printed_commands_run(baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(baskets, *COLUMNS, "--out", tmp_path / "m", *SMALL)
    index, recommend, serve = (shlex.split(line) for line in result.output.splitlines() if "    setwise " in line)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli.app, index[1:]).exit_code == 0
    shown = CliRunner().invoke(cli.app, [*recommend[1:], "--json"])
    assert len(json.loads(shown.stdout)["items"]) == 3, shown.output
    assert serve == ["setwise", "serve", "service/"]


@pytest.mark.nightly
def test_small_data_keeps_every_item(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    file.write_text("session,item\n" + "\n".join(f"{s},i{s + step}" for s in range(24) for step in range(2)) + "\n")
    result = run(file, "--out", tmp_path / "model", *SMALL, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["read"]["items"] == 25
    assert report["read"]["rare_items"] == 0
    assert report["quality"] is None, "too few to hold some out"
    text = run(file, "--out", tmp_path / "model", *SMALL)
    assert "too little data to hold some out" in said(text)


@pytest.mark.nightly
def test_rare_items_as_asked(baskets: Path, tmp_path: Path) -> None:
    options = ("--out", tmp_path / "model", *SMALL, "--json")
    report = json.loads(run(baskets, *COLUMNS, "--least-sessions", "1", *options).stdout)
    assert report["read"]["items"] == 31


def test_an_interrupted_run_resumes(baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its first epoch, the same command ends with the model of an unbroken run."""

    from setwise.training import trainer

    unbroken = run(baskets, *COLUMNS, "--out", tmp_path / "unbroken", *SMALL, "--json")
    save = trainer._Run.save

    def save_and_stop(self, *arguments) -> None:
        save(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(trainer._Run, "save", save_and_stop)
        broken = run(baskets, *COLUMNS, "--out", tmp_path / "model", *SMALL)
    assert broken.exit_code != 0
    assert any((tmp_path / "model.checkpoint").glob("*/manifest.json"))
    assert not (tmp_path / "model").exists()
    resumed = run(baskets, *COLUMNS, "--out", tmp_path / "model", *SMALL, "--json")
    one, other = (json.loads(result.stdout) for result in (unbroken, resumed))
    assert one["quality"] == other["quality"]
    models = [SimpleTransformer.load(tmp_path / name) for name in ("unbroken", "model")]
    assert models[0].catalog().digest == models[1].catalog().digest
    assert not (tmp_path / "model.checkpoint").exists()


@pytest.mark.nightly
def test_other_files_of_a_checkpoint_folder_stay(baskets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes.txt").write_text("keep me")
    (folder / "slates").mkdir()
    result = run(baskets, *COLUMNS, "--out", tmp_path / "model", "--checkpoint", folder, *SMALL)
    assert result.exit_code == 0, result.output
    assert {entry.name for entry in folder.iterdir()} == {"notes.txt", "slates"}


@pytest.mark.parametrize("apart", [("model", "model"), ("model/parts", "model"), ("work", "work/base")])
def test_checkpoints_lie_apart_from_the_model(baskets: Path, tmp_path: Path, apart: tuple[str, str]) -> None:
    """It is said before the training, which would be lost otherwise."""
    checkpoint, out = (tmp_path / one for one in apart)
    result = run(baskets, *COLUMNS, "--out", out, "--checkpoint", checkpoint, *SMALL)
    assert "--checkpoint must be a folder apart from that of --out" in str(result.exception)
    assert not checkpoint.exists() or not any(checkpoint.iterdir())


def test_a_checkpoint_that_is_a_file(baskets: Path, tmp_path: Path) -> None:
    result = run(baskets, *COLUMNS, "--out", tmp_path / "model", "--checkpoint", baskets, *SMALL)
    assert "--checkpoint must be a folder, got the file" in str(result.exception)


@pytest.mark.nightly
def test_an_older_model_is_replaced(baskets: Path, tmp_path: Path) -> None:
    digests = []
    for seed in (0, 1):
        assert run(baskets, *COLUMNS, "--out", tmp_path / "model", *SMALL, "--seed", seed).exit_code == 0
        digests.append(SimpleTransformer.load(tmp_path / "model").catalog().digest)
    assert digests[0] != digests[1]


# --- errors, as the entry point prints them ---


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["setwise", "train", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    error = lines[-1]  # after lines of progress, on a slow machine
    assert error.startswith("setwise: ")
    assert not any(line.startswith("setwise: ") for line in lines[:-1])
    assert "Traceback" not in error
    return error


def test_errors(
    baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, occupied, plain = tmp_path / "model", tmp_path / "occupied", tmp_path / "plain"
    occupied.mkdir()
    (occupied / "diary.txt").write_text("private")
    plain.write_text("a file")
    single = tmp_path / "single.csv"
    single.write_text("session,item\n1,a\n2,b\n3,a\n4,a\n")
    for arguments, sentence in (
        ((tmp_path / "none.csv", "--out", out), "FILE must be a file"),
        ((single, "--item", "other", "--out", out), "--item must be a column that single.csv has"),
        ((baskets, "--session", "cart", "--item", "product", "--out", out), "--session must be a column that baskets.csv has"),
        ((baskets, *COLUMNS, "--out", occupied), "--out must be a folder for the model alone"),
        ((baskets, *COLUMNS, "--out", plain), "--out must be a folder that can be written"),
        ((baskets, *COLUMNS, "--out", plain / "below"), "--out must be a folder that can be written"),
        ((baskets, *COLUMNS, "--out", "."), "--out must be a folder for the model alone"),
        ((baskets, *COLUMNS, "--out", "/proc/nobody"), "/proc/nobody.checkpoint"),
        ((baskets, *COLUMNS, "--out", out, "--slate", "name"), "--outcome must be given where no column has a usual name"),
        ((baskets, *COLUMNS, "--out", out, "--least-sessions", "500"), "--least-sessions must be a number of sessions"),
        ((baskets, *COLUMNS, "--out", out, "--device", "tpu"), "--device must be cpu, cuda"),
        ((baskets, "--session", "Order", "--item", "product", "--out", out), "did you mean 'order'?"),
        ((baskets, *COLUMNS, "--out", out, "--attribute", "title="), "--attribute must be a column, or a name, = and a column"),
        ((baskets, *COLUMNS, "--out", out, "--attribute", "title=nam"), "got no 'nam' among 'order', 'product', 'name'; did you mean 'name'?"),
        ((baskets, *COLUMNS, "--out", out, "--time", "name", "--no-time"), "--no-time must be absent beside --time"),
        ((baskets, *COLUMNS, "--out", out, "--on-error", "ignore"), "--on-error must be 'stop' or 'skip', got 'ignore'"),
        ((single, "--out", out), "got 4 sessions of one item each; check --session"),
    ):  # fmt: skip
        assert sentence in refused(monkeypatch, capsys, *arguments), arguments
        assert not out.exists()
    assert (occupied / "diary.txt").read_text() == "private"


@pytest.mark.parametrize("arguments", [("sessions",), ("sets", "f.csv"), ("log", "f", "--out", "x", "--epochs", "0")])
def test_missing_or_invalid_arguments(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_file_or_a_log_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "FILE or --from-log must be given" in refused(monkeypatch, capsys, "--out", "x")


def test_a_malformed_file_is_named_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.csv"
    file.write_text("session,item\n1,a\n2\n")
    assert "broken.csv, line 3" in refused(monkeypatch, capsys, file, "--out", tmp_path / "model")


def test_files_as_they_are(tmp_path: Path) -> None:
    """Semicolons, Windows-1252, a gap in the times, a malformed row, titles from another column, k beyond the items."""
    rows = [
        f"{order};p{(order * step) % 17};Thé {(order * step) % 17};{step}" for order in range(60) for step in (1, 2, 3)
    ]
    rows += ["7;p1;Thé;", "8;p1;Thé;soon", "8;p1"]
    file = tmp_path / "export.csv"
    file.write_bytes("\n".join(["order;product;Description;time", *rows]).encode("cp1252"))
    named = ("--session", "order", "--item", "product", "--attribute", "title=Description")
    result = run(file, *named, "--on-error", "skip", "--out", tmp_path / "model", *SMALL[:-2], "--k", "30")
    assert result.exit_code == 0, result.output
    for part in (
        "Read 60 sessions of 17 items, 180 entries.",
        "Columns: session 'order', item 'product', time 'time'.",
        "Skipped 1 rows without a time in 'time' (--no-time would keep them).",
        "Skipped 2 malformed rows (line 183: a time must be a number",
        "line 184: there must be 4 cells",
        "--k 30 is more than the 17 items that remain",
    ):
        assert part in said(result), part
    model = SimpleTransformer.load(tmp_path / "model")
    assert set(model.catalog().attributes) == {"title"}
    assert model.catalog().attributes["title"][0].startswith("Thé")


@pytest.mark.nightly
def test_one_basket_a_line(tmp_path: Path) -> None:
    file = tmp_path / "groceries.txt"
    file.write_text("\n".join(",".join(f"g{(line * step) % 13}" for step in (1, 2, 3)) for line in range(60)))
    result = run(file, "--baskets", "--out", tmp_path / "model", *SMALL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["read"]["items"] == 13


@pytest.mark.nightly
def test_formats_that_skip_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sequences.txt"
    file.write_text("\n".join(f"{user} {user % 4 + 1} {user % 5 + 5} {user % 3 + 11}" for user in range(60)) + "\n")
    result = run(file, "--out", tmp_path / "model", *SMALL)
    assert result.exit_code == 0, result.output
    assert "Skipped" not in result.output


def test_help_has_an_example_of_each_kind() -> None:
    text = said(run("--help"))
    for kind in ("sessions", "slates", "sets", "cases", "log"):
        assert f"setwise train {kind} " in text
        assert f"Example: setwise train {kind} " in said(run(kind, "--help"))
    assert said(run()) == text
    assert "train" in CliRunner().invoke(cli.app, ["--help"]).output


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys, setwise.cli; from typer.testing import CliRunner; "
        "CliRunner().invoke(setwise.cli.app, ['train', '--help']); print('torch' in sys.modules)"
    )
    out = processes.run([sys.executable, "-c", code], check=True)
    assert out.stdout.strip() == "False"


def test_without_torch_it_says_what_to_install(baskets: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import setwise.cli; "
        f"sys.argv = ['setwise', 'train', {str(baskets)!r}, '--session', 'order', '--item', 'product', "
        f"'--out', {str(tmp_path / 'model')!r}]; setwise.cli.main()"
    )
    out = processes.run([sys.executable, "-c", code])
    assert out.returncode == 2
    assert out.stderr.splitlines() == [
        f"{baskets}: sessions, as it has no slates with outcomes (setwise train sessions).",
        "Columns of baskets.csv: session 'order', item 'product'.",
        "setwise: training a model needs torch, which is not installed; run: pip install 'setwise[train]'.",
    ]


def test_unordered_sessions_are_shuffled(tmp_path: Path) -> None:
    file = tmp_path / "sorted.jsonl"
    file.write_text("\n".join(json.dumps({"tracks": list(range(8)), "ordered": False}) for _ in range(50)) + "\n")
    data, _ = prepared(file, {"session": None}, None, 0)
    assert len({tuple(items) for items in data.items}) > 40


def test_how_much_is_held_out() -> None:
    for count, held in ((49, None), (60, 6), (8000, MOST_HELD)):
        sessions = Sessions.of([["a", "b"]] * count)
        training, held_out = hold_out(sessions, 0, RANDOM)
        assert (None if held_out is None else len(held_out)) == held
        assert len(training) + (held or 0) == count
