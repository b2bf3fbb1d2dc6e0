"""``setwise demo``: the whole way in a simulated world, from a log of slates to answers that the truth judges."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from setwise.datasets import World
from setwise.errors import InvalidInput
from setwise.model.objective import set_value
from setwise.ranking import RANKERS
from setwise.recommend.explanation import Explanation
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate
from setwise.retrieval import Index

if TYPE_CHECKING:
    from setwise.training import SimpleTransformer

METHODS = tuple(ranker for ranker in RANKERS.values() if ranker.interactive)
LEARNER: dict[str, Any] = {"dim": 24, "epochs": 8}
USERS = 20


@dataclass(frozen=True)
class Outcome:
    """What a method promised its users, what they would truly like of its slates, and how long a slate took."""

    method: str
    promised: float
    true: float
    milliseconds: float


def demo(
    items: int = typer.Option(300, min=50, help="Songs in the world."),
    slates: int = typer.Option(30_000, min=100, help="Slates in the log that the model is learned from."),
    k: int = typer.Option(10, min=1, max=20, help="Songs to a slate, in the log and in the answers."),
    user: int = typer.Option(0, min=0, max=USERS - 1, help=f"Whose slate to show, of the world's {USERS} users."),
    at_most: int = typer.Option(0, min=0, help="At most so many songs by one artist; 0 for no limit."),
    seed: int = typer.Option(0, min=0, help="The seed of the world and of learning."),
    out: Annotated[Path | None, typer.Option(help="A folder to keep the recommender in.")] = None,
    serve: bool = typer.Option(False, "--serve", help="Then serve it, with a page to explore it, until Ctrl-C."),
    port: int = typer.Option(8080, min=0, max=65535, envvar="SETWISE_PORT", help="The port of the page."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Learn from what a simulated world logged, recommend with every method, and let the world say what it was worth.

    Example: [bold]setwise demo --serve[/bold]
    """
    if as_json and serve:
        raise InvalidInput("--json and --serve", "one of the two", "both", "drop one")
    console = Console(quiet=as_json)
    world = World.make(items, n_users=USERS, seed=seed)
    console.print(f"\nA world of {items:,} songs, where near-copies bore and good company helps. Nobody is told how.")
    model, seconds = _learned(world, slates, k, seed, not as_json)
    console.print(
        f"Learned from {slates:,} logged slates of {k} songs and what was liked of them, in {seconds:.0f} s.\n"
    )
    with console.status("indexing, and compiling the inner loops if this is the first time …"):
        recommender = Recommender.from_model(model)
    wishes: dict[str, Any] = {"at_most": {"artist": at_most}} if at_most else {}
    with console.status(f"recommending to {USERS} users with every method …"):
        outcomes, best = _contest(world, recommender, k, wishes)
    slate = recommender.recommend(history=world.catalog.ids[world.histories[user]], k=k, **wishes)
    if as_json:
        print(json.dumps(_report(outcomes, best, slate)))
    else:
        console.print(_comparison(outcomes, best))
        console.print(_shown(slate, recommender.explain(slate), user))
    _keep_and_serve(recommender, out, port, serve, console)


def _learned(world: World, slates: int, k: int, seed: int, progress: bool) -> tuple[SimpleTransformer, float]:
    """A model of the world's log, and how long it took."""
    from setwise.training import SimpleTransformer

    began = time.perf_counter()
    log = world.log(slates, k, seed=seed)
    model = SimpleTransformer.fit(log, seed=seed, progress=None if progress else False, **LEARNER)
    return model, time.perf_counter() - began


# --- the contest ---


def _contest(world: World, recommender: Recommender, k: int, wishes: dict[str, Any]) -> tuple[list[Outcome], float]:
    """Every method for all users, and the mean value of the best slates that a search with the truth finds."""
    known = [world.catalog.ids[history] for history in world.histories]
    outcomes = []
    for ranker in METHODS:
        found = recommender.recommend_many(histories=known, k=k, ranker=ranker.name, certify=False, **wishes)
        took = float(np.mean([one.timings["retrieve"] + one.timings["rank"] for one in found]))
        promised = float(np.mean([one.value for one in found]))
        outcomes.append(Outcome(ranker.title, promised, _truth(world, found), took))
    oracle = Recommender(Index.build(world.catalog), certify=False)
    users = zip(world.histories, known, strict=True)
    best = [oracle.recommend(world.user(rows), k, exclude=ids, **wishes).value for rows, ids in users]
    return outcomes, float(np.mean(best))


def _truth(world: World, slates: list[Slate]) -> float:
    """The mean number of songs that the users would truly like: model and world number songs alike."""
    values = [
        set_value(world.catalog, world.user(history), slate.indices)
        for history, slate in zip(world.histories, slates, strict=True)
    ]
    return float(np.mean(values))


# --- what is printed ---


def _report(outcomes: list[Outcome], best: float, slate: Slate) -> dict[str, Any]:
    return {
        "methods": [asdict(outcome) for outcome in outcomes],
        "best_with_the_truth": best,
        "slate": {
            "items": slate.items.tolist(),
            "value": slate.value,
            "upper_bound": slate.upper_bound,
            "proven": slate.proven,
            "timings": dict(slate.timings),
        },
    }


def _comparison(outcomes: list[Outcome], best: float) -> Table:
    table = Table(title=f"Songs liked of a slate, mean over {USERS} users", title_justify="left")
    table.add_column("method")
    for heading in ("promised", "true", "of the best", "ms"):
        table.add_column(heading, justify="right")
    for one in outcomes:
        share = f"{one.true / best:.1%}"
        table.add_row(one.method, f"{one.promised:.3f}", f"{one.true:.3f}", share, f"{one.milliseconds:.1f}")
    table.add_row("a search that knows the truth", "", f"{best:.3f}", "100.0%", "", style="dim")
    return table


def _shown(slate: Slate, explanation: Explanation, user: int) -> Table:
    """A slate: what each song is expected to earn in this company, and alone."""
    ms = ", ".join(f"{phase} {took:.1f} ms" for phase, took in slate.timings.items())
    proof = (
        "proven the best there is"
        if slate.proven
        else f"no slate of all songs is worth more than {slate.upper_bound:.3f}"
    )
    title = f"\nThe slate of user {user}: worth {slate.value:.3f}; {proof} ({ms})"
    table = Table(title=title, title_justify="left")
    for heading in ("title", "artist", "genre"):
        table.add_column(heading)
    for heading in ("liked here", "liked alone"):
        table.add_column(heading, justify="right")
    for row, here, alone in zip(slate.indices, explanation.rewards, explanation.alone, strict=True):
        described = [str(slate.catalog.attributes[name][int(row)]) for name in ("title", "artist", "genre")]
        table.add_row(*described, f"{here:.0%}", f"{alone:.0%}")
    return table


# --- afterwards ---


def _keep_and_serve(recommender: Recommender, out: Path | None, port: int, wanted: bool, console: Console) -> None:
    if out is not None:
        recommender.save(out)
        console.print(f"\nKept in {out}: try [bold]setwise serve {out}[/bold].")
    if not wanted:
        return
    from setwise.cli.serve import serve

    with tempfile.TemporaryDirectory(prefix="setwise-demo-") as folder:
        recommender.save(Path(folder) / "world")
        console.print(f"\nThe page is at [bold]http://127.0.0.1:{port}/[/bold] until Ctrl-C.")
        serve(Path(folder) / "world", port=port)
