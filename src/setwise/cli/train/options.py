"""The options of ``setwise train``, which its kinds share; those of the columns of a file are in ``cli/columns.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="A file or folder that setwise.datasets reads.", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="The folder of setwise serve --log.", show_default=False)]
Out = Annotated[Path, typer.Option(help="The folder to save the model in.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

# --- columns that only some kinds have ---

Slate = Annotated[str | None, typer.Option(help="The column of the slate: rows of one value were shown together.")]
Outcome = Annotated[str | None, typer.Option(help="The column of the outcome of an item, 0 to 1.")]
History = Annotated[
    list[str] | None,
    typer.Option(
        "--session",
        help="The column of the user or visit, whose earlier hits are the history; by default the slate.",
    ),
]
SetColumn = Annotated[str | None, typer.Option("--set", help="The column of the set of a row.")]
OutcomeOfSet = Annotated[str | None, typer.Option("--outcome", help="The column of the outcome of a set, any number.")]
Group = Annotated[
    list[str] | None,
    typer.Option(help="The column of an item's group; several name the columns of the items, a set a row."),
]
Case = Annotated[str | None, typer.Option("--session", help="The column of the case, such as a problem or a question.")]
Success = Annotated[str | None, typer.Option("--outcome", help="The column of the outcome of a trial, 0 or 1.")]
UserColumns = Annotated[
    list[str], typer.Option(help="The columns of the features of a case, such as size,depth or 'f_*'.")
]

# --- slates ---

Position = Annotated[str | None, typer.Option(help="The column of the place of an item in its slate.")]
Explored = Annotated[str | None, typer.Option(help="The column that says whether a slate was drawn at random.")]
Propensity = Annotated[str | None, typer.Option(help="The column of the probability with which a slate was shown.")]

Plot = Annotated[Path | None, typer.Option(help="An SVG file to draw the effects in.")]

# --- items ---

Feature = Annotated[
    list[str] | None,
    typer.Option(help="A column through which items may have effects on each other; by default all attributes."),
]
Embedding = Annotated[str | None, typer.Option(help="The columns of a vector of the items: x0,x1,x2.")]
NoFeatures = Annotated[bool, typer.Option("--no-features", help="Use no column of items but those of --attribute.")]

Attribute = Annotated[
    list[str] | None,
    typer.Option(help="A column saved with the items (artist), or a name for it (title=Description)."),
]
Items = Annotated[
    Path | None, typer.Option(help="A table of one row per item, which has the columns of --attribute instead of FILE.")
]
LeastSessions = Annotated[
    int | None, typer.Option(min=1, help="Leave out items of fewer sessions; by default 3, or 1 for small data.")
]

# --- training ---

SlateSize = Annotated[int, typer.Option("--k", min=1, help="The size of the slates.")]
Heads = Annotated[int | None, typer.Option(min=1, help="Attention heads; by default 4, none for sessions.")]
Dim = Annotated[
    int | None,
    typer.Option(min=1, help="Dimension of the embeddings; by default 64 for sessions, 32 for slates, 8 for sets."),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Maximal number of epochs; by default 20, for sets 20 to 100.")]
Minutes = Annotated[
    float | None, typer.Option(min=0.01, help="Time for settings of base models; by default the data's size decides.")
]
Link = Annotated[str | None, typer.Option(help="identity, softplus or logistic; by default the outcomes decide.")]
Seed = Annotated[int, typer.Option(min=0, help="The random seed.")]
HeldOut = Annotated[
    Path | None,
    typer.Option(help="Also write the sessions that are held out to this CSV file, for setwise evaluate."),
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Folder to resume an interrupted run from; by default OUT.checkpoint.")
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default cuda where available.")]
