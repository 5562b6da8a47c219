"""`rescale_backfill`: another number of vnodes in the middle of a backfill."""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import (
    assert_writes_nothing,
    data_tests,
    model,
    refused_operation,
    source,
    statuses,
)
from support.project import Project, RunResult, crash_before

QUERY = f"select id, name from {source('people')} where id % 10 <> 0"
COUNTS = "select count(*), count_if(vnode < {0}), sum(row_count) from {{schema}}.mv__progress"


def write(project: Project, **config: Any) -> None:
    options = {"vnode_count": 16, "backfill_rate_limit": 40, **config}
    properties = data_tests(project, "mv")
    project.write({"mv": model(QUERY, **options)}, sources=["people"], properties=properties)


@pytest.fixture
def project(project: Project) -> Project:
    project.create_table("people", "id int, name string")
    row = "cast(id as int), concat('n', id)"
    project.sql(f"insert into {{schema}}.people select {row} from range(1, 101)")
    write(project)
    return project


def rescale(project: Project, vnode_count: int) -> RunResult:
    return project.operation("rescale_backfill", model="mv", vnode_count=vnode_count)


def positions(project: Project) -> list[tuple[Any, ...]]:
    columns = "epoch, id, backfill_finished, upstream_version"
    return project.rows(f"select distinct {columns} from {{schema}}.mv__progress")


def fresh(project: Project) -> Any:
    return project.rows("select id, name from {schema}.people where id % 10 <> 0")


@pytest.mark.every_profile
def test_a_backfill_goes_on_with_more_vnodes_and_with_fewer(project: Project) -> None:
    project.run("--select", "mv")
    mv = project.current_version("mv")
    [before] = positions(project)
    assert before[:3] == (1, 40, False)

    up = rescale(project, 256)
    assert "mv [BARRIER 2 · 40.0 % · rescaled from 16 to 256 vnodes]" in up.output
    assert project.current_version("mv") == mv
    assert positions(project) == [(2, *before[1:])]
    assert project.rows(COUNTS.format(256)) == [(256, 256, 40)]
    assert (
        "mv: it has 256 vnodes"
        in assert_writes_nothing(project, lambda: rescale(project, 256)).output
    )
    assert statuses(project)["consistent"] == "pass"

    # Changes, and the next range: by the 256 vnodes, although the model says 16.
    project.sql("update {schema}.people set name = 'later' where id in (7, 77)")
    more = project.run("--select", "mv")
    assert (
        "mv has 256 vnodes; vnode_count is 16, which counts when it is rebuilt. To" in more.output
    )
    assert "mv [BARRIER 3 · 80.0 % · 80 of 100 rows · +40 backfilled · 1 changed" in more.output

    rescale(project, 4)
    assert [row[:3] for row in positions(project)] == [(4, 80, False)]
    assert project.rows(COUNTS.format(4)) == [(4, 4, 80)]
    write(project, vnode_count=4)
    last = project.run("--select", "mv")
    assert "mv has " not in last.output
    assert "mv [BARRIER 5 · 100.0 % · 100 rows · +20 backfilled" in last.output
    assert project.rows("select * from {schema}.mv") == fresh(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    kinds = "select kind, reason, vnode_count from {schema}.mv__barriers where kind = 'rescale'"
    assert project.rows(kinds) == [
        ("rescale", "from 16 to 256 vnodes", 256),
        ("rescale", "from 256 to 4 vnodes", 4),
    ]

    # A full refresh takes what the model says.
    write(project, vnode_count=8, backfill_rate_limit=None)
    project.run("--select", "mv", "--full-refresh")
    assert project.rows(COUNTS.format(8)) == [(8, 8, 100)]
    assert project.rows("select * from {schema}.mv") == fresh(project)


@pytest.mark.every_profile
def test_vnodes_at_different_positions_come_together_at_the_lowest(project: Project) -> None:
    project.run("--select", "mv")
    write(project, backfill_vnodes=list(range(8)))
    project.run("--select", "mv")
    read = project.value("select max(row_count) from {schema}.mv__progress where vnode < 8")
    assert read > 0 and len(positions(project)) == 2
    shown = project.value("select count(*) from {schema}.mv where id > 40")
    assert shown > 0

    # Vnodes 0 to 7 are ahead of 8 to 15, and come together with these.
    write(project, backfill_vnodes=list(range(16, 24)), vnode_count=64)
    refused = project.fail("--select", "mv")
    assert "backfill_vnodes names vnode 16, and it has 16 vnodes" in refused.message("mv")
    write(project)
    down = rescale(project, 8)
    assert f"rescaled from 16 to 8 vnodes · {shown} rows are read again]" in down.output
    assert [row[1:3] for row in positions(project)] == [(40, False)]
    assert project.value("select max(id) from {schema}.mv") == 39
    assert statuses(project)["consistent"] == "pass"

    # A run that dies leaves the plan, which is no other run's to give up.
    project.fail(
        "run-operation", "rescale_backfill", "--args", "{model: mv, vnode_count: 2}",
        intercept=crash_before("commit the barrier"),
    )  # fmt: skip
    write(project, barriers_per_run="all")
    adopted = project.run("--select", "mv")
    assert "mv goes on with barrier 4 (rescale)" in adopted.output
    assert "mv [BARRIER 4 · " in adopted.output and "rescaled from 8 to 2 vnodes" in adopted.output
    assert project.value("select count(*) from {schema}.mv__progress") == 2
    assert project.rows("select * from {schema}.mv") == fresh(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


@pytest.mark.every_profile
def test_what_cannot_be_rescaled_is_refused_and_a_plan_can_be_given_up(project: Project) -> None:
    def refused(vnode_count: Any = 32) -> str:
        return refused_operation(project, "rescale_backfill", model="mv", vnode_count=vnode_count)

    assert "does not exist yet" in refused()
    project.run("--select", "mv", "--empty")
    assert "nothing was read for it yet" in refused()
    project.run("--select", "mv")
    assert "vnode_count is 24, which is neither a multiple nor a divisor of the 16" in refused(24)
    assert 'vnode_count is "many"' in refused("many")
    project.fail("--select", "mv", intercept=crash_before("commit the barrier"))
    assert "its barrier 2 has begun and is not committed" in refused()
    project.run("--select", "mv")

    project.fail(
        "run-operation", "rescale_backfill", "--args", "{model: mv, vnode_count: 32}",
        intercept=crash_before("commit the barrier"),
    )  # fmt: skip
    project.operation("abandon_plan", model="mv")
    write(project, backfill_rate_limit=None)
    project.run("--select", "mv")
    last = project.run("--select", "mv")
    assert last.message("mv") == "CAUGHT UP"
    assert project.rows(COUNTS.format(16)) == [(16, 16, 100)]
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
