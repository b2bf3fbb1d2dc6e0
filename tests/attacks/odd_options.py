"""Odd values and files for every option of a command, and a process that runs the command with each of them.

The process has loaded the compiled code and forks for each run, which then takes some milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

import processes
from setwise.cli import app, main

SECONDS = 20  # of a run; what takes longer is at work, and was accepted
WARM = ["recommend", "verify"]  # commands that are run once before, so that their code is loaded
TEXTS = [
    "", "0", "-1", "1", "1e308", "1e400", "inf", "-inf", "nan", "99999999999999999999999", "3.5", "x", "song-1",
    "song-1,song-1", "song-1,", "=", "a=b=c", "artist=1", "artist=:", "artist=nan:inf", "\u2028", "\udcff", "{}", "[]",
    "null", '{"artist": [1, {}]}', "1" * 5000, "true", ":", ";;", "\t", "\\", "*", "%Y", "%", "nowhere/at/all", "-",
]  # fmt: skip
CONTENTS = [
    b"", bytes(range(256)) * 40, "session,item\n1,caf\xe9\n".encode("latin-1"), "session,item\n1,a\n".encode("utf-16"),
    "\ufeffid,score\nsong-1,1\n".encode(), b'[["song-1"], {"a": 1}, null, 3, true]\n', b"[" * 100_000, b"a,b\n1,\0\n",
    b'{"user": {"a": 1}, "history": [["song-1"], {}], "session": {}, "item": [], "heads": "x", "base": 3}\n',
    b'{"user": 1.5, "history": 3, "heads": [[NaN]], "base": [Infinity]}\n', b'{"user": "a", "history": ["song-1"',
    b'{"user": "\\udfff", "history": ["\\ud800"]}\n', b'{"song-1": 1e999, "song-2": ' + b"9" * 5000 + b"}\n",
    b'id,score\nsong-1,1\nsong-1,2\nsong-2,x\n,,\n"song-3,1\n', b"session,item,time\n", b"3\n", b'"song-1"\n', b"null\n",
]  # fmt: skip
ENDS = (".csv", ".json", ".jsonl", ".parquet", ".csv.gz", ".txt")


def odd_files(folder: Path) -> list[str]:
    """Paths of files that are not what a command expects."""
    paths = [folder / f"{number}{end}" for number in range(len(CONTENTS)) for end in ENDS]
    for number, path in enumerate(paths):
        path.write_bytes(CONTENTS[number // len(ENDS)])
    return [str(path) for path in (*paths, folder, folder / "missing.csv")]


def variants(command: str, base: Sequence[str], values: Sequence[str]) -> Iterator[list[str]]:
    """The arguments with every value for every option, and in the place of every argument without a name."""
    options = typer.main.get_command(app).commands[command].params
    named = [one.opts[-1] for one in options if one.opts[-1].startswith("-")]
    places = [place for place in range(len(options) - len(named)) if place < len(base)]
    named = [name for name in named if name != "--cluster"]  # it would look for one
    for value in values:
        yield from ([command, *base, name, value] for name in named)
        yield from ([command, *base[:place], value, *base[place + 1 :]] for place in places)


def outcomes(runs: Sequence[Sequence[str]], folder: Path) -> list[dict[str, Any]]:
    """For every run its exit status (None if it was ended by the limit of time), what it said, and what it raised."""
    command = [sys.executable, __file__]
    done = processes.run(command, text=json.dumps(runs), cwd=folder, check=True, limit=3600)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _run(arguments: Sequence[str]) -> dict[str, Any]:
    said, child = Path("said.txt"), os.fork()
    if not child:
        _command(arguments, said)
    status = os.waitpid(child, 0)[1]
    ended = None if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else status
    return {"arguments": arguments, "status": ended, "said": said.read_text(errors="replace")[-20_000:]}


def _command(arguments: Sequence[str], said: Path) -> None:
    """Run the command in this process, which ends with it; 70 is the status of an error that nobody caught."""
    signal.alarm(SECONDS)
    output = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv, status = ["setwise", *arguments], 0
    try:
        main()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    os._exit(status)


def _serve() -> None:
    """Run what is listed on standard input; the first run of a command that loads code loads it for all."""
    runs = json.load(sys.stdin)
    output = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for arguments in runs:
        if arguments[0] in WARM:
            WARM.remove(arguments[0])
            sys.argv = ["setwise", *arguments]
            main()
        os.write(output, (json.dumps(_run(arguments)) + "\n").encode())


if __name__ == "__main__":
    _serve()
