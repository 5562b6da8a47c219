"""The plots of a report, as SVG inside a page: Vega-Lite describes them, vl-convert draws them.

A plot takes its colours from the page's CSS variables, so it follows the page's theme. Its text
stays text. A plot has no description for a screen reader: the page adds a description and a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Spec = dict[str, Any]

WIDTH, HEIGHT, MAP_CELL = 380, 200, 20
"""The size of the SVG in CSS pixels. A phone and a desktop both show it at about this size."""

CONFIG: Spec = {
    "aria": False,
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--axis)",
        "grid": False,
        "gridColor": "var(--grid)",
        "labelColor": "var(--muted)",
        "labelFontSize": 12,
        "labelOverlap": True,
        "labelPadding": 4,
        "labelSeparation": 16,
        "tickColor": "var(--axis)",
        "tickSize": 4,
        "title": None,
    },
    "axisY": {"domain": False, "grid": True, "ticks": False, "tickCount": 4},
    "title": {
        "anchor": "start",
        "color": "var(--muted)",
        "fontSize": 12,
        "fontWeight": "normal",
        "frame": "bounds",
        "offset": 8,
    },
}


@dataclass(frozen=True)
class Bar:
    """The parts of one bar from bottom to top; None for a part that the bar lacks."""

    first: int
    last: int
    parts: tuple[float | None, ...]

    @property
    def height(self) -> float:
        return sum(part or 0.0 for part in self.parts)


@dataclass(frozen=True)
class Step:
    """The progress of a backfill from a time on; None if the progress is not known."""

    at: datetime
    rows: int | None
    of: int | None


def progress(
    steps: Sequence[Step],
    pauses: Sequence[tuple[datetime, datetime]] = (),
    throttles: Sequence[datetime] = (),
) -> str:
    """Plot the rows over time, below the rows of the upstream. Paused times are shaded."""
    first, last = _millis(steps[0].at), _millis(steps[-1].at)
    last = max(last, first + 1000)
    x = {
        "type": "temporal",
        "scale": {"type": "utc", "domain": [first, last]},
        "axis": {"format": _time_format(last - first), "tickCount": 4},
    }
    data = [{"at": _millis(step.at), "rows": step.rows, "of": step.of} for step in steps]
    inside = [
        {"from": max(_millis(since), first), "to": min(_millis(until), last)}
        for since, until in pauses
    ]
    set_at = [{"at": _millis(at)} for at in throttles if first <= _millis(at) <= last]
    most = max([step.rows or 0 for step in steps] + [step.of or 0 for step in steps])
    y = _y_axis(most, whole=True)
    stepped = {"interpolate": "step-after", "invalid": "break-paths-filter-domains"}
    layers: list[Spec] = [
        {
            "data": {"values": [band for band in inside if band["from"] < band["to"]]},
            "mark": {"type": "rect", "color": "var(--band)"},
            "encoding": {"x": {"field": "from", **x}, "x2": {"field": "to"}},
        },
        {
            "mark": {"type": "area", "color": "var(--s1)", "opacity": 0.22, **stepped},
            "encoding": {"x": {"field": "at", **x}, "y": {"field": "rows", **y}},
        },
        {
            "mark": {"type": "line", "color": "var(--s1)", "strokeWidth": 2.5, **stepped},
            "encoding": {"x": {"field": "at", **x}, "y": {"field": "rows", **y}},
        },
        {
            "mark": {
                "type": "line",
                "color": "var(--text)",
                "strokeDash": [5, 4],
                "strokeWidth": 1.5,
                **stepped,
            },
            "encoding": {"x": {"field": "at", **x}, "y": {"field": "of", **y}},
        },
        {
            "data": {"values": set_at},
            "mark": {"type": "rule", "color": "var(--s2)", "strokeWidth": 2},
            "encoding": {"x": {"field": "at", **x}},
        },
    ]
    return draw({"title": "rows", "data": {"values": data}, "layer": layers})


def bars(
    bars: Sequence[Bar],
    colors: Sequence[str],
    unit: str,
    *,
    line: float | None = None,
    whole: bool = False,
) -> str:
    """Plot a bar per group of barriers, with its parts on top of each other, and a dashed line.

    A bar that is much higher than the others is cut at the height that `top` returns.
    """
    end = top(bars)
    shapes = []
    for bar in bars:
        base = 0.0
        for part, color in zip(bar.parts, colors, strict=True):
            low, high = min(base, end), min(base + (part or 0.0), end)
            if high > low:
                where = {"from": bar.first - 0.42, "to": bar.last + 0.42}
                shapes.append({**where, "low": low, "high": high, "color": color})
            base += part or 0.0
    first, last = bars[0].first, max(bars[-1].last, bars[0].first + 4)
    x: Spec = {
        "type": "quantitative",
        "scale": {"domain": [first - 0.6, last + 0.6], "nice": False, "zero": False},
        "axis": {"format": ",d", "tickMinStep": 1, "tickCount": 6},
    }
    if bars[-1].last < last:
        x["axis"] = {"format": ",d", "values": list(range(first, bars[-1].last + 1))}
    y = _y_axis(max(end, line or 0.0), whole=whole)
    layers: list[Spec] = [
        {
            "data": {"values": shapes},
            "mark": {"type": "rect"},
            "encoding": {
                "x": {"field": "from", **x},
                "x2": {"field": "to"},
                "y": {"field": "low", **y},
                "y2": {"field": "high"},
                "color": {"field": "color", "type": "nominal", "scale": None},
            },
        }
    ]
    if line is not None:
        layers.append(
            {
                "mark": {"type": "rule", "color": "var(--text)", "strokeDash": [5, 4]},
                "encoding": {"y": {"datum": line, **y}},
            }
        )
    return draw({"title": unit, "data": {"values": [{}]}, "layer": layers})


def top(bars: Sequence[Bar]) -> float:
    """Return the end of the axis: the height of the highest bar. If a few bars are much higher than
    all others, the axis ends below them.

    If a later run completed the plan of a barrier, the barrier's bar includes the time between the
    runs. At full height, this bar would make all other bars very low.
    """
    heights = sorted(bar.height for bar in bars if bar.height > 0)
    if not heights:
        return 1.0
    most = heights[math.ceil(len(heights) * 0.9) - 1]
    return heights[-1] if heights[-1] <= 5 * most else 1.5 * most


def vnode_map(cells: Sequence[tuple[int, float, bool]]) -> str:
    """Plot a cell per vnode, or per group of vnodes. A cell is the first vnode, the share that was
    read, and True if the vnodes have ended."""
    columns = min(len(cells), 16 if len(cells) <= 128 else 32)
    rows = math.ceil(len(cells) / columns)
    backs, fills = [], []
    for number, (_, share, finished) in enumerate(cells):
        left, up = number % columns, number // columns
        x = {"from": left + 0.06, "to": left + 0.94}
        backs.append({**x, "low": up + 0.08, "high": up + 0.92})
        if share > 0 or finished:
            height = 0.84 * (1.0 if finished else min(max(share, 0.1), 0.95))
            color = "var(--s1)" if finished else "var(--s1-soft)"
            fills.append({**x, "low": up + 0.92 - height, "high": up + 0.92, "color": color})
    at_left = {str(up + 0.5): f"{cells[up * columns][0]:,}" for up in range(rows)}
    below = {str(left + 0.5): f"{cells[left][0]:,}" for left in range(columns)}
    x_axis = {"values": [float(at) for at in below], "labelExpr": _labels(below), "domain": False}
    y_axis = {"values": [float(at) for at in at_left], "labelExpr": _labels(at_left)}
    encoding = {
        "x": {
            "field": "from",
            "type": "quantitative",
            "scale": {"domain": [0, columns], "nice": False},
            "axis": {**x_axis, "ticks": False} if rows == 1 else None,
        },
        "x2": {"field": "to"},
        "y": {
            "field": "low",
            "type": "quantitative",
            "scale": {"domain": [rows, 0], "nice": False},
            "axis": {**y_axis, "grid": False, "ticks": False, "domain": False}
            if rows > 1
            else None,
        },
        "y2": {"field": "high"},
    }
    back = {"type": "rect", "color": "var(--cell)", "stroke": "var(--axis)", "strokeWidth": 0.75}
    layers: list[Spec] = [
        {"data": {"values": backs}, "mark": back, "encoding": encoding},
        {
            "data": {"values": fills},
            "mark": {"type": "rect"},
            "encoding": {
                **encoding,
                "color": {"field": "color", "type": "nominal", "scale": None},
            },
        },
    ]
    return draw({"title": "first vnode of a row" if rows > 1 else "vnode", "layer": layers},
                 height=44 + max(rows, 2) * MAP_CELL)  # fmt: skip


def _labels(texts: dict[str, str]) -> str:
    """Return Vega's expression for the labels of an axis at these values."""
    pairs = ", ".join(f"'{at}': '{text}'" for at, text in texts.items())
    return f"{{{pairs}}}[toString(datum.value)]"


