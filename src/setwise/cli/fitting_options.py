"""Options that fit together: one that would be ignored beside another, or without it, is refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import typer

from setwise.errors import InvalidInput


def require_fitting(
    context: typer.Context, option: str, beside: Collection[str], with_it: Collection[str] = ()
) -> None:
    """Refuse options that would be ignored: beside ``option`` all but ``beside``, without it ``with_it``.

    ``option``, ``beside`` and ``with_it`` are parameters of the command.
    """
    names = {one.name: _typed(one) for one in context.command.params}
    given = {name for name in names if name and _is_given(context, name)}
    ignored = given - {option, *beside} if option in given else given & set(with_it)
    if ignored:
        first = min(ignored)
        must, todo = f"given with {names[option]} only", f"leave it out, or add {names[option]}"
        if option in given:
            must, todo = f"left out beside {names[option]}", "leave out one of the two"
        raise InvalidInput(names[first], must, context.params[first], todo)


def _typed(parameter: Any) -> str:
    """The parameter as users type it: ``--set``, or ``FILE`` for an argument."""
    first = str(parameter.opts[0])
    return first if first.startswith("-") else first.upper()


def _is_given(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
