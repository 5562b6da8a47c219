"""Samples of the content of `dbt-backfill report`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbt.adapters.spark_backfill.cli.report import Report

RECORDED = Path(__file__).resolve().parents[1] / "unit" / "data" / "report.jsonl"

HOSTILE = "a<b>&\"'</title><script>alert(1)</script>"


def recorded() -> Report:
    """Return what `dbt-backfill report --json` printed on Iceberg, after a pause and a throttle."""
    head, *mvs = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return Report(head, mvs)


def recorded_mv(of: str = "flights_delayed", **changes: Any) -> dict[str, Any]:
    """Return one MV of the recorded report, with these changes.

    A change to None removes the entry, because the SQL of the report leaves out nulls.
    """
    [found] = [mv for mv in recorded().mvs if mv["model"] == of]
    return {name: value for name, value in {**found, **changes}.items() if value is not None}


def every_case() -> Report:
    """Return the recorded MVs, and MVs that are hard to display."""
    cases = [*_hard_cases()]
    numbered = [{**mv, "model": f"{mv['model']}{number}"} for number, mv in enumerate(cases)]
    head = {**recorded().head, "project": HOSTILE, "target": HOSTILE}
    return Report(head, [*recorded().mvs, *numbered])


def _hard_cases() -> Iterator[dict[str, Any]]:
    mv = recorded_mv()
    [first, *_], groups = mv["barriers"], mv["barriers"]
    wide = [
        {**first, "first_vnode": 2 * number, "last_vnode": 2 * number + 1, "vnodes": 2,
         "finished": 2 * (number < 40), "begun": 2 * (number < 90), "row_count": 7,
         "progress": 1.0 if number < 40 else 0.3}
        for number in range(256)
    ]  # fmt: skip
    stalled = [{**groups[0], "executing": 9e5, "reading": 9e5}, *groups[1:]]
    many = [
        {**group, "first_epoch": 3 * number + 1, "last_epoch": 3 * number + 3, "barriers": 3}
        for number, group in enumerate(groups)
    ]
    event = {"epoch": 2, "kind": "reanchor", "reason": HOSTILE, "committed_at": first["begun_at"]}
    hostile = [{**group, "notable": [event]} for group in groups]
    unknown = [{**groups[0], "row_count": None, "row_count_before": None}, *groups[1:]]
    setting = {"value": "0", "set_by": HOSTILE, "set_at": first["begun_at"]}
    yield recorded_mv(
        barriers=[], vnodes=[], epoch=0, kind=None, source=None, upstream_version=None,
        committed_at=None, progress=0.0, row_count=0, upstream_row_count=None,
        rows_per_second=None, seconds_left=None, behind=None,
    )  # fmt: skip
    yield recorded_mv(barriers=groups[:1], generation="next", filling="name", planned="fill")
    yield recorded_mv(barriers=stalled, vnodes=wide, vnode_count=512, sweeping=True)
    yield recorded_mv(barriers=many, behind=None, behind_seconds=None)
    yield recorded_mv(barriers=unknown, behind=1, behind_seconds=90_000)
    yield recorded_mv(
        barriers=hostile, controls=[setting], model=HOSTILE, relation=HOSTILE, set_by=HOSTILE,
        source={"relation": HOSTILE}, filling=HOSTILE,
    )  # fmt: skip
    yield {"model": HOSTILE, "generation": None, "why": HOSTILE}
