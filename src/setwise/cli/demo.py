"""``setwise demo``: learn from the log of a simulated restaurant, recommend menus, and compare their true values."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from setwise._progress import Progress
from setwise._types import Floats
from setwise.cli.index import require_replaceable
from setwise.datasets import Restaurant
from setwise.errors import InvalidInput
from setwise.kernels import parts, preparation
from setwise.model.objective import set_value
from setwise.ranking import DEFAULT, RANKERS
from setwise.recommend.compilation import warm_up
from setwise.recommend.explanation import Explanation
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate
from setwise.retrieval import Index

if TYPE_CHECKING:
    from setwise.training import SimpleTransformer

METHODS = {
    ranker.name: f"{ranker.title} (setwise)" if ranker is DEFAULT else ranker.title
    for ranker in RANKERS.values()
    if ranker.interactive
}
TRAINING: dict[str, Any] = {"dim": 24, "epochs": 8}
USERS = 60
TOGETHER = 10  # of them, between two lines of progress
GREED = 3.0  # of the logging policy: how strongly it prefers what the guest likes
BUDGET_MS = 1000  # for the slate that is shown: search and certificate
PROMISED = 0.01  # the gap that an idle machine proves in that time


@dataclass(frozen=True)
class Outcome:
    """Means over all users: the value that the model expects, the true value, and the time of a slate.

    ``behind`` is the mean true value by which its slates are below those of swap search, with its standard error.
    """

    method: str
    expected: float
    true: float
    behind: float
    error: float
    milliseconds: float


def demo(
    items: int = typer.Option(48, min=20, help="Number of dishes; beyond about 50, proofs take more than a second."),
    slates: int = typer.Option(30_000, min=100, help="Number of logged menus to learn from."),
    k: int = typer.Option(8, min=1, max=15, help="Dishes of a menu, in the log and in the recommendations."),
    user: int = typer.Option(0, min=0, max=USERS - 1, help=f"The guest whose menu is shown, of {USERS}."),
    at_most: int = typer.Option(0, min=0, help="Maximum number of dishes of one course; 0 for no limit."),
    seed: int = typer.Option(0, min=0, help="The seed of the restaurant and of training."),
    out: Annotated[Path | None, typer.Option(help="A folder to save the recommender in.")] = None,
    serve: bool = typer.Option(False, "--serve", help="Serve the recommender and its page afterwards, until Ctrl-C."),
    port: int = typer.Option(8080, min=0, max=65535, envvar="SETWISE_PORT", help="The port of the page."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Learn from the logged menus of a simulated restaurant, recommend with several methods, compare their true values.

    Example: [bold]setwise demo --serve[/bold]
    """
    if as_json and serve:
        raise InvalidInput("--json and --serve", "given one at a time", "both", "drop one")
    if out is not None:
        require_replaceable(out)
    if serve:
        port = _require_service(port)
    console = Console(quiet=as_json)
    world = Restaurant.make(items, n_users=USERS, seed=seed)
    console.print(
        f"\nA simulated restaurant of {items:,} dishes. One pair of dishes in ten goes well or badly together: guests "
        "like a dish more or less beside others. This is the paper's model of complements; no constant was chosen for "
        "a demo."
    )
    # Compiled beside the training, the longest first.
    preparation.begin([parts.LIFTS, *parts.FIRST, parts.CANDIDATES, parts.FEW_SETS])
    model, seconds = _train(world, slates, k, seed)
    console.print(f"Learned from {slates:,} logged menus of {k} dishes and the dishes liked, in {seconds:.0f} s.\n")
    recommender = Recommender.from_model(model).prepare()
    warm_up(recommender)
    constraints: dict[str, Any] = {"at_most": {"course": at_most}} if at_most else {}
    outcomes, best = _compare(world, recommender, k, constraints)
    shown = {"history": world.catalog.ids[world.histories[user]], "k": k, "budget_ms": BUDGET_MS}
    slate = recommender.recommend(**shown, **constraints)
    if as_json:
        print(json.dumps(_report(outcomes, best, slate)))
    else:
        console.print(_comparison(outcomes, best))
        console.print(_shown(slate, recommender.explain(slate), user))
    _save_and_serve(recommender, out, port if serve else None, k, console)


def _require_service(port: int) -> int:
    """The port, for 0 a free one. A service that is not installed, or a port that is taken, is refused now."""
    from setwise.cli.serve import server_module
    from setwise.service.hosts import check_address

    server_module()
    check_address("127.0.0.1", port)
    if port:
        return port
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _train(world: Restaurant, slates: int, k: int, seed: int) -> tuple[SimpleTransformer, float]:
    """A model trained on the log of the world, and the seconds it took."""
    from setwise.training import SimpleTransformer

    began = time.perf_counter()
    log = world.log(slates, k, GREED, seed)
    model = SimpleTransformer.fit(log, seed=seed, **TRAINING)
    return model, time.perf_counter() - began


# --- comparison ---


