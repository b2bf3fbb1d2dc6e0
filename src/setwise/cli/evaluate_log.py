"""``setwise evaluate --log``: what the slates of a service promised, and what they had, week by week."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise._validation import escaped
from setwise.cli.log_options import settled_before
from setwise.errors import InvalidInput
from setwise.storage.slate_log import Totals, read_totals


def evaluate_log(folder: Path, wait_h: float, as_json: bool) -> None:
    """Print predicted and observed hits per slate, by week, version of the artifact, and whether explored."""
    rows = [
        _row(week, version, explored, total)
        for week, version, explored, total in read_totals(folder, before=settled_before(wait_h))
    ]
    if not rows:
        must = f"with slates that are at least {wait_h:g} hours old"
        raise InvalidInput("--log", must, f"{folder} without any", "wait, or lower --wait")
    if as_json:
        print(json.dumps({"wait_h": wait_h, "rows": rows}))
        return
    table = Table(title=f"Hits per slate, of slates at least {wait_h:g} hours old", title_justify="left")
    for heading in ("week", "version", "slates", "answered", "promised", "had", "less", "±"):
        table.add_column(heading, justify="left" if heading in ("week", "version") else "right")
    for row in rows:
        share, error = row["with_outcome"] / row["slates"], row["error"]
        numbers = (f"{row['promised']:.3f}", f"{row['had']:.3f}", f"{row['difference']:+.3f}")
        version = escape(escaped(row["version"])) + (", explored" if row["explored"] else "")
        shown = "" if error is None else f"{error:.3f}"
        table.add_row(row["week"], version, f"{row['slates']:,}", f"{share:.0%}", *numbers, shown)
    console = Console()
    console.print(table)
    console.print("An item without an outcome counts as a miss. Explored slates have one item exchanged at random.")


def _row(week: str, version: str, explored: bool, total: Totals) -> dict[str, Any]:
    return {
        "week": week,
        "version": version,
        "explored": explored,
        "slates": total.slates,
        "with_outcome": total.answered,
        "promised": total.promised / total.slates,
        "had": total.had / total.slates,
        "difference": total.difference,
        "error": total.error if total.slates > 1 else None,
    }
