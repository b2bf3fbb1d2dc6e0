"""The charts of the report: plain Vega-Lite by altair, from aggregates alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

Point = dict[str, Any]
Spec = dict[str, Any]

WIDTH, HEIGHT, COLUMNS = 250, 190, 3
COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#8d6a9f", "#b8860b", "#555555", "#2aa198", "#cb4b16"]


def lines(
    points: Sequence[Point],
    x: str,
    y: str,
    colour: str,
    *,
    dash: str | None = None,
    panel: str | None = None,
    band: tuple[str, str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    dots: bool = True,
    order: str | None = None,
) -> Spec:
    """Curves in panels; ``band`` names the columns of its limits, ``order`` the column that orders the points."""
    base = alt.Chart().encode(
        x=alt.X(f"{x}:Q", scale=alt.Scale(type="log" if log_x else "linear", nice=False)),
        color=alt.Color(f"{colour}:N", scale=alt.Scale(range=COLOURS), sort=None, legend=alt.Legend(symbolOpacity=1)),
    )
    scale = alt.Scale(type="log") if log_y else alt.Scale(zero=False)
    drawn = base.mark_line(point=dots, strokeWidth=1.8).encode(y=alt.Y(f"{y}:Q", scale=scale))
    if dash is not None:
        drawn = drawn.encode(strokeDash=alt.StrokeDash(f"{dash}:N", sort=None))
    if order is not None:
        drawn = drawn.encode(order=f"{order}:Q")
    if band is not None:
        area = base.mark_area(opacity=0.07).encode(y=alt.Y(f"{band[0]}:Q", title=y, scale=scale), y2=f"{band[1]}:Q")
        if dash is not None:
            area = area.encode(detail=f"{dash}:N")
        return _panels(alt.layer(area, drawn), points, panel)
    return _panels(drawn, points, panel)


def dots(points: Sequence[Point], x: str, y: str, colour: str, panel: str | None = None) -> Spec:
    """One dot a row of names."""
    chart = (
        alt.Chart()
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(zero=False)),
            y=alt.Y(f"{y}:N", sort=None, title=None),
            color=alt.Color(f"{colour}:N", scale=alt.Scale(range=COLOURS), sort=None),
            shape=alt.Shape(f"{colour}:N", sort=None),
        )
    )
    return _panels(chart, points, panel)


def bubbles(points: Sequence[Point], x: str, y: str, size: str, panel: str) -> Spec:
    """Where pairs lie, in squares of a grid, with the line on which both are equal."""
    cloud = (
        alt.Chart()
        .mark_circle(opacity=0.7, color=COLOURS[0])
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(zero=False)),
            y=alt.Y(f"{y}:Q", title=y, scale=alt.Scale(zero=False)),
            size=alt.Size(f"{size}:Q", scale=alt.Scale(range=[4, 160])),
        )
    )
    equal = alt.Chart().mark_line(color="#999", strokeDash=[4, 3]).encode(x=f"{x}:Q", y=alt.Y(f"{x}:Q", title=y))
    return _panels(alt.layer(cloud, equal), points, panel)


def _panels(chart: Any, points: Sequence[Point], panel: str | None) -> Spec:
    data = alt.Data(values=list(points))
    sized = chart.properties(width=WIDTH if panel else 2 * WIDTH, height=HEIGHT)
    if panel is None:
        return dict(sized.properties(data=data).to_dict())
    names = list(dict.fromkeys(point[panel] for point in points))
    faceted = sized.facet(facet=alt.Facet(f"{panel}:N", title=None, sort=names), data=data, columns=COLUMNS)
    return dict(faceted.resolve_scale(x="independent", y="independent").to_dict())
