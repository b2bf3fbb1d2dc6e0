"""``setwise bench``: the latency of a saved recommender by phase, and its throughput with one thread and all cores."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from setwise._progress import Progress
from setwise._types import SLATE_SIZE
from setwise._validation import available_cores
from setwise.cli import query_options
from setwise.recommend.recommender import Recommender
from setwise.recommend.sample_users import sample_users
from setwise.recommend.slate import Slate

HISTORY = 10  # items of a random history
WARM_UP = 5  # requests that are not measured


def bench(
    folder: Annotated[Path, typer.Argument(help="The folder that setwise index wrote.")],
    requests: Annotated[int, typer.Option(min=1, help="Requests to measure.")] = 100,
    k: query_options.SlateSize = SLATE_SIZE,
    budget_ms: Annotated[float | None, typer.Option(help="Time limit of a request in milliseconds.")] = None,
    ranker: Annotated[str | None, typer.Option(help="The ranker, as in setwise recommend.")] = None,
    certify: Annotated[bool, typer.Option(help="Compute an upper bound for each slate.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random users.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Measure requests after a warm-up, for random histories or features, or random vectors of users without either.

    Example: [bold]setwise bench songs/ --requests 200 --budget-ms 20[/bold]
    """
    recommender = Recommender.load(folder).prepare()
    argument, users, _ = sample_users(recommender, requests + WARM_UP, HISTORY, seed)
    options: dict[str, Any] = {"k": k, "budget_ms": budget_ms, "ranker": ranker, "certify": certify}

    def request(number: int) -> Slate:
        return recommender.recommend(**{argument: users[number]}, **options)

    for number in range(WARM_UP):
        request(number)
    measured, threads = range(WARM_UP, WARM_UP + requests), available_cores()
    with Progress("measuring", requests * len({1, threads})) as bar:
        runs = {count: _Run.of(request, measured, count, bar) for count in sorted({1, threads})}
    report = {
        "items": len(recommender.index.catalog),
        "cells": recommender.index.partition.n_cells,
        "requests": requests,
        "milliseconds": runs[1].milliseconds(),
        "requests_per_second": {str(count): run.rate for count, run in runs.items()},
        "proven": float(np.mean([slate.proven for slate in runs[1].slates])),
        "gap": float(np.mean([slate.gap for slate in runs[1].slates])),
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(Console(), report)


@dataclass(frozen=True, eq=False)
class _Run:
    """The results of all requests on a number of threads."""

    slates: Sequence[Slate]
    each: Sequence[float]  # milliseconds of each request
    rate: float  # requests per second

    @classmethod
    def of(cls, request: Callable[[int], Slate], numbers: range, threads: int, bar: Progress) -> _Run:
        def timed(number: int) -> tuple[Slate, float]:
            start = time.perf_counter()
            slate = request(number)
            spent = 1000 * (time.perf_counter() - start)
            bar.advance(1)
            return slate, spent

        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            slates, each = zip(*pool.map(timed, numbers), strict=True)
        return cls(slates, each, len(numbers) / (time.perf_counter() - began))

    def milliseconds(self) -> dict[str, dict[str, float]]:
        """The median and the 95th percentile by phase."""
        phases = {phase: [slate.timings[phase] for slate in self.slates] for phase in self.slates[0].timings}
        return {
            phase: {"p50": float(np.percentile(spent, 50)), "p95": float(np.percentile(spent, 95))}
            for phase, spent in {**phases, "all": self.each}.items()
        }


def _print(console: Console, report: dict[str, Any]) -> None:
    console.print(
        f"{report['requests']:,} requests after warm-up, {report['items']:,} items in {report['cells']:,} cells",
        highlight=False,
    )
    table = Table("phase")
    for heading in ("p50 ms", "p95 ms"):
        table.add_column(heading, justify="right")
    for phase, spent in report["milliseconds"].items():
        table.add_row(phase, f"{spent['p50']:.2f}", f"{spent['p95']:.2f}")
    console.print(table)
    for threads, rate in report["requests_per_second"].items():
        console.print(
            f"{rate:,.1f} requests per second on {threads} thread{'s' if threads != '1' else ''}", highlight=False
        )
    console.print(f"{report['proven']:.0%} proven optimal, mean gap {report['gap']:.1%}", highlight=False)
