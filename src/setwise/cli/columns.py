"""Options that describe the columns of a data file, shared by the commands that read one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.cli.query_options import require_new
from setwise.datasets import Sessions, Slates, read
from setwise.errors import InvalidInput

Session = Annotated[
    list[str] | None,
    typer.Option("--session", help="The column of the session; give it twice for a session identified by two columns."),
]
Item = Annotated[str | None, typer.Option("--item", help="The column of the item.")]
Time = Annotated[str | None, typer.Option("--time", help="The column to order a session by.")]
TimeFormat = Annotated[str | None, typer.Option("--time-format", help="The format of times, such as %d/%m/%Y.")]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="The delimiter; by default the header decides.")]
NoTime = Annotated[bool, typer.Option("--no-time", help="Keep the order of the file, whatever the times.")]
Quantity = Annotated[
    str | None,
    typer.Option(
        "--quantity",
        help="The column of quantities, by default one named so; rows of negative ones (returns) are left out.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option("--split", help="What is held out: random sessions (the default), or with time the latest ones."),
]
Baskets = Annotated[bool, typer.Option("--baskets", help="No header, and every line is a basket of items.")]
OnError = Annotated[
    str | None, typer.Option("--on-error", help="Stop at a malformed row (the default), or skip such rows.")
]


@contextmanager
def path_of(argument: str) -> Iterator[None]:
    """Errors about a path name this argument of the command."""
    try:
        yield
    except InvalidInput as error:
        raise (error.about(argument) if error.parameter == "path" else error) from None


def read_named(argument: str, path: Path, options: dict[str, Any]) -> Sessions | Slates:
    """The data of a file, whose path is this argument of the command."""
    with path_of(argument):
        return read(path, **options)


def reader_options(
    session: list[str] | None, no_time: bool = False, baskets: bool = False, **columns: Any
) -> dict[str, Any]:
    """The arguments of ``datasets.read``: the options that were given."""
    named = {"session": session[0] if session is not None and len(session) == 1 else session, **columns}
    stated = {name: value for name, value in named.items() if value is not None}
    if no_time and "time" in stated:
        raise InvalidInput("--no-time", "absent beside --time", "both", "leave one of them out")
    return stated | ({"time": None} if no_time else {}) | ({"baskets": True} if baskets else {})


def attribute_columns(texts: list[str] | None) -> dict[str, str] | None:
    """``title=Description`` and ``artist`` as {"title": "Description", "artist": "artist"}."""
    if texts is None:
        return None
    result: dict[str, str] = {}
    for text in texts:
        name, equals, column = (part.strip() for part in text.partition("="))
        if not name or (equals and not column):
            must = "a column, or a name, = and a column, such as title=Description"
            raise InvalidInput("--attribute", must, repr(text), "name the column")
        require_new("--attribute", name, result)
        result[name] = column or name
    return result
