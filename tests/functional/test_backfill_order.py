"""With `backfill_order: descending`, a backfill reads the greatest keys first.

During the backfill, the MV has the rows with `pk >= current_pos`.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import data_tests, model, source, statuses
from support.profiles import any_connection, at_home_on_iceberg
from support.project import Project, crash_before

pytestmark = at_home_on_iceberg

KEY = ["day", "id"]
QUERY = f"select day, id, name from {source('events')} where name <> 'hidden'"
WIDER = QUERY.replace("name from", "name, upper(name) as loud from")
DAY = "date_add(date'2024-01-01', cast(id / 5 as int))"
KEPT = "mv is still backfilled descending; the backfill_order ascending applies only when"


def write(project: Project, query: str = QUERY, **config: Any) -> None:
    options = {"unique_key": KEY, "backfill_rate_limit": 30, "backfill_order": "descending"}
    text = model(query, **options | config)
    project.write({"mv": text}, sources=["events"], properties=data_tests(project, "mv"))


@pytest.fixture
def project(project: Project) -> Project:
    """Create an upstream with five events on each of twenty days, and write a model."""
    project.create_table("events", "day date, id int, name string")
    project.sql(
        f"insert into {{schema}}.events select {DAY}, cast(id as int), concat('n', id)"
        " from range(100)"
    )
    write(project)
    return project


def positions(project: Project) -> list[tuple[Any, ...]]:
    columns = "cast(day as string), id, backfill_finished"
    return project.rows(f"select distinct {columns} from {{schema}}.mv__progress")


def shown(project: Project, since: str = "true", columns: str = "day, id, name") -> Any:
    return project.rows(
        f"select {columns} from {{schema}}.events where name <> 'hidden' and ({since})"
    )


def change(project: Project, number: int) -> None:
    """Add a newer event, and change events on both sides of the MV's position."""
    for sql in (
        f"insert into {{schema}}.events values (date'2025-01-0{number}', {1000 + number}, 'new')",
        f"update {{schema}}.events set name = 'changed {number}' where id % 10 = {number}",
        f"update {{schema}}.events set name = 'hidden' where id % 20 = {number + 4}",
        f"delete from {{schema}}.events where id % 25 = {number}",
    ):
        project.sql(sql)


def test_the_newest_keys_come_first_and_are_followed_from_then_on(project: Project) -> None:
    first = project.run("--select", "mv")
    assert "mv [BARRIER 1 · 30.0 % · 30 of 100 rows · +30 backfilled" in first.output
    assert positions(project) == [("2024-01-15", 70, False)]
    assert project.rows("select * from {schema}.mv") == shown(project, "id >= 70")

    change(project, 1)
    second = project.run("--select", "mv")
    assert "changed" in second.output and "deleted" in second.output
    [(day, number, _)] = positions(project)
    reached = f"struct(day, id) >= struct(date'{day}', {number})"
    assert ("2024-01-08", 35) < (day, number) < ("2024-01-15", 70)
    assert project.rows("select * from {schema}.mv") == shown(project, reached)
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    assert "all equal" in project.operation("verify_backfill", model="mv").output

    # A backfill that has begun stays descending, even if `backfill_order` changes and the MV gets
    # more vnodes.
    project.operation("rescale_backfill", model="mv", vnode_count=8)
    change(project, 2)
    write(project, backfill_order="ascending", vnode_count=8)
    third = project.run("--select", "mv")
    assert f"{KEPT} the MV is rebuilt" in third.output
    assert positions(project)[0] < (day, number, False)
    assert statuses(project)["consistent"] == "pass"
    write(project, backfill_order="ascending", vnode_count=8, barriers_per_run="all")
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == shown(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}

    # After the backfill has finished, the order has no effect until the MV is rebuilt.
    change(project, 3)
    assert KEPT not in project.run("--select", "mv").output
    assert project.rows("select * from {schema}.mv") == shown(project)
    write(project, backfill_order="ascending", vnode_count=8)
    project.run("--select", "mv", "--full-refresh")
    [(day, number, _)] = positions(project)
    reached = f"struct(day, id) <= struct(date'{day}', {number})"
    assert project.rows("select * from {schema}.mv") == shown(project, reached) != shown(project)


