"""``setwise rerank``: the best set of the candidates in a file, or of each of its lists."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise._validation import escaped
from setwise.cli import query_options
from setwise.cli.candidate_file import read_candidates
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.attributes import Attributes, Strings
from setwise.recommend.arguments import OPTIONS
from setwise.recommend.query_texts import split
from setwise.recommend.rerank import Order, rerank_data, rerank_table
from setwise.recommend.rerank.candidates import IDS, SCORES, VECTORS, found_among
from setwise.recommend.rerank.requests import ARGUMENTS as LIST_ARGUMENTS

OTHERS = tuple(name for name in OPTIONS if name not in LIST_ARGUMENTS)  # that a list cannot have


@query_options.with_arguments(*OTHERS)
def rerank(
    file: Annotated[Path, typer.Argument(help="Candidates with a score: .csv, .tsv, .jsonl or .parquet.")],
    diversity: Annotated[
        float | None, typer.Option(help="From 0 (the highest scores) to 1; 0.25 where there is something to compare.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Attributes by which candidates are alike, instead of vectors.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="setwise, mmr or dpp.")] = "setwise",
    effects: Annotated[
        Path | None,
        typer.Option(help="The folder of a model of effects, by setwise train slates, in place of diversity."),
    ] = None,
    lists: Annotated[
        str | None, typer.Option(help="A column that names the list of each row: every list is re-ranked by itself.")
    ] = None,
    certify: Annotated[bool, typer.Option("--certify", help="Compute an upper bound, in about 20 ms.")] = False,
    save: Annotated[Path | None, typer.Option(help="A file for the result: .csv, .jsonl or .parquet.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    **texts: Any,
) -> None:
    """Re-rank a list: the best set of candidates that have scores already. No catalogue is needed.

    Columns: score, and perhaps id, vector and any attributes, for rules and for --by.

    Example: [bold]setwise rerank candidates.csv --k 10 --at-most brand=2 --where stock=1..[/bold]
    """
    columns = read_candidates(file, [] if lists is None else [lists])
    arguments = query_options.arguments(lambda: _typed(columns, lists), texts)  # type: ignore[arg-type,return-value]
    arguments |= {"strategy": strategy, "diversity": diversity, "by": split(by) if by else None}
    model = None if effects is None else _model(effects)
    if lists is None:
        _one(rerank_data({"candidates": columns, **_in_json(arguments)}, model), certify, save, as_json)
    else:
        arguments |= {"effects": model}
        _many(columns, lists, {name: part for name, part in arguments.items() if part is not None}, save, as_json)


def _model(folder: Path) -> Any:
    from setwise.training import SimpleTransformer

    return SimpleTransformer.load(folder)


class _Ids(NamedTuple):
    values: Strings | None


class _Typed(NamedTuple):
    """What decides the meaning of texts, as a catalogue does: the attributes, and whether ids are texts."""

    attributes: Attributes
    ids: _Ids


def _typed(columns: dict[str, Any], lists: str | None) -> _Typed:
    used = {*IDS, *SCORES, *VECTORS, lists}
    score = columns.get(found_among(columns, SCORES) or "", [])
    table = {name: cells for name, cells in columns.items() if name not in used}
    named = columns.get(found_among(columns, IDS) or "", [0])
    texts = any(isinstance(id_, str) for id_ in named)
    return _Typed(Attributes.of(table, len(score)), _Ids(Strings.pack([]) if texts else None))


def _in_json(arguments: dict[str, Any]) -> dict[str, Any]:
    """Ranges as the one form of a list has them."""
    where = arguments.get("where")
    if where is None:
        return arguments
    ranges = {
        name: {"from": part[0], "to": part[1]} if isinstance(part, tuple) else part for name, part in where.items()
    }
    return arguments | {"where": ranges}


def _one(order: Order, certify: bool, save: Path | None, as_json: bool) -> None:
    content = order.to_dict(certify=certify)
    if save is not None:
        _write(save, {name: [item[name] for item in content["items"]] for name in ("id", "score", "reward")})
    if as_json:
        print(json.dumps(content))
        return
    console, table = Console(), Table("", "id", title="The best set", title_justify="left")
    for heading in ("score", "reward"):
        table.add_column(heading, justify="right")
    for rank, item in enumerate(content["items"], 1):
        cells = (f"{item['score']:.4g}", f"{item['reward']:.4f}")
        table.add_row(str(rank), escape(escaped(str(item["id"]))), *cells)
    console.print(table)
    bound = "" if not certify else ", proven optimal" if order.proven else f", upper bound {order.upper_bound:.4f}"
    console.print(f"Value {order.value:.4f}{bound}; {order.given_up:.0%} of the scores given up.", highlight=False)
    _print_notes(console, order.notes)


def _many(columns: dict[str, Any], lists: str, arguments: dict[str, Any], save: Path | None, as_json: bool) -> None:
    result = rerank_table(columns, group=lists, **arguments)
    if save is not None:
        _write(save, result.columns)
    if as_json:
        rows = [dict(zip(result.columns, cells, strict=True)) for cells in zip(*result.columns.values(), strict=True)]
        print(json.dumps({"rows": rows, "notes": result.notes, "failed": result.failed}))
    elif save is None:
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        writer.writerows(zip(*result.columns.values(), strict=True))
    console = Console(stderr=True)
    for name, reason in result.failed.items():
        console.print(f"{escape(escaped(str(name)))}: {escape(reason)}", highlight=False, soft_wrap=True)


def _print_notes(console: Console, notes: dict[str, list[Any]]) -> None:
    for reason, ids in notes.items():
        shown = ", ".join(escape(escaped(str(id_))) for id_ in ids)
        console.print(f"{reason.replace('_', ' ')}: {shown}", highlight=False)


def _write(path: Path, columns: dict[str, list[Any]]) -> None:
    """The columns as a file of the kind that its name says."""
    rows = zip(*columns.values(), strict=True)
    if path.suffix == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise MissingDependency("pyarrow", "writing Parquet", "parquet") from None
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows), "utf-8")
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(columns), *rows])
    else:
        raise InvalidInput("--save", "a file .csv, .jsonl or .parquet", path.name, "choose one of those")
