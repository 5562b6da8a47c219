"""`full_refresh_mode: beside` fills a second table, the next generation, while the MV stays in use.

The tests read the MV before each statement of the runs. They always find all rows of the previous
query or all rows of the new query.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.checks import (
    all_tables,
    data_tests,
    existing_tables,
    model,
    refused_operation,
    source,
    statuses,
    tables_of,
)
from support.project import Proceed, Project, crash_before

# The column `people` has the same name as the upstream.
OLD = f"select id, name from {source('people')} where `people` is null"
NEW = f"select id, upper(name) as name, length(name) as size from {source('people')} where id <> 3"
DOCS = {"relation": True, "columns": True}
NEXT = tables_of("mv__next")


def write(project: Project, query: str, **config: object) -> None:
    config = {"full_refresh_mode": "beside", "persist_docs": DOCS, **config}
    last = "select id, name from {{ ref('mv') }}"
    properties: dict[str, Any] = data_tests(project, "mv")
    properties["models"][0] |= {
        "description": "it's all",
        "columns": [{"name": "name", "description": "who"}],
    }
    project.write(
        {"mv": model(query, **config), "last": model(last)},
        sources=["people"],
        properties=properties,
    )


@pytest.fixture
def project(project: Project) -> Project:
    project.create_table("people", "id int, name string, people int")
    row = "cast(id as int), concat('n', id)"
    project.sql(f"insert into {{schema}}.people (id, name) select {row} from range(1, 21)")
    write(project, OLD)
    project.run("--threads", "1")
    return project


def new_rows(project: Project) -> Any:
    return project.rows("select id, upper(name), length(name) from {schema}.people where id <> 3")


def old_rows(project: Project) -> Any:
    return project.rows("select id, name from {schema}.people")


@pytest.mark.every_profile
def test_the_mv_in_use_is_complete_until_the_next_generation_stands_in_its_place(
    project: Project,
) -> None:
    write(project, NEW, backfill_rate_limit=8)
    first = project.run("--full-refresh", "--select", "mv")
    assert "is filled again as" in first.output
    assert "mv (next) [BARRIER 1 · 40.0 % · 8 of 20 rows" in first.output
    assert first.message("mv") == "NEXT: BARRIER 1 (40.0 %)"
    assert project.rows("select * from {schema}.mv") == old_rows(project)

    # A second `--full-refresh` continues the next generation. Changes are merged into the MV in use
    # and into the next generation.
    project.sql("update {schema}.people set name = 'later' where id in (2, 19)")
    project.sql("delete from {schema}.people where id = 5")
    second = project.run("--full-refresh", "--select", "mv", "last")
    assert "mv (next) [BARRIER 2 · " in second.output
    assert "mv [BARRIER 2 · 100.0 % · 2 changed, 1 deleted" in second.output
    assert project.rows("select * from {schema}.mv") == old_rows(project)
    assert project.rows("select * from {schema}.last") == old_rows(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}

    write(project, NEW, sort_when_finished=True)
    seen: list[Any] = []

    def look(sql: str, proceed: Proceed) -> None:
        seen.append(project.rows("select * from {schema}.mv"))
        proceed()

    third = project.run(intercept=look)
    assert all(rows in (old_rows(project), new_rows(project)) for rows in seen)
    assert seen[0] == old_rows(project) and seen[-1] == new_rows(project)
    assert "mv [BARRIER 3 · 100.0 % · 20 rows · next generation put in place: " in third.output
    assert third.output.count("SORTED") == third.output.count("mv [SORTED after BARRIER 3 · ") == 1
    assert project.rows("select * from {schema}.mv") == new_rows(project)
    assert project.rows("select * from {schema}.last") == [row[:2] for row in new_rows(project)]
    assert existing_tables(project, *NEXT) == []
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    assert comments(project) == ("it's all", "who")

    project.sql("insert into {schema}.people (id, name) values (50, 'x')")
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == new_rows(project)


@pytest.mark.profiles("session-delta", reason="Delta creates no table where files are")
def test_a_model_with_a_location_is_refreshed_twice(project: Project, tmp_path: Path) -> None:
    project.operation("drop_backfill", model="mv")
    write(project, NEW, location_root=str(tmp_path))
    project.run()
    for _ in range(2):
        project.run("--full-refresh", "--select", "mv")
        assert existing_tables(project, *NEXT) == []
    assert project.rows("select * from {schema}.mv") == new_rows(project)
    assert {path.name for path in tmp_path.iterdir()} == {"mv", "mv__progress", "mv__barriers"}


def comments(project: Project) -> tuple[str, str]:
    """Return the comments of the table and of the column `name`."""
    described = project.sql("describe table extended {schema}.mv")
    values = {row["col_name"]: row for row in reversed(described)}
    return values["Comment"]["data_type"], values["name"]["comment"]


def test_a_run_may_die_anywhere_between_the_last_range_and_the_end(project: Project) -> None:
    write(project, NEW)
    project.fail("--full-refresh", "--select", "mv", intercept=crash_before("commit the barrier 1"))
    project.fail("--select", "mv", intercept=crash_before("put the next generation in place"))
    assert project.rows("select * from {schema}.mv") == old_rows(project)
    project.fail("--select", "mv", intercept=crash_before("commit the barrier 2"))
    assert project.rows("select * from {schema}.mv") == new_rows(project)
    # Kill the run after it has put the next generation in place and before it cleans up.
    last = project.fail("--select", "mv", intercept=crash_before("drop the next generation"))
    assert "put in place: full refresh" in last.output
    assert existing_tables(project, *NEXT) == [*NEXT]
    project.sql("drop table {schema}.mv__next")

    project.sql("delete from {schema}.people where id = 7")
    assert "BARRIER 3 · 100.0 % · 0 changed, 1 deleted" in project.run("--select", "mv").output
    assert project.rows("select * from {schema}.mv") == new_rows(project)
    assert existing_tables(project, *NEXT) == []


@pytest.mark.every_profile
def test_a_next_generation_with_a_key_of_another_name_may_go_before_it_is_put_in_place(
    project: Project,
) -> None:
    """The MV in use does not have the key column of the plan that is given up."""
    write(project, f"select id as person, name from {source('people')}", unique_key="person")
    dies = crash_before("put the next generation in place")
    project.fail("--full-refresh", "--select", "mv", intercept=dies)
    project.operation("drop_backfill", model="mv", generation="next")

    given_up = project.run("--select", "mv")
    assert "mv__next, which it puts in place, is gone" in given_up.output
    assert project.rows("select * from {schema}.mv") == old_rows(project)
    project.run("--select", "mv")
    assert project.rows("select person, name from {schema}.mv") == old_rows(project)
    assert project.run("--select", "mv").message("mv") == "CAUGHT UP"


def test_a_table_of_the_users_in_the_place_of_the_next_generation_stays(project: Project) -> None:
    write(project, NEW)
    dies = crash_before("drop the next generation")
    project.fail("--full-refresh", "--select", "mv", intercept=dies)
    project.sql("drop table {schema}.mv__next")
    project.sql(f"create table {{schema}}.mv__next using {project.file_format} as select 1 as mine")
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv__next") == [(1,)]
    assert existing_tables(project, *NEXT) == ["mv__next"]
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == new_rows(project)


def test_a_next_generation_is_not_dropped_where_a_table_beside_its_mv_is_not_ours(
    project: Project,
) -> None:
    write(project, NEW, backfill_rate_limit=8)
    project.run("--full-refresh", "--select", "mv")
    project.sql("create table {schema}.mv__controls as select 1 as id")
    before = all_tables(project)

    refused = refused_operation(project, "drop_backfill", model="mv")
    assert "mv__controls was not made by this materialization" in refused
    assert all_tables(project) == before


def test_a_previous_generation_that_cannot_be_refreshed_does_not_make_the_run_fail(
    project: Project,
) -> None:
    project.sql("insert into {schema}.people (id, name) values (2, 'again')")
    assert "is not unique" in project.fail("--select", "mv").error
    before = project.rows("select * from {schema}.mv")
    write(project, OLD, unique_key=["id", "name"], backfill_rate_limit=8)

    first = project.run("--full-refresh", "--select", "mv").output
    assert "mv stays at the version" in first
    assert "its key is not unique in the upstream any more: (2)" in first

    # The columns of both generations are altered. The next generation begins again.
    project.sql("alter table {schema}.mv add columns (more int)")
    project.sql("alter table {schema}.mv__next add columns (more int)")
    second = project.run("--select", "mv").output
    # Delta's log lists the ALTER. Iceberg's snapshots do not.
    is_delta = project.file_format == "delta"
    why = "other than its barriers wrote to" if is_delta else "has changed its columns"
    assert f"until the next generation is put in place: something {why}" in second
    assert "mv (next) [BARRIER 2 · 0.0 % · emptied: something has changed its columns" in second
    assert project.rows("select id, name from {schema}.mv") == before

    write(project, OLD, unique_key=["id", "name"])
    project.run("--select", "mv")
    assert project.rows("select * from {schema}.mv") == old_rows(project)
    assert len(old_rows(project)) == 21


def test_a_stored_swap_is_completed_or_given_up_in_place(project: Project) -> None:
    dies = crash_before("put the next generation in place")
    for arguments in (), ("--full-refresh",):
        write(project, NEW)
        project.fail("--full-refresh", "--select", "mv", intercept=dies)
        write(project, NEW, full_refresh_mode="in_place")
        said = project.run(*arguments, "--select", "mv").output
        assert ("plan given up: full refresh" in said) == (arguments != ())
        assert project.rows("select * from {schema}.mv") == new_rows(project)
        assert existing_tables(project, *NEXT) == ([*NEXT] if arguments else [])


@pytest.mark.profiles("thrift-iceberg", reason="needs Iceberg's tables in a Hive metastore")
def test_a_swap_that_the_metastore_would_not_allow_is_refused_before_it_is_stored(
    project: Project,
) -> None:
    """The columns of the upstream change while the next generation is filled."""
    query = f"select * from {source('people')}"
    write(project, query)
    project.run("--full-refresh", "--select", "mv")
    write(project, query, backfill_rate_limit=8)
    project.run("--full-refresh", "--select", "mv")

    project.sql("alter table {schema}.people add column born date after id")
    project.sql("insert into {schema}.people (id, name) values (21, 'n21')")
    write(project, query)
    refused = project.fail("--select", "mv").error
    assert "its query changes the type of a column of" in refused
    assert project.value("select max(plan_kind) from {schema}.mv__progress") is None
    project.operation("drop_backfill", model="mv", generation="next")
    write(project, query, full_refresh_mode="in_place")
    project.run("--full-refresh", "--select", "mv")
    assert project.value("select count(*) from {schema}.mv where born is null") == 21
