"""``setwise evaluate``: a saved recommender and slates of other systems on the same held-out sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from setwise._progress import Progress
from setwise._types import SLATE_SIZE
from setwise.cli import columns, log_options, query_options
from setwise.cli.evaluate_log import evaluate_log
from setwise.cli.held_out import drawn_histories, read_sessions, require_other_file
from setwise.cli.other_slates import named_files, read_slates, write_histories
from setwise.cli.slate_metrics import HITS, VARIETY, by_time, quality
from setwise.cli.train.data import TIME, require_split
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.ranking import DEFAULT, RANKERS
from setwise.ranking.beam import BEAM
from setwise.ranking.greedy import GREEDY
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate
from setwise.training.calibration import reliability

COMPARED = tuple(dict.fromkeys((DEFAULT.name, *(ranker.name for ranker in RANKERS.values() if ranker.interactive))))
SEARCHES = (GREEDY.name, BEAM.name)  # without attention they choose the items of top-k, and beam search takes long
BINS = 5  # of the reliability diagram
Most = Annotated[int, typer.Option(min=1, help="The number of sessions, drawn at random where there are more.")]
OtherSlates = Annotated[
    list[Path] | None, typer.Option(help="Slates of another system: lines of JSON, made from the file of --histories.")
]
BESIDE_LOG = ("log", "wait", "as_json")  # parameters
BATCH = 16  # sessions per call, and per update of the progress bar


def evaluate(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Argument(help="The folder that setwise index wrote for a model.")] = None,
    sessions: Annotated[
        Path | None, typer.Argument(help="Held-out sessions: any file that setwise.datasets reads.")
    ] = None,
    log: log_options.Log = None,
    wait: log_options.Wait = log_options.WAIT_H,
    session: columns.Session = None,
    item: columns.Item = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    delimiter: columns.Delimiter = None,
    no_time: columns.NoTime = False,
    quantity: columns.Quantity = None,
    baskets: columns.Baskets = False,
    on_error: columns.OnError = None,
    k: query_options.SlateSize = SLATE_SIZE,
    ranker: Annotated[
        list[str] | None, typer.Option(help=f"A ranker to evaluate; by default {', '.join(COMPARED)}.")
    ] = None,
    most: Most = 200,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the draw.")] = 0,
    split_by: columns.Split = None,
    slates: OtherSlates = None,
    histories: Annotated[
        Path | None,
        typer.Option(help="Write what is known of each session to this file, for another system, and stop."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Recommend a slate for the first items of every held-out session, and count hits among its other items.

    To compare another system, write the known items of every session with --histories, have it recommend for them,
    and pass its slates with --slates. With --log in place of a folder and sessions: what slates that were served have
    promised, and what they had, by week.

    Example: [bold]setwise evaluate songs/ held_out.csv --session playlist --item track[/bold]
    """
    _refuse_ignored(context, log)
    if log is not None:
        return evaluate_log(log, wait, as_json)
    require_other_file("--histories", histories, sessions)
    recommender = Recommender.load(_given("FOLDER", folder)).prepare()
    catalog = recommender.index.catalog
    table = {"time_format": time_format, "delimiter": delimiter, "on_error": on_error, "quantity": quantity}
    named = columns.reader_options(session, no_time, baskets, item=item, time=when, **table)
    held_out, unknown = read_sessions(_given("SESSIONS", sessions), named, catalog)
    split = drawn_histories(held_out, most, seed, by := require_split(split_by, held_out))
    if histories is not None:
        write_histories(histories, split, catalog)
        sentence = f"{len(split):,} histories are in {histories}. Pass the slates for them with --slates."
        print(json.dumps({"histories": len(split), "saved": str(histories)}) if as_json else sentence)
        return
    others = {name: read_slates(path, split, catalog, k) for name, path in named_files(slates or []).items()}
    results = [_Result.of(recommender, name, split, k) for name in _compared(ranker, catalog)]
    report = _report(results, others, split, k, catalog, by) | {"unknown_entries": unknown, "of": len(held_out)}
    if as_json:
        print(json.dumps(report))
    else:
        _print(Console(), report)


def _refuse_ignored(context: typer.Context, log: Path | None) -> None:
    """Refuse options that would be ignored: beside --log all but --wait, without it --wait."""
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        name = param.opts[0] if param.opts[0].startswith("-") else param.opts[0].upper()
        got = context.params[str(param.name)]
        if log is not None and param.name not in BESIDE_LOG:
            raise InvalidInput(name, "left out beside --log", got, "leave out one of the two")
        if log is None and param.name == "wait":
            raise InvalidInput(name, "given with --log only", got, "leave it out, or add --log")


def _compared(rankers: list[str] | None, catalog: Catalog) -> dict[str, None]:
    """The rankers that are evaluated, each once."""
    return dict.fromkeys(rankers or (ranker for ranker in COMPARED if catalog.attends or ranker not in SEARCHES))


