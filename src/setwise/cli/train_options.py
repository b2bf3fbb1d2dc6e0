"""The options of ``setwise train`` beside those that other commands share (columns.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[
    Path | None, typer.Argument(help="Sessions, slates or sets: a file or folder that setwise.datasets reads.")
]
Slate = Annotated[str | None, typer.Option(help="Table: the column of the slate within a session.")]
Outcome = Annotated[
    str | None, typer.Option(help="Table: the column of the outcome, of an item (0 to 1) or of a set (any number).")
]
SetColumn = Annotated[str | None, typer.Option("--set", help="Sets: the column of the set of a row.")]
Group = Annotated[
    list[str] | None,
    typer.Option(help="Sets: the column of an item's group; several name the columns of the items, a set a row."),
]
Link = Annotated[str | None, typer.Option(help="Sets: identity, softplus or logistic; by default the outcomes decide.")]
UserColumns = Annotated[
    list[str] | None,
    typer.Option(help="Cases: columns of features, such as size,depth or 'f_*'; one item of a set must succeed."),
]
Attribute = Annotated[
    list[str] | None,
    typer.Option(help="Table: a column saved with the items (artist), or a name for it (title=Description)."),
]
Items = Annotated[
    Path | None, typer.Option(help="A table of one row per item, which has the columns of --attribute instead of FILE.")
]
LeastSessions = Annotated[
    int | None, typer.Option(min=1, help="Leave out items of fewer sessions; by default 3, or 1 for small data.")
]
Heads = Annotated[int | None, typer.Option(min=1, help="Attention heads; by default 4.")]
Dim = Annotated[
    int | None,
    typer.Option(min=1, help="Dimension of the embeddings; by default 64 for sessions, 32 for slates, 8 for sets."),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Maximal number of epochs; by default 20, for sets 20 to 100.")]
Minutes = Annotated[
    float | None,
    typer.Option(min=0.01, help="Sessions: time for settings of base models; by default the data's size decides."),
]
HeldOut = Annotated[
    Path | None,
    typer.Option(help="Sessions: also write the sessions that are held out to this CSV file, for setwise evaluate."),
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Folder to resume an interrupted run from; by default OUT.checkpoint.")
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default cuda where available.")]
