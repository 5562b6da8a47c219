"""The plot of the results: each time as a multiple of `create table as select`.

Vega-Lite describes the plot and vl-convert draws it, as in `dbt-backfill report`. The plot is a
separate file, so that it can follow the reader's colour scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costs import acts
from costs.figures import Result
from dbt.adapters.spark_backfill.cli import plots

WIDTH, ROW, LABELS = 800, 34, 230
"""Sizes in pixels.

The width of labels is measured with a font that differs from the reader's font.
"""

COLORS = {
    acts.CTAS: "var(--ctas)",
    acts.TABLE: "var(--table)",
    acts.INSERTS: "var(--inserts)",
    acts.MERGES: "var(--merges)",
    acts.INCREMENTAL: "var(--incremental)",
    acts.BY_DATE: "var(--by-date)",
    acts.BACKFILLED: "var(--mv)",
}
VARIANT = "var(--variant)"
"""The project with further options."""

STYLE = """<style>
svg { --axis: #888; --grid: #ddd; --muted: #444; --ctas: #777; --table: #aaa; --inserts: #9467bd;
--merges: #1f77b4; --incremental: #2ca02c; --by-date: #98a020; --mv: #d62728; --variant: #e377c2 }
@media (prefers-color-scheme: dark) {
svg { --axis: #999; --grid: #444; --muted: #ccc; --ctas: #aaa; --table: #777; --inserts: #b794e0;
--merges: #6ab0f3; --incremental: #5fd35f; --by-date: #d0d860; --mv: #ff6b6b; --variant: #f7a8dd }
}
</style>"""

Spec = dict[str, Any]


def plot(results: Sequence[Result]) -> str | None:
    """Return an SVG file of the workloads of one format that include `create table as select`.

    None if there is no such workload.
    """
    points = [point for result in results for point in _points(result)]
    if not points:
        return None
    titles = list(dict.fromkeys(point["workload"] for point in points))
    names = sorted({point["act"] for point in points}, key=_place)
    svg = plots.draw(_spec(points, titles, names), len(titles) * ROW + 80, WIDTH)
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f">{STYLE}", 1
    )


def _points(result: Result) -> list[Spec]:
    spreads = {
        act: spread
        for act in dict.fromkeys(each.act for each in result.measured)
        if act != acts.CTAS and (spread := result.ratio(act, acts.CTAS)) is not None
    }
    return [
        {
            "workload": result.title,
            "act": act,
            "median": spread.median,
            "low": spread.low,
            "high": spread.high,
        }
        for act, spread in spreads.items()
    ]


def _place(act: str) -> tuple[int, str]:
    """Return the sort key of an act: the order of `COLORS`. Variants of the project come last."""
    names = list(COLORS)
    return (names.index(act) if act in names else len(names), act)


def _spec(points: list[Spec], titles: list[str], names: list[str]) -> Spec:
    y = {
        "field": "workload",
        "type": "nominal",
        "sort": titles,
        "axis": {
            "grid": True,
            "labelLimit": 300,
            "labelOverlap": False,
            "minExtent": LABELS,
            "tickBand": "extent",
        },
    }
    x = {
        "field": "median",
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {"grid": True, "format": "~g", "tickCount": 6},
    }
    offset = {"field": "act", "type": "nominal", "sort": names}
    color = {
        "field": "act",
        "type": "nominal",
        "scale": {"domain": names, "range": [COLORS.get(name, VARIANT) for name in names]},
        "legend": {
            "title": None,
            "orient": "bottom",
            "columns": 3,
            "columnPadding": 60,
            "labelColor": "var(--muted)",
            "labelLimit": 240,
        },
    }
    shared = {"y": y, "yOffset": offset, "color": color}
    low_to_high = {**shared, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    dashed = {"type": "rule", "strokeDash": [4, 3], "color": "var(--muted)"}
    return {
        "title": "times create table as select of the same rows, median and range of the rounds",
        "data": {"values": points},
        "layer": [
            {"mark": dashed, "encoding": {"x": {"datum": 1}}},
            {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": low_to_high},
            {
                "mark": {"type": "point", "filled": True, "size": 36, "opacity": 1},
                "encoding": {**shared, "x": x},
            },
        ],
    }