def _report(
    results: Sequence[_Result], others: Mapping[str, Ragged], split: HistorySplit, k: int, catalog: Catalog, by: str
) -> dict[str, Any]:
    def measured(shown: Ragged) -> dict[str, Any]:
        times = {"by_time": by_time(shown, split, k, catalog)} if by == TIME else {}
        return quality(shown, split, k, catalog) | times

    return {
        "sessions": len(split),
        "split": by,
        "k": k,
        "attends": catalog.attends,
        "rankers": [result.row() | measured(result.shown) for result in results],
        "others": [{"name": name} | measured(shown) for name, shown in others.items()],
        "reliability": {"ranker": results[0].ranker, "rows": results[0].reliability()},
    }


def _given(name: str, path: Path | None) -> Path:
    if path is None:
        raise InvalidInput(name, "given, or --log DIR in place of both arguments", "nothing", "name it")
    return path


@dataclass(frozen=True, eq=False)
class _Result:
    """The slates of one ranker, and whether each item shown is a hit."""

    ranker: str
    slates: Sequence[Slate]
    hit: NDArray[np.float32]  # aligned with the items of all slates

    @classmethod
    def of(cls, recommender: Recommender, ranker: str, split: HistorySplit, k: int) -> _Result:
        catalog, slates = recommender.index.catalog, list[Slate]()
        histories = [catalog.ids[seen] for seen in split.history]
        with Progress(f"ranking by {ranker}", len(histories)) as bar:
            for start in range(0, len(histories), BATCH):
                batch = histories[start : start + BATCH]
                slates += recommender.recommend_many(histories=batch, k=k, ranker=ranker, certify=False)
                bar.advance(len(batch))
        return cls(ranker, slates, split.outcomes(Ragged.of([slate.indices for slate in slates])))

    @property
    def shown(self) -> Ragged:
        """The items of each slate."""
        return Ragged.of([slate.indices for slate in self.slates])

    def row(self) -> dict[str, Any]:
        """The ranker, its predicted hits, and its time."""
        return {
            "ranker": self.ranker,
            "predicted": float(np.mean([slate.value for slate in self.slates])),
            "milliseconds": float(np.mean([slate.timings["rank"] for slate in self.slates])),
        }

    def reliability(self) -> list[dict[str, Any]]:
        """The reliability diagram of the predictions, item by item."""
        return reliability(np.concatenate([slate.rewards for slate in self.slates]), self.hit, BINS).rows()


def _print(console: Console, report: dict[str, Any]) -> None:
    unknown = report["unknown_entries"]
    latest = ", the latest" if report["split"] == TIME else ""
    history = "The first items are the history; a hit is a slate's item among the others."
    left_out = f" {unknown:,} entries are not in the catalogue and were left out." if unknown else ""
    drawn = ", drawn at random" if report["split"] != TIME else ""
    few = f" of {report['of']:,}{drawn} (--most)" if report["sessions"] < report["of"] else ""
    console.print(f"{report['sessions']:,} sessions{few}{latest}. {history}{left_out}", highlight=False)
    rows = report["rankers"] + report["others"]
    console.print(_measures(f"\nHits per slate of {report['k']}", rows, {"predicted": "predicted", **HITS}))
    console.print(_measures("\nWhat is shown", rows, {**VARIETY, "milliseconds": "ms"}))
    if report["split"] == TIME:
        console.print(_periods(rows))
    table = Table(title=f"\nPredictions of {report['reliability']['ranker']}, item by item", title_justify="left")
    for heading in ("items", "predicted", "observed"):
        table.add_column(heading, justify="right")
    for row in report["reliability"]["rows"]:
        table.add_row(f"{row['count']:,}", f"{row['predicted']:.1%}", f"{row['observed']:.1%}")
    console.print(table)
    console.print("Sessions do not record rejections: a miss may still be relevant.")
    if not report["attends"]:
        console.print("The model has no attention, so swap, greedy and beam search choose the items of top-k.")


def _periods(rows: list[dict[str, Any]]) -> Table:
    """Observed hits of the sessions of each period, with their standard errors."""
    table = Table("ranker", title="\nHits by time, from the earliest sessions to the latest", title_justify="left")
    for number, part in enumerate(rows[0]["by_time"], 1):
        table.add_column(f"{number}: {part['sessions']:,} sessions", justify="right")
    for row in rows:
        cells = (f"{part['observed']:.3f} ± {part['error']:.3f}" for part in row["by_time"])
        table.add_row(row.get("ranker") or row["name"], *cells)
    return table


def _measures(title: str, rows: list[dict[str, Any]], names: dict[str, str]) -> Table:
    """A table of these measures, empty where a row lacks one."""
    table = Table("ranker", title=title, title_justify="left")
    for heading in names.values():
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (f"{row[name]:.3f}" if name in row else "" for name in names)
        table.add_row(row.get("ranker") or row["name"], *cells)
    return table
