"""How far MVs are: in the lines of a run, as a select, and as a table.

`test_install_modes.py` has the numbers of `run_results.json`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.checks import model, source
from support.project import MakeProject, Project, RunResult

ROWS = 1000
QUERY = f"select id, name from {source('people')}"
TOLD = "{{ config(materialized='table') }} select * from ({{ dbt_backfill.%s() }}) as told"


def slow(**config: Any) -> str:
    return model(QUERY, **config)


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    """MVs that are to be filled, and two models of the user's own that look at them."""
    project = shared_project("progress")
    project.create_table("people", "id int, name string")
    project.sql(
        "insert into {schema}.people"
        f" select cast(id as int), concat('n', id) from range(1, {ROWS + 1})"
    )
    project.write(
        {
            "slow": slow(backfill_rate_limit=10, barriers_per_run=3),
            "some": slow(backfill_vnodes=[0], barriers_per_run="all"),
            "wide": slow(),
            "told": TOLD % "backfill_progress",
            "told_vnodes": TOLD % "backfill_progress_by_vnode",
        },
        sources=["people"],
    )
    return project


def told(project: Project) -> dict[str, dict[str, Any]]:
    """What the user's models have by the name of the MV, and by that and the vnode."""
    project.run("--select", "told", "told_vnodes")
    rows = {row["model"]: row.asDict() for row in project.sql("select * from {schema}.told")}
    vnodes = project.sql("select * from {schema}.told_vnodes")
    return rows | {f"{row['model']} {row['vnode']}": row.asDict() for row in vnodes}


def progress_of_barriers(result: RunResult, name: str) -> list[float]:
    found = re.findall(rf"^{name} \[BARRIER \d+ · ([\d.]+) %", result.output, re.MULTILINE)
    return [float(share) for share in found]


def test_progress(project: Project) -> None:
    """One test: each step goes on from the one before it."""
    assert told(project) == {}
    columns = [row[0] for row in project.sql("describe {schema}.told")]
    assert {"model", "progress", "rows_per_second", "seconds_left", "lag_seconds"} <= set(columns)

    begun = project.run("--select", "slow", "some", "wide")
    print(begun.output)
    for k, v in told(project).items():
        print(k, v)
    print(project.operation("backfill_progress").output)
    print(project.operation("backfill_progress", model="some", by="vnode").output)
