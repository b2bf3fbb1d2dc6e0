"""``setwise batch``: slates for all users of a table, by processes, as one Parquet file; resumed when interrupted."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from setwise.cli import columns, query_options
from setwise.recommend.batch.run import PART_ROWS, Report, recommend_table
from setwise.recommend.batch.users import Columns
from setwise.recommend.query_texts import split
from setwise.recommend.recommender import Recommender

HISTORY = "history"
History = Annotated[
    str | None, typer.Option(help=f"The column of the history, a list or a text a,b,c; by default {HISTORY}.")
]
Vector = Annotated[
    str | None, typer.Option(help="In its place: a column of the user's numbers, all heads, then the base.")
]
Features = Annotated[
    list[str] | None, typer.Option(help="In its place: columns of a model trained with them: size,depth.")
]
WhereColumn = Annotated[
    list[str] | None, typer.Option(help="A condition from a column: city=home uses column home for city.")
]


@query_options.with_arguments("include", "scores", "scores_floor", certify=False)
def batch(
    table: Annotated[Path, typer.Argument(help="The users, one a row: Parquet, CSV, TSV or JSON Lines.")],
    model: Annotated[Path, typer.Option(help="The folder that setwise index wrote.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write: one row a user.")],
    user: Annotated[str, typer.Option(help="The column of the user's id, each once.")] = "user",
    history: History = None,
    vector: Vector = None,
    features: Features = None,
    exclude: Annotated[str | None, typer.Option(help="The column of further ids not to show.")] = None,
    where_column: WhereColumn = None,
    separator: Annotated[str, typer.Option(help="Between the ids of a text.")] = ",",
    delimiter: columns.Delimiter = None,
    certify: Annotated[bool, typer.Option(help="Also compute upper bounds, about 100 ms a user.")] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")] = None,
    part_rows: Annotated[int, typer.Option(min=1, help="Users that are computed and saved together.")] = PART_ROWS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
    **texts: Any,
) -> None:
    """Recommend for every user of a table. If it is interrupted, run it again: it continues.

    Finished parts are kept beside the output, which appears when all are there. A user whose row is refused has a row
    without items and the reason in column error.

    Example: [bold]setwise batch users.parquet --model shop/ --out slates.parquet[/bold]
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # each process computes on one core
    described = history if history or vector or features else HISTORY
    of_features, filters = tuple(split(features or ())), _pairs(where_column)
    named = Columns(user, described, vector, of_features, exclude, filters, separator)
    report = recommend_table(
        table,
        model,
        out,
        named,
        processes=processes,
        part_rows=part_rows,
        delimiter=delimiter,
        certify=certify,
        **query_options.arguments(lambda: Recommender.load(model, certify=False).index.catalog, texts),
    )
    if as_json:
        print(json.dumps(asdict(report) | {"users_per_second": report.users_per_second, "saved": str(out)}))
    else:
        Console().print(_summary(report, out), highlight=False, soft_wrap=True, markup=False)


def _pairs(texts: list[str] | None) -> dict[str, str]:
    """``city=home`` as {"city": "home"}: the attribute and its column."""
    result: dict[str, str] = {}
    for text in texts or ():
        attribute, column = query_options.pair("--where-column", text, "city=home")
        query_options.require_new("--where-column", attribute, result)
        result[attribute] = column
    return result


def _summary(report: Report, out: Path) -> str:
    former = f", {report.resumed:,} of them by a former run" if report.resumed else ""
    text = f"{report.users:,} users in {out}{former}.\n"
    if report.computed:
        seconds, rate = report.seconds, report.users_per_second
        text += f"{report.computed:,} in {seconds:,.1f} s with {report.processes} processes: {rate:,.1f} a second.\n"
    if report.errors:
        text += f"{report.errors:,} users have no slate; the first error: {report.first_error}\n"
    if report.ignoring:
        text += f"{report.ignoring:,} users have ids that the model does not have, seen or excluded: ignored. "
        text += f"The first: {report.first_ignored!r:.80}"
    return text.rstrip()
