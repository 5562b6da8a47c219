"""`rescale_backfill` changes the number of vnodes in the middle of a backfill."""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import data_tests, model, refused_operation, source, statuses
from support.profiles import any_connection
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
    project.run("--select", "mv")
    return project


def rescale(project: Project, vnode_count: int) -> RunResult:
    return project.operation("rescale_backfill", model="mv", vnode_count=vnode_count)


def begin_to_rescale(project: Project, vnode_count: int) -> None:
    """Start the operation `rescale_backfill`, and kill it before its commit."""
    arguments = f"{{model: mv, vnode_count: {vnode_count}}}"
    project.fail(
        "run-operation", "rescale_backfill", "--args", arguments,
        intercept=crash_before("commit the barrier"),
    )  # fmt: skip


def positions(project: Project) -> list[tuple[Any, ...]]:
    columns = "epoch, id, backfill_finished, upstream_version"
    return project.rows(f"select distinct {columns} from {{schema}}.mv__progress")


def fresh(project: Project) -> Any:
    return project.rows("select id, name from {schema}.people where id % 10 <> 0")


@pytest.mark.every_profile
@any_connection
def test_a_backfill_goes_on_with_more_vnodes_and_with_fewer(project: Project) -> None:
    mv = project.current_version("mv")
    [before] = positions(project)
    assert before[:3] == (1, 40, False)

    up = rescale(project, 256)
    assert "mv [BARRIER 2 · 40.0 % · rescaled from 16 to 256 vnodes]" in up.output
    assert project.current_version("mv") == mv
    assert positions(project) == [(2, *before[1:])]
    assert project.rows(COUNTS.format(256)) == [(256, 256, 40)]

    # The run still uses the MV's 256 vnodes, although the model says 16.
    project.sql("update {schema}.people set name = 'later' where id in (7, 77)")
    more = project.run("--select", "mv")
    assert (
        "mv has 256 vnodes; the vnode_count 16 applies only when the MV is rebuilt. To"
        in more.output
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

    # A full refresh uses the number of vnodes in the model.
    write(project, vnode_count=8, backfill_rate_limit=None)
    project.run("--select", "mv", "--full-refresh")
    assert project.rows(COUNTS.format(8)) == [(8, 8, 100)]
    assert project.rows("select * from {schema}.mv") == fresh(project)


@pytest.mark.every_profile
@any_connection
def test_vnodes_at_different_positions_come_together_at_the_lowest(project: Project) -> None:
    write(project, backfill_vnodes=list(range(8)))
    project.run("--select", "mv")
    assert len(positions(project)) == 2
    shown = project.value("select count(*) from {schema}.mv where id > 40")
    assert shown > 0

    # Vnodes 0 to 7 have read more keys than vnodes 8 to 15. The rescale merges each pair, such as 0
    # and 8.
    down = rescale(project, 8)
    assert f"rescaled from 16 to 8 vnodes · {shown} rows are read again]" in down.output
    assert [row[1:3] for row in positions(project)] == [(40, False)]
    assert project.value("select max(id) from {schema}.mv") == 39
    assert statuses(project)["consistent"] == "pass"

    # The operation is killed. The next run executes the plan that the operation has written.
    begin_to_rescale(project, 2)
    write(project, barriers_per_run="all")
    adopted = project.run("--select", "mv")
    assert "mv continues barrier 4 (rescale)" in adopted.output
    assert "mv [BARRIER 4 · " in adopted.output and "rescaled from 8 to 2 vnodes" in adopted.output
    assert project.value("select count(*) from {schema}.mv__progress") == 2
    assert project.rows("select * from {schema}.mv") == fresh(project)


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", reason="the format makes no difference")
def test_a_plan_to_rescale_can_be_given_up(project: Project) -> None:
    refused = refused_operation(project, "rescale_backfill", model="mv", vnode_count=24)
    assert "vnode_count is 24, which is neither a multiple nor a divisor of the 16" in refused
    begin_to_rescale(project, 32)
    project.operation("abandon_plan", model="mv")
    write(project, barriers_per_run="all", backfill_rate_limit=None)
    last = project.run("--select", "mv")
    assert last.message("mv").endswith("CAUGHT UP")
    assert project.rows(COUNTS.format(16)) == [(16, 16, 100)]
    assert project.rows("select * from {schema}.mv") == fresh(project)
