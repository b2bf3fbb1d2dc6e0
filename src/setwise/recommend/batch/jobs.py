"""Job: what the processes of a batch need, wherever they run; and how one of them computes a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise.errors import DamagedArtifact
from setwise.recommend.batch.parts import Parts
from setwise.recommend.batch.users import Columns, answers
from setwise.recommend.recommender import Recommender
from setwise.storage import artifact


@dataclass(frozen=True)
class Job:
    """What is computed; it travels to each process once."""

    table: Path
    model: Path
    digest: str  # of the model
    columns: Columns
    options: Mapping[str, Any]
    parts: Parts


def opened_model(model: Path, digest: str, options: Mapping[str, Any]) -> Recommender:
    """The recommender saved in ``model``; refuse one that was replaced since its ``digest`` was read."""
    recommender = Recommender.load(model, certify=bool(options["certify"])).prepare()
    if artifact.digest(model) != digest:
        raise DamagedArtifact(model, "it was replaced during the run", "run the same command again")
    return recommender


def part_table(job: Job, recommender: Recommender, rows: list[tuple[Any, ...]]) -> Any:
    """The answers to these rows as the table of a part."""
    return job.parts.table(rows, answers(recommender, job.columns, rows, job.options))
