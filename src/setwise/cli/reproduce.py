"""``setwise reproduce``: run the experiments of the paper and of this project, and write one report.

The experiments are scripts of the checkout, not of the package. This verb finds them and runs their plan.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import setwise
from setwise.errors import InvalidInput

SCRIPT = Path("experiments") / "reproduce.py"


def reproduce(
    data: Annotated[Path, typer.Option(help="The folder of the data samples.")] = Path("data"),
    out: Annotated[Path, typer.Option(help="The folder of the report and of all raw rows.")] = Path("report"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that everything runs; the figures are not meaningful.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this step alone, such as table_2_hotels; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Run every experiment of the paper and of this project, and write the report: page, text, figures and rows.

    Takes about 40 minutes on two cores. An interrupted run resumes where it stopped; steps whose data
    has changed since begin again.
    The samples are not part of the repository; docs/how-to/data.md lists the files and their sources.
    Exit status: 0 if every step is done, 1 if one failed, 2 if data or a library is missing.

    Example: [bold]setwise reproduce --data data/ --out report/[/bold]
    """
    command = [sys.executable, str(_script()), "--data", str(data), "--out", str(out)]
    command += ["--quick"] * quick + ["--json"] * as_json + (["--only", *only] if only else [])
    raise typer.Exit(_run(command))


def _script() -> Path:
    """The script that runs the plan: beside the source of an editable installation, or in the working directory."""
    for root in (Path(setwise.__file__).resolve().parents[2], Path.cwd()):
        if (root / SCRIPT).is_file():
            return root / SCRIPT
    todo = "clone the repository and run: pip install -e '.[report,train]'"
    raise InvalidInput("the working directory", "a checkout of setwise, which holds the experiments", Path.cwd(), todo)


def _run(command: list[str]) -> int:
    """Run a process, pass SIGTERM on to it, wait for it, and return its exit status.

    A terminal interrupts the process as well, so SIGINT does nothing here. A ``KeyboardInterrupt`` would not do:
    raised between the end of the process and the return of ``wait``, it loses the exit status.
    """
    process = subprocess.Popen(command)
    handlers: dict[int, Any] = {signal.SIGTERM: lambda *_: process.terminate(), signal.SIGINT: lambda *_: None}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
