"""The command line: ``setwise VERB``. One file a verb; errors are one sentence and exit status 2."""

from __future__ import annotations

import sys

import typer

import setwise
from setwise.cli.bench import bench
from setwise.cli.demo import demo
from setwise.cli.evaluate import evaluate
from setwise.cli.index import index
from setwise.cli.recommend import recommend
from setwise.cli.reproduce import reproduce
from setwise.cli.serve import serve
from setwise.cli.train import train
from setwise.cli.verify import verify
from setwise.errors import SetwiseError

app = typer.Typer(
    help="Recommend the best set of items, not the best items.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"setwise {setwise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Say the version."),
) -> None:
    """Recommend the best set of items, not the best items."""


for verb in (demo, train, index, recommend, evaluate, verify, serve, bench, reproduce):  # as they are needed
    app.command()(verb)


def main() -> None:
    """The entry point: a refusal of ours is a sentence on standard error, never a traceback."""
    try:
        app()
    except SetwiseError as error:
        sentence = str(error)
    except OSError as error:  # a disk that is full, a folder that may not be written
        sentence = f"{error.filename or 'a file'} cannot be read or written ({error.strerror})."
    else:
        return
    print(f"setwise: {sentence}", file=sys.stderr)
    sys.exit(2)
