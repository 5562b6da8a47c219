"""A write to the MV that no barrier made is found by the next barrier, which repairs it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exactness.runners import Runner, stepping
from support.checks import assert_refused, model, refused_operation, source, state_versions
from support.lake import SessionLake
from support.project import Crash, Interceptor, Proceed, Project, crash_before

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone"),
    pytest.mark.every_profile,
]

QUERY = f"select id, v from {source('up')}"
FOUND = "something other than its barriers wrote to"


@pytest.fixture
def built(project: Project) -> Project:
    """A project whose MV has 40 of 100 rows after two barriers."""
    return build(project, backfill_rate_limit=20)


def build(project: Project, runs: int = 2, **config: Any) -> Project:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select int(id), 0 from range(100)")
    project.write({"mv": model(QUERY, **config)}, sources=["up"])
    for _ in range(runs):
        project.run()
    return project


def is_exact(project: Project, rows: int) -> bool:
    """Return true if the MV has the first rows of the upstream."""
    expected = project.rows(f"select * from {{schema}}.up where id < {rows}")
    return project.rows("select * from {schema}.mv") == expected


WRITES = {
    "insert": "insert into {schema}.mv values (1000, 1)",
    "delete": "delete from {schema}.mv where id = 3",
    "update": "update {schema}.mv set v = 7 where id in (3, 5)",
    "merge": "merge into {schema}.mv using (select 3 as id, 9 as v) as s on mv.id = s.id"
    " when matched then update set *",
    "overwrite": "insert overwrite {schema}.mv select 1, 1",
    "truncate": "delete from {schema}.mv",
    "twice": "insert into {schema}.mv select id, 9 from {schema}.mv where id < 30",
    "the same twice": "insert into {schema}.mv select * from {schema}.mv where id < 30",
    "null": "insert into {schema}.mv values (null, 1), (null, 1)",
}


@pytest.mark.core("session-delta", "session-iceberg")
@pytest.mark.parametrize("write", ["update", "overwrite"])
def test_the_next_barrier_repairs_a_write(built: Project, write: str) -> None:
    _assert_repaired(built, WRITES[write])


@pytest.mark.parametrize("write", ["insert", "delete", "merge", "truncate", "twice", "null"])
def test_the_next_barrier_repairs_every_kind_of_write(built: Project, write: str) -> None:
    _assert_repaired(built, WRITES[write])


@pytest.mark.core("session-delta")
@pytest.mark.parametrize("write", ["twice", "the same twice", "null"])
def test_a_sweep_removes_rows_that_no_key_distinguishes(project: Project, write: str) -> None:
    build(project, backfill_rate_limit=20, on_foreign_write="sweep")
    project.sql(WRITES[write])
    project.sql("update {schema}.up set v = 2 where id = 4")
    for _ in range(7):
        project.run()
    assert is_exact(project, 100)


def _assert_repaired(project: Project, write: Any) -> None:
    project.sql(write)
    project.sql("update {schema}.up set v = 1 where id = 4")
    run = project.run()
    assert FOUND in run.output and "re-anchored" in run.output
    assert is_exact(project, 40)
    again = project.run()
    assert FOUND not in again.output
    assert is_exact(project, 60)


def test_a_restore_of_the_mv_is_repaired(built: Project) -> None:
    version = built.current_version("mv")
    built.sql("update {schema}.up set v = 1 where id = 4")
    built.run()
    built.restore("mv", version)
    assert built.value("select count(*) from {schema}.mv") == 40
    assert FOUND in built.run().output
    assert is_exact(built, 60)
    assert FOUND not in built.run().output


def test_a_write_is_found_although_the_upstream_stands_still(project: Project) -> None:
    build(project, runs=1)
    assert project.run().message("mv") == "CAUGHT UP"
    project.sql("delete from {schema}.mv where id = 3")
    assert FOUND in project.run().output
    assert is_exact(project, 100)
    assert project.run().message("mv") == "CAUGHT UP"


HARMLESS = {
    "delta": [
        "alter table {mv} alter column v comment 'c'",
        "alter table {mv} set tblproperties ('a' = '1')",
        "alter table {mv} unset tblproperties if exists ('a')",
        "alter table {mv} add constraint positive check (id >= 0)",
        "alter table {mv} drop constraint positive",
        "comment on table {mv} is 'c'",
        "optimize {mv}",
        "vacuum {mv}",
        "reorg table {mv} apply (purge)",
    ],
    "iceberg": [
        "alter table {mv} set tblproperties ('a' = '1')",
        "alter table {mv} alter column v comment 'c'",
        "comment on table {mv} is 'c'",
        "call {catalog}.system.rewrite_data_files("
        "table => '{mv}', options => map('rewrite-all', 'true'))",
        "call {catalog}.system.rewrite_manifests('{mv}')",
        "call {catalog}.system.expire_snapshots(table => '{mv}', retain_last => 1,"
        " older_than => timestamp'2100-01-01')",
    ],
}


@pytest.mark.core("session-delta", "session-iceberg")
def test_maintenance_is_no_write(built: Project) -> None:
    catalog = built.lake.catalogs[built.file_format]
    for number, statement in enumerate(HARMLESS[built.file_format]):
        if number == 4:
            assert FOUND not in built.run().output
        built.sql(statement.format(mv=built.table("mv"), catalog=catalog))
    assert FOUND not in built.run().output
    assert is_exact(built, 80)
    assert FOUND not in built.run().output
    assert is_exact(built, 100)


def test_a_run_with_nothing_to_do_records_the_maintenance(project: Project) -> None:
    build(project, runs=2)
    compaction = {"delta": "optimize {mv}", "iceberg": HARMLESS["iceberg"][3]}
    catalog = project.lake.catalogs[project.file_format]
    for _ in range(2):
        sql = compaction[project.file_format].format(mv=project.table("mv"), catalog=catalog)
        project.sql(sql)
        assert project.run().message("mv") == "CAUGHT UP"
        last = "select max(last) from {schema}.mv__progress"
        recorded = json.loads(project.value(last))["mv_version"]
        if project.file_format == "delta":
            newest = project.sql("describe history {schema}.mv limit 1")[0]["version"]
        else:
            newest = project.value(
                f"select snapshot_id from {project.table('mv')}.refs where name = 'main'"
            )
        assert recorded == str(newest)
        versions = state_versions(project, "mv")
        assert project.run().message("mv") == "CAUGHT UP"
        assert state_versions(project, "mv") == versions


def test_the_options_sweep_and_fail(project: Project) -> None:
    build(project, backfill_rate_limit=20, on_foreign_write="fail")
    project.sql("update {schema}.mv set v = 7 where id = 3")
    assert_refused(project.fail(), "mv", FOUND, "on_foreign_write='reanchor'")
    project.write({"mv": model(QUERY, backfill_rate_limit=20, on_foreign_write="sweep")})
    assert "sweeps from the start" in project.run().output
    for _ in range(5):
        assert FOUND not in project.run().output
    assert is_exact(project, 100)


@pytest.mark.core("session-delta", "session-iceberg")
def test_a_write_in_the_middle_of_a_barrier_is_found_by_the_next(built: Project) -> None:
    assert FOUND not in built.run(intercept=_writing(built)).output
    assert FOUND in built.run().output
    assert is_exact(built, 60)


def _writing(project: Project) -> Interceptor:
    """Return an interceptor that deletes a row of the MV right before the commit of a barrier."""

    def write(sql: str, proceed: Proceed) -> None:
        if "commit the barrier" in sql:
            marks = project.lake.exchange_marks({})  # the other writer has its own session
            project.lake.sql(f"delete from {project.table('mv')} where id = 3")
            project.lake.exchange_marks(marks)
        proceed()

    return write


def test_a_stored_plan_that_compares_the_mv_hides_no_write(built: Project) -> None:
    version = built.current_version("up")
    built.sql("update {schema}.up set v = 1 where id = 4")
    built.run()
    built.restore("up", version)
    built.fail(intercept=crash_before("re-anchor"))
    built.sql(WRITES["the same twice"])
    built.run()  # executes the stored plan, which removes no duplicate keys
    assert FOUND in built.run().output
    assert is_exact(built, 60)


@pytest.mark.profiles("session-iceberg", reason="on Delta a RESTORE is a commit")
def test_a_rollback_in_the_middle_of_a_barrier_is_found_by_the_next(built: Project) -> None:
    version = built.current_version("mv")

    def roll_back(sql: str, proceed: Proceed) -> None:
        if "commit the barrier" in sql:
            built.restore("mv", version)
        proceed()

    built.sql("update {schema}.up set v = 1 where id = 4")
    assert FOUND not in built.run(intercept=roll_back).output
    assert "(a rollback)" in built.run().output
    assert is_exact(built, 60)
    assert FOUND not in built.run().output
    assert is_exact(built, 80)


def test_a_late_plan_of_a_dropped_mv_is_removed(built: Project) -> None:
    late: list[str] = []

    def keep(sql: str, proceed: Proceed) -> None:
        if "plan the barrier 3" in sql:
            late.append(sql)
            raise Crash("the client was killed while the server planned")
        proceed()

    built.fail(intercept=keep)
    built.operation("drop_backfill", model="mv")
    built.write({"mv": model(QUERY, backfill_rate_limit=5)}, sources=["up"])
    built.run()
    built.run()
    built.sql(late[0])
    built.run()
    assert is_exact(built, 15)
    built.write({"mv": model(QUERY, barriers_per_run="all")}, sources=["up"])
    built.run()
    assert is_exact(built, 100)


@pytest.mark.parametrize("changes", [True, False])
def test_a_run_of_a_dropped_mv_writes_nothing_into_the_next_mv_of_this_name(
    built: Project, changes: bool
) -> None:
    """The epochs of the next MV begin at 0 again. A plan without changes and rows has no MERGE."""
    if changes:
        built.sql("update {schema}.up set v = 1 where id = 4")
    else:
        built.sql("insert into {schema}.up values (1000, 1)")
        built.write({"mv": model(QUERY, backfill_rate_limit=0)}, sources=["up"])
    with stepping():
        stalled = Runner(built, "mv", "up")
        while not stalled.next_step.startswith("plan the barrier"):
            stalled.advance()
        drop = ("run-operation", "drop_backfill", "--args", "{model: mv}")
        Runner(built, "mv", "up", *drop).finish()
        built.write({"mv": model(QUERY, backfill_rate_limit=5)}, sources=["up"])
        for _ in range(2):
            assert Runner(built, "mv", "up").finish().success
        late = stalled.finish()
        assert not late.success and "another run changed the state" in late.output
        assert is_exact(built, 10)
        assert Runner(built, "mv", "up").finish().success
        assert is_exact(built, 15)


def test_a_repair_of_a_dropped_mv_writes_nothing_into_the_next_mv_of_this_name(
    built: Project,
) -> None:
    built.sql("update {schema}.mv set v = 7 where id in (3, 30)")
    with stepping():
        repair = ("run-operation", "verify_backfill", "--args", "{model: mv, repair: true}")
        stalled = Runner(built, "mv", "up", *repair)
        while "repair" not in stalled.next_step:
            stalled.advance()
        drop = ("run-operation", "drop_backfill", "--args", "{model: mv}")
        Runner(built, "mv", "up", *drop).finish()
        built.write({"mv": model(QUERY, backfill_rate_limit=5)}, sources=["up"])
        for _ in range(2):
            assert Runner(built, "mv", "up").finish().success
        assert not stalled.finish().success
        assert is_exact(built, 10)


OVERWRITTEN = "select int(id) as id, 7 as v from range(5)"


def overwrite(project: Project, rows: str) -> None:
    """Overwrite the MV as a Spark program does. The table keeps its properties."""
    assert isinstance(project.lake, SessionLake)
    frame = project.lake.spark.sql(rows)
    frame.write.format("delta").mode("overwrite").saveAsTable(project.table("mv"))


def overwriting_before(step: str, project: Project) -> Interceptor:
    def intercept(sql: str, proceed: Proceed) -> None:
        if step in sql:
            overwrite(project, OVERWRITTEN)
        proceed()

    return intercept


@pytest.mark.profiles("session-delta", reason="Iceberg marks every snapshot of a barrier")
@pytest.mark.parametrize("later", ["", "update {schema}.mv set v = 8 where id = 2"])
def test_an_overwrite_after_a_swap_is_repaired(project: Project, later: str) -> None:
    """The log shows the overwrite as a replacement, like the swap."""
    build(project, runs=1, full_refresh_mode="beside")
    project.run("--full-refresh")
    overwrite(project, OVERWRITTEN)
    if later:
        project.sql(later)
    project.sql("update {schema}.up set v = 1 where id = 4")
    assert FOUND in project.run().output
    assert is_exact(project, 100)
    assert project.run().message("mv") == "CAUGHT UP"


@pytest.mark.profiles("session-delta", reason="Iceberg marks every snapshot of a barrier")
def test_an_overwrite_between_a_swap_and_its_commit_is_repaired(project: Project) -> None:
    build(project, runs=1, full_refresh_mode="beside")
    writing = overwriting_before("commit the barrier 2", project)
    project.run("--full-refresh", intercept=writing)
    assert not is_exact(project, 100)
    assert FOUND in project.run().output
    assert is_exact(project, 100)
    assert project.run().message("mv") == "CAUGHT UP"


@pytest.mark.profiles("session-delta", reason="Iceberg marks every snapshot of a barrier")
def test_an_overwrite_after_a_reset_is_repaired(project: Project) -> None:
    build(project, backfill_rate_limit=20)
    project.fail("--full-refresh", intercept=crash_before("plan the barrier 4"))
    overwrite(project, OVERWRITTEN)
    assert FOUND in project.run().output
    assert is_exact(project, 20)
    assert FOUND not in project.run().output
    assert is_exact(project, 40)


@pytest.mark.profiles("session-delta", reason="an ALTER of Iceberg makes no snapshot")
def test_a_column_that_was_dropped_and_added_again_after_its_fill_is_repaired(
    project: Project,
) -> None:
    config: dict[str, Any] = {
        "on_schema_change": "sync_all_columns",
        "tblproperties": {"delta.columnMapping.mode": "name"},
    }
    build(project, runs=1, **config)
    wide = f"select id, v, id + 1 as `größe`, id * 2 as w from {source('up')}"
    project.write({"mv": model(wide, **config)}, sources=["up"])
    assert "filled größe, w" in project.run().output
    assert project.run().message("mv") == "CAUGHT UP"  # the ALTERs are the barrier's own
    narrow = f"select id, v, id * 2 as w from {source('up')}"
    project.write({"mv": model(narrow, **config)}, sources=["up"])
    project.sql("update {schema}.up set v = 1 where id = 4")
    assert "dropped größe" in project.run().output
    project.sql("alter table {schema}.mv drop column w")
    project.sql("alter table {schema}.mv add column w int")
    assert FOUND in project.run().output
    assert project.value("select count(*) from {schema}.mv where w = id * 2") == 100
    assert project.run().message("mv") == "CAUGHT UP"


def test_a_state_without_rows_is_refused_with_a_way_out(built: Project) -> None:
    built.sql("delete from {schema}.mv__progress")
    assert_refused(built.fail(), "mv", "its state", "drop_backfill")
    built.sql("drop table {schema}.mv")
    assert_refused(built.fail(), "mv", "does not exist, but its state does", "drop_backfill")
    built.operation("drop_backfill", model="mv")
    built.run()
    assert is_exact(built, 20)


def test_a_write_is_not_forgotten_if_its_comparison_is_given_up(built: Project) -> None:
    built.run(intercept=_writing(built))
    built.fail(intercept=crash_before("re-anchor"))
    built.operation("abandon_plan", model="mv")
    built.run()
    assert is_exact(built, 60)


@pytest.mark.profiles("session-delta", reason="the retention of Delta's versions")
def test_an_mv_that_was_left_alone_for_longer_than_its_retention_goes_on(built: Project) -> None:
    retention = "'delta.deletedFileRetentionDuration' = 'interval 0 hours'"
    built.sql(f"alter table {{schema}}.mv set tblproperties ({retention})")
    built.sql("optimize {schema}.mv")
    assert FOUND not in built.run().output
    assert is_exact(built, 60)


def test_a_run_that_died_is_no_foreign_write(built: Project) -> None:
    built.sql("update {schema}.up set v = 1 where id = 4")
    with pytest.raises(AssertionError):
        built.run(intercept=crash_before("commit the barrier"))
    assert FOUND not in built.run().output
    assert is_exact(built, 60)
    assert FOUND not in built.run().output
    built.sql("update {schema}.up set v = 2 where id = 4")
    built.fail(intercept=crash_before("commit the barrier"))
    built.sql("update {schema}.mv set v = 7 where id = 5")
    built.run()  # executes the plan that was left
    assert FOUND in built.run().output
    assert is_exact(built, 100)


def test_a_repair_is_no_foreign_write(built: Project) -> None:
    built.sql("update {schema}.mv set v = 7 where id = 5")
    built.operation("verify_backfill", model="mv", repair=True)
    assert is_exact(built, 40)
    run = built.run()
    # The next barrier still finds the write: it cannot know if the repair was complete.
    assert FOUND in run.output
    built.operation("verify_backfill", model="mv", repair=True)
    assert FOUND not in built.run().output
    assert is_exact(built, 60)


def test_a_column_that_was_dropped_is_refused(project: Project) -> None:
    project.create_table("up", "id int, v int, w int")
    project.sql("insert into {schema}.up values (1, 1, 1), (2, 2, 2)")
    mapped = {"delta.columnMapping.mode": "name"} if project.file_format == "delta" else {}
    text = model(f"select id, v, w from {source('up')}", tblproperties=mapped)
    project.write({"mv": text}, sources=["up"])
    project.run()
    project.sql("alter table {schema}.mv drop column v")
    assert_refused(project.fail(), "mv", "lacks the column v", "--full-refresh")
    project.run("--full-refresh")
    assert project.rows("select * from {schema}.mv") == [(1, 1, 1), (2, 2, 2)]
    project.sql("alter table {schema}.mv add column x int")
    assert_refused(project.fail(), "mv", "has the column x")


def test_an_older_state_beside_the_mv_is_found(built: Project) -> None:
    version = built.current_version("mv__progress")
    built.sql("update {schema}.up set v = 5 where id in (10, 30)")
    built.run()
    built.run()
    built.restore("mv__progress", version)
    built.sql("update {schema}.up set v = 1 where id % 2 = 0")
    built.sql("delete from {schema}.up where id in (3, 5, 33, 55)")
    assert FOUND in built.run().output
    assert is_exact(built, 40)
    built.run()
    assert is_exact(built, 60)


@pytest.mark.profiles("session-iceberg", reason="Iceberg replaces a table whatever was committed")
def test_an_mv_that_was_emptied_is_not_cloned(built: Project) -> None:
    built.sql(
        "create or replace table {schema}.mv using iceberg as select * from {schema}.mv where false"
    )
    built.write({"copy": model(QUERY)})
    said = refused_operation(built, "clone_backfill", model="copy", source=f"{built.schema}.mv")
    assert "has a write that none of its barriers made" in said
    built.run("--select", "mv")
    assert is_exact(built, 40)


@pytest.mark.core("session-iceberg")
@pytest.mark.profiles("session-iceberg", reason="no conflict stops a MERGE of a copy-on-write MV")
def test_a_late_merge_of_an_abandoned_plan_is_found(project: Project) -> None:
    build(project, backfill_rate_limit=20, tblproperties={"write.merge.mode": "copy-on-write"})
    project.sql("update {schema}.up set v = 1 where id < 20")
    project.fail(intercept=crash_before("merge the changes"))
    [[plan, mv]] = project.rows(
        "select plan_id, get_json_object(last, '$.backfill_id') from {schema}.mv__progress"
        " where vnode = 0"
    )
    project.operation("abandon_plan", model="mv")
    project.run()
    assert is_exact(project, 40)
    mark = f"spark.sql.iceberg.snapshot-property.dbt_backfill.{mv}"
    project.sql(f"set `{mark}`=`{plan}`")
    project.sql("update {schema}.mv set v = 0 where id < 20")
    project.sql(f"reset `{mark}`")
    assert FOUND in project.run().output
    assert is_exact(project, 40)
