"""``setwise reproduce --quick``: it resumes after an interruption, the report comes from the rows only, failures are reported."""

from __future__ import annotations

import csv
import fcntl
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console
from typer.testing import CliRunner

import processes
import setwise
from experiments.cut_samples import ITEMS, cut_samples
from setwise.cli import app
from setwise.errors import InvalidInput, MissingDependency

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
LIMIT = 7200  # seconds, at full counts


# --- the whole of it ---


def command(data: Path, out: Path) -> list[object]:
    return [sys.executable, "-m", "setwise", "reproduce", "--quick", "--json", "--data", data, "--out", out]


def state(out: Path) -> dict[str, str]:
    return {path.stem: json.loads(path.read_text())["state"] for path in (out / "steps").glob("*.json")}


def interrupted_after_a_step(data: Path, out: Path) -> None:
    with processes.started(command(data, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        processes.until(
            lambda: run.poll() is not None or {"done", "running"} <= set(state(out).values()), seconds=LIMIT
        )
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=LIMIT)
        assert run.returncode == 130, errors
        assert "resumes from here" in errors
        wait_for_lock(out / ".lock")


def wait_for_lock(path: Path) -> None:
    """Every process of the interrupted run ends, and with the last one the lock."""
    with path.open() as lock:
        for _ in range(600):
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)
    raise AssertionError("a process of the interrupted run still holds the lock")


def finished(data: Path, out: Path) -> dict[str, object]:
    return dict(json.loads(processes.run(command(data, out), check=True, limit=LIMIT).stdout.splitlines()[-1]))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def samples(shared_data: Path, tmp_path: Path, large: bool) -> Path:
    """The public samples with --large, the first part of each otherwise."""
    return shared_data if large else cut_samples(shared_data, tmp_path / "samples")


def test_reproduce_quick(samples: Path, tmp_path: Path, large: bool) -> None:
    plan, out = import_module("plan").PLAN, tmp_path / "report"
    interrupted_after_a_step(samples, out)
    done = [name for name, how in state(out).items() if how == "done"]
    stamps = {name: (out / "steps" / f"{name}.json").stat().st_mtime_ns for name in done}
    summary = finished(samples, out)
    assert summary["failed"] == []
    assert summary["already_done"] == len(done)
    assert all((out / "steps" / f"{name}.json").stat().st_mtime_ns == stamp for name, stamp in stamps.items())
    again = import_module("reproduce").Reproduction(samples, out, True, Console(), plan)
    assert (again.found, again.waiting) == (len(plan), [])  # a third call would run nothing
    for step in plan:
        check_parquet(out / "rows" / f"{step.name}.csv")
    check_tables(out / "rows")
    check_loop(out / "rows")
    check_page(out)
    check_that_figures_come_from_rows(out, tmp_path / "changed", "33,528" if large else f"{ITEMS:,}")


def check_parquet(path: Path) -> None:
    import pyarrow.parquet as pq

    table, rows = pq.read_table(path.with_suffix(".parquet")), rows_of(path)
    assert table.num_rows == len(rows) > 0
    assert table.column_names == list(rows[0])


def check_tables(rows: Path) -> None:
    """Every model of Tables 1 and 2 has its row in every task."""
    found = [row for path in sorted(rows.glob("table_1_*.csv")) for row in rows_of(path)]
    assert all(0 <= float(row["accuracy"]) <= 1 for row in found)
    assert {row["negatives"] for row in found} == {"uniform", "hard", "five of the list", "hotels 16 to 20"}
    assert {row["model"] for row in found if "titles" in row["task"]} == {
        "random guess", "logistic regression", "random forest", "support vector machine", "nearest neighbours",
        "pure embedding", "simple transformer", "simple transformer, literal", "general transformer",
    }  # fmt: skip
    for task, negatives in {(row["task"], row["negatives"]) for row in found}:
        of = [(row["model"], row["features"]) for row in found if (row["task"], row["negatives"]) == (task, negatives)]
        assert len(of) == len(set(of)) == (18 if task == "hotels" else 21)
    for task in ("playlists", "hotels"):
        kinds = [row["features"] for row in rows_of(rows / f"table_2_{task}.csv")]
        assert len(kinds) == len(set(kinds)) == 10


