"""``setwise train``: train a model on a file of sessions, slates or sets, evaluate it on held-out data, and save it."""

from __future__ import annotations

import json
import shlex
import shutil
import time
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

from setwise.cli import columns, log_options
from setwise.cli import train_options as options
from setwise.cli.train_data import RANDOM, TIME, hold_out, long_slates, prepared
from setwise.cli.train_log import log_data, print_log, require_one_source, retrain
from setwise.cli.train_portfolio import print_portfolio, train_portfolio
from setwise.cli.train_sets import print_sets, train_sets
from setwise.datasets import Sessions, Slates
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.ranking import DEFAULT
from setwise.ranking.dpp import DPP
from setwise.ranking.greedy import GREEDY
from setwise.ranking.knn import KNN
from setwise.ranking.mmr import MMR
from setwise.ranking.top_k import TOP_K
from setwise.recommend.query_texts import split as split_commas
from setwise.training import SimpleTransformer
from setwise.training.base.search import SETTINGS
from setwise.training.calibration import log_loss
from setwise.training.comparison import compare, verdict
from setwise.training.on_policy import on_policy_slates
from setwise.training.portfolio import PortfolioModel
from setwise.training.slate_model import SlateModel

BINS = 5  # of the reliability diagram
# Slates for held-out sessions: the optimised one, and those of its rivals under the same model.
EVALUATED = (("the optimised slate", DEFAULT), *((one.title, one) for one in (TOP_K, GREEDY, MMR, DPP, KNN)))