def _y_axis(most: float, *, whole: bool) -> Spec:
    """Return an axis that begins at 0, with few labels. Large values are in thousands or
    millions."""
    label = "datum.value == 0 ? '0' : datum.label"
    axis: Spec = {"format": "~s" if most >= 10 else "~g", "labelExpr": label}
    if whole:
        axis["tickMinStep"] = 1
    return {
        "type": "quantitative",
        "scale": {"domain": [0, most or 1], "nice": 4},
        "axis": axis,
    }


def _time_format(millis: int) -> str:
    minutes = millis / 60_000
    if minutes < 8:
        return "%H:%M:%S"
    return "%H:%M" if minutes < 24 * 60 else "%b %d" if minutes > 4 * 24 * 60 else "%b %d, %H:%M"


def _millis(at: datetime) -> int:
    return round(at.astimezone(UTC).timestamp() * 1000)


def draw(spec: Spec, height: int = HEIGHT, width: int = WIDTH) -> str:
    """Return the SVG element of a Vega-Lite spec. The colours may be CSS variables."""
    import vl_convert  # an extra, and slow to load

    svg = vl_convert.vegalite_to_svg(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "width": width,
            "height": height,
            "padding": 2,
            "autosize": {"type": "fit", "contains": "padding"},
            "config": CONFIG,
            **spec,
        }
    )
    return _slim(svg)


def _slim(svg: str) -> str:
    """Return the SVG with coordinates rounded to 0.1 pixels, and without the parts that only a
    separate file needs."""
    svg = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r"<svg \1>", svg, count=1)
    svg = re.sub(r' (?:class|role|pointer-events|aria-[a-z]+)="[^"]*"| opacity="1"', "", svg)
    svg = re.sub(r'<path d="M0,0h0v0h0Z"/>|<path d="" display="none"/>', "", svg)
    return re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), svg)