def check_loop(rows: Path) -> None:
    for name in ("closed_loop_with", "closed_loop_without"):
        (row,) = rows_of(rows / f"{name}.csv")
        for method in ("setwise", "setwise, log alone", "k-NN + greedy", "pure embedding"):
            assert 0 < float(row[method]) <= float(row["best"]) + 1e-9  # the search with the true model is best
        assert 0 < float(row["promised"]) < 10


def check_page(out: Path) -> None:
    """One page with all sections and charts, that asks nothing of any network."""
    page, text = (out / "index.html").read_text(), (out / "results.md").read_text()
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(sections) == 17
    assert page.count("<section>") == 17
    assert "Missing" not in text
    assert page.count("vegaEmbed=") == 1
    assert page.count("<script") == 2 + page.partition("<script>")[2].partition("</script>")[0].count("<script")
    assert not re.search(r"""(src=|href=|url\()["']?[^#"']""", page.partition("<script>")[0])  # links lead within
    for name in re.findall(r"\(figures/(\w+)\.png\)", text):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f'id="chart-{name}"' in page
    for paper in ("0.702", "20.86", "20.56", "90.92", "29.01"):
        assert paper in text
        assert paper in page


CHANGES = {  # step: column of the last row, its new value, and the text of a line that must change
    "closed_loop_with": ("best", "9.8761", "9.876"),
    "table_1_titles": ("accuracy", "0.98765", "0.988"),
    "certificates": ("gap", "77.7654", "| playlists_one_head | {items} | 10 |"),
    "halo": ("nll", "8.76543", "8.7654"),
    "figure_3_trivago": ("upper_bound", "43210.9", "| trivago, "),
}


