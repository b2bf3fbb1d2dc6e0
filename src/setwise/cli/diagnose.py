"""``setwise diagnose``: whether optimising the set pays for a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from setwise._types import SLATE_SIZE
from setwise.cli import columns, query_options
from setwise.cli.held_out import drawn_histories, read_sessions
from setwise.cli.index import load_source
from setwise.recommend.diagnosis import BUDGET_MS, Diagnosis
from setwise.recommend.diagnosis import diagnose as diagnosed
from setwise.recommend.recommender import Recommender
from setwise.recommend.sample_users import sample_users
from setwise.retrieval import Index
from setwise.storage import artifact
from setwise.training import portfolio

HISTORY = 5  # items of a random history
PLURAL = {"user": "users", "history": "histories"}  # arguments of many users
LATENT = {"interaction": "attention", "pair_table": "a table of all pairs of items"}  # kinds of models
INDEXED = ("index", "recommender")


def diagnose(
    folder: Annotated[Path, typer.Argument(help="The folder of a model, a catalogue, an index or a recommender.")],
    sessions: Annotated[
        Path | None, typer.Option(help="Sessions whose first items are the histories; by default random histories.")
    ] = None,
    session: columns.Session = None,
    item: columns.Item = None,
    delimiter: columns.Delimiter = None,
    baskets: columns.Baskets = False,
    users: Annotated[int, typer.Option(min=2, help="The number of users.")] = 60,
    k: query_options.SlateSize = SLATE_SIZE,
    budget_ms: Annotated[
        float, typer.Option(min=1.0, help="Search and bound of one user, in milliseconds.")
    ] = BUDGET_MS,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the draws.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure what the best sets of a model have beyond top-k and beyond greedy, and say whether to optimise sets.

    Users are the sessions of a file, or histories of random items; for a model of features, features drawn from the
    values at which its trees split them. A model that computes users from neither gets random vectors.

    Example: [bold]setwise diagnose model/ --sessions held_out.csv --session playlist --item track[/bold]
    """
    recommender = _recommender(folder)
    source: dict[str, Any]
    if sessions is not None:
        named = columns.reader_options(session, False, baskets, item=item, delimiter=delimiter)
        held_out, _ = read_sessions(sessions, named, recommender.index.catalog)
        split = drawn_histories(held_out, users, seed)
        source, drawn = {"histories": [recommender.index.catalog.ids[seen] for seen in split.history]}, "sessions"
    else:
        argument, described, drawn = sample_users(recommender, users, HISTORY, seed)
        source = {PLURAL.get(argument, argument): described}
    result = diagnosed(recommender, k, **source, budget_ms=budget_ms)
    of_data = _of_data(folder)
    if as_json:
        print(json.dumps(result.to_dict() | {"source": drawn, "data": of_data}))
    else:
        console = Console()
        console.print(_table(result, drawn))
        console.print(f"By the model: {result.sentence}", highlight=False, soft_wrap=True)
        if of_data is not None:
            console.print(f"By its data: {of_data}", highlight=False, soft_wrap=True, markup=False)


def _of_data(folder: Path) -> str | None:
    """What held-out slates say of the effects of a saved model, which may have some that they do not show."""
    if folder.suffix == ".npz":
        return None
    summary = artifact.read(folder, "model", portfolio.KIND, "catalog", *INDEXED).meta.get("summary") or {}
    loss, kept = summary.get("log_loss", {}), summary.get("kept")
    if kept not in ("effects", "pointwise", *LATENT) or "effects" not in loss:
        return None
    if kept in LATENT:
        return f"{LATENT[kept]} lowers the log loss of held-out slates from {loss['effects']:.4f} to {loss[kept]:.4f}."
    if not summary["words"]:
        return "slates that the fit did not see show nothing that items of a slate do to each other."
    return f"slates that the fit did not see show: {'; '.join(summary['words'])}."


def _recommender(folder: Path) -> Recommender:
    """The saved recommender, or one of a saved model or catalogue."""
    if folder.suffix != ".npz" and artifact.read(folder, "model", portfolio.KIND, "catalog", *INDEXED).kind in INDEXED:
        return Recommender.load(folder).prepare()
    catalog, encoder, features = load_source(folder)
    return Recommender(Index.build(catalog), encoder=encoder, features=features).prepare()


def _table(result: Diagnosis, drawn: str) -> Table:
    report = result.to_dict()
    table = Table(title=f"Sets of {result.k} for {result.users} users ({drawn})", title_justify="left")
    for heading in ("measure", "value", "meaning"):
        table.add_column(heading)
    for name, rival in (("top-k / best", "top_k"), ("greedy / best", "greedy")):
        gained, error = (report[f"headroom_over_{rival}{end}"] for end in ("", "_error"))
        table.add_row(name, f"{report[rival + '_over_best']:.3f}", f"the best has {gained:.1%} ± {error:.1%} more")
    table.add_row("proven gap", f"{report['median_gap']:.1%}", f"median; {report['proven']} sets proven optimal")
    table.add_row("base rate", f"{result.base_rate:.3f}", "reward of an item of the best sets")
    attended = f"{report['items_attended']:.1f}", f"of {result.k}: few is sharp attention"
    table.add_row("items attended", *(attended if result.attends else ("none", "the model has no attention")))
    return table
