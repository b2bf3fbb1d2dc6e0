"""``setwise train``: from a file of sessions or slates to a saved model, and what can be said of its quality."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise.cli import columns
from setwise.datasets import Sessions, Slates, parted, read
from setwise.errors import InvalidInput
from setwise.training import SimpleTransformer
from setwise.training.calibration import log_loss
from setwise.training.examples import Cuts, own_slates

HELD_OUT, MOST_HELD = 0.1, 500  # the share of the data that takes no part in learning, and at most so many
LEAST_HELD = 5  # of fewer nothing can be said
LEAST_SESSIONS, ENOUGH = 3, 40  # rarer items are left out by default, where so many sessions stay of two items or more
BINS = 5  # of the reliability diagram
TRIED = (("the optimised slate", "swap"), ("top-k by score", "knn"))  # what is shown for the sessions held out


def train(
    file: Annotated[Path, typer.Argument(help="Sessions or slates: any file or folder that setwise.datasets reads.")],
    out: Annotated[Path, typer.Option(help="The folder to save the model in.")],
    session: columns.Session = None,
    item: columns.Item = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    slate: Annotated[
        str | None, typer.Option(help="Table: the column that tells the slates of a session apart.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Table: the column of what came of an item, 0 to 1.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="Table: a column that describes items (title, artist), kept with them.")
    ] = None,
    delimiter: columns.Delimiter = None,
    least_sessions: Annotated[
        int | None, typer.Option(min=1, help="Leave out items of fewer sessions; 3, or 1 where data is scarce.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="How long the slates will be.")] = 10,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads; 4 unless given.")] = None,
    dim: Annotated[
        int | None, typer.Option(min=1, help="Dimensions of embeddings; 64 for sessions, 32 for slates.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data at most; 20 unless given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides all that is random.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where to go on from after an interruption; OUT.checkpoint unless given.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    r"""Learn a model from a file, judge it on what took no part in learning, and save it.

    A run that was interrupted goes on when the same command is given again. Needs pip install 'setwise\[train]'.

    Example: [bold]setwise train baskets.csv --session order --item product --out model/[/bold]
    """
    named = columns.given(
        session,
        item=item,
        time=when,
        time_format=time_format,
        slate=slate,
        outcome=outcome,
        attributes=attribute,
        delimiter=delimiter,
    )
    sizes = {"heads": heads, "dim": dim, "epochs": epochs, "device": device}
    folder = checkpoint or Path(f"{out.resolve()}.checkpoint")
    _refuse_occupied(out)
    data, found = _data(file, named, least_sessions, seed)
    learned, held = _parted(data, seed)
    began = time.perf_counter()
    asked = {name: value for name, value in sizes.items() if value is not None}
    model = SimpleTransformer.fit(learned, k=k, seed=seed, checkpoint=folder, **asked)
    seconds = time.perf_counter() - began
    model.save(out)
    report = {
        "read": {**found, "held_out": 0 if held is None else len(held)},
        "learned": _learned(model, seconds),
        "quality": None if held is None else _quality(model, held, k),
        "saved": str(out),
    }
    _sweep(folder, model.summary["stages"])
    if as_json:
        print(json.dumps(report))
    else:
        _Told(report, model, k).print(Console())


# --- files ---


def _refuse_occupied(out: Path) -> None:
    """Refuse a folder that cannot be written, before hours of work and not after."""
    todo = "choose a folder that is new, empty or an older model"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and any(out.iterdir()) and not (out / "manifest.json").is_file():
            raise InvalidInput("--out", "a folder for the model alone", f"{out} with other files", todo)
    except OSError as error:
        raise InvalidInput("--out", "a folder that can be written", f"{out}: {error.strerror}", todo) from None


def _sweep(checkpoint: Path, stages: Iterable[str]) -> None:
    """Remove what the run left to go on from, and nothing else."""
    for part in ("embeddings", *stages):
        if (checkpoint / part / "manifest.json").is_file():
            shutil.rmtree(checkpoint / part)
    if checkpoint.is_dir() and not any(checkpoint.iterdir()):
        checkpoint.rmdir()


def _data(file: Path, named: dict[str, Any], least: int | None, seed: int) -> tuple[Sessions | Slates, dict[str, Any]]:
    """What the file holds, rare items left out, and what to say of it."""
    skipped: Counter[str] = Counter()
    data = _read(file, named, skipped)
    if isinstance(data, Slates):
        found = {"kind": "slates", "slates": len(data), "items": data.n_items, "entries": len(data.shown.values)}
        return data, {**found, "rare_items": 0, "skipped": dict(skipped)}
    kept = _trimmed(data, least).shuffled_where_unordered(seed)  # what is known must not be the smallest ids
    found = {"kind": "sessions", "sessions": len(kept), "items": kept.n_items, "entries": len(kept.items.values)}
    if len(kept) < len(data):
        skipped["sessions of fewer than two such items"] += len(data) - len(kept)
    return kept, {**found, "rare_items": data.n_items - kept.n_items, "skipped": dict(skipped)}


def _read(file: Path, named: dict[str, Any], skipped: Counter[str]) -> Sessions | Slates:
    try:
        return read(file, skipped=skipped, **named)
    except InvalidInput as error:  # formats in which nothing is ever skipped do not count it
        if error.parameter != "option 'skipped'":
            raise
        return read(file, **named)


def _trimmed(sessions: Sessions, least: int | None) -> Sessions:
    """Items of ``least`` sessions, and sessions of two such items; by default every item where data is scarce."""
    kept = sessions.trimmed(LEAST_SESSIONS if least is None else least, least_items=2)
    if least is None and len(kept) < ENOUGH:
        return sessions.trimmed(1, least_items=2)
    return kept


def _parted(data: Sessions | Slates, seed: int) -> tuple[Sessions | Slates, Sessions | Slates | None]:
    """What is learned from, and what judges the model; None where there is too little for that."""
    share = min(HELD_OUT, MOST_HELD / max(1, len(data)))
    if share * len(data) < LEAST_HELD:
        return data, None
    learned, held = parted(len(data), (1 - share, share), seed)
    return data.taken(learned), data.taken(held)


# --- what is said of the model ---


def _learned(model: SimpleTransformer, seconds: float) -> dict[str, Any]:
    stages = [
        {
            "stage": name,
            "epochs": len(stage["training"]),
            "kept_epoch": stage["kept"] + 1,
            "training_loss": stage["training"][stage["kept"]],
            "validation_loss": stage["validation"][stage["kept"]] if stage["validation"] else None,
        }
        for name, stage in model.summary["stages"].items()
    ]
    kept = model.summary.get("kept")
    return {"model": repr(model.catalog()), "seconds": seconds, "stages": stages, "kept": kept}


@dataclass(frozen=True)
class _Shown:
    """Slates held out, or shown for sessions held out: what the model promised, and what came of them."""

    promised: NDArray[np.float64]
    slates: Slates

    @classmethod
    def by(cls, model: SimpleTransformer, slates: Slates) -> _Shown:
        return cls(model.predict(slates), slates)

    def row(self, name: str) -> dict[str, Any]:
        """Means over the slates."""
        count = len(self.slates)
        return {"slate": name, "promised": self.promised.sum() / count, "had": float(self.slates.outcome.sum()) / count}


def _quality(model: SimpleTransformer, held: Sessions | Slates, k: int) -> dict[str, Any]:
    """Promised and true hits a slate, and how far promises can be believed item by item."""
    if isinstance(held, Slates):
        shown = {"the logged slate": _Shown.by(model, held)}
    else:
        cuts = Cuts.first(held)
        shown = {name: _Shown.by(model, own_slates(model, cuts, k, ranker)) for name, ranker in TRIED}
    first = next(iter(shown.values()))
    return {
        "slates": [one.row(name) for name, one in shown.items()],
        "reliability": model.reliability(first.slates, BINS).rows(),
        "log_loss": log_loss(first.promised, first.slates.outcome),
        "log_loss_of_the_rate": log_loss(
            np.full(len(first.promised), first.slates.outcome.mean()), first.slates.outcome
        ),
    }


@dataclass(frozen=True)
class _Told:
    """The report as a person reads it."""

    report: dict[str, Any]
    model: SimpleTransformer
    k: int

    def print(self, console: Console) -> None:
        """All of it, from what was read to what to do next."""
        parts: list[Callable[[], str | Table]] = [self.read, self.learned]
        parts += [self.hits, self.reliability, self.caution] if self.report["quality"] else [self.no_quality]
        for part in parts:
            console.print(part(), highlight=False)
        console.print(self.next(), highlight=False, soft_wrap=True)  # lines of code stay whole

    def read(self) -> str:
        """What the file held."""
        read, kind = self.report["read"], self.report["read"]["kind"]
        lines = [f"\nRead {read[kind]:,} {kind} of {read['items']:,} items, {read['entries']:,} entries."]
        if read["rare_items"]:
            lines.append(f"Left out {read['rare_items']:,} rare items.")
        lines += [f"Skipped {count:,} {escape(reason)}." for reason, count in read["skipped"].items()]
        if read["held_out"]:
            lines.append(f"{read['held_out']:,} {kind} took no part in learning: they judge the model.")
        return "\n".join(lines)

    def learned(self) -> str:
        """How learning went."""
        lines = [f"Learned in {self.report['learned']['seconds']:,.0f} s."]
        for one in self.report["learned"]["stages"]:
            judged = "" if one["validation_loss"] is None else f", on validation {one['validation_loss']:.4f}"
            lines.append(
                f"  {one['stage']}: epoch {one['kept_epoch']} of {one['epochs']} was kept: loss "
                f"{one['training_loss']:.4f}{judged}"
            )
        if self.report["learned"]["kept"] == "alone":
            lines.append("  Company did not pay on what was held out: items are worth what they are worth alone.")
        return "\n".join(lines) + "\n"

    def no_quality(self) -> str:
        """Where nobody was held out."""
        return "There is too little data to hold some out, so nothing can be said of the model's quality."

    def hits(self) -> Table:
        """Promised and true hits."""
        table = _table("Hits a slate, on what was held out", "", "promised", "had")
        for row in self.report["quality"]["slates"]:
            table.add_row(row["slate"], f"{row['promised']:.3f}", f"{row['had']:.3f}")
        return table

    def reliability(self) -> Table:
        """Promises and what came of them, from the lowest fifth to the highest."""
        table = _table("\nPromises item by item", "items", "promised", "were hits")
        for row in self.report["quality"]["reliability"]:
            table.add_row(f"{row['count']:,}", f"{row['promised']:.1%}", f"{row['observed']:.1%}")
        return table

    def caution(self) -> str:
        """What these figures do not say."""
        one = self.report["quality"]
        if self.report["read"]["kind"] == "sessions":
            return (
                "\nA hit is an item that the rest of the session holds. Sessions do not say what was refused, "
                "so a miss may still be liked.\n"
            )
        return (
            f"\nLog loss an item {one['log_loss']:.4f}; {one['log_loss_of_the_rate']:.4f} for calling every item as "
            "likely as the average.\nWhat people make of slates that this model would choose, only showing them can "
            "tell: do so, then model.calibrated(those slates).\n"
        )

    def next(self) -> str:
        """What to do with the model."""
        path, some = self.report["saved"], self.model.catalog().ids[:2].tolist()
        history, folder = shlex.quote(",".join(str(one) for one in some)), shlex.quote(path)
        commands = (
            f"    setwise index {folder} --out service/\n"
            f"    setwise recommend service/ --history {history} --k {self.k}\n"
            "    setwise serve service/\n"
        )
        return f"Saved in {escape(path)}. To use it:\n\n{escape(commands)}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    return table