def check_that_figures_come_from_rows(out: Path, other: Path, items: str) -> None:
    """Rows that are changed change what is said: in the text, its copy among the docs, and the README's rows."""
    shutil.copytree(out, other)
    for name, (column, value, _) in CHANGES.items():
        rows = rows_of(other / "rows" / f"{name}.csv")
        rows[-1][column] = value
        with (other / "rows" / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    docs, readme = other / "docs", other / "README.md"
    readme.write_text("above\n<!-- results -->\nold\n<!-- /results -->\nbelow\n")
    command = [sys.executable, str(ROOT / "experiments" / "report.py"), "--rows", str(other / "rows")]
    processes.run([*command, "--out", str(other), "--docs", str(docs), "--readme", str(readme)], check=True)
    before, after = ((folder / "results.md").read_text() for folder in (out, docs))
    changed = [new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    for name, (_, _, text) in CHANGES.items():
        assert any(text.format(items=items) in line for line in changed), name
    assert after == (other / "results.md").read_text()
    assert all((docs / name).exists() for name in re.findall(r"\((figures/\w+\.png)\)", after))
    text = readme.read_text()
    assert text.startswith("above\n<!-- results -->\n| what you gain | setwise | instead |")
    assert text.endswith("<!-- /results -->\nbelow\n")
    assert f"of at most {float(CHANGES['closed_loop_with'][1]):.3f}" in text


# --- what goes wrong ---


def test_a_failing_step_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    runner, plan = import_module("reproduce"), import_module("plan")
    good, bad, last = (tmp_path / f"{name}.py" for name in ("good", "bad", "last"))
    good.write_text("import sys; open(sys.argv[-1], 'a').write('row\\n')")
    bad.write_text("print('so far so good'); raise SystemExit('the disk is full')")
    last.write_text(
        "import pathlib, sys; assert pathlib.Path('first.done').exists; open(sys.argv[-1], 'w').write('row\\n')"
    )
    steps = [
        plan.Step("halo", str(bad), "", "", 3.0),
        plan.Step("first", str(good), "--some 'two words'", "", 2.0),
        plan.Step("last", str(last), "", "", 9.0, after="first"),
    ]
    out = tmp_path / "out"
    for folder in ("rows", "logs", "steps"):
        (out / folder).mkdir(parents=True)

    def run() -> tuple[ModuleType, str]:
        with runner.locked(out) as lock, (tmp_path / "output").open("w") as output:
            made = runner.Reproduction(tmp_path, out, False, Console(file=output, width=200), steps)
            made.run(lock)
            made.print_failures()
        return made, (tmp_path / "output").read_text()

    made, output = run()
    assert made.failed == ["halo"]
    assert "the disk is full" in output
    assert made.summary()["steps"]["last"]["state"] == "done"
    assert json.loads((out / "steps" / "first.json").read_text())["command"][2:4] == ["--some", "two words"]
    run()
    assert (out / "rows" / "first.csv").read_text() == "row\n"  # not run again
    bad.write_text(good.read_text())
    made, output = run()
    assert (made.failed, made.found) == ([], 2)
    steps[1] = plan.Step("first", str(good), "--other", "", 2.0)
    run()
    assert (out / "rows" / "first.csv").read_text() == "row\n"  # another command: begun anew
    with runner.locked(out), pytest.raises(InvalidInput, match="a run is using"), runner.locked(out):
        pass


def test_a_step_of_other_data_starts_from_the_beginning(tmp_path: Path) -> None:
    runner, plan = import_module("reproduce"), import_module("plan")
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(
        "import pathlib, sys; to, data = sys.argv[-1], pathlib.Path(sys.argv[2])\n"
        "open(to, 'a').write((data / 'a.csv').read_text())"
    )
    steps = [
        plan.Step("one", str(script), "", "", 1.0, ("a.csv",)),
        plan.Step("two", str(script), "", "", 1.0, ("b.csv",)),
    ]
    for folder in ("rows", "logs", "steps"):
        (out / folder).mkdir(parents=True)

    def rows(first: str) -> list[str]:
        for name, text in {"a.csv": first, "b.csv": "b"}.items():
            (tmp_path / name).write_text(text)
        with runner.locked(out) as lock, (tmp_path / "output").open("w") as output:
            made = runner.Reproduction(tmp_path, out, False, Console(file=output, width=200), steps)
            made.run(lock)
        assert made.failed == []
        return [(out / "rows" / f"{name}.csv").read_text() for name in ("one", "two")]

    assert rows("1\n") == rows("1\n") == ["1\n", "1\n"]
    assert rows("2\n") == ["2\n", "1\n"]  # the second step does not say that it reads this file


def test_the_report_says_what_is_missing(tmp_path: Path) -> None:
    report = import_module("report")
    (tmp_path / "rows").mkdir()
    report.make(tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert "Missing: step scaling was not done" in text
    assert "Missing: step scaling was not done" in (tmp_path / "index.html").read_text()


def test_what_is_missing_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = import_module("reproduce")
    with pytest.raises(InvalidInput, match="which is no folder"):
        runner.check(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="playlists_one_head"):
        runner.check(tmp_path)
    monkeypatch.setattr(runner, "LIBRARIES", ("no_such_library",))
    with pytest.raises(MissingDependency, match=re.escape("setwise[report,train]")):
        runner.check(tmp_path)
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "--data", str(tmp_path)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert runner.main() == 2
    assert "no_such_library" in capsys.readouterr().err


def test_some_steps_only() -> None:
    runner = import_module("reproduce")
    assert [step.name for step in runner.chosen(["halo", "figure_4"])] == ["figure_4", "halo"]
    assert runner.chosen(()) == runner.PLAN
    with pytest.raises(InvalidInput, match="got figure_5"):
        runner.chosen(["figure_5"])


# --- the verb ---


def test_the_verb_passes_what_it_is_given_and_the_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "experiments" / "reproduce.py"
    script.parent.mkdir()
    script.write_text("import sys; open('seen', 'w').write(' '.join(sys.argv[1:])); sys.exit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setwise, "__file__", str(tmp_path / "site" / "src" / "setwise" / "__init__.py"))
    result = CliRunner().invoke(app, ["reproduce", "--data", "samples", "--quick", "--json"])
    assert result.exit_code == 7
    assert (tmp_path / "seen").read_text() == "--data samples --out report --quick --json"
    CliRunner().invoke(app, ["reproduce", "--only", "figure_4", "--only", "halo"])
    assert (tmp_path / "seen").read_text() == "--data data --out report --only figure_4 halo"
    script.unlink()
    result = CliRunner().invoke(app, ["reproduce"])
    assert isinstance(result.exception, InvalidInput)
    assert "checkout" in str(result.exception)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_verb_waits_for_what_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int) -> None:
    script = tmp_path / "experiments" / "reproduce.py"
    script.parent.mkdir()
    signal_parent = f"time.sleep(0.5)\nos.kill(os.getppid(), {int(number)})"
    script.write_text(
        f"import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n{signal_parent}\n"
        f"time.sleep({0.5 if number == signal.SIGINT else 60})\nsys.exit(5)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setwise, "__file__", str(tmp_path / "site" / "src" / "setwise" / "__init__.py"))
    before = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    assert CliRunner().invoke(app, ["reproduce"]).exit_code == 5
    assert [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)] == before
