"""The reference page of the command line, from the commands that `setwise` registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer
import typer.main

from setwise.cli import app


def cli_reference() -> str:
    """Markdown: one section a command, with its usage, help text, arguments and options."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="setwise")
    return "\n\n".join(_sections(group, context))


def _sections(group: typer.core.TyperGroup, context: typer.Context) -> Iterator[str]:
    """The commands of a group in its order, those of a group within it after that one."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below = typer.Context(command, info_name=name, parent=context)
        yield _section(command, below)
        if isinstance(command, typer.core.TyperGroup):
            yield from _sections(command, below)


def _section(command: typer.core.TyperCommand | typer.core.TyperGroup, context: typer.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## {context.command_path}", f"```\n{usage}\n```", _markdown(command.help or "")]
    for kind, title in (("argument", "Argument"), ("option", "Option")):
        records = [one.get_help_record(context) for one in command.params if one.param_type_name == kind]
        rows = [f"| `{_cell(name)}` | {_cell(_markdown(text))} |" for name, text in filter(None, records)]
        if rows:
            parts.append("\n".join([f"| {title} | Description |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _markdown(text: str) -> str:
    """Rich markup as Markdown: commands in bold become code."""
    return re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text, flags=re.DOTALL)


def _cell(text: str) -> str:
    """Text that fits a cell of a Markdown table."""
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
