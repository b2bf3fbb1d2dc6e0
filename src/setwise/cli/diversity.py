"""``setwise diversity``: how much diversity logged lists with outcomes want."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from setwise.cli.candidate_file import read_candidates
from setwise.recommend.query_texts import split
from setwise.recommend.rerank import fit_diversity


def diversity(
    file: Annotated[Path, typer.Argument(help="Lists that were shown: .csv, .tsv, .jsonl or .parquet.")],
    lists: Annotated[str | None, typer.Option(help="The column that names the list of each row.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Attributes by which candidates are alike, instead of vectors.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn how much diversity your lists want, with its error, from outcomes of lists that were shown.

    Columns: the list, score, outcome, and perhaps place, id, vector and attributes.

    Example: [bold]setwise diversity shown.csv --lists session --by brand[/bold]
    """
    learned = fit_diversity(
        read_candidates(file, [] if lists is None else [lists]), group=lists, by=split(by) if by else None
    )
    if as_json:
        print(json.dumps(asdict(learned) | {"found": learned.found, "diversity": learned.diversity}))
    else:
        text = str(learned)
        print(f"{text[:1].upper()}{text[1:]}.")
