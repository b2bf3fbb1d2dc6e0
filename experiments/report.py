"""The report from the rows: one page, its text, its figures, and the rows as Parquet.

    python experiments/report.py --rows report/rows --out report                what setwise reproduce ends with
    python experiments/report.py --rows report/rows --out report --docs docs/evidence   and the text and figures of docs

Only rows of steps that were done count; what is missing is named. The page and the text hold aggregates alone, so that
the text and the figures may be committed; the rows are about real people's data, and stay in OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import own_sections as own
import paper_sections as paper
import pyarrow as pa
import pyarrow.parquet as pq
from cost_sections import backends, certificates, growth
from figure_3_section import budget_curves
from kept_rows import Row, read
from page import Grid, Section, markdown, page, table

TITLE = "Results"
OPENING = (
    "Made by `setwise reproduce`, which runs every command below and writes this text, a page and the raw rows. Every "
    "figure is computed from those rows; none is typed by hand but the paper's own. Data are public samples. Two "
    "steps ran side by side, so times have company. What was measured by hand is in [performance](performance.md).",
)
QUICK = "**Made with `--quick`: this shows that everything runs, and the figures mean nothing.**"
IN_README = ("Figure 3", "`Recommender", "closed loop", "held-out playlists, hits", "gap of the certificate", "growth")
MARKS = ("<!-- results -->", "<!-- /results -->")
ROOT = Path(__file__).resolve().parents[1]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Outline:
    """A section to be made: from these steps, by this function."""

    name: str
    title: str
    data: str
    steps: tuple[str, ...]
    make: Callable[[Section, Rows], None]


def _joined(make: Callable[[Section, list[Row]], None]) -> Callable[[Section, Rows], None]:
    """For a function that takes the rows of all steps as one list."""
    return lambda section, rows: make(section, [row for each in rows.values() for row in each])


def _promises(section: Section, rows: Rows) -> None:
    loop = [row for name in ("closed_loop_with", "closed_loop_without") for row in rows.get(name, [])]
    own.calibration(section, loop, rows.get("held_out_hits", []))


PLAYLISTS = "followed playlists of the Million Playlist Dataset"
HOTELS = "the Trivago sample"
SECTIONS = (
    Outline("table-1", "Table 1: who can tell what people chose", f"{PLAYLISTS}; {HOTELS}",
         ("table_1_company", "table_1_titles", "table_1_hotels"), _joined(paper.accuracy_table)),
    Outline("table-2", "Table 2: what more layers are worth", f"{PLAYLISTS}, hard fakes; {HOTELS}",
         ("table_2_playlists", "table_2_hotels"), _joined(paper.depth_table)),
    Outline("figure-3", "Figure 3: what is found by how many candidate solutions",
         "a catalogue trained on playlists (one head) and one on lists of hotels, with held-out users",
         ("figure_3_one_head", "figure_3_few", "figure_3_trivago"), budget_curves),
    Outline("figure-4", "Figure 4: matched candidate solutions", "the same catalogues and users",
         ("figure_4",), _joined(paper.matched_pairs)),
    Outline("reach", "Reach: shares of the best known over whole catalogues", "catalogues trained on playlists",
         ("reach",), _joined(own.reached)),
    Outline("closed-loop", "The closed loop: learned slates against the truth", "the simulated world, logged slates",
         ("closed_loop_with", "closed_loop_without"), _joined(own.closed_loop)),
    Outline("calibration", "Calibration: promised against true", "the closed loop and the held-out playlists",
         ("closed_loop_with", "closed_loop_without", "held_out_hits"), _promises),
    Outline("held-out", "Held-out playlists: hits of ten", PLAYLISTS, ("held_out_hits",), _joined(own.held_out)),
    Outline("certificates", "Certificates over whole catalogues", "the catalogues trained on playlists, held-out users",
         ("certificates",), _joined(certificates)),
    Outline("scaling", "Scaling: cost and value against n, k, heads and cells",
         "the simulated world, and rows of the trained catalogues drawn again with jitter",
         ("scaling", "scaling_simulated"), _joined(growth)),
    Outline("retrieval", "Retrieval backends", "made-up vectors", ("retrieval",), _joined(backends)),
    Outline("halo", "Choice with halo effects on real baskets", "Ta-Feng and Online Retail", ("halo",),
         _joined(own.halo)),
)  # fmt: skip


# --- from rows to sections ---


def known_steps(rows: Path) -> dict[str, dict[str, Any]]:
    """The markers of the steps that were done, by name."""
    markers = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (rows.parent / "steps").glob("*.json")
    }
    return {name: one for name, one in markers.items() if one["state"] == "done" and (rows / f"{name}.csv").exists()}


def sections_of(rows: Path) -> list[Section]:
    """Every section, as far as there are rows."""
    steps, result = known_steps(rows), []
    for outline in SECTIONS:
        section = Section(outline.name, outline.title, [f"Data: {outline.data}."])
        there = {name: read(rows / f"{name}.csv") for name in outline.steps if name in steps}
        section.about += [_about(steps[name], found[0].get("seed", 0)) for name, found in there.items()]
        section.missing = [f"Missing: step {name} was not done." for name in outline.steps if name not in there]
        if there:
            outline.make(section, there)
        result.append(section)
    return result


def _about(marker: dict[str, Any], seed: int) -> str:
    """How the rows were made; scripts whose rows name no seed have 0."""
    where = f"{marker['date']}, commit {marker['commit']}, {marker['cores']} cores"
    return f"`{shlex.join(marker['command'])}` (seed {seed}; {marker['seconds']:,.0f} s; {where})"


def opening_of(rows: Path) -> tuple[str, ...]:
    """What stands above all sections."""
    quick = any("--quick" in marker["command"] for marker in known_steps(rows).values())
    return (QUICK, *OPENING) if quick else OPENING


# --- what is written ---


def make(out: Path, rows: Path | None = None) -> list[Section]:
    """Everything under ``out``."""
    rows = rows or out / "rows"
    sections, opening = sections_of(rows), opening_of(rows)
    sections.insert(0, Section("glance", "At a glance", blocks=[headlines(sections)]))
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for name in known_steps(rows):
        parquet(rows / f"{name}.csv")
    for section in sections:
        for chart in section.charts:
            _write(out / "figures" / f"{chart.name}.png", chart.png())
    _write(out / "index.html", page(TITLE, opening, sections).encode())
    _write(out / "results.md", markdown(TITLE, opening, sections).encode())
    return sections


def parquet(path: Path) -> None:
    """The rows of a CSV file, beside it."""
    draft = path.with_suffix(".draft")
    pq.write_table(pa.Table.from_pylist(_typed(read(path))), draft)
    os.replace(draft, path.with_suffix(".parquet"))


def _typed(rows: list[Row]) -> list[Row]:
    """A column of whole and other numbers is one of numbers."""
    mixed = {name for row in rows for name, value in row.items() if isinstance(value, float)}
    return [
        {name: float(value) if name in mixed and isinstance(value, int) else value for name, value in row.items()}
        for row in rows
    ]


def headlines(sections: Sequence[Section], kinds: tuple[str, ...] = ("",)) -> Grid:
    """What a reader sees first; of some kinds alone in the README."""
    told = [list(one) for section in sections for one in section.headlines if one[0].startswith(kinds)]
    return Grid(("what", "the paper", "here"), told)


def to_docs(out: Path, docs: Path, sections: Sequence[Section], readme: Path) -> None:
    """The text and its figures, and the marked block of the README."""
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(out / "results.md", docs / "results.md")
    for section in sections:
        for chart in section.charts:
            shutil.copyfile(out / "figures" / f"{chart.name}.png", docs / "figures" / f"{chart.name}.png")
    text = readme.read_text(encoding="utf-8")
    if all(mark in text for mark in MARKS):
        before, rest = text.split(MARKS[0], 1)
        after = rest.split(MARKS[1], 1)[1]
        block = f"{MARKS[0]}\n{table(headlines(sections, IN_README))}\n{MARKS[1]}"
        _write(readme, (before + block + after).encode())


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(content)
    os.replace(draft, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("report/rows"))
    parser.add_argument("--out", type=Path, default=Path("report"))
    parser.add_argument("--docs", type=Path, help="a folder for the text and its figures")
    parser.add_argument(
        "--readme", type=Path, default=ROOT / "README.md", help="its marked block is filled with --docs"
    )
    options = parser.parse_args(arguments)
    sections = make(options.out, options.rows)
    if options.docs:
        to_docs(options.out, options.docs, sections, options.readme)


if __name__ == "__main__":
    main()
