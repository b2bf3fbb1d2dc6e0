"""What ``setwise train`` prints: the data, the training, the hits on held-out data, and the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise.cli.query_options import example_history
from setwise.cli.train.data import SESSIONS, SLATES, TIME
from setwise.ranking import DEFAULT
from setwise.ranking.top_k import TOP_K
from setwise.training import SimpleTransformer
from setwise.training.base.search import SETTINGS

MOST_MISSED = 8  # effects looked for in vain, in the report


@dataclass(frozen=True)
class TrainReport:
    """The report as text and tables."""

    report: dict[str, Any]
    model: SimpleTransformer
    k: int

    def print(self, console: Console) -> None:
        """Print all parts, from the data that was read to the next commands."""
        parts: list[Callable[[], str | Table]] = [self.read, self.training]
        parts += [self.hits, self.reliability, self.limits] if self.report["quality"] else [self.no_quality]
        if self.report["quality"] and self.report["quality"]["comparison"]:
            parts.insert(2, self.comparison if self.report["read"]["kind"] == SESSIONS else self.rules)
            parts.insert(3, self.verdict)
        for part in parts:
            console.print(part(), highlight=False)
        console.print(self.next(), highlight=False, soft_wrap=True)  # commands are not wrapped

    def read(self) -> str:
        """The data that was read."""
        read, kind = self.report["read"], self.report["read"]["kind"]
        lines = [f"\nRead {read[kind]:,} {kind} of {read['items']:,} items, {read['entries']:,} entries."]
        if read.get("columns"):
            names = ", ".join(f"{role} {escape(repr(name))}" for role, name in read["columns"].items())
            lines.append(f"Columns: {names}.")
        if read["rare_items"]:
            lines.append(f"Left out {read['rare_items']:,} rare items (see --least-sessions).")
        lines += [f"Skipped {count:,} {escape(reason)}." for reason, count in read["skipped"].items()]
        if read["held_out"]:
            which = "the latest" if read["split"] == TIME else "drawn at random"
            where = f" They are in {escape(read['held_out_file'])}." if "held_out_file" in read else ""
            lines.append(f"{read['held_out']:,} {kind}, {which}, were held out to evaluate the model.{where}")
        return "\n".join(lines)

    def training(self) -> str:
        """Time and losses of the stages."""
        training = self.report["training"]
        lines = [f"Trained in {training['seconds']:,.0f} s."]
        for stage in training["stages"]:
            validation = "" if stage["validation_loss"] is None else f", on validation {stage['validation_loss']:.4f}"
            lines.append(
                f"  Stage {stage['stage']}: epoch {stage['kept_epoch']} of {stage['epochs']} was kept: loss "
                f"{stage['training_loss']:.4f}{validation}"
            )
        if training["base"]:
            lines.append("  An item's score is a weighted sum of these models, with the settings of most hits:")
        for base in training["base"]:
            names = SETTINGS.get(base["model"], ())
            setting = "".join(f"{name} {number:g}, " for name, number in zip(names, base["setting"], strict=False))
            lines.append(f"    {base['model']}: {setting}decay {base['decay']:g}; weight {base['weight']:.3g}")
        if self.report["read"]["kind"] == SLATES:
            return "\n".join([*lines, *self.effects()]) + "\n"
        if training["kept"] == "pointwise" and training["stages"]:
            lines.append("  Attention did not improve the model on validation data: the model without it was kept.")
        return "\n".join(lines) + "\n"

    def effects(self) -> list[str]:
        """What items of a slate do to each other, what was looked for in vain, and how large it could be."""
        training = self.report["training"]
        lines = [escape(note) for note in training["notes"]]
        if training["kept"] in ("interaction", "pair_table"):
            form = "attention" if training["kept"] == "interaction" else "a table of all pairs"
            lines.append(f"What items do to each other is {form}: no attribute explains it as well.")
        elif training["words"]:
            lines += ["Effects on an item of a slate:", *(f"  {escape(line)}" for line in training["words"])]
        if not training["effects"] and training["kept"] in ("effects", "pointwise"):
            lines.append("Items of a slate were not found to do anything to each other.")
        missed = [tried for tried in training["effects_tried"] if not tried["entered"] and tried["smallest"]]
        missed = [tried for tried in missed if not tried["name"][0].isdigit()]  # "3 or more of the same" says no more
        if missed:
            listed = ", ".join(f"{tried['name']} ±{tried['smallest']:.2f}" for tried in missed[:MOST_MISSED])
            lines.append(f"Looked for in vain, with the smallest effect that this log would show: {escape(listed)}.")
        return lines

    def no_quality(self) -> str:
        """The reason why there is no evaluation."""
        return "There is too little data to hold some out, so the model was not evaluated."

    def comparison(self) -> Table:
        """The trained model beside simpler ones."""
        title = f"Held-out sessions: hits of {self.k} items shown, ± one standard error"
        table = _table(title, "", "hits", "±", "predicted", "slates with a hit", "items shown")
        rows = self.report["quality"]["comparison"]["rows"]
        for row in rows:
            predicted = "" if row["predicted"] is None else f"{row['predicted']:.3f}"
            shares = (f"{row['any_hit']:.1%}", f"{row['coverage']:.1%}")
            name = "this model" if row is rows[-1] else row["method"]  # as the verdict names it
            table.add_row(name, f"{row['hits']:.3f}", f"{row['error']:.3f}", predicted, *shares)
        return table

    def rules(self) -> Table:
        """The optimised slate beside simple rules."""
        compared = self.report["quality"]["comparison"]
        title = f"Slates of {compared['k']}, chosen by one half of the log and valued by the other's model"
        table = _table(title, "", "hits", "of the best")
        most = max(row["hits"] for row in compared["rows"])
        for row in compared["rows"]:
            table.add_row(escape(row["rule"]), f"{row['hits']:.3f}", f"{row['hits'] / most:.1%}")
        return table

    def verdict(self) -> str:
        """What to deploy."""
        return escape(f"{self.report['quality']['comparison']['verdict']}\n")

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
        quality = self.report["quality"]
        if self.report["read"]["kind"] == SESSIONS:
            return (
                "\nA hit is an item among the rest of the session. Sessions do not record rejections: "
                "a miss may still be relevant.\n"
            )
        return (
            f"\nLog loss per item {quality['log_loss']:.4f}; {quality['log_loss_of_the_rate']:.4f} for predicting the "
            "mean outcome for every item.\nOutcomes of slates that this model would choose can only be observed by "
            "showing them: do so, then call model.calibrated(those slates).\n"
        )

    def next(self) -> str:
        """The commands to use the model."""
        path, history = self.report["saved"], example_history(self.model.catalog())
        folder = shlex.quote(path)
        evaluate = ""
        if "held_out_file" in self.report["read"]:
            file = shlex.quote(self.report["read"]["held_out_file"])
            most = f"--most {self.report['read']['held_out']} --ranker {DEFAULT.name} --ranker {TOP_K.name}"
            evaluate = f"    setwise evaluate service/ {file} --k {self.k} {most}\n"  # the sessions of the tables above
        commands = (
            f"    setwise index {folder} --out service/\n"
            f"    setwise recommend service/ {history} --k {self.k}\n"
            f"{evaluate}"
            "    setwise serve service/\n"
        )
        return f"Saved in {escape(path)}. To use it:\n\n{escape(commands)}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    return table
