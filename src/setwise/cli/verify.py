"""``setwise verify``: check a saved slate against its catalogue with code independent of the rankers and bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from setwise.datasets.text_files import existing_file
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index
from setwise.storage import artifact
from setwise.verification.verify import MAX_NODES, Verification
from setwise.verification.verify import verify as verified


def verify(
    slate: Annotated[Path, typer.Argument(help="The file that setwise recommend --save wrote.")],
    catalog: Annotated[
        Path, typer.Option(help="The folder of the saved catalogue, or of an index or a recommender with it.")
    ],
    nodes: int = typer.Option(MAX_NODES, min=1, help="Maximum number of nodes of the proof of the upper bound."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of a table."),
) -> None:
    """Check a saved slate: it is feasible, its value is correct, and its upper bound holds for every feasible set.

    Exit status: 0 if every check passes, 1 if one fails, 2 if a file cannot be read.

    Example: [bold]setwise verify slate.json --catalog songs/[/bold]
    """
    try:
        existing_file(slate)
    except InvalidInput as error:
        raise error.about("SLATE") from None
    items = _load_catalog(catalog)
    result = verified(slate, items, nodes=nodes)
    if as_json:
        print(json.dumps(_report(result)))
    else:
        Console().print(_table(result))
    raise typer.Exit(0 if result.ok else 1)


def _load_catalog(folder: Path) -> Catalog:
    """The catalogue of a saved catalogue, index or recommender."""
    saved = artifact.read(folder, "catalog", "index", "recommender")
    if saved.kind == "catalog":
        return Catalog.load(folder)
    return (
        Index.load(folder).catalog if saved.kind == "index" else Recommender.load(folder, certify=False).index.catalog
    )


def _report(result: Verification) -> dict[str, object]:
    return {
        "ok": result.ok,
        "value": result.value if math.isfinite(result.value) else None,
        "upper_bound": result.upper_bound if math.isfinite(result.upper_bound) else None,
        "checks": [{"name": check.name, "ok": check.ok, "sentence": check.sentence} for check in result.checks],
    }


def _table(result: Verification) -> Table:
    table = Table(title="The slate is valid" if result.ok else "The slate is not valid")
    for heading in ("check", "", "result"):
        table.add_column(heading)
    for check in result.checks:
        table.add_row(check.name, "[green]ok[/green]" if check.ok else "[red]no[/red]", check.sentence)
    return table
