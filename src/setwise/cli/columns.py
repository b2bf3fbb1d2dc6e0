"""How a table is to be read: the options that every verb with a data file shares."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Session = Annotated[
    list[str] | None, typer.Option("--session", help="Table: the column of the session; two or more make one together.")
]
Item = Annotated[str | None, typer.Option("--item", help="Table: the column of the item.")]
Time = Annotated[str | None, typer.Option("--time", help="Table: the column to order a session by.")]
TimeFormat = Annotated[
    str | None, typer.Option("--time-format", help="Table: how times are written, such as %d/%m/%Y.")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Table: what parts the cells, where the file's name does not tell.")
]


def given(session: list[str] | None, **columns: Any) -> dict[str, Any]:
    """What ``datasets.read`` takes, of what was typed."""
    named = {"session": session[0] if session is not None and len(session) == 1 else session, **columns}
    return {name: value for name, value in named.items() if value is not None}
