"""Pictures of effects: what an item gains, in log-odds, as a curve with its error, or as a matrix of value pairs.

``picture`` has the numbers, which are saved with the model; ``drawing`` makes one SVG of the pictures of a model, for
``setwise train --plot`` and notebooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import Family
from setwise.training.effects.contrast import ExtremeContrast, MeanContrast
from setwise.training.effects.place import Place, Size
from setwise.training.effects.same_value import AnyOther, Each
from setwise.training.effects.similarity import SHARPNESS, Cosine, Similarity
from setwise.training.effects.threshold import Crowd
from setwise.training.effects.value_pairs import ValuePairs

WIDTH, HEIGHT, MARGIN = 340, 230, 44  # of a panel, in pixels
MOST = 6  # items of one value in a curve
TWO_SIDED = 2.0  # standard errors in a band
GAIN, LOSS, INK = "#1b6ca8", "#d1495b", "#333"
Picture = Mapping[str, Any]


def picture(family: Family | Place, theta: Floats, covariance: Floats) -> Picture:
    """The table of a family of value pairs, or the curve of another: x, y and the error of y."""
    if isinstance(family, ValuePairs):
        table = theta.reshape(len(family.values), len(family.values))
        return {"name": family.name, "values": list(family.values), "table": table.round(4).tolist()}
    title, x, columns = _curve(family, len(theta))
    error = np.sqrt(np.einsum("np,pq,nq->n", columns, covariance, columns))
    curve = {"x": x, "y": columns @ theta, "error": error}
    return {"name": family.name, "title": title, **{name: part.round(4).tolist() for name, part in curve.items()}}


def _curve(family: Family | Place, width: int) -> tuple[str, Floats, Floats]:
    """What x is, its points, and the columns of the family there."""
    count, cosine, deviations = np.arange(MOST + 0.0), np.linspace(-1, 1, 41), np.linspace(-2, 2, 21)
    if isinstance(family, Each):
        return f"further items of the same {family.label.name}", count, count[:, None]
    if isinstance(family, AnyOther):
        return f"further items of the same {family.label.name}", count, (count >= 1)[:, None].astype(float)
    if isinstance(family, Crowd):
        return f"items of the same {family.label.name}", count + 1, (count + 1 >= family.size)[:, None].astype(float)
    if isinstance(family, Size):
        return "further items of the slate", count, count[:, None]
    if isinstance(family, Place):
        return "place", np.arange(width + 1.0) + 1, np.eye(width + 1)[:, 1:]
    if isinstance(family, (MeanContrast, ExtremeContrast)):
        return f"{family.name}, in standard deviations", deviations, deviations[:, None]
    if isinstance(family, Cosine):
        return f"cosine of {family.vector.name}", cosine, cosine[:, None]
    if isinstance(family, Similarity):
        return f"cosine of {family.vector.name}", cosine, np.exp(np.array(SHARPNESS) * (cosine[:, None] - 1))
    raise TypeError(f"no picture of {type(family).__name__}")


def drawing(pictures: Sequence[Picture]) -> str:
    """One SVG with a panel for each picture, one below the other."""
    panels = [_matrix(shown) if "table" in shown else _plot(shown) for shown in pictures]
    size = f'width="{WIDTH}" height="{HEIGHT * max(len(panels), 1)}"'
    placed = (f'<g transform="translate(0,{HEIGHT * place})">{panel}</g>' for place, panel in enumerate(panels))
    font = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} fill="{INK}">{"".join(placed)}</svg>\n'


def _plot(shown: Picture) -> str:
    """A curve, its band of two errors, and the line of no effect."""
    x, y, error = (np.array(shown[name], float) for name in ("x", "y", "error"))
    low, high = min(0.0, float((y - TWO_SIDED * error).min())), max(0.0, float((y + TWO_SIDED * error).max()))
    across = MARGIN + (x - x[0]) / max(x[-1] - x[0], 1e-9) * (WIDTH - 2 * MARGIN)

    def down(level: Floats | float) -> Any:
        return HEIGHT - MARGIN - (level - low) / max(high - low, 1e-9) * (HEIGHT - 2 * MARGIN)

    band = np.concatenate([down(y - TWO_SIDED * error), down(y + TWO_SIDED * error)[::-1]])
    zero, right = down(0.0), WIDTH - MARGIN
    return (
        f'<polygon points="{_points(np.concatenate([across, across[::-1]]), band)}" fill="{GAIN}" opacity="0.2"/>'
        f'<polyline points="{_points(across, down(y))}" fill="none" stroke="{GAIN}" stroke-width="2"/>'
        f'<line x1="{MARGIN}" y1="{zero:.1f}" x2="{right}" y2="{zero:.1f}" stroke="{INK}" stroke-width="0.5"/>'
        + _text(MARGIN, 18, f"{shown['name']}: log-odds of an item", "start")
        + _text(WIDTH / 2, HEIGHT - 8, shown["title"])
        + "".join(_text(MARGIN - 4, float(down(level)) + 4, f"{level:+.2f}", "end") for level in {low, high})
        + "".join(_text(float(at), HEIGHT - 24, f"{value:g}") for at, value in ((across[0], x[0]), (across[-1], x[-1])))
    )


def _matrix(shown: Picture) -> str:
    """A cell for each pair: the colour of gain or loss, stronger for more, and the number in its title."""
    table, values = np.array(shown["table"], float), shown["values"]
    cell, most = (HEIGHT - 2 * MARGIN) / len(values), max(float(np.abs(table).max()), 1e-9)
    cells = []
    for row, column in np.ndindex(table.shape):
        effect = table[row, column]
        place = f'x="{MARGIN + column * cell:.1f}" y="{MARGIN + row * cell:.1f}" width="{cell:.1f}" height="{cell:.1f}"'
        colour = f'fill="{GAIN if effect > 0 else LOSS}" opacity="{abs(effect) / most:.3f}"'
        title = escape(f"{values[row]} beside {values[column]}: {effect:+.2f}")
        cells.append(f"<rect {place} {colour}><title>{title}</title></rect>")
    names = "".join(
        _text(MARGIN - 4, MARGIN + (row + 0.7) * cell, str(value)[:7], "end") for row, value in enumerate(values)
    )
    for column, value in enumerate(values):
        place = f"translate({MARGIN + (column + 0.8) * cell:.1f},{HEIGHT - MARGIN + 10}) rotate(-50)"
        names += f'<g transform="{place}">{_text(0, 0, str(value)[:7], "end")}</g>'
    return _text(8, 18, f"{shown['name']}: row beside column, ±{most:.2f} log-odds", "start") + "".join(cells) + names


def _points(x: Floats, y: Floats) -> str:
    return " ".join(f"{first:.1f},{second:.1f}" for first, second in zip(x, y, strict=True))


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