def train(
    file: options.File = None,
    *,
    from_log: log_options.FromLog = None,
    model: log_options.Model = None,
    log_histories: log_options.LogHistories = None,
    wait: log_options.Wait = log_options.WAIT_H,
    out: Annotated[Path, typer.Option(help="The folder to save the model in.")],
    session: columns.Session = None,
    item: columns.Item = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    slate: options.Slate = None,
    outcome: options.Outcome = None,
    set_column: options.SetColumn = None,
    group: options.Group = None,
    link: options.Link = None,
    user_columns: options.UserColumns = None,
    attribute: options.Attribute = None,
    items: options.Items = None,
    delimiter: columns.Delimiter = None,
    no_time: columns.NoTime = False,
    quantity: columns.Quantity = None,
    baskets: columns.Baskets = False,
    on_error: columns.OnError = None,
    least_sessions: options.LeastSessions = None,
    k: Annotated[int, typer.Option(min=1, help="The size of the slates.")] = 10,
    heads: options.Heads = None,
    dim: options.Dim = None,
    epochs: options.Epochs = None,
    minutes: options.Minutes = None,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    split: columns.Split = None,
    checkpoint: options.Checkpoint = None,
    device: options.Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    r"""Train a model on a file, evaluate it on held-out data, and save it.

    The same command resumes a run that was interrupted. Needs pip install 'setwise\[train]'.
    With --set or --group an outcome belongs to a whole set; with --user-columns sessions are cases with features.

    Example: [bold]setwise train baskets.csv --session order --item product --out model/[/bold]
    Example: [bold]setwise train variants.csv --outcome fitness --group site --out model/[/bold]
    """
    given = _given(heads=heads, dim=dim, epochs=epochs, device=device, minutes=minutes)
    source = _source(file, from_log, model, out)
    if from_log is not None:
        return _train_from_log(source, wait, log_histories, model, (k, seed, checkpoint, given, out, as_json))
    if set_column is not None or group:
        named, given = {"set_column": set_column, "item": item, "delimiter": delimiter}, {**given, "link": link}
        return _finish(*train_sets(source, outcome, group or [], named, given, seed), out, as_json, print_sets)
    if user_columns is not None:
        case = {"session": session[0] if session else None, "item": item, "outcome": outcome}
        cases = train_portfolio(source, case, split_commas(user_columns), k, delimiter, seed)
        return _finish(*cases, out, as_json, print_portfolio)
    table: dict[str, Any] = {"item": item, "time": when, "time_format": time_format, "slate": slate, "outcome": outcome}
    table |= {"delimiter": delimiter, "on_error": on_error, "attributes": columns.attribute_columns(attribute)}
    named = columns.reader_options(session, no_time, baskets, items=items, quantity=quantity, **table)
    _run(*prepared(source, named, least_sessions, seed, split), k, seed, checkpoint, given, out, as_json)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _train_from_log(
    log: Path,
    wait_h: float,
    histories: Path | None,
    model: Path | None,
    rest: tuple[int, int, Path | None, dict[str, Any], Path, bool],
) -> None:
    """Train on the log of a service; ``rest`` are the further arguments of ``_run``."""
    served = None if model is None else SimpleTransformer.load(model)
    data, found = log_data(log, wait_h, histories, served)
    if served is None:
        return _run(data, found, *rest)
    _, seed, _, given, out, as_json = rest
    return _finish(*retrain(served, data, found, seed, given), out, as_json, print_log)


def _run(
    data: Sessions | Slates,
    found: dict[str, Any],
    k: int,
    seed: int,
    checkpoint: Path | None,
    given: dict[str, Any],
    out: Path,
    as_json: bool,
) -> None:
    """Train on sessions or slates, evaluate, save and report."""
    checkpoint = checkpoint or Path(f"{out.resolve()}.checkpoint")
    model, report = _train_and_evaluate(data, k, seed, checkpoint, given, found.setdefault("split", RANDOM))
    model.save(out)
    report = {"read": {**found, "held_out": report.pop("held_out")}, **report, "saved": str(out)}
    _remove_checkpoint(checkpoint, model.summary["stages"])
    if as_json:
        print(json.dumps(report))
    else:
        _Printer(report, model, k).print(Console())


def _finish(
    model: SlateModel | PortfolioModel,
    report: dict[str, Any],
    out: Path,
    as_json: bool,
    shown: Callable[[Console, dict[str, Any]], None],
) -> None:
    """Save a model whose outcome belongs to sets, and print its report."""
    model.save(out)
    report["saved"] = str(out)
    if as_json:
        print(json.dumps(report))
    else:
        shown(Console(), report)


def _train_and_evaluate(
    data: Sessions | Slates, k: int, seed: int, checkpoint: Path, options: dict[str, Any], split: str
) -> tuple[SimpleTransformer, dict[str, Any]]:
    """The model, and its part of the report."""
    training, held_out = hold_out(data, seed, split)
    began = time.perf_counter()
    model = SimpleTransformer.fit(training, k=k, seed=seed, checkpoint=checkpoint, **options)
    return model, {
        "held_out": 0 if held_out is None else len(held_out),
        "training": _training(model, time.perf_counter() - began),
        "quality": None if held_out is None else _quality(model, training, held_out, k),
    }


# --- files ---


def _source(file: Path | None, from_log: Path | None, model: Path | None, out: Path) -> Path:
    """Where the data come from, if the arguments agree and the folder of the model can be written."""
    source = require_one_source(file, from_log, model)
    _require_free(out)
    return source


def _require_free(out: Path) -> None:
    """Refuse a folder that cannot be written before training starts."""
    todo = "choose a folder that is new, empty or an older model"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and any(out.iterdir()) and not (out / "manifest.json").is_file():
            raise InvalidInput("--out", "a folder for the model alone", f"{out} with other files", todo)
    except OSError as error:
        raise InvalidInput("--out", "a folder that can be written", f"{out}: {error.strerror}", todo) from None


def _remove_checkpoint(checkpoint: Path, stages: Iterable[str]) -> None:
    """Remove the checkpoints of this run, and no other files."""
    for part in ("base", "embeddings", *stages):
        if (checkpoint / part / "manifest.json").is_file():
            shutil.rmtree(checkpoint / part)
    if checkpoint.is_dir() and not any(checkpoint.iterdir()):
        checkpoint.rmdir()


# --- the report ---


def _training(model: SimpleTransformer, seconds: float) -> dict[str, Any]:
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
    base, tried = model.summary.get("base", []), model.summary.get("tried", [])
    report = {"model": repr(model.catalog()), "seconds": seconds, "stages": stages, "kept": kept}
    return {**report, "base": base, "tried": tried}


@dataclass(frozen=True)
class _Evaluated:
    """Slates, logged or chosen by the model, with its predictions for them."""

    predicted: NDArray[np.float64]
    slates: Slates

    @classmethod
    def of(cls, model: SimpleTransformer, slates: Slates) -> _Evaluated:
        return cls(model.predict(slates), slates)

    def row(self, name: str) -> dict[str, Any]:
        """Predicted and observed hits, as means over the slates."""
        count = len(self.slates)
        observed = float(self.slates.outcome.sum()) / count
        return {"slate": name, "predicted": self.predicted.sum() / count, "observed": observed}


def _quality(
    model: SimpleTransformer, training: Sessions | Slates, held_out: Sessions | Slates, k: int
) -> dict[str, Any]:
    """Hits of this model and of others, and the reliability of the predictions item by item."""
    compared = None
    if isinstance(held_out, Slates) or isinstance(training, Slates):
        shown = {"the logged slate": _Evaluated.of(model, held_out)}  # type: ignore[arg-type]  # both are of one kind
    else:
        split = HistorySplit.first(held_out)
        rows = compare(model, training, split, k, progress=None)
        compared = {"rows": [row.row() for row in rows], "verdict": verdict(rows)}
        shown = {
            name: _Evaluated.of(model, on_policy_slates(model, split, k, one.name, progress=None))
            for name, one in EVALUATED
        }
    first = next(iter(shown.values()))
    return {
        "comparison": compared,
        "slates": [one.row(name) for name, one in shown.items()],
        "reliability": model.reliability(first.slates, BINS).rows(),
        "log_loss": log_loss(first.predicted, first.slates.outcome),
        "log_loss_of_the_rate": log_loss(
            np.full(len(first.predicted), first.slates.outcome.mean()), first.slates.outcome
        ),
    }


@dataclass(frozen=True)
class _Printer:
    """The report as text and tables."""

    report: dict[str, Any]
    model: SimpleTransformer
    k: int

    def print(self, console: Console) -> None:
        """Print all parts, from the data that was read to the next commands."""
        parts: list[Callable[[], str | Table]] = [self.read, self.training]
        parts += [self.hits, self.reliability, self.limits] if self.report["quality"] else [self.no_quality]
        if self.report["quality"] and self.report["quality"]["comparison"]:
            parts.insert(2, self.comparison)
            parts.insert(3, self.verdict)
        for part in parts:
            console.print(part(), highlight=False)
        console.print(self.next(), highlight=False, soft_wrap=True)  # commands are not wrapped

    def read(self) -> str:
        """The data that was read."""
        read, kind = self.report["read"], self.report["read"]["kind"]
        lines = [f"\nRead {read[kind]:,} {kind} of {read['items']:,} items, {read['entries']:,} entries."]
        if read["rare_items"]:
            lines.append(f"Left out {read['rare_items']:,} rare items (--least-sessions says which).")
        lines += [f"Skipped {count:,} {escape(reason)}." for reason, count in read["skipped"].items()]
        lines += read.get("notes", []) + long_slates(self.k, read["items"])
        if read["held_out"]:
            which = "the latest" if read["split"] == TIME else "drawn at random"
            lines.append(f"{read['held_out']:,} {kind}, {which}, were held out to evaluate the model.")
        return "\n".join(lines)

    def training(self) -> str:
        """Time and losses of the stages."""
        lines = [f"Trained in {self.report['training']['seconds']:,.0f} s."]
        for one in self.report["training"]["stages"]:
            validation = "" if one["validation_loss"] is None else f", on validation {one['validation_loss']:.4f}"
            lines.append(
                f"  Stage {one['stage']}: epoch {one['kept_epoch']} of {one['epochs']} was kept: loss "
                f"{one['training_loss']:.4f}{validation}"
            )
        if self.report["training"]["base"]:
            lines.append("  An item's score is a weighted sum of these models, with the settings of most hits:")
        for one in self.report["training"]["base"]:
            names = SETTINGS.get(one["model"], ())
            setting = "".join(f"{name} {part:g}, " for name, part in zip(names, one["setting"], strict=False))
            lines.append(f"    {one['model']}: {setting}decay {one['decay']:g}; weight {one['weight']:.3g}")
        if self.report["training"]["kept"] == "pointwise":
            lines.append("  Attention did not improve the model on validation data: the model without it was kept.")
        return "\n".join(lines) + "\n"

    def no_quality(self) -> str:
        """The reason why there is no evaluation."""
        return "There is too little data to hold some out, so the model was not evaluated."

    def comparison(self) -> Table:
        """The trained model beside simpler ones."""
        title = f"Held-out sessions: hits of {self.k} items shown, ± one standard error"
        table = _table(title, "", "hits", "±", "predicted", "slates with a hit", "items shown")
        for row in self.report["quality"]["comparison"]["rows"]:
            predicted = "" if row["predicted"] is None else f"{row['predicted']:.3f}"
            shares = (f"{row['any_hit']:.1%}", f"{row['coverage']:.1%}")
            table.add_row(row["method"], f"{row['hits']:.3f}", f"{row['error']:.3f}", predicted, *shares)
        return table

    def verdict(self) -> str:
        """What to deploy."""
        return f"{self.report['quality']['comparison']['verdict']}\n"

    def hits(self) -> Table:
        """Predicted and observed hits per slate."""
        table = _table("Hits per slate, on held-out data", "", "predicted", "observed")
        for row in self.report["quality"]["slates"]:
            table.add_row(row["slate"], f"{row['predicted']:.3f}", f"{row['observed']:.3f}")
        return table

    def reliability(self) -> Table:
        """Predictions and outcomes, from the lowest fifth to the highest."""
        table = _table("\nPredictions item by item", "items", "predicted", "observed")
        for row in self.report["quality"]["reliability"]:
            table.add_row(f"{row['count']:,}", f"{row['predicted']:.1%}", f"{row['observed']:.1%}")
        return table

    def limits(self) -> str:
        """What these figures do not measure."""
        one = self.report["quality"]
        if self.report["read"]["kind"] == "sessions":
            return (
                "\nA hit is an item among the rest of the session. Sessions do not record rejections: "
                "a miss may still be relevant.\n"
            )
        return (
            f"\nLog loss per item {one['log_loss']:.4f}; {one['log_loss_of_the_rate']:.4f} for predicting the mean "
            "outcome for every item.\nOutcomes of slates that this model would choose can only be observed by showing "
            "them: do so, then call model.calibrated(those slates).\n"
        )

    def next(self) -> str:
        """The commands to use the model."""
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
