"""``setwise demo``: a world, an index, a user, every ranker side by side, and the slate that won."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from setwise.catalog import Catalog
from setwise.datasets import World
from setwise.errors import TooLarge
from setwise.instance import Instance
from setwise.ranking import RANKERS, Ranking, rank
from setwise.retrieval import Index


@dataclass(frozen=True)
class Contestant:
    """One ranker's answer and what it cost."""

    name: str
    ranking: Ranking
    milliseconds: float


def demo(
    items: int = typer.Option(2000, min=20, help="Songs in the world."),
    k: int = typer.Option(5, min=1, help="Songs to recommend."),
    heads: int = typer.Option(2, min=1, help="Attention heads of the world's transformer."),
    cells: int = typer.Option(12, min=1, help="Cells to cut the world into."),
    per_cell: int = typer.Option(4, min=1, help="Songs to retrieve from every cell."),
    at_most: int = typer.Option(0, min=0, help="At most so many songs by one artist; 0 for no limit."),
    user: int = typer.Option(
        4,
        min=0,
        max=49,
        help="Which of the world's 50 users to recommend to; the default is one for whom the rankers differ.",
    ),
    seed: int = typer.Option(0, min=0, help="The seed of the world."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Recommend songs in a simulated world with every ranker, and compare.

    Example: [bold]setwise demo --items 5000 --k 4 --at-most 1[/bold]
    """
    world = World.make(items, n_users=50, heads=heads, seed=seed)
    history = world.histories[user]
    who = world.user(history)
    index = Index.build(world.catalog, cells=cells, seed=seed)
    candidates = index.candidates(who, per_cell=per_cell, exclude=history)
    instance = Instance.from_catalog(world.catalog, who, candidates)
    contestants, refusals = _contest(instance, k, {"artist": at_most} if at_most else None)
    if as_json:
        print(json.dumps(_report(world.catalog, instance, contestants)))
        return
    console = Console()
    console.print(
        f"\nA world of {items:,} songs. User {user} has heard {len(history)} of them, for instance "
        f"[italic]{_title(world.catalog, history[0])}[/italic]. Phase One took {len(instance)} candidates from "
        f"{index.partition.n_cells} cells; here are the best {k} of them.\n"
    )
    console.print(_comparison(contestants))
    for refusal in refusals:
        console.print(f"[dim]{refusal}[/dim]")
    console.print(_slate(world.catalog, instance, contestants[0].ranking))


def _contest(instance: Instance, k: int, at_most: dict[str, int] | None) -> tuple[list[Contestant], list[str]]:
    """Every ranker's answer, best first, and what those that cannot do it say."""
    contestants, refusals = [], []
    for name in RANKERS:
        try:
            rank(instance, 1, name)  # the first call compiles; it is not what a user waits for
            start = time.perf_counter()
            ranking = rank(instance, k, name, at_most=at_most)
        except TooLarge as error:
            refusals.append(f"{name}: {error}")
            continue
        contestants.append(Contestant(name, ranking, 1000 * (time.perf_counter() - start)))
    return sorted(contestants, key=lambda contestant: -contestant.ranking.value), refusals


def _report(catalog: Catalog, instance: Instance, contestants: list[Contestant]) -> dict[str, object]:
    return {
        "rankers": [
            {
                "method": contestant.name,
                "value": contestant.ranking.value,
                "milliseconds": contestant.milliseconds,
                "evaluations": contestant.ranking.evaluations,
                "proven": contestant.ranking.proven,
                "items": catalog.ids[instance.candidates[contestant.ranking.indices]].tolist(),
            }
            for contestant in contestants
        ]
    }


def _comparison(contestants: list[Contestant]) -> Table:
    best = contestants[0].ranking.value
    table = Table(title="Expected number of songs liked", title_justify="left")
    for heading, side in (
        ("method", "left"),
        ("value", "right"),
        ("of the best", "right"),
        ("ms", "right"),
        ("sets", "right"),
    ):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]  # the literals left and right
    table.add_column("")
    for contestant in contestants:
        ranking = contestant.ranking
        table.add_row(
            contestant.name,
            f"{ranking.value:.4f}",
            f"{ranking.value / best:.1%}" if best > 0 else "",
            f"{contestant.milliseconds:.1f}",
            f"{ranking.evaluations:,}",
            "proven optimal" if ranking.proven else "",
        )
    return table


def _slate(catalog: Catalog, instance: Instance, ranking: Ranking) -> Table:
    """The winning slate: what each song earns in this company, and what it would earn alone."""
    table = Table(title="\nThe slate", title_justify="left")
    for heading in ("title", "artist", "genre"):
        table.add_column(heading)
    table.add_column("liked here", justify="right")
    table.add_column("liked alone", justify="right")
    for index, reward in zip(ranking.indices, instance.rewards_of(ranking.indices), strict=True):
        row = instance.candidates[index]
        described = [str(catalog.attributes[name][int(row)]) for name in ("title", "artist", "genre")]
        table.add_row(*described, f"{reward:.0%}", f"{instance.value([index]):.0%}")
    return table


def _title(catalog: Catalog, row: np.intp) -> str:
    return str(catalog.attributes["title"][int(row)])
