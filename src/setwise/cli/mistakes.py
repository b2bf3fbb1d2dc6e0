"""Sentences for mistakes on the command line: the option as it is typed, the value that came, and what to do.

Errors of the library name a parameter of Python (``budget_ms``); here it becomes the option of the command that was
called (``--budget-ms``). Errors of typer become sentences of the same form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from setwise._validation import did_you_mean
from setwise.errors import DamagedArtifact, InvalidInput

UsageError: Any = typer.BadParameter.__base__  # of every option that typer refuses; it exports no name for it
_INPUT = re.compile(r"Input should be (.*?)(?:, unable to parse.*)?")
_PARAMETER = re.compile(r"(an id of )?(\w+)(?:\['(.*)'\])?")


def sentence(error: Exception, commands: Mapping[str, Any], arguments: Sequence[str]) -> str:
    """One sentence for an error of setwise, of typer, of the file system or of the memory."""
    if isinstance(error, UsageError):
        return _usage(error, arguments)
    if isinstance(error, InvalidInput):
        command = next((commands[word] for word in arguments if word in commands), None)
        return str(error.about(_as_typed(error.parameter, _parameters(command) if command else ())))
    if isinstance(error, DamagedArtifact) and "there is no folder" in error.reason:
        saved = [manifest.parent.name for manifest in error.path.parent.glob("*/manifest.json")]
        todo = "check the path: setwise train saves a model, and setwise index what other commands read"
        todo = did_you_mean(error.path.name, saved) or todo
        must, got = "a folder that setwise saved", "a path where there is no folder"
        return str(InvalidInput(str(error.path), must, got, todo))
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder without write permission
        name = error.filename or "a file"
        return f"{name} must be one that can be read or written, got {error.strerror}; check path, rights and disk."
    if isinstance(error, MemoryError):
        wanted = str(error).rstrip(".") or "more than that"
        return (
            f"There must be enough memory for this command, but it ran out ({wanted}); use fewer items or more memory."
        )
    return str(error)


def _parameters(command: Any) -> list[Any]:
    """The parameters of a command, and those of its commands."""
    parts = getattr(command, "commands", {}).values()
    return [*command.params, *(param for part in parts for param in part.params)]


def _as_typed(parameter: str, params: Sequence[Any]) -> str:
    """``budget_ms`` as ``--budget-ms`` and ``at_most['artist']`` as ``--at-most artist``, as options are named."""
    typed = {_shown(param).lstrip("-").replace("-", "_").lower(): _shown(param) for param in params}
    parts = _PARAMETER.fullmatch(parameter)
    if parts is None or parts[2] not in typed:
        return parameter
    return f"{parts[1] or ''}{typed[parts[2]]}{' ' + parts[3] if parts[3] else ''}"


def _shown(param: Any) -> str:
    """An option or an argument as help texts show it."""
    return str(param.opts[0]) if param.opts[0].startswith("-") else str(param.name).upper()


def _usage(error: Any, arguments: Sequence[str]) -> str:
    path = "setwise" if error.ctx is None else str(error.ctx.command_path)
    see, param = f"see {path} --help", getattr(error, "param", None)
    if hasattr(error, "possibilities") and hasattr(error, "option_name"):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
        todo = did_you_mean(error.option_name, known) or see
        return str(InvalidInput(error.option_name, f"an option of {path}", "an unknown one", todo))
    if param is None:
        message = error.format_message().rstrip(".")
        return f"{message}; {see}." if not message.endswith("?") else f"{message} ({see})"
    if hasattr(error, "param_type"):  # a parameter that is missing
        what = (getattr(param, "help", None) or "").rstrip(".")
        return str(InvalidInput(_shown(param), f"given: {what}" if what else "given", "nothing", see))
    stated = _INPUT.fullmatch(error.message)
    must = stated[1] if stated else f"valid ({error.message.rstrip('.')})"
    return str(InvalidInput(_shown(param), must, _typed_value(param, arguments), see))


def _typed_value(param: Any, arguments: Sequence[str]) -> str:
    """What was typed for an option, or what its variable of the environment holds."""
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in param.opts:
            return repr(value if equals else " ".join(arguments[at + 1 : at + 2]))
    variable = param.envvar if isinstance(param.envvar, str) else ""
    return f"{os.environ[variable]!r} from {variable}" if variable in os.environ else "another value"