@pytest.mark.every_profile
@any_connection
def test_vnodes_at_different_positions_come_together_at_the_one_that_read_least(
    project: Project,
) -> None:
    project.run("--select", "mv")
    write(project, backfill_vnodes="0-1")
    change(project, 1)
    project.run("--select", "mv")
    assert sorted(row[:2] for row in positions(project))[1] == ("2024-01-15", 70)
    assert statuses(project)["consistent"] == "pass"

    # Vnodes 0 and 1 have read more keys than vnodes 2 and 3. The rescale merges vnode 0 with vnode
    # 2, and vnode 1 with vnode 3.
    down = project.operation("rescale_backfill", model="mv", vnode_count=2)
    assert "rows are read again]" in down.output
    assert positions(project) == [("2024-01-15", 70, False)]
    newest = "struct(day, id) >= struct(date'2024-01-15', 70)"
    assert project.rows("select * from {schema}.mv") == shown(project, newest)

    write(project, backfill_vnodes=[1])
    project.run("--select", "mv")
    write(project, backfill_vnodes=[1], backfill_rate_limit=None)
    project.run("--select", "mv")
    project.operation("rescale_backfill", model="mv", vnode_count=1)
    assert positions(project) == [("2024-01-15", 70, False)]
    assert statuses(project)["consistent"] == "pass"
    write(project, barriers_per_run="all")
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == shown(project)


def test_a_sweep_and_a_fill_go_down_too(project: Project) -> None:
    write(project, barriers_per_run="all")
    project.run("--select", "mv")

    # New columns are filled from the greatest key downwards.
    change(project, 1)
    columns = {"on_schema_change": "append_new_columns"}
    write(project, WIDER, **columns)
    filled = project.run("--select", "mv")
    assert "mv [BARRIER 5 · 30.0 % · " in filled.output and "fills loud" in filled.output
    unchanged = "loud is not null and name like 'n%'"
    filled_from = project.value(f"select min(id) from {{schema}}.mv where {unchanged}")
    assert 65 <= filled_from <= 75
    assert project.value("select count(*) from {schema}.mv where loud is null and id > 75") == 0
    complete = project.dbt("test", expect=False)
    assert "mv: loud is filled down to (" in complete.output
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    write(project, WIDER, barriers_per_run="all", **columns)
    project.run("--select", "mv")
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}

    # Replace the upstream by another table, so that a sweep compares the MV slice by slice. The
    # sweep is killed once.
    project.sql("drop table {schema}.events")
    project.create_table("events", "day date, id int, name string")
    project.sql(
        f"insert into {{schema}}.events select {DAY}, cast(id as int), concat('m', id)"
        " from range(5, 95)"
    )
    write(project, WIDER, on_gap="sweep", **columns)
    assert "sweeps from the start" in project.run("--select", "mv").output
    assert project.value("select count(*) from {schema}.mv where name like 'm%'") == 0
    project.fail("run", "--select", "mv", intercept=crash_before("commit the barrier"))
    adopted = project.run("--select", "mv")
    assert "continues barrier" in adopted.output
    assert positions(project) == [("2024-01-14", 65, False)]
    fresh = project.rows("select day, id, name from {schema}.mv where name like 'm%'")
    assert fresh == shown(project, "id >= 65")
    assert project.value("select count(*) from {schema}.mv where id > 94") == 0
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    write(project, WIDER, on_gap="sweep", barriers_per_run="all", **columns)
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == shown(
        project, columns="day, id, name, upper(name)"
    )
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


def test_a_table_is_adopted_and_an_mv_is_cloned_in_the_same_order(project: Project) -> None:
    relation = project.table("events")
    adopted = project.table("mv")
    project.sql(f"create table {adopted} using {project.file_format} as select * from {relation}")
    project.sql(f"update {adopted} set name = 'stale' where id % 7 = 0")
    project.operation("adopt_table", model="mv")
    write(project, barriers_per_run=2)
    project.run("--select", "mv")
    stale = project.rows(f"select id from {adopted} where name = 'stale'")
    assert sorted(stale) == [(number,) for number in range(0, 40, 7)]
    assert positions(project) == [("2024-01-09", 40, False)]
    assert statuses(project)["consistent"] == "pass"

    project.write({"copy": model(QUERY, unique_key=KEY, barriers_per_run="all")})
    schema = adopted.rpartition(".")[0]
    project.operation("clone_backfill", model="copy", source=f"{schema}.mv")
    gone_on = project.run("--select", "copy")
    assert "copy is still backfilled descending; the" in gone_on.output
    assert project.rows("select * from {schema}.copy") == shown(project)
