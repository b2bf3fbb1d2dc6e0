"""``setwise bench``: how fast a saved recommender answers on this machine, phase by phase, one thread and all."""

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
from setwise._validation import available_cores
from setwise.model.users import User
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate

HISTORY = 10  # items of a made-up history
WARM = 5  # requests before the clock runs


def bench(
    folder: Annotated[Path, typer.Argument(help="What setwise index wrote.")],
    requests: Annotated[int, typer.Option(min=1, help="Requests to measure.")] = 100,
    k: Annotated[int, typer.Option(min=1, help="Items a slate.")] = 10,
    budget_ms: Annotated[float | None, typer.Option(help="Milliseconds a request, as in setwise recommend.")] = None,
    ranker: Annotated[str | None, typer.Option(help="Who chooses, as in setwise recommend.")] = None,
    certify: Annotated[bool, typer.Option(help="With a certificate each.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Decides who asks.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Measure warm requests of random users (random histories where they are understood) on this machine.

    Example: [bold]setwise bench songs/ --requests 200 --budget-ms 20[/bold]
    """
    recommender = Recommender.load(folder)
    askers = _askers(recommender, requests + WARM, np.random.default_rng(seed))
    options: dict[str, Any] = {"k": k, "budget_ms": budget_ms, "ranker": ranker, "certify": certify}

    def ask(number: int) -> Slate:
        return recommender.recommend(**askers[number], **options)

    for number in range(WARM):
        ask(number)
    measured, threads = range(WARM, WARM + requests), available_cores()
    with Progress("asking", requests * len({1, threads})) as bar:
        runs = {count: _Run.of(ask, measured, count, bar) for count in sorted({1, threads})}
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


def _askers(recommender: Recommender, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Random histories where they are understood, random users otherwise."""
    catalog = recommender.index.catalog
    if recommender.encoder is not None:
        length = min(HISTORY, len(catalog) // 2)
        return [{"history": catalog.ids[rng.choice(len(catalog), length, replace=False)]} for _ in range(count)]
    shape, width = catalog.value.shape[1:], 0 if catalog.base is None else catalog.base.shape[1]
    return [
        {"user": User(rng.normal(size=shape), rng.normal(size=width) if catalog.base is not None else None)}
        for _ in range(count)
    ]


@dataclass(frozen=True, eq=False)
class _Run:
    """All requests, asked by so many threads."""

    slates: Sequence[Slate]
    each: Sequence[float]  # milliseconds
    rate: float  # requests a second

    @classmethod
    def of(cls, ask: Callable[[int], Slate], numbers: range, threads: int, bar: Progress) -> _Run:
        def timed(number: int) -> tuple[Slate, float]:
            start = time.perf_counter()
            slate = ask(number)
            spent = 1000 * (time.perf_counter() - start)
            bar.advance(1)
            return slate, spent

        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            slates, each = zip(*pool.map(timed, numbers), strict=True)
        return cls(slates, each, len(numbers) / (time.perf_counter() - began))

    def milliseconds(self) -> dict[str, dict[str, float]]:
        """The median, and what 95 in 100 stay below, by phase."""
        phases = {phase: [slate.timings[phase] for slate in self.slates] for phase in self.slates[0].timings}
        return {
            phase: {"p50": float(np.percentile(spent, 50)), "p95": float(np.percentile(spent, 95))}
            for phase, spent in {**phases, "all": self.each}.items()
        }


def _print(console: Console, report: dict[str, Any]) -> None:
    console.print(
        f"{report['requests']:,} warm requests, {report['items']:,} items in {report['cells']:,} cells", highlight=False
    )
    table = Table("phase")
    for heading in ("p50 ms", "p95 ms"):
        table.add_column(heading, justify="right")
    for phase, spent in report["milliseconds"].items():
        table.add_row(phase, f"{spent['p50']:.2f}", f"{spent['p95']:.2f}")
    console.print(table)
    for threads, rate in report["requests_per_second"].items():
        console.print(
            f"{rate:,.1f} requests a second on {threads} thread{'s' if threads != '1' else ''}", highlight=False
        )
    console.print(f"{report['proven']:.0%} proven optimal, gap {report['gap']:.1%} on average", highlight=False)
