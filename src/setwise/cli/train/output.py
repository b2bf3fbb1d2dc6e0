"""Where ``setwise train`` saves a model: refused before the training if it cannot be written or would cost a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from setwise.cli.index import require_kind
from setwise.errors import InvalidInput
from setwise.storage import artifact
from setwise.storage.output_file import require_replaceable, write_file
from setwise.training import portfolio
from setwise.training.effects.drawing import drawing
from setwise.training.slate_model import SlateModel

SVG = b"<svg"  # what a drawing begins with
Show = Callable[[Console, dict[str, Any]], None]


@dataclass(frozen=True)
class Output:
    """The folder of a new model, whether its report is JSON, and the file of a drawing of its effects."""

    folder: Path
    as_json: bool
    plot: Path | None = None

    def __post_init__(self) -> None:
        todo = "choose a folder that is new, empty or an older model"
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            if self.folder.exists() and artifact.holds_others(self.folder):
                raise InvalidInput("--out", "a folder for the model alone", f"{self.folder} with other files", todo)
        except OSError as error:
            got = f"{self.folder}: {error.strerror}"
            raise InvalidInput("--out", "a folder that can be written", got, todo) from None
        require_kind(self.folder, ("model", portfolio.KIND), "setwise train")
        if self.plot is not None:
            require_replaceable("--plot", self.plot, SVG)

    def checkpoint(self, named: Path | None) -> Path:
        """The folder of the checkpoint, by default beside the model; refuse a file, or a folder of the model."""
        if named is None:
            return Path(f"{self.folder.resolve()}.checkpoint")
        checkpoint, model = named.resolve(), self.folder.resolve()
        if checkpoint == model or checkpoint in model.parents or model in checkpoint.parents:
            got, todo = f"{named} beside --out {self.folder}", "choose another, or leave it out: OUT.checkpoint is used"
            raise InvalidInput("--checkpoint", "a folder apart from that of --out", got, todo)
        if named.exists() and not named.is_dir():
            raise InvalidInput("--checkpoint", "a folder", f"the file {named}", "choose another name")
        return named

    def write(self, model: SlateModel | portfolio.PortfolioModel, report: dict[str, Any], show: Show) -> None:
        """Save the model, and print its report."""
        model.save(self.folder)
        if self.plot is not None and isinstance(model, SlateModel):
            write_file("--plot", self.plot, SVG, [drawing(model.summary.get("pictures", [])).encode()])
        report = {**report, "saved": str(self.folder)}
        if self.as_json:
            print(json.dumps(report))
        else:
            show(Console(), report)
