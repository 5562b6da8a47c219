"""If a run is killed inside a SQL script, the next run completes the work exactly.

`exactness/test_fault_matrix.py` tests runs that are killed between two statements.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.checks import existing_tables, model, source, tables_of
from support.profiles import at_home_on_iceberg
from support.project import Crash, Interceptor, MakeProject, Proceed, Project
from support.scripts import dying_after

pytestmark = at_home_on_iceberg

QUERY = f"select id, upper(name) as name from {source('people')} where name <> 'hidden'"
MV = model(QUERY, backfill_rate_limit=20)

PROMISED = """
    select people.id, upper(people.name)
    from {schema}.people version as of VERSION as people
    join {schema}.mv__progress as progress
        on progress.vnode = cast(pmod(xxhash64(cast(people.id as int)), 4) as int)
    where people.name <> 'hidden' and (progress.backfill_finished or people.id <= progress.id)
"""


def is_ours(sql: str) -> bool:
    return re.search(r"/\* \w+\.mv: ", sql) is not None


def step_of(sql: str) -> str:
    [step] = re.findall(r"/\* \w+\.mv: (.*?) \*/", sql)
    return str(step)


def crash_inside(project: Project, step: str, written: int) -> Interceptor:
    """Return an interceptor that kills the run inside the script of `step`.

    Before that, `written` statements of the script have written.
    """

    def intercept(sql: str, proceed: Proceed) -> None:
        if not is_ours(sql) or not step_of(sql).startswith(step):
            proceed()
            return
        die_inside(project, sql, written)
        raise Crash(f"driver lost inside: {step}")

    return intercept


def die_inside(project: Project, sql: str, written: int) -> None:
    """Run the script until `written` of its statements have written, then end it with an error."""
    script = dying_after(sql, written)
    assert script, f"this script writes less than {written} times: {sql}"
    with pytest.raises(Exception, match="died inside a script"):
        project.sql(script)


def barrier_of(project: Project, column: str) -> dict[str, Any]:
    """Return the planned barrier (column `plan`), or the last committed barrier (column `last`)."""
    found: dict[str, Any] = json.loads(
        project.value(f"select max({column}) from {{schema}}.mv__progress")
    )
    return found


def assert_exact(project: Project, mv: str = "mv") -> None:
    """Assert that the MV equals its query at the recorded version, up to the recorded position."""
    version = project.value(f"select max(upstream_version) from {{schema}}.{mv}__progress")
    query = PROMISED.replace("VERSION", str(version)).replace(".mv__", f".{mv}__")
    promised = [] if version is None else project.rows(query)
    assert project.rows(f"select * from {{schema}}.{mv}") == promised


def make_people(project: Project, rows: int) -> Project:
    project.create_table("people", "id int, name string")
    project.sql(
        f"insert into {{schema}}.people select id * 10, concat('n', id) from range(1, {rows + 1})"
    )
    return project.write({"mv": MV}, sources=["people"])


def change_people(project: Project, turn: int) -> None:
    """Commit updates, a delete and an insert at once. One updated row is filtered out then."""
    gone, new, hidden = turn * 10, turn * 10 + 5, turn * 10 + 100
    project.sql(
        "merge into {schema}.people as t using ("
        f" select cast(id as int) as id, 'turn {turn}' as name from range(30, 4001, 30)"
        f" where id not in ({gone}, {hidden})"
        f" union all select * from values ({gone}, null), ({hidden}, 'hidden'),"
        f" ({new}, 'new {turn}')"
        ") as c on t.id = c.id"
        " when matched and c.name is null then delete"
        " when matched then update set name = c.name"
        f" when not matched and c.id = {new} then insert (id, name) values (c.id, c.name)"
    )


@pytest.fixture(scope="module")
def shared(shared_project: MakeProject) -> Project:
    project = shared_project("crashes")
    make_people(project, rows=400)  # enough rows for all runs of the tests
    project.run()
    return project


@pytest.mark.every_profile
def test_a_crash_inside_the_commit(shared: Project) -> None:
    change_people(shared, 14)
    epoch = shared.value("select max(epoch) from {schema}.mv__progress")

    shared.fail(intercept=crash_inside(shared, "commit", 1))
    assert shared.value("select max(epoch) from {schema}.mv__progress") == epoch + 1
    assert_exact(shared)

    shared.run()
    assert shared.value("select max(epoch) from {schema}.mv__progress") == epoch + 2
    assert_exact(shared)


@pytest.mark.every_profile
def test_a_crash_inside_the_plan_leaves_a_plan_that_the_next_run_adopts(shared: Project) -> None:
    change_people(shared, 15)
    epoch = shared.value("select max(epoch) from {schema}.mv__progress")
    shared.fail(intercept=crash_inside(shared, "plan", 1))
    left = barrier_of(shared, "plan")
    assert left["epoch"] == epoch + 1
    change_people(shared, 16)

    shared.run()

    done = barrier_of(shared, "last")
    assert {name: done[name] for name in left} == left, "adopted word for word"
    assert shared.rows("select distinct epoch, upstream_version from {schema}.mv__progress") == [
        (epoch + 1, left["sources"][0]["version"])
    ]
    assert_exact(shared)


def test_a_crash_in_the_middle_of_a_full_refresh_is_completed_by_a_plain_run(
    shared: Project,
) -> None:
    """If the run is killed before it writes the plan, the request for a full refresh is lost.

    If the run is killed later, the next run completes the full refresh.
    """
    epoch = shared.value("select max(epoch) from {schema}.mv__progress")
    outcomes: dict[str, str] = {}
    for step in ("plan the barrier", "empty the MV", "commit the barrier"):
        change_people(shared, 20 + len(outcomes))

        def crash(sql: str, proceed: Proceed, step: str = step) -> None:
            if is_ours(sql) and step_of(sql).startswith(step):
                raise Crash(step)
            proceed()

        shared.fail("--full-refresh", intercept=crash)
        assert shared.value("select max(epoch) from {schema}.mv__progress") == epoch
        result = shared.run()
        outcomes[step] = "emptied: full refresh" if "emptied" in result.output else "went on"
        epoch = shared.value("select max(epoch) from {schema}.mv__progress")
        assert_exact(shared)

    assert outcomes == {
        "plan the barrier": "went on",
        "empty the MV": "emptied: full refresh",
        "commit the barrier": "emptied: full refresh",
    }


@pytest.mark.every_profile
def test_after_all_crashes_the_backfill_ends_in_the_query(shared: Project) -> None:
    shared.write({"mv": MV.replace("backfill_rate_limit=20", "barriers_per_run='all'")})

    shared.run()

    assert shared.rows("select * from {schema}.mv") == shared.rows(
        "select id, upper(name) from {schema}.people where name <> 'hidden'"
    )


# After this number of writing statements, the first run is killed inside the script that writes its
# plan.
FIRST_RUNS = {"with_progress": 1, "with_mv": 2}


@pytest.mark.every_profile
def test_a_first_run_that_dies_is_completed_by_the_next(project: Project) -> None:
    """One run is killed after it has created the progress table, which has the plan.

    The other run is killed after it has also created the MV.
    """
    make_people(project, rows=30)
    project.remove("mv")
    project.write({mv: MV for mv in FIRST_RUNS})

    def crash(sql: str, proceed: Proceed) -> None:
        planned = re.search(rf"/\* \w+\.({'|'.join(FIRST_RUNS)}): plan the barrier", sql)
        if planned is None:
            proceed()
            return
        die_inside(project, sql, FIRST_RUNS[planned[1]])
        raise Crash("driver lost inside the plan")

    project.fail(intercept=crash)
    for mv, written in FIRST_RUNS.items():
        tables = (f"{mv}__progress", mv, f"{mv}__barriers")
        assert [table for table in tables if project.exists(table)] == list(tables[:written])
    project.run()

    for mv in FIRST_RUNS:
        assert existing_tables(project, *tables_of(mv)) == [*tables_of(mv)]
        assert project.value(f"select max(epoch) from {{schema}}.{mv}__progress") == 1
        assert project.value(f"select count(*) from {{schema}}.{mv}") == 20
        assert_exact(project, mv)


# One rebuild is killed before it empties the MV, and the other rebuild afterwards. The value is the
# step in which a later run gives up the rebuild.
REBUILDS = {"planned": "commit", "emptied": "abandon"}


def rebuild_step_of(sql: str) -> tuple[str, str]:
    """Return the MV of REBUILDS that the statement belongs to, and its step.

    Return empty texts for any other statement.
    """
    found = re.search(rf"/\* \w+\.({'|'.join(REBUILDS)}): (.*?) \*/", sql)
    return (found[1], found[2]) if found else ("", "")


@pytest.mark.every_profile
def test_a_rebuild_that_died_is_given_up_for_another_query(project: Project) -> None:
    """A planned rebuild may be impossible to execute, so the user must be able to give it up."""

    def write(query: str, **config: Any) -> None:
        project.write({mv: model(query, **config) for mv in REBUILDS}, sources=["people"])

    make_people(project, 50)
    project.remove("mv")
    write(QUERY, backfill_rate_limit=20)
    project.run()

    def crash(sql: str, proceed: Proceed) -> None:
        mv, step = rebuild_step_of(sql)
        if step.startswith("empty the MV"):
            if mv == "emptied":
                proceed()
            raise Crash("while the MV is emptied")
        proceed()

    # This rebuild changes the key and the number of vnodes. The progress table still has the
    # previous ones.
    changed = {"unique_key": ["id", "name"], "vnode_count": 2}
    write(QUERY.replace("upper(name) as name", "name"), **changed, backfill_rate_limit=20)
    project.fail("--full-refresh", intercept=crash)
    change_people(project, 1)
    # This query returns other types for the columns at the same positions. A Hive metastore refuses
    # to change such types.
    changed["unique_key"] = ["name", "id"]
    write(QUERY.replace("upper(name)", "id % 7 as rest, name"), **changed)
    refused = project.fail()
    for mv in REBUILDS:
        assert "its query changed since its last barrier" in refused.message(mv)

    def crash_once_given_up(sql: str, proceed: Proceed) -> None:
        proceed()
        mv, step = rebuild_step_of(sql)
        if mv and step.startswith(REBUILDS[mv]):
            raise Crash("after the plan was given up")

    died = project.fail("--full-refresh", intercept=crash_once_given_up)
    for mv in REBUILDS:
        assert "after the plan was given up" in died.message(mv)
    assert project.run("--full-refresh").output.count("emptied: full refresh") == len(REBUILDS)
    last = project.run()
    fresh = project.rows("select id, id % 7, name from {schema}.people where name <> 'hidden'")
    for mv in REBUILDS:
        assert last.message(mv) == "CAUGHT UP"
        assert project.rows(f"select * from {{schema}}.{mv}") == fresh
        assert project.value(f"select count(*) from {{schema}}.{mv}__progress") == 2


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", "thrift-iceberg", reason="Delta replaces a table at once")
def test_a_rebuild_with_other_types_is_completed_wherever_it_dies(project: Project) -> None:
    """The run replaces the MV in two commits, so it can be killed between them.

    The progress table gets its new column before its rows change.
    """
    make_people(project, 50)
    project.run()
    query = QUERY.replace("id, upper(name)", "name, id")
    of_other_types = {"unique_key": ["name", "id"], "vnode_count": 2}
    project.write({"mv": model(query.replace(" as name", ""), **of_other_types)})

    def crash_without_columns(sql: str, proceed: Proceed) -> None:
        proceed()
        if is_ours(sql) and step_of(sql).startswith("take the columns off"):
            raise Crash("before the MV has its new columns")

    project.fail("--full-refresh", intercept=crash_without_columns)
    assert project.sql("describe query select * from {schema}.mv") == []
    project.fail(intercept=crash_inside(project, "commit", 1))
    columns = [row[0] for row in project.sql("describe {schema}.mv__progress")]
    assert columns[-2:] == ["id", "name"]
    assert project.rows("select epoch, count(*) from {schema}.mv__progress group by 1") == [(1, 4)]
    project.run()

    assert project.run().message("mv") == "CAUGHT UP"
    fresh = "select name, id from {schema}.people where name <> 'hidden'"
    assert project.rows("select * from {schema}.mv") == project.rows(fresh)
    assert project.value("select count(*) from {schema}.mv__progress") == 2


# These rebuilds rename the key column, and all of them are killed: two before the MV is emptied,
# and one while the MV has no columns.
RENAMED = {
    "planned": "id as order_id, upper(name) as name",
    "without_columns": "name, id as order_id",
    "by_hand": "id as order_id, name",
}


@pytest.mark.every_profile
def test_a_rebuild_to_a_key_of_another_name_is_given_up_wherever_it_died(project: Project) -> None:
    """The MV does not have the key column of the plan that is given up.

    One MV has no columns at all.
    """

    def crash(sql: str, proceed: Proceed) -> None:
        if "take the columns off without_columns" in sql:
            proceed()
        if "take the columns off" in sql or "empty the MV in the barrier" in sql:
            raise Crash("before the MV has the key of the plan")
        proceed()

    make_people(project, rows=30)
    project.remove("mv")
    project.write(dict.fromkeys(RENAMED, MV))
    project.run()
    renamed = {mv: QUERY.replace("id, upper(name) as name", rows) for mv, rows in RENAMED.items()}
    project.write({mv: model(query, unique_key="order_id") for mv, query in renamed.items()})
    project.fail("--full-refresh", intercept=crash)
    if project.file_format == "iceberg":
        assert project.sql("describe query select * from {schema}.without_columns") == []

    project.write(dict.fromkeys(RENAMED, model(QUERY)))
    project.operation("abandon_plan", model="by_hand")
    by_hand = project.run("--select", "by_hand")
    assert "plan given up: abandon_plan" in by_hand.output
    assert "emptied: a rebuild was given up" in by_hand.output
    others = project.run("--full-refresh", "--exclude", "by_hand")
    assert others.output.count("plan given up: full refresh") == 2
    for mv in RENAMED:
        assert_exact(project, mv)
        assert project.value(f"select count(*) from {{schema}}.{mv}") == 30
        assert project.run("--select", mv).message(mv) == "CAUGHT UP"
