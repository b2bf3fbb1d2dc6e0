"""``setwise train``: train a model on a file of sessions, slates or sets, evaluate it on held-out data, and save it."""

from __future__ import annotations

import json
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

from setwise.cli import columns, log_options
from setwise.cli import train_options as options
from setwise.cli.fitting_options import require_fitting
from setwise.cli.held_out import require_other_file, write_sessions
from setwise.cli.index import require_kind
from setwise.cli.log_options import settled_before
from setwise.cli.train_data import RANDOM, hold_out, prepared
from setwise.cli.train_log import CUT, counted_before, keep_cut, log_data, print_log, require_one_source, retrain
from setwise.cli.train_portfolio import print_portfolio, train_portfolio
from setwise.cli.train_report import TrainReport
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
from setwise.storage import artifact
from setwise.training import SimpleTransformer, portfolio
from setwise.training.calibration import log_loss
from setwise.training.comparison import compare, verdict
from setwise.training.on_policy import on_policy_slates
from setwise.training.slate_model import SlateModel

BINS = 5  # of the reliability diagram
# Parameters that a log of a service can have beside it, and those that it alone can have.
BESIDE_LOG = {"file", "model", "log_histories", "wait", "out", "k", "heads", "dim", "epochs", "minutes", "seed"}
BESIDE_LOG |= {"checkpoint", "device", "as_json"}
WITH_LOG = {"model", "log_histories", "wait"}
# Parameters that outcomes of sets, and those of cases, can have beside them.
BESIDE_SETS = {"file", "out", "set_column", "group", "item", "outcome", "delimiter", "link", "heads", "dim", "epochs"}
BESIDE_SETS |= {"seed", "as_json"}
BESIDE_CASES = {"file", "out", "session", "item", "outcome", "delimiter", "k", "seed", "as_json"}
TABLE = ("item", "time_format", "slate", "outcome", "delimiter", "on_error", "items", "quantity")  # of reader_options
# Slates for held-out sessions: the optimised one, and those of its rivals under the same model.
EVALUATED = (("the optimised slate", DEFAULT), *((one.title, one) for one in (TOP_K, GREEDY, MMR, DPP, KNN)))


