"""``setwise reproduce``: the paper's experiments and ours on the public samples, and one page of evidence.

The experiments are scripts of the checkout, not of the package: this verb finds them and runs their plan.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

import setwise
from setwise.errors import InvalidInput

SCRIPT = Path("experiments") / "reproduce.py"


def reproduce(
    data: Annotated[Path, typer.Option(help="The folder of the public samples.")] = Path("../shared/data"),
    out: Annotated[Path, typer.Option(help="Where the report goes, with all raw rows.")] = Path("report"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that all runs, its figures mean nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Run every experiment of the paper and of this project, and make the report: a page, its text, figures and rows.

    Takes up to 40 minutes on two cores. A run that was interrupted goes on where it stopped.
    Exit status 0 when every step was done, 1 when one failed, 2 when something is missing.

    Example: [bold]setwise reproduce --data ../shared/data --out report/[/bold]
    """
    command = [sys.executable, str(_script()), "--data", str(data), "--out", str(out)]
    command += ["--quick"] * quick + ["--json"] * as_json
    raise typer.Exit(_ran(command))


def _script() -> Path:
    """The plan's runner: beside the source of an editable installation, or in the working directory."""
    for root in (Path(setwise.__file__).resolve().parents[2], Path.cwd()):
        if (root / SCRIPT).is_file():
            return root / SCRIPT
    todo = "clone the repository and run: pip install -e '.[report,train]'"
    raise InvalidInput("the working directory", "a checkout of setwise, which holds the experiments", Path.cwd(), todo)


def _ran(command: list[str]) -> int:
    """The exit status of a process that is told to end when we are, and is waited for."""
    process = subprocess.Popen(command)

    def end(number: int, frame: FrameType | None) -> None:
        process.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the terminal has told the process as well: it ends its own first
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
