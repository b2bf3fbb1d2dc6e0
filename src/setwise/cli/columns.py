"""Options that describe the columns of a data file, shared by the commands that read one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Session = Annotated[
    list[str] | None,
    typer.Option(
        "--session", help="Table: the column of the session; give it twice for a session identified by two columns."
    ),
]
Item = Annotated[str | None, typer.Option("--item", help="Table: the column of the item.")]
Time = Annotated[str | None, typer.Option("--time", help="Table: the column to order a session by.")]
TimeFormat = Annotated[str | None, typer.Option("--time-format", help="Table: the format of times, such as %d/%m/%Y.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Table: the delimiter, unless the file is .csv or .tsv.")
]


def reader_options(session: list[str] | None, **columns: Any) -> dict[str, Any]:
    """The arguments of ``datasets.read``: the options that were given."""
    named = {"session": session[0] if session is not None and len(session) == 1 else session, **columns}
    return {name: value for name, value in named.items() if value is not None}
