"""``setwise evaluate``: a saved recommender on sessions that took no part in learning, its promises and its hits."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from setwise._progress import Progress
from setwise.cli import columns
from setwise.datasets import Sessions, Slates, read
from setwise.errors import InvalidInput, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate
from setwise.training.calibration import reliability
from setwise.training.examples import Cuts

RANKERS = ("swap", "greedy", "beam", "knn")
BINS = 5  # of the reliability diagram
TOGETHER = 16  # sessions between two looks at the progress bar


def evaluate(
    folder: Annotated[Path, typer.Argument(help="What setwise index wrote of a model.")],
    sessions: Annotated[Path, typer.Argument(help="Sessions held out: any file that setwise.datasets reads.")],
    session: columns.Session = None,
    item: columns.Item = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    delimiter: columns.Delimiter = None,
    k: Annotated[int, typer.Option(min=1, help="How long the slates are.")] = 10,
    ranker: Annotated[
        list[str] | None, typer.Option(help="A ranker to try; swap, greedy, beam and knn unless given.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Sessions to look at, drawn at random where there are more.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides which sessions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show slates for the first part of held-out sessions, and count how many items the rest of them holds.

    Example: [bold]setwise evaluate songs/ held_out.csv --session playlist --item track[/bold]
    """
    recommender = Recommender.load(folder)
    named = columns.given(session, item=item, time=when, time_format=time_format, delimiter=delimiter)
    held, unknown = _held(sessions, named, recommender.index.catalog)
    drawn = held.taken(np.sort(np.random.default_rng(seed).permutation(len(held))[:most]))
    cuts = Cuts.first(drawn.shuffled_where_unordered(seed))
    tried = [_Tried.by(recommender, name, cuts, k) for name in dict.fromkeys(ranker or RANKERS)]
    report = {
        "sessions": len(cuts.history),
        "unknown_entries": unknown,
        "k": k,
        "rankers": [one.row() for one in tried],
        "reliability": {"ranker": tried[0].ranker, "rows": tried[0].reliability()},
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(Console(), report)


def _held(path: Path, named: dict[str, Any], catalog: Catalog) -> tuple[Sessions, int]:
    """The sessions in rows of the catalogue, of two known items or more, and how many entries it does not know."""
    data = read(path, **named)
    if isinstance(data, Slates):
        todo = "setwise train judges logged slates"
        raise InvalidInput("sessions", "what people put together", "slates with outcomes", todo)
    row_of = np.array([_row(catalog, one) for one in data.ids], np.int64)
    rows = row_of[data.items.values]
    known = data.items.kept(rows >= 0)
    items = Ragged.cut(row_of[known.values], known.lengths)
    whole = Sessions(items, catalog.ids[np.arange(len(catalog))].tolist(), ordered=data.ordered)
    long = np.flatnonzero(whole.distinct().items.lengths >= 2)
    if not len(long):
        raise InvalidInput("sessions", "some with two items of the catalogue or more", "none", "check the ids")
    return whole.taken(long), int(np.count_nonzero(rows < 0))


def _row(catalog: Catalog, one: Any) -> int:
    try:
        return int(catalog.rows_of([one])[0])
    except UnknownId:
        return -1


@dataclass(frozen=True, eq=False)
class _Tried:
    """Slates of one ranker: what each item shown promised, and whether it was a hit."""

    ranker: str
    slates: Sequence[Slate]
    hit: NDArray[np.float32]  # aligned with the items of all slates

    @classmethod
    def by(cls, recommender: Recommender, ranker: str, cuts: Cuts, k: int) -> _Tried:
        catalog, slates = recommender.index.catalog, list[Slate]()
        histories = [catalog.ids[known] for known in cuts.history]
        with Progress(f"showing slates by {ranker}", len(histories)) as bar:
            for start in range(0, len(histories), TOGETHER):
                some = histories[start : start + TOGETHER]
                slates += recommender.recommend_many(histories=some, k=k, ranker=ranker, certify=False)
                bar.advance(len(some))
        return cls(ranker, slates, cuts.judged(Ragged.of([slate.indices for slate in slates])))

    def row(self) -> dict[str, Any]:
        """Hits a slate, promised and had, and the standard error of the latter."""
        owner = np.repeat(np.arange(len(self.slates)), [len(slate) for slate in self.slates])
        hits = np.bincount(owner, weights=self.hit, minlength=len(self.slates))
        return {
            "ranker": self.ranker,
            "promised": float(np.mean([slate.value for slate in self.slates])),
            "had": float(hits.mean()),
            "error": float(hits.std() / math.sqrt(len(hits))),
            "milliseconds": float(np.mean([slate.timings["rank"] for slate in self.slates])),
        }

    def reliability(self) -> list[dict[str, Any]]:
        """Promises item by item, from the lowest to the highest."""
        return reliability(np.concatenate([slate.rewards for slate in self.slates]), self.hit, BINS).rows()


def _print(console: Console, report: dict[str, Any]) -> None:
    unknown = report["unknown_entries"]
    console.print(
        f"{report['sessions']:,} sessions: the first items are known, a hit is one that the rest holds."
        + (f" {unknown:,} entries are not in the catalogue and left out." if unknown else ""),
        highlight=False,
    )
    table = Table("ranker", title=f"\nHits a slate of {report['k']}", title_justify="left")
    for heading in ("promised", "had", "±", "ms"):
        table.add_column(heading, justify="right")
    for row in report["rankers"]:
        table.add_row(
            row["ranker"], *(f"{row[name]:.3f}" for name in ("promised", "had", "error")), f"{row['milliseconds']:.1f}"
        )
    console.print(table)
    table = Table(title=f"\nPromises of {report['reliability']['ranker']}, item by item", title_justify="left")
    for heading in ("items", "promised", "were hits"):
        table.add_column(heading, justify="right")
    for row in report["reliability"]["rows"]:
        table.add_row(f"{row['count']:,}", f"{row['promised']:.1%}", f"{row['observed']:.1%}")
    console.print(table)
    console.print("Sessions do not say what was refused, so a miss may still be liked.")
