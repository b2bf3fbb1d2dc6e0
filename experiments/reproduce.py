"""Run the plan and write the report: two experiments at a time, each resumed where the last run stopped.

    python experiments/reproduce.py --data ../shared/data --out report          (or: setwise reproduce)
    python experiments/reproduce.py --only table_2_hotels figure_4 --at-once 1  some steps, one after the other

A marker in OUT/steps records the command, the version, the digest of the data and the state of each step. A step that
was done with the same three is not run again; an interrupted step resumes from its rows; a step with another command,
version or data starts from the beginning. A step that fails is reported at the end, the others continue, and the report
names what is missing. Rows are in OUT/rows, logs in OUT/logs.

Steps are processes, forked from one that has imported the libraries: importing them takes longer than a quick step.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import json
import multiprocessing
import os
import platform
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

from data_digest import digest
from plan import PLAN, Step, rows_of
from rich.console import Console
from rich.live import Live
from rich.table import Table

import setwise
from setwise.errors import InvalidInput, MissingDependency, SetwiseError
from setwise.recommend.compilation import compile_requests

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 2
FORKS = multiprocessing.get_context("forkserver")
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONUNBUFFERED"), "1")
PRELOADED = ("torch", "torch._dynamo", "sklearn.ensemble", "sklearn.svm", "gensim.models", "setwise.service.preload")
LIBRARIES = ("altair", "jinja2", "vl_convert", "pyarrow", "torch", "gensim", "sklearn")
TAIL = 15  # lines of a log that are shown for a failure
PATIENCE = 10.0  # seconds between SIGTERM and SIGKILL


# --- the state of a step ---


@dataclass
class Marker:
    """OUT/steps/NAME.json: how a step was begun, and whether it is done."""

    path: Path
    known: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, out: Path, name: str) -> Marker:
        """Read the marker of a step; empty if there is none."""
        path = out / "steps" / f"{name}.json"
        return cls(path, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})

    def begun_as(self, origin: Mapping[str, Any]) -> bool:
        """Whether the rows that there are came from this command, version and data."""
        return all(self.known.get(name) == one for name, one in origin.items())

    @property
    def done(self) -> bool:
        """Whether all rows are there."""
        return self.known.get("state") == "done"

    def write(self, **news: Any) -> None:
        """Update the file atomically."""
        self.known |= news
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(self.known, indent=1), encoding="utf-8")
        os.replace(draft, self.path)


def origin_of(step: Step, data: Path, out: Path, quick: bool) -> dict[str, Any]:
    """What the rows of a step come from: its command, this version, and its data."""
    command, files = step.command(data, out, quick), digest(data, step.needs)
    return {"command": command, "version": setwise.__version__, "data": files}


def commit() -> str:
    """The commit of this checkout, and whether its code was changed since."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
        code = [*git, "status", "--porcelain", "--", "src", "experiments", "benchmarks"]
        changed = subprocess.run(code, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + (", with changes" if changed else "")


def machine() -> str:
    """The cores that this process may use, and what kind they are."""
    found = Path("/proc/cpuinfo")
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    kind = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return f"{len(os.sched_getaffinity(0))} cores, {kind}"


# --- a running step ---


@dataclass
class Running:
    """A step in its own process, with its log."""

    step: Step
    marker: Marker
    process: ForkServerProcess
    began: float

    @classmethod
    def start(cls, step: Step, out: Path, origin: Mapping[str, Any], lock: IO[str]) -> Running:
        """Start the step from the beginning, or resume it."""
        marker, rows = Marker.of(out, step.name), rows_of(out, step.name)
        goes_on = marker.begun_as(origin)
        if not goes_on:
            for path in (rows, rows.with_suffix(".settings.json")):
                path.unlink(missing_ok=True)
            marker.known = {**origin, "commit": commit(), "cores": len(os.sched_getaffinity(0))}
        marker.write(state="running", date=datetime.now(UTC).date().isoformat())
        with (out / "logs" / f"{step.name}.log").open("ab" if goes_on else "wb") as log:
            descriptors = DupFd(log.fileno()), DupFd(lock.fileno())
            process = FORKS.Process(target=run_script, args=(ROOT / step.script, origin["command"][2:], *descriptors))
            process.start()
        return cls(step, marker, process, time.perf_counter())

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.began

    @property
    def spent(self) -> float:
        """Since it began, and before it was interrupted."""
        return float(self.marker.known.get("spent", 0.0)) + self.seconds

    def ended(self, out: Path) -> bool:
        """Whether it is over; if so, the marker knows how."""
        if self.process.is_alive():
            return False
        fine = self.process.exitcode == 0 and rows_of(out, self.step.name).exists()
        self.marker.write(state="done" if fine else "failed", seconds=round(self.spent, 1))
        return True

    def stop(self) -> None:
        """Terminate the process, and kill it if it does not end."""
        self.process.terminate()
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.marker.write(spent=self.spent)


def run_script(script: Path, arguments: list[str], log: Any, lock: Any) -> None:
    """In a process of its own: what ``python script arguments`` does, with its output in the log.

    The lock goes with the process: while one of them runs, no other run writes to these rows.
    """
    lock.detach()
    os.dup2(log.detach(), 1)
    os.dup2(1, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")


def last_line(path: Path) -> str:
    """The last line of a log that is not empty."""
    return next((line for line in reversed(tail(path, TAIL)) if line.strip()), "")


def tail(path: Path, count: int) -> list[str]:
    """The last lines of a log."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-count:] if path.exists() else []


# --- all steps ---


class Reproduction:
    """The steps of the plan over one folder."""

    def __init__(
        self,
        data: Path,
        out: Path,
        quick: bool,
        console: Console,
        plan: Sequence[Step] = PLAN,
        at_once: int = AT_ONCE,
    ) -> None:
        self.data, self.out, self.console, self.plan, self.at_once = data, out, console, plan, at_once
        self.origins = {step.name: origin_of(step, data, out, quick) for step in plan}
        self.began, self.date = time.perf_counter(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.running: list[Running] = []
        done = {step.name for step in plan if self._is_done(step)}
        self.found = len(done)
        self.waiting = [step for step in sorted(plan, key=lambda step: -step.minutes) if step.name not in done]

    def _is_done(self, step: Step) -> bool:
        marker = Marker.of(self.out, step.name)
        return marker.done and marker.begun_as(self.origins[step.name]) and rows_of(self.out, step.name).exists()

    def run(self, lock: IO[str]) -> None:
        """Every step that is not done; none outlives an interruption."""
        try:
            with Live(console=self.console, refresh_per_second=2, transient=True) as live:
                while self.waiting or self.running:
                    self._start(lock)
                    time.sleep(0.1)
                    self._collect()
                    if self.console.is_terminal:
                        live.update(self._progress())
        finally:
            for each in self.running:
                each.process.terminate()
            for each in self.running:
                each.stop()

    def _start(self, lock: IO[str]) -> None:
        busy = {each.step.name for each in self.running} | {step.name for step in self.waiting}
        for step in [step for step in self.waiting if step.after not in busy]:
            if len(self.running) < self.at_once:
                self.waiting.remove(step)
                self.running.append(Running.start(step, self.out, self.origins[step.name], lock))

    def _collect(self) -> None:
        for each in [each for each in self.running if each.ended(self.out)]:
            self.running.remove(each)
            over = len(self.plan) - len(self.waiting) - len(self.running)
            how = each.marker.known["state"]
            self.console.print(f"{over:>3}/{len(self.plan)} {each.step.name} {how} after {each.seconds:,.0f} s")

    def _progress(self) -> Table:
        over = len(self.plan) - len(self.waiting) - len(self.running)
        spent = time.perf_counter() - self.began
        table = Table.grid(padding=(0, 2))
        table.add_row(f"{over} of {len(self.plan)} done, {spent / 60:.1f} min")
        for each in self.running:
            line = last_line(self.out / "logs" / f"{each.step.name}.log")
            table.add_row(each.step.name, f"{each.seconds:,.0f} s", line[: max(20, self.console.width - 50)])
        return table

    @property
    def failed(self) -> list[str]:
        """The steps without all their rows."""
        return [step.name for step in self.plan if not self._is_done(step)]

    def print_failures(self) -> None:
        """Print the failed steps, each with the end of its log."""
        for name in self.failed:
            path = self.out / "logs" / f"{name}.log"
            self.console.print(f"\nStep {name} failed; the end of {path}:", style="red", highlight=False)
            self.console.print("\n".join(tail(path, TAIL)), markup=False, highlight=False)

    def record(self) -> None:
        """OUT/run.json: when this run began, how long its steps took together, and where; the report says it."""
        about = {
            "began": self.date,
            "minutes": round((time.perf_counter() - self.began) / 60, 1),
            "steps": len(self.plan),
            "done_before": self.found,
            "at_once": self.at_once,
            "commit": commit(),
            "machine": machine(),
        }
        (self.out / "run.json").write_text(json.dumps(about, indent=1), encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """The result as JSON data."""
        steps = {step.name: Marker.of(self.out, step.name).known for step in self.plan}
        return {
            "report": str(self.out / "index.html"),
            "seconds": round(time.perf_counter() - self.began, 1),
            "already_done": self.found,
            "failed": self.failed,
            "steps": {name: {key: known.get(key) for key in ("state", "seconds")} for name, known in steps.items()},
        }


# --- the command ---


def check(data: Path, plan: Sequence[Step] = PLAN) -> None:
    """Check libraries and data before the first step."""
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise MissingDependency(library, "setwise reproduce", "report,train")
    if not data.is_dir():
        raise InvalidInput("--data", "the folder of the public samples", f"{data}, which is no folder", "name it")
    missing = sorted({path for step in plan for path in step.needs if not (data / path).exists()})
    if missing:
        raise InvalidInput("--data", "a folder with all samples", f"one without {', '.join(missing)}", "complete it")


@contextlib.contextmanager
def locked(out: Path) -> Iterator[IO[str]]:
    """Lock the folder until this process and all processes that it started have ended."""
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            todo = "wait for it, end it, or name another folder"
            raise InvalidInput(
                "--out", "a folder that no other run uses", f"{out}, which a run is using", todo
            ) from None
        yield lock


def chosen(names: Sequence[str]) -> tuple[Step, ...]:
    """The steps of these names, in the order of the plan; all if there are none."""
    known = [step.name for step in PLAN]
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput("--only", f"names of steps: {', '.join(known)}", ", ".join(unknown), "choose of those")
    return tuple(step for step in PLAN if not names or step.name in names)


def reproduce(options: argparse.Namespace) -> int:
    """Run the plan, write the report, print the failures."""
    plan = chosen(options.only)
    check(options.data, plan)
    for folder in ("rows", "logs", "steps"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    console = Console(stderr=options.as_json)
    with locked(options.out) as lock:
        run = Reproduction(options.data, options.out, options.quick, console, plan, options.at_once)
        console.print(f"{len(run.plan)} steps, {run.found} of them done before; logs are in {options.out / 'logs'}")
        compile_requests()  # steps do not wait for it then, and compute bounds from the start
        run.run(lock)
        run.record()
        from report import make

        make(options.out)
    run.print_failures()
    if options.as_json:
        print(json.dumps(run.summary()))
    else:
        console.print(f"{options.out / 'index.html'}: open it in a browser; {options.out / 'results.md'} is its text")
    return 1 if run.failed else 0


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("report"))
    parser.add_argument("--quick", action="store_true", help="small sizes: the figures are not meaningful")
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="STEP", help="run these steps; their names are in plan.py"
    )
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="steps that run at the same time")
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object at the end")
    return parser.parse_args(arguments)


def main() -> int:
    """The entry point; SIGTERM is handled like Ctrl-C, so that the steps end first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ |= ENVIRONMENT
    FORKS.set_forkserver_preload([*PRELOADED])
    try:
        return reproduce(parsed())
    except SetwiseError as error:
        print(f"setwise: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("setwise: interrupted; the same command resumes from here.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
