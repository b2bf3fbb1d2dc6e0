"""Update some sections of a written report and keep the others, where only some steps were run again.

Rows of steps are not committed, so a run of some steps has no rows of the others. The text of their sections
stays as it was generated; the lines of the table "At a glance" are replaced by what they name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from page import Grid, Section, table

HEADING = re.compile(r"^## ", re.MULTILINE)


def with_sections(old: str, new: str, sections: Sequence[Section], glance: str) -> str:
    """``old`` with these sections as in ``new``, and their headlines in the table under the heading ``glance``."""
    before, *parts = HEADING.split(old)
    generated = {_title(part): part for part in HEADING.split(new)[1:]}
    titles = {section.title for section in sections}
    parts = _with_new(parts, [title for title in generated if title in titles], list(generated))
    result = [before]
    for part in parts:
        title = _title(part)
        if title == glance:
            part = f"{title}\n\n{with_lines(part, sections)}\n\n"
        elif title in titles:
            part = generated[title].rstrip("\n") + "\n\n"
        result.append(part)
    return "## ".join(result).rstrip("\n") + "\n"


def _with_new(parts: list[str], titles: list[str], order: list[str]) -> list[str]:
    """The parts, and the titles that are none of them, each after the last part that comes before it in ``order``."""
    result = list(parts)
    for title in titles:
        known = [_title(part) for part in result]
        if title not in known:
            before = order[: order.index(title)]
            place = max((at + 1 for at, one in enumerate(known) if one in before), default=len(result))
            result.insert(place, f"{title}\n\n")
    return result


def with_lines(old: str, sections: Sequence[Section]) -> str:
    """The table in ``old``, with the headlines of these sections in place of their own earlier ones."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in old.splitlines()
        if line.startswith("|")
    ]
    headings, lines = rows[0], [[*row, *[""] * (3 - len(row))] for row in rows[2:]]
    for section in sections:
        mine = [list(headline) for headline in section.headlines]
        names = {line[0] for line in mine}
        places = [at for at, line in enumerate(lines) if line[0] in names]
        first = places[0] if places else len(lines)
        kept = [(at, line) for at, line in enumerate(lines) if line[0] not in names]
        lines = [line for at, line in kept if at < first] + mine + [line for at, line in kept if at > first]
    return table(Grid(tuple(headings), lines))


def _title(part: str) -> str:
    return part.split("\n", 1)[0]
