"""The reference page of the command line, from the commands that `setwise` registers."""

from __future__ import annotations

import re

import typer
import typer.main

from setwise.cli import app


def cli_reference() -> str:
    """Markdown: one section a command, with its usage, help text, arguments and options."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="setwise")
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    return "\n\n".join(_section(command, context) for command in commands if command is not None)


def _section(command: typer.core.TyperCommand, parent: typer.Context) -> str:
    context = typer.Context(command, info_name=command.name, parent=parent)
    usage = " ".join(["setwise", command.name or "", *command.collect_usage_pieces(context)])
    parts = [f"## setwise {command.name}", f"```\n{usage}\n```", _markdown(command.help or "")]
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
