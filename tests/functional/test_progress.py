"""The progress of MVs is printed by runs and by an operation, and returned by a macro as a select.

`test_install_modes.py` tests the numbers in `run_results.json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.checks import model, source
from support.profiles import at_home_on_iceberg
from support.project import MakeProject, Project, RunResult

ROWS = 1000
QUERY = f"select id, name from {source('people')}"
TOLD = "{{ config(materialized='table') }} select * from ({{ dbt_backfill.%s() }}) as told"


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    """Create models whose MVs do not exist yet, and two models that read the MVs' progress."""
    project = shared_project("progress")
    project.create_table("people", "id int, name string")
    project.sql(
        "insert into {schema}.people"
        f" select cast(id as int), concat('n', id) from range(1, {ROWS + 1})"
    )
    project.write(
        {
            "slow": model(QUERY, backfill_rate_limit=10, barriers_per_run=2),
            "some": model(QUERY, backfill_vnodes=[0], barriers_per_run="all"),
            "wide": model(QUERY),
            "told": TOLD % "backfill_progress",
            "told_vnodes": TOLD % "backfill_progress_by_vnode",
        },
        sources=["people"],
    )
    return project


def told(project: Project) -> dict[str, dict[str, Any]]:
    """Run the two models that read the progress. Return their rows by MV, or by MV and vnode."""
    project.run("--select", "told", "told_vnodes")
    rows = {row["model"]: row.asDict() for row in project.sql("select * from {schema}.told")}
    vnodes = project.sql("select * from {schema}.told_vnodes")
    return rows | {f"{row['model']} {row['vnode']}": row.asDict() for row in vnodes}


def progress_of_barriers(result: RunResult, name: str) -> list[float]:
    found = re.findall(rf"^{name} \[BARRIER \d+ · ([\d.]+) %", result.output, re.MULTILINE)
    return [float(share) for share in found]


def test_a_delta_mv_and_its_upstream_are_asked(new_project: Callable[[], Project]) -> None:
    project = new_project()
    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people values (1, 'ann'), (2, 'bob'), (3, 'cid')")
    project.write(
        {"mv": model(QUERY, backfill_rate_limit=2), "told": TOLD % "backfill_progress"},
        sources=["people"],
    )
    project.run("--select", "mv")
    project.sql("update {schema}.people set name = 'zoe' where id = 2")
    project.sql("update {schema}.people set name = 'eve' where id = 3")

    lines = project.operation("backfill_progress").output
    assert re.search(r"^mv +66\.7 % +2 of 3 +\S+ +\d+ (s|min) +2 \(\d+ s\)$", lines, re.MULTILINE)
    project.run("--select", "told")
    [row] = project.sql("select progress, rows_left, rows_per_second > 0 from {schema}.told")
    assert tuple(row) == (pytest.approx(2 / 3), 1, True)


@at_home_on_iceberg
def test_what_is_told_is_true_from_the_first_barrier_to_the_last(project: Project) -> None:
    # No MV exists yet.
    assert told(project) == {}
    columns = [row[0] for row in project.sql("describe {schema}.told")]
    assert {"model", "progress", "rows_per_second", "seconds_left", "lag_seconds"} <= set(columns)

    begun = project.run("--select", "slow", "some", "wide")
    assert progress_of_barriers(begun, "slow") == [1.0, 2.0]
    first = re.search(r"^slow \[BARRIER 1 · (.*)\]$", begun.output, re.MULTILINE)
    assert first and re.search(r" rows/s, 99 barriers left \(about \d+ (s|min)\)$", first[1])

    seen = told(project)
    slow, some, wide = seen["slow"], seen["some"], seen["wide"]
    assert (slow["progress"], slow["backfill_finished"]) == (0.02, False)
    assert (slow["row_count"], slow["upstream_row_count"], slow["rows_left"]) == (20, ROWS, 980)
    assert (slow["epoch"], slow["planned"], slow["mode"]) == (2, None, "arrangement")
    assert slow["seconds_left"] == pytest.approx(980 / slow["rows_per_second"])
    assert 0.1 < slow["rows_per_second"] < 100
    assert slow["upstream_version"] == project.current_version("people")
    assert 0 <= slow["lag_seconds"] < 3600
    assert (wide["progress"], wide["backfill_finished"], wide["rows_left"]) == (1.0, True, 0)
    assert (wide["rows_per_second"], wide["seconds_left"]) == (None, 0.0)
    assert (some["vnodes_finished"], some["vnode_count"]) == (1, 4)
    assert 0.1 < some["rows_per_second"] < 5000
    assert 0 < some["progress"] < 0.5 and not some["backfill_finished"]

    at_20 = [seen[f"slow {vnode}"] for vnode in range(4)]
    assert [row["progress"] for row in at_20] == [pytest.approx(0.02)] * 4
    assert sum(row["row_count"] for row in at_20) == 20
    assert {row["current_pos"] for row in at_20} == {'{"id":20}'}
    assert (seen["some 0"]["progress"], seen["some 0"]["backfill_finished"]) == (1.0, True)
    assert (seen["some 1"]["progress"], seen["some 1"]["current_pos"]) == (0.0, None)

    # The operation prints a table. It computes the lag from the upstream's log.
    project.sql("delete from {schema}.people where id = 5")
    project.operation("throttle_backfill", model="slow", rows=600, by="alice")
    # The operation must also work if a model of the project uses the macro of the same name.
    project.write({"told": TOLD % "backfill_progress" + "\n"})
    lines = project.operation("backfill_progress").messages
    told_of = {line.split()[0]: line for line in lines if not line.startswith(" ") and line}
    assert re.search(r"^slow +2\.0 % +20 of 1,000 +\S+ +\S+ (s|min|h) +1 \(", told_of["slow"])
    assert re.search(r"^wide +100\.0 % +1,000 +1 \(\d+ s\)$", told_of["wide"])
    assert "  1 of 4 vnodes have finished" in lines
    assert any(line.startswith("  throttled to 600 rows by alice since 20") for line in lines)
    assert max(map(len, told_of.values())) <= 80
    by_vnode = project.operation("backfill_progress", model="some", by="vnode").output
    assert re.search(r"^0 +100\.0 % +\d+  end$", by_vnode, re.MULTILINE)
    assert re.search(r"^1 +0\.0 % +0 of about 250  not begun$", by_vnode, re.MULTILINE)

    # Let `slow` read all its rows, and fill a new column of `wide`.
    project.write({
        "slow": model(QUERY, backfill_rate_limit=10, barriers_per_run="all"),
        "wide": model(
            QUERY.replace("name", "name, upper(name) as shout", 1),
            on_schema_change="append_new_columns", backfill_rate_limit=400,
        ),
    })  # fmt: skip
    shares = progress_of_barriers(project.run("--select", "slow", "wide"), "slow")
    assert shares == sorted(shares) and shares[0] > 3
    assert [share == 100 for share in shares] == [False] * (len(shares) - 1) + [True]

    seen = told(project)
    slow, some = seen["slow"], seen["some"]
    assert (slow["progress"], slow["backfill_finished"]) == (1.0, True)
    assert (slow["rate_limit"], slow["ruled_by"], slow["set_by"]) == (600, "throttle", "alice")
    assert (some["rate_limit"], some["ruled_by"], some["paused"]) == (None, "config", False)
    assert (seen["wide"]["filling"], seen["wide"]["backfill_finished"]) == ("shout", False)
    assert seen["wide"]["progress"] == pytest.approx(0.4, abs=0.05)
    assert seen["wide"]["rows_left"] == ROWS - round(seen["wide"]["progress"] * ROWS)
