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


def opened(model: Path, options: Mapping[str, Any]) -> Recommender:
    """The recommender saved in ``model``."""
    return Recommender.load(model, certify=bool(options["certify"]))


def opened_model(job: Job) -> Recommender:
    """The recommender of the job, in a process that computes parts; refuse one that was replaced."""
    recommender = opened(job.model, job.options)
    if artifact.digest(job.model) != job.digest:
        raise DamagedArtifact(job.model, "it was replaced during the run", "run the same command again")
    return recommender


def part_table(job: Job, recommender: Recommender, rows: list[tuple[Any, ...]]) -> Any:
    """The answers to these rows as the table of a part."""
    return job.parts.table(rows, answers(recommender, job.columns, rows, job.options))