def _compare(
    world: Restaurant, recommender: Recommender, k: int, constraints: dict[str, Any]
) -> tuple[list[Outcome], float]:
    """The outcome of each method, and the mean value of the slates found by a search that knows the true model."""
    known = [world.catalog.ids[history] for history in world.histories]
    informed = Recommender(Index.build(world.catalog), certify=False)
    slates_by: dict[str, list[Slate]] = {ranker: [] for ranker in METHODS}
    best = []
    with Progress(f"recommending to {len(known)} guests", (len(METHODS) + 1) * len(known)) as bar:
        for ranker, slates in slates_by.items():
            for start in range(0, len(known), TOGETHER):
                guests = known[start : start + TOGETHER]
                slates += recommender.recommend_many(histories=guests, k=k, ranker=ranker, certify=False, **constraints)
                bar.advance(len(guests), METHODS[ranker])
        for rows, ids in zip(world.histories, known, strict=True):
            best.append(informed.recommend(world.user(rows), k, exclude=ids, **constraints).value)
            bar.advance(1, "search with the truth")
    true = {ranker: _true_values(world, slates) for ranker, slates in slates_by.items()}
    outcomes = [_outcome(ranker, slates_by[ranker], true[ranker], true[DEFAULT.name]) for ranker in METHODS]
    return outcomes, float(np.mean(best))


def _outcome(ranker: str, slates: list[Slate], true: Floats, ours: Floats) -> Outcome:
    behind = ours - true
    return Outcome(
        METHODS[ranker],
        float(np.mean([slate.value for slate in slates])),
        float(true.mean()),
        float(behind.mean()),
        float(behind.std() / np.sqrt(len(behind))),
        float(np.mean([slate.timings["retrieve"] + slate.timings["rank"] for slate in slates])),
    )


def _true_values(world: Restaurant, slates: list[Slate]) -> Floats:
    """The true value of each slate; model and restaurant number the dishes in the same order."""
    pairs = zip(world.histories, slates, strict=True)
    return np.array([set_value(world.catalog, world.user(history), slate.indices) for history, slate in pairs])


# --- output ---


def _report(outcomes: list[Outcome], best: float, slate: Slate) -> dict[str, Any]:
    return {
        "methods": [asdict(outcome) for outcome in outcomes],
        "best_with_true_model": best,
        "slate": {
            "items": slate.items.tolist(),
            "value": slate.value,
            "upper_bound": slate.upper_bound,
            "gap": slate.gap,
            "proven": slate.proven,
            "timings": dict(slate.timings),
        },
    }


def _comparison(outcomes: list[Outcome], best: float) -> Table:
    table = Table(title=f"Dishes liked of a menu, mean over {USERS} guests", title_justify="left")
    table.add_column("method", no_wrap=True)
    for heading in ("expected", "true", "of best", "behind ours", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in outcomes:
        share = f"{row.true / best:.1%}"
        behind = f"{row.behind:.2f} ± {row.error:.2f}" if row.error else ""
        table.add_row(row.method, f"{row.expected:.3f}", f"{row.true:.3f}", share, behind, f"{row.milliseconds:.1f}")
    table.add_row("search with the truth", "", f"{best:.3f}", "100.0%", "", "", style="dim")
    return table


def _shown(slate: Slate, explanation: Explanation, user: int) -> Table:
    """A slate: the expected reward of each dish in the slate, and by itself."""
    ms = ", ".join(f"{phase} {took:.1f} ms" for phase, took in slate.timings.items())
    proof = "proven optimal" if slate.proven else f"at most {slate.gap:.1%} below the best of all menus"
    if slate.gap > PROMISED:
        proof += f", as far as {BUDGET_MS} ms of search on this machine, or beside its other work, could prove"
    title = f"\nThe menu for guest {user}: {slate.value:.2f} dishes liked are expected; {proof} ({ms})"
    table = Table(title=title, title_justify="left")
    for heading in ("title", "course"):
        table.add_column(heading)
    for heading in ("liked on this menu", "liked by itself"):
        table.add_column(heading, justify="right")
    for row, here, alone in zip(slate.indices, explanation.rewards, explanation.alone, strict=True):
        described = [str(slate.catalog.attributes[name][int(row)]) for name in ("title", "course")]
        table.add_row(*described, f"{here:.0%}", f"{alone:.0%}")
    return table


# --- save and serve ---


def _save_and_serve(recommender: Recommender, out: Path | None, port: int | None, k: int, console: Console) -> None:
    """Save the recommender in a folder, and serve it on a port, where there is one; the page begins with k dishes."""
    if out is not None:
        recommender.save(out)
        console.print(f"\nSaved in {out}. To serve it: [bold]setwise serve {out} --page-k {k}[/bold].")
    if port is None:
        return
    from setwise.cli.serve import serve

    with tempfile.TemporaryDirectory(prefix="setwise-demo-") as folder:
        recommender.save(Path(folder) / "world")
        console.print("\nStarting the service …")
        threading.Thread(target=_announce, args=(port, console), daemon=True).start()
        serve(Path(folder) / "world", port=port, page_k=k)


def _announce(port: int, console: Console) -> None:
    """Print the address of the page when it answers."""
    page = f"http://127.0.0.1:{port}/"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is for other machines
    while True:
        with suppress(OSError), direct.open(page, timeout=1):
            console.print(f"The page is at [bold]{page}[/bold] until Ctrl-C.")
            return
        time.sleep(0.1)
