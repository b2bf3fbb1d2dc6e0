"""``setwise train log``: from the slates of a service with their outcomes, and the model that was served.

Without --model a new model is trained on the slates, as on any file of slates. With --model the latest slates are held
out, and three models predict them: the one that was served, the same with its reward fitted again (two numbers), and a
new one that is trained on the earlier slates. The recalibrated one is saved unless the new one has a lower log loss
beyond doubt, that is by more than two standard errors over the held-out slates.
"""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise._standard_error import say
from setwise._types import SLATE_SIZE, Floats
from setwise.cli import log_options
from setwise.cli.train import options
from setwise.cli.train.data import SLATES
from setwise.cli.train.fitting import CUT, Fitting
from setwise.cli.train.output import Output
from setwise.datasets.logged_slates import read_histories, read_log
from setwise.datasets.sessions import Slates
from setwise.storage import artifact
from setwise.training import SimpleTransformer
from setwise.training.gains import Gain, slate_log_losses

HELD_OUT, MOST_HELD, LEAST_HELD = 0.1, 2000, 20  # slates: a share of them, at most, and at least for an evaluation
CUT_KIND = "time of a log"  # the kind of the artifact in the folder CUT of a checkpoint
SERVED, RECALIBRATED, RETRAINED = "as it was served", "recalibrated", "trained on the log"


def log(
    folder: options.Folder,
    *,
    out: options.Out,
    model: log_options.Model = None,
    log_histories: log_options.LogHistories = None,
    wait: log_options.Wait = log_options.WAIT_H,
    k: options.SlateSize = SLATE_SIZE,
    heads: options.Heads = None,
    dim: options.Dim = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    checkpoint: options.Checkpoint = None,
    device: options.Device = None,
    as_json: options.Json = False,
) -> None:
    """The slates that a service has logged, with their outcomes.

    With --model that model is recalibrated, or replaced where a new one predicts the latest slates better.

    Example: [bold]setwise train log log/ --model model/ --out new-model/[/bold]
    """
    output = Output(out, as_json)
    fitting = Fitting.of(k, seed, output.checkpoint(checkpoint), heads=heads, dim=dim, epochs=epochs, device=device)
    if model is not None:
        served = SimpleTransformer.load(model)
        data, counts = log_data(folder, log_options.settled_before(wait), log_histories, served)
        output.write(*retrained(served, data, counts, fitting), print_log)
        return
    before = counted_before(fitting.checkpoint, folder, wait)
    data, counts = log_data(folder, before, log_histories, None)
    artifact.write(fitting.checkpoint / CUT, CUT_KIND, {}, {"about": _about(folder, wait), "before": before})
    fitting.run(data, counts, output)


def counted_before(checkpoint: Path, log: Path, wait_h: float) -> float:
    """The time before which slates must be made to count; for a run that is resumed, that of the interrupted run.

    A service adds slates to its log all the time, and the checkpoint is of those that had settled by then.
    """
    kept = checkpoint / CUT / "manifest.json"
    parts = [part for part in checkpoint.glob("*/manifest.json") if part != kept]
    if parts and kept.is_file():
        known = artifact.read(kept.parent, CUT_KIND).meta
        if known["about"] == _about(log, wait_h):
            made = datetime.fromtimestamp(known["before"], UTC).isoformat(" ", "seconds")
            say(f"setwise: resuming the run in {checkpoint}, which counts slates made before {made}")
            return float(known["before"])
    return log_options.settled_before(wait_h)


def _about(log: Path, wait_h: float) -> dict[str, Any]:
    return {"log": str(log.resolve()), "wait": wait_h}


def log_data(
    folder: Path, before: float, histories: Path | None, model: SimpleTransformer | None
) -> tuple[Slates, dict[str, Any]]:
    """The slates of the log made before this time, and their counts for the report."""
    by_key = None if histories is None else read_histories(histories)
    known: dict[str, Any] = {}
    if model is not None:
        catalog = model.catalog()
        known = {"ids": catalog.ids[np.arange(len(catalog))].tolist(), "attributes": dict(catalog.attributes.items())}
    data = read_log(folder, before, by_key, **known)
    counts = {"slates": len(data), "items": data.n_items, "entries": len(data.shown.values)}
    return data, {"kind": SLATES, **counts, "rare_items": 0, "skipped": {}}


def retrained(
    served: SimpleTransformer, data: Slates, counts: dict[str, Any], fitting: Fitting
) -> tuple[SimpleTransformer, dict[str, Any]]:
    """The model to serve next, and the report."""
    held = min(int(HELD_OUT * len(data)), MOST_HELD)
    report: dict[str, Any] = {"read": {**counts, "held_out": held if held >= LEAST_HELD else 0}}
    report |= {"quality": None, "kept": RECALIBRATED}
    if held < LEAST_HELD:
        return served.calibrated(data), report
    training, held_out = (data.taken(rows) for rows in np.split(np.arange(len(data)), [len(data) - held]))
    began = time.perf_counter()
    models = {
        SERVED: served,
        RECALIBRATED: served.calibrated(training),
        RETRAINED: SimpleTransformer.fit(training, seed=fitting.seed, **fitting.options),
    }
    losses = {name: slate_log_losses(model.predict(held_out), held_out) for name, model in models.items()}
    if Gain.of(losses[RECALIBRATED], losses[RETRAINED]).beyond_doubt:
        report["kept"] = RETRAINED
    rows = [_row(name, models[name], losses[name], losses[RECALIBRATED], held_out) for name in models]
    report |= {"quality": {"rows": rows}, "seconds": time.perf_counter() - began}
    return models[RETRAINED] if report["kept"] == RETRAINED else served.calibrated(data), report


def _row(name: str, model: SimpleTransformer, losses: Floats, recalibrated: Floats, held_out: Slates) -> dict[str, Any]:
    more = Gain.of(losses, recalibrated)
    return {
        "model": name,
        "log_loss": float(losses.mean()),
        "more": more.log_loss,
        "error": more.standard_error,
        "promised": float(model.predict(held_out).sum() / len(held_out)),
        "had": float(held_out.outcome.sum() / len(held_out)),
    }


def print_log(console: Console, report: dict[str, Any]) -> None:
    """The report as text and a table."""
    read, quality = report["read"], report["quality"]
    console.print(f"\nRead {read['slates']:,} logged slates of {read['entries']:,} items.", highlight=False)
    if quality is None:
        console.print(
            f"There are too few to hold some out (fewer than {LEAST_HELD / HELD_OUT:.0f}): the model was recalibrated "
            "on all of them, and not evaluated.",
            highlight=False,
        )
    else:
        table = Table(title=f"The latest {read['held_out']:,} slates, held out", title_justify="left")
        for heading in ("", "log loss", "more than recalibrated", "±", "promised hits", "had"):
            table.add_column(heading, justify="right" if heading else "left")
        for row in quality["rows"]:
            numbers = (f"{row['log_loss']:.4f}", f"{row['more']:+.4f}", f"{row['error']:.4f}")
            table.add_row(row["model"], *numbers, f"{row['promised']:.3f}", f"{row['had']:.3f}")
        console.print(table)
    folder = shlex.quote(report["saved"])
    console.print(
        f"Kept: the model {report['kept']}. Saved in {escape(report['saved'])}. To serve it:\n\n"
        f"    setwise index {escape(folder)} --out service/\n",
        highlight=False,
        soft_wrap=True,
    )
