"""``setwise recommend``: one slate from a saved recommender, its upper bound and, with --explain, its explanation."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise._validation import escaped
from setwise.cli import query_options
from setwise.cli.score_file import read_scores
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.rewards import Logistic
from setwise.recommend.arguments import description
from setwise.recommend.explanation import Explanation
from setwise.recommend.query_texts import ids, split
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate

SHOWN = 4  # attributes of an item in the table
NO_CONTRIBUTION = "No item of the slate contributes to another: each reward is that of the item alone."
USELESS = 0.99  # a gap above this says nothing


@query_options.with_arguments()
def recommend(
    folder: Annotated[Path, typer.Argument(help="The folder that setwise index wrote.")],
    history: Annotated[
        list[str] | None, typer.Option(help="Ids of the user's history: a,b,c; '' for an empty history.")
    ] = None,
    history_file: Annotated[Path | None, typer.Option(help="The same from a file, one id per line.")] = None,
    user_json: Annotated[Path | None, typer.Option(help='The user as vectors: {"heads": [[…]], "base": […]}.')] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Features of the user, of a model trained with them: size=3,depth=2.")
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(help=r"Your own scores: JSON {id: score} or \[one per item], or CSV lines id,score.")
    ] = None,
    explain: Annotated[
        bool, typer.Option(help="Show what each item contributes to the others, and the slates of other rankers.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="A file to save the slate in, for setwise verify.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    **texts: Any,
) -> None:
    """Recommend the best set for a user, with an upper bound on the value of every feasible set.

    Example: [bold]setwise recommend songs/ --history id1,id2 --k 5 --at-most artist=1[/bold]
    """
    recommender = Recommender.load(folder).prepare()
    catalog = recommender.index.catalog
    user = _user(catalog, history, history_file, user_json, features, scores)
    slate = recommender.recommend(
        **user,
        scores=None if scores is None else read_scores(catalog, scores),
        **query_options.arguments(lambda: catalog, texts),
    )
    if save is not None:
        try:
            slate.save(save)
        except InvalidInput as error:
            raise error.about("--save") from None
    explanation = recommender.explain(slate) if explain else None
    if as_json:
        print(json.dumps(slate.to_dict() | ({} if explanation is None else explanation.to_dict())))
    else:
        _print(slate, explanation, user.get("history", ()), "" if save is None else _saved(save, folder))


def _saved(save: Path, folder: Path) -> str:
    """Where the slate is, and the command that checks it."""
    file, catalog = (escape(shlex.quote(str(path))) for path in (save, folder))
    return f"Saved in {file}. To check it:\n\n    setwise verify {file} --catalog {catalog}"


def _user(
    catalog: Catalog,
    history: list[str] | None,
    history_file: Path | None,
    user_json: Path | None,
    features: list[str] | None,
    scores: Path | None,
) -> dict[str, Any]:
    """The user as keyword arguments of ``recommend``, from the one option that was given; none with scores alone."""
    stated = {"--history": history, "--history-file": history_file, "--user-json": user_json, "--features": features}
    todo = "pass one of them, --history '' for an empty history, or --scores alone"
    option = description(stated, scores is not None, todo)
    if option is None:
        return {}
    if features is not None:
        return {"features": query_options.features(features)}
    if user_json is not None:
        return {"user": query_options.user(user_json)}
    known = split(history) if history is not None else query_options.lines(Path(history_file or ""))
    return {"history": ids(catalog, known, option)}


# --- tables ---


def _print(slate: Slate, explanation: Explanation | None, history: Iterable[Any], saved: str) -> None:
    console = Console()
    console.print(_table(slate, explanation))
    console.print(_certificate(slate), highlight=False)
    if slate.ignored:
        console.print(_ignored(slate, history), highlight=False)
    if explanation is not None:
        console.print(_lent(explanation) if explanation.lent.any() else NO_CONTRIBUTION)
        console.print(_rivals(explanation))
    if saved:
        console.print(saved, highlight=False, soft_wrap=True)


def _table(slate: Slate, explanation: Explanation | None) -> Table:
    """The slate: the reward of each item in the set and, if explained, by itself."""
    names = list(slate.catalog.attributes)[:SHOWN]
    table = Table("", "id", *map(_shown, names), title="The slate", title_justify="left")
    table.add_column("reward", justify="right")
    if explanation is not None:
        table.add_column("alone", justify="right")
    for number, (id_, row) in enumerate(zip(slate.items.tolist(), slate.indices, strict=True)):
        record = slate.catalog.attributes.record(int(row))
        cells = [record[name] for name in names]
        figures = [slate.rewards[number], *([] if explanation is None else [explanation.alone[number]])]
        texts = ["" if cell is None else _shown(cell) for cell in (id_, *cells)]
        table.add_row(str(number + 1), *texts, *(f"{figure:.4f}" for figure in figures))
    return table


def _shown(cell: Any) -> str:
    """An id, a name or a value of an attribute as text for the terminal."""
    return escape(escaped(str(cell)))


def _certificate(slate: Slate) -> str:
    spent = ", ".join(f"{phase} {ms:.1f} ms" for phase, ms in slate.timings.items())
    if slate.proven:
        bound = "proven optimal over the whole catalogue"
    elif math.isfinite(slate.upper_bound) and slate.value > 0 and slate.gap > USELESS:
        bound = "no useful upper bound in this time; allow more with --budget-ms"
    elif math.isfinite(slate.upper_bound):
        bound = f"upper bound over the whole catalogue {slate.upper_bound:.4f}"
        if slate.value > 0:
            bound += f" (at least {math.floor(1000 * (1 - slate.gap)) / 10:.1f} % of the optimum)"
    else:
        bound = "without an upper bound"
    eligible, k = slate.query.eligible.count, slate.query.k
    items = "item is" if eligible == 1 else "items are"
    few = f"Only {eligible} {items} eligible, fewer than --k {k}.\n" if eligible < k else ""
    hits = all(isinstance(reward, Logistic) for reward in slate.catalog.rewards)
    value = f"Value {slate.value:.4f}" + (" (expected hits; a reward is the chance of one)" if hits else "")
    return f"{few}{value}, {bound}.\nTime: {spent}.\n"


def _ignored(slate: Slate, history: Iterable[Any]) -> str:
    """The ids that the catalogue does not have, and what is left of the history if these are all of it."""
    shown = ", ".join(map(_shown, slate.ignored))
    text = f"Ignored, as the catalogue does not have them: {shown}. An id must match exactly, and a title is none."
    seen = set(history)
    if not seen or seen - set(slate.ignored):
        return text
    return (
        f"{text} Nothing is left of the history, so this is the slate of a user without one. Ids of a history are "
        "separated by commas; --unknown error refuses ids that the catalogue does not have."
    )


def _lent(explanation: Explanation) -> Table:
    """Entry (i, j): the contribution of item j to the argument of item i's reward."""
    numbers = [str(number + 1) for number in range(len(explanation.rewards))]
    table = Table("", title="Contribution of the column's item to the row's item", title_justify="left")
    for number in numbers:
        table.add_column(number, justify="right")
    for number, row in zip(numbers, explanation.lent, strict=True):
        table.add_row(number, *(f"{lent:+.2f}" for lent in row))
    return table


def _rivals(explanation: Explanation) -> Table:
    table = Table("ranker", title="\nThe same query with other rankers", title_justify="left")
    for heading in ("value", "the slate's advantage", "ms", "items in common"):
        table.add_column(heading, justify="right")
    chosen = set(explanation.slate.indices.tolist())
    for rival in explanation.rivals:
        common = len(chosen & set(rival.indices.tolist()))
        gain = explanation.slate.value - rival.value
        table.add_row(rival.ranker, f"{rival.value:.4f}", f"{gain:+.4f}", f"{rival.milliseconds:.1f}", str(common))
    return table
