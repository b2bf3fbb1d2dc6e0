"""The command line ``setwise VERB``: one file for each verb. An error is one sentence and exit status 2."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

import setwise
from setwise._standard_error import lasting_streams, say
from setwise.cli.batch import batch
from setwise.cli.cluster import cluster
from setwise.cli.compilation import compile_loops
from setwise.cli.demo import demo
from setwise.cli.diagnose import diagnose
from setwise.cli.diversity import diversity
from setwise.cli.evaluate import evaluate
from setwise.cli.index import index
from setwise.cli.mistakes import UsageError, sentence
from setwise.cli.recommend import recommend
from setwise.cli.reproduce import reproduce
from setwise.cli.rerank import rerank
from setwise.cli.serve import serve
from setwise.cli.train.kinds import train
from setwise.cli.verify import verify
from setwise.errors import SetwiseError


class Verbs(TyperGroup):
    """The commands in the order of use; typer has groups of commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """``demo``, then ``train``, which is a group."""
        names = [name for name in self.commands if name != "train"]
        return [*names[:1], "train", *names[1:]]


app = typer.Typer(
    cls=Verbs,
    help="Recommend the best set of items, not the best items.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"setwise {setwise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Recommend the best set of items, not the best items."""


for verb in (
    demo,
    index,
    recommend,
    rerank,
    diversity,
    batch,
    evaluate,
    diagnose,
    verify,
    serve,
    cluster,
    reproduce,
):  # in the order of use
    app.command()(verb)
app.command("compile")(compile_loops)
app.add_typer(train, name="train")


def main() -> None:
    """The entry point. A mistake is one sentence on standard error and status 2, without a traceback."""
    command, arguments = typer.main.get_command(app), sys.argv[1:] or ["--help"]
    try:
        with lasting_streams():
            status = command.main(arguments, "setwise", standalone_mode=False)
    except typer.Abort:
        sys.exit(1)
    except (SetwiseError, OSError, MemoryError, UsageError) as error:
        say(f"setwise: {sentence(error, getattr(command, 'commands', {}), arguments)}")
        sys.exit(2)
    if status:
        sys.exit(status)