def train(
    context: typer.Context,
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
    held_out: options.HeldOut = None,
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
    source = _source(context, file, from_log, out)
    if from_log is not None:
        return _train_from_log(source, wait, log_histories, model, (k, seed, checkpoint, given, out, as_json, held_out))
    if set_column is not None or group:
        named, given = {"set_column": set_column, "item": item, "delimiter": delimiter}, {**given, "link": link}
        return _finish(*train_sets(source, outcome, group or [], named, given, seed), out, as_json, print_sets)
    if user_columns is not None:
        case = {"session": session[0] if session else None, "item": item, "outcome": outcome}
        return _finish(*train_portfolio(source, case, user_columns, k, delimiter, seed), out, as_json, print_portfolio)
    table = {one: context.params[one] for one in TABLE} | {"attributes": columns.attribute_columns(attribute)}
    named = columns.reader_options(session, no_time, baskets, time=when, **table)
    _run(*prepared(source, named, least_sessions, seed, split), k, seed, checkpoint, given, out, as_json, held_out)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _train_from_log(
    log: Path,
    wait_h: float,
    histories: Path | None,
    model: Path | None,
    rest: tuple[int, int, Path | None, dict[str, Any], Path, bool, Path | None],
) -> None:
    """Train on the log of a service; ``rest`` are the further arguments of ``_run``."""
    k, seed, checkpoint, given, out, as_json, held_out = rest
    if model is None:
        checkpoint = checkpoint or _beside(out)
        before = counted_before(checkpoint, log, wait_h)
        found = log_data(log, before, histories, None)
        keep_cut(checkpoint, log, wait_h, before)
        return _run(*found, k, seed, checkpoint, given, out, as_json, held_out)
    served = SimpleTransformer.load(model)
    data, counts = log_data(log, settled_before(wait_h), histories, served)
    return _finish(*retrain(served, data, counts, seed, given), out, as_json, print_log)


def _run(
    data: Sessions | Slates,
    found: dict[str, Any],
    k: int,
    seed: int,
    checkpoint: Path | None,
    given: dict[str, Any],
    out: Path,
    as_json: bool,
    held_out_file: Path | None,
) -> None:
    """Train on sessions or slates, evaluate, save and report."""
    checkpoint = checkpoint or _beside(out)
    training, held_out = hold_out(data, seed, found.setdefault("split", RANDOM))
    if held_out_file is not None:
        write_sessions(held_out_file, held_out)
    model, report = _train_and_evaluate(training, held_out, k, seed, checkpoint, given)
    model.save(out)
    held: dict[str, Any] = {"held_out": 0 if held_out is None else len(held_out)}
    held |= {} if held_out_file is None else {"held_out_file": str(held_out_file)}
    report = {"read": {**found, **held}, **report, "saved": str(out)}
    _remove_checkpoint(checkpoint, model.summary["stages"])
    if as_json:
        print(json.dumps(report))
    else:
        TrainReport(report, model, k).print(Console())


def _finish(
    model: SlateModel | portfolio.PortfolioModel,
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
    training: Sessions | Slates,
    held_out: Sessions | Slates | None,
    k: int,
    seed: int,
    checkpoint: Path,
    options: dict[str, Any],
) -> tuple[SimpleTransformer, dict[str, Any]]:
    """The model, and its part of the report."""
    began = time.perf_counter()
    model = SimpleTransformer.fit(training, k=k, seed=seed, checkpoint=checkpoint, **options)
    return model, {
        "training": _training(model, time.perf_counter() - began),
        "quality": None if held_out is None else _quality(model, training, held_out, k),
    }


# --- files ---


def _source(context: typer.Context, file: Path | None, from_log: Path | None, out: Path) -> Path:
    """Where the data come from; refuses what would be ignored, or fail or cost a file after the training."""
    require_fitting(context, "from_log", BESIDE_LOG, WITH_LOG)
    require_fitting(context, "set_column", BESIDE_SETS)
    require_fitting(context, "group", BESIDE_SETS)
    require_fitting(context, "user_columns", BESIDE_CASES)
    if context.params["link"] and not (context.params["set_column"] or context.params["group"]):
        raise InvalidInput("--link", "given with --set or --group", context.params["link"], "leave it out, or add one")
    source = require_one_source(file, from_log)
    require_other_file("--held-out", context.params["held_out"], source, context.params["items"])
    _require_free(out)
    if context.params["checkpoint"] is not None:
        _require_apart(context.params["checkpoint"], out)
    return source


def _require_apart(checkpoint: Path, out: Path) -> None:
    """Refuse a checkpoint that is no folder, or that is, holds or lies in the folder of the model."""
    parts, model = checkpoint.resolve(), out.resolve()
    if parts == model or parts in model.parents or model in parts.parents:
        must, todo = "a folder apart from that of --out", "choose another, or leave it out: OUT.checkpoint is used then"
        raise InvalidInput("--checkpoint", must, f"{checkpoint} beside --out {out}", todo)
    if checkpoint.exists() and not checkpoint.is_dir():
        raise InvalidInput("--checkpoint", "a folder", f"the file {checkpoint}", "choose another name")


def _require_free(out: Path) -> None:
    """Refuse a folder that cannot be written before training starts."""
    todo = "choose a folder that is new, empty or an older model"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and artifact.holds_others(out):
            raise InvalidInput("--out", "a folder for the model alone", f"{out} with other files", todo)
    except OSError as error:
        raise InvalidInput("--out", "a folder that can be written", f"{out}: {error.strerror}", todo) from None
    require_kind(out, ("model", portfolio.KIND), "setwise train")


def _beside(out: Path) -> Path:
    """The folder of the checkpoint where none is named."""
    return Path(f"{out.resolve()}.checkpoint")


def _remove_checkpoint(checkpoint: Path, stages: Iterable[str]) -> None:
    """Remove the checkpoints of this run, and no other files."""
    for part in ("base", "embeddings", CUT, *stages):
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
