"""The commands of ``setwise train``, and the one that ``setwise train FILE …`` without a kind means.

Options decide first (``--group`` names sets), then the columns of the file: with a slate and an outcome it has slates.
A file with outcomes but without slates is ambiguous, and refused with what to add. The kind and its reason are printed
to standard error before the data are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from setwise._standard_error import say
from setwise._validation import did_you_mean
from setwise.cli.columns import path_of
from setwise.cli.train.cases import cases
from setwise.cli.train.data import SESSIONS, SLATES
from setwise.cli.train.log import log
from setwise.cli.train.sessions import sessions
from setwise.cli.train.sets import sets
from setwise.cli.train.slates import slates
from setwise.datasets.dispatch import columns_read, has_slates
from setwise.datasets.tables import table_columns, table_rows
from setwise.datasets.text_files import parse_number
from setwise.datasets.usual_columns import usual_column, whole_set
from setwise.errors import InvalidInput

FROM_LOG = "--from-log"  # without a kind, the folder of a log in place of FILE
BY_OPTION = {FROM_LOG: "log", "--set": "sets", "--group": "sets", "--user-columns": "cases", "--slate": SLATES}
PEEKED = 1000  # rows in which outcomes are looked for


class Arguments(NamedTuple):
    """What was typed after ``setwise train``: the paths, and the values of each option, "" for a flag."""

    paths: list[str]
    options: dict[str, list[str]]

    @classmethod
    def of(cls, words: Sequence[str], takes_value: Mapping[str, bool]) -> Arguments:
        """The words, with the options that take a value; an unknown option is refused."""
        paths, options, waiting = list[str](), dict[str, list[str]](), iter(words)
        for word in waiting:
            name, equals, value = word.partition("=")
            if word == "--":
                paths += waiting
            elif not word.startswith("-"):
                paths.append(word)
            elif name not in takes_value:
                todo = did_you_mean(name, takes_value) or "see setwise train --help"
                raise InvalidInput(name, "an option of setwise train", "an unknown one", todo)
            else:
                options.setdefault(name, []).append(value if equals or not takes_value[name] else next(waiting, ""))
        return cls(paths, options)

    def first(self, option: str) -> str | None:
        """The value of an option, None if it was not given."""
        return self.options[option][0] if option in self.options else None


class Kinds(TyperGroup):
    """``setwise train FILE …`` runs the command that the options and the columns of the file say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command where none is named."""
        if not args or ("--help" in args and args[0] not in self.commands):
            args = ["--help"]
        elif args[0] not in self.commands:
            args = self._with_kind(args)
        return super().parse_args(ctx, args)

    def _with_kind(self, words: list[str]) -> list[str]:
        options = {kind: _options(command) for kind, command in self.commands.items()}
        takes_value = {FROM_LOG: True}
        for of_kind in options.values():
            takes_value |= of_kind
        arguments = Arguments.of(words, takes_value)
        logged, path = arguments.first(FROM_LOG), next(iter(arguments.paths), None)
        if (logged is None) == (path is None):
            got = "neither" if path is None else f"both {path} and {logged}"
            raise InvalidInput(f"FILE or {FROM_LOG}", "given, and not both", got, "name one of them")
        file = Path(str(path or logged))
        stated = _stated_kind(file, arguments)
        if stated is None:
            _require_options(arguments, options, (SESSIONS, SLATES), "a file of sessions or slates")
        kind, reason = stated or _kind_of_columns(file, arguments)
        _require_options(arguments, options, (kind,), f"{kind} ({reason})")
        say(f"{file}: {kind}, as {reason} (setwise train {kind}).")
        return [kind, *(word.removeprefix(f"{FROM_LOG}=") for word in words if word != FROM_LOG)]


def _options(command: Any) -> dict[str, bool]:
    """The options of a command, and whether each takes a value."""
    return {name: not param.is_flag for param in command.params if hasattr(param, "is_flag") for name in param.opts}


def _require_options(
    arguments: Arguments, options: Mapping[str, Mapping[str, bool]], kinds: Sequence[str], data: str
) -> None:
    """Refuse options that would be ignored: those that the commands of these kinds do not have."""
    for name in arguments.options:
        kinds_with_it = [kind for kind in options if name in options[kind]]
        if kinds_with_it and not set(kinds) & set(kinds_with_it):
            todo = f"leave it out, or use setwise train {kinds_with_it[0]}"
            raise InvalidInput(name, f"left out for {data}", arguments.first(name) or "it", todo)


def _stated_kind(file: Path, arguments: Arguments) -> tuple[str, str] | None:
    """The kind that the options name, and why; or that of a folder which a service has written."""
    for option, kind in BY_OPTION.items():
        if option in arguments.options:
            return kind, f"{option} is given"
    return ("log", "it is a folder of logged slates") if any(file.glob("week-*.sqlite")) else None


def _kind_of_columns(file: Path, arguments: Arguments) -> tuple[str, str]:
    """Sessions or slates, by the format and the columns of the file, and why."""
    roles = ("session", "item", "outcome", "delimiter")
    options = {role: name for role in roles if (name := arguments.first(f"--{role}")) is not None}
    baskets = "--baskets" in arguments.options
    with path_of("FILE"):
        if has_slates(file, baskets, **options):
            names = columns_read(file, baskets, **options)
            of = f" '{names['slate']}' with outcomes '{names['outcome']}'" if names else ""
            return SLATES, f"it has slates{of}"
        if columns_read(file, baskets, **options):
            _refuse_ambiguous(file, options)
    return SESSIONS, "it has no slates with outcomes"


def _refuse_ambiguous(file: Path, options: Mapping[str, str]) -> None:
    """Refuse outcomes of which it is not known what was shown together: rows of misses are no choices."""
    columns, delimiter = table_columns(file, options.get("delimiter")), options.get("delimiter")
    outcome, whole = options.get("outcome"), whole_set(columns)
    of_sets = "that of whole sets with --set" if whole is None else f"--set {whole} if a '{whole}' has one outcome"
    todo = f"name the column of what was shown together with --slate, or {of_sets}"
    if outcome is not None:
        raise InvalidInput("--outcome", "given with --slate, --set, --group or --user-columns", repr(outcome), todo)
    guessed = usual_column("outcome", columns)
    if guessed is not None and guessed not in options.values() and _has_misses(file, guessed, delimiter):
        got = f"{file.name} with outcomes '{guessed}' and no slate"
        todo += f"; or use setwise train {SESSIONS}, for which every row is a choice"
        raise InvalidInput("FILE", "of a kind that its columns or options say", got, todo)


def _has_misses(file: Path, column: str, delimiter: str | None) -> bool:
    """Whether one of the first outcomes is 0: then a row is not always a choice."""
    with closing(table_rows(file, [column], 0, delimiter, progress=False, malformed=lambda error: None)) as rows:
        cells = [cell for _, (cell,) in islice(rows, PEEKED)]
    return any(parse_number(cell) == 0 or str(cell).strip().lower() == "false" for cell in cells)


train = typer.Typer(
    cls=Kinds,
    subcommand_metavar="[KIND] FILE",
    rich_markup_mode="rich",
    help=r"""Train a model on a file, evaluate it on held-out data, and save it.

    Without a kind, the options and the columns of FILE decide: [bold]setwise train baskets.csv --out model/[/bold]

    The same command resumes a run that was interrupted. Needs pip install 'setwise\[train]'.
    """,
)
for command in (sessions, slates, sets, cases, log):
    text = str(command.__doc__)
    example = text[text.index("[bold]") :].strip()
    train.command(short_help=f"{text.splitlines()[0]}\n{example}")(command)
