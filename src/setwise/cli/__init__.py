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


app.command()(demo)
app.command()(index)
app.command()(recommend)
app.command()(evaluate)
app.command()(bench)
app.command()(serve)
app.command()(train)
app.command()(verify)


def main() -> None:
    """The entry point: a refusal of ours is a sentence on standard error, never a traceback."""
    try:
        app()
    except SetwiseError as error:
        print(f"setwise: {error}", file=sys.stderr)
        sys.exit(2)
