"""If a model no longer fits the tables of its earlier runs, it is refused and nothing is written.

Each test damages one MV, checks that the run is refused, and repairs the MV.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    existing_tables,
    model,
    source,
    state_versions,
    tables_of,
    versions,
)
from support.profiles import at_home_on_iceberg, needs_tables_of_spark, not_on_hadoop
from support.project import MakeProject, Proceed, Project, RunResult

pytestmark = at_home_on_iceberg

QUERY = f"select id, code, name from {source('people')}"
MODELS = {
    "mv": model(QUERY),
    "twin": model(QUERY),
    "fed": model(f"select id, name from {source('letters')}"),
    "retyped": model(f"select id, name from {source('numbers')}"),
}


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("refused_state")
    project.create_table("people", "id int, code int, name string")
    project.sql("insert into {schema}.people values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
    for table in ("letters", "numbers"):
        project.create_table(table, "id int, name string")
        project.sql(f"insert into {{schema}}.{table} values (1, 'a'), (2, 'b')")
    project.write(MODELS, sources=["people", "letters", "numbers"])
    project.run("--select", "fed", "retyped")
    return project


@pytest.fixture(scope="module")
def twins(project: Project) -> Project:
    """Run the models `mv` and `twin`, then insert a row into their upstream."""
    project.run("--select", "mv", "twin")
    project.sql("insert into {schema}.people values (4, 40, 'd')")
    return project


@contextmanager
def unwritten(project: Project, name: str) -> Iterator[None]:
    """Check that the code in the block does not write, create or drop any table of the MV."""
    tables = existing_tables(project, *tables_of(name))
    before = versions(project, *tables)
    yield
    assert existing_tables(project, *tables_of(name)) == tables
    assert versions(project, *tables) == before


def refuse(project: Project, name: str = "mv", *arguments: str) -> RunResult:
    """Run the model. Check that the run fails and does not write to the tables of the MV."""
    with unwritten(project, name):
        return project.fail("--select", name, *arguments)


def rename(project: Project, old: str, new: str) -> None:
    project.sql(f"alter table {{schema}}.{old} rename to {{schema}}.{new}")


@contextmanager
def put_aside(project: Project, *tables: str) -> Iterator[None]:
    for table in tables:
        rename(project, table, f"{table}_aside")
    try:
        yield
    finally:
        for table in tables:
            rename(project, f"{table}_aside", table)


# A changed filter is not in this list, because a test below rebuilds an MV with a changed filter.
CHANGED_MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "column": (model(QUERY.replace("name", "upper(name) as name")), ("its query changed",)),
    "upstream": (
        model(f"select id, 1 as code, name from {source('letters')}"),
        ("its upstream changed from ", "people to ", "letters"),
    ),
    "unique_key": (
        model(QUERY, unique_key="code"),
        ("unique_key changed from id to code",),
    ),
}


@pytest.fixture(scope="module")
def changed(twins: Project) -> dict[str, RunResult]:
    """Run the model `mv` once with each changed definition. Return the results."""
    runs = {}
    with unwritten(twins, "mv"):
        for what, (sql, _) in CHANGED_MODELS.items():
            twins.write({"mv": sql})
            runs[what] = twins.dbt("run", "--select", "mv", expect=False)
    twins.write({"mv": MODELS["mv"]})
    return runs


@pytest.mark.parametrize("what", CHANGED_MODELS)
def test_a_model_that_means_something_else_is_refused(
    changed: dict[str, RunResult], what: str
) -> None:
    _, facts = CHANGED_MODELS[what]

    assert_refused(
        changed[what], "mv", *facts, "since its last barrier", "--full-refresh", "on_query_change"
    )


@not_on_hadoop
@pytest.mark.usefixtures("twins")
def test_missing_state_is_refused(project: Project) -> None:
    """In this test the history table exists. The unit tests also cover a missing history."""
    with put_aside(project, "mv__progress"):
        refused = refuse(project)

    facts = ("its state is missing", "mv__progress does not exist")
    assert_refused(refused, "mv", *facts, "Restore", "to build the MV again")


@not_on_hadoop
@pytest.mark.usefixtures("twins")
def test_state_without_its_mv_is_refused(project: Project) -> None:
    with put_aside(project, "mv"):
        refused = refuse(project)

    assert_refused(refused, "mv", "refused_state.mv does not exist, but its state does", "Restore")


@pytest.mark.usefixtures("twins")
def test_state_of_another_format_is_refused(project: Project) -> None:
    alter = "alter table {schema}.mv set tblproperties ('dbt_backfill.format' = "
    project.sql(f"{alter}'1')")
    refused = refuse(project)
    project.sql(f"{alter}'2')")

    told = ("its state refused_state.mv__progress has the format 1", "reads 2")
    hint = "Use the version of the package that created the state"
    assert_refused(refused, "mv", *told, hint, "to build the MV again")


@pytest.mark.every_profile
def test_a_history_that_was_lost_or_is_of_a_dropped_mv_is_nothing_to_go_by(
    project: Project,
) -> None:
    project.sql("drop table {schema}.retyped__barriers")
    assert project.run("--select", "retyped").message("retyped") == "CAUGHT UP"
    history = "select epoch from {schema}.retyped__barriers"
    assert (1,) in project.rows(history)

    project.sql("drop table {schema}.retyped")
    project.sql("drop table {schema}.retyped__progress")
    assert project.run("--select", "retyped").message("retyped") == "BARRIER 1 (100.0 %)"
    assert project.rows(f"{history} where epoch = 1") == [(1,), (1,)]
    fresh = project.rows("select id, name from {schema}.numbers")
    assert project.rows("select * from {schema}.retyped") == fresh


@pytest.mark.usefixtures("twins")
def test_a_rebuild_that_cannot_be_executed_is_refused(project: Project) -> None:
    """If a run planned such a rebuild, every later run would try to execute it."""
    with unwritten(project, "mv"):
        for changed, fact in (
            (model(QUERY, partition_by="day"), "partition_by names the column 'day'"),
            (model(QUERY.replace("name from", "name, 1 as Name from")), "the column 'name' twice"),
        ):
            project.write({"mv": changed})
            try:
                refused = project.fail("--select", "mv", "--full-refresh")
            finally:
                project.write({"mv": MODELS["mv"]})
            assert_refused(refused, "mv", fact)


@pytest.mark.usefixtures("twins")
def test_state_of_another_mv_is_refused(project: Project) -> None:
    version = state_versions(project)["mv__progress"]
    project.sql("insert overwrite {schema}.mv__progress select * from {schema}.twin__progress")
    refused = refuse(project)
    project.put_back("mv__progress", version)

    assert_refused(refused, "mv", "belongs to another MV", "Restore", "to build the MV again")


@pytest.mark.usefixtures("twins")
def test_a_progress_table_that_lacks_a_vnode_is_refused(project: Project) -> None:
    version = state_versions(project)["mv__progress"]
    project.sql("delete from {schema}.mv__progress where vnode = 2")
    refused = refuse(project)
    project.put_back("mv__progress", version)

    assert_refused(refused, "mv", "mv__progress is damaged", "3 rows for 4 vnodes", "Restore")


@pytest.mark.every_profile
def test_tables_and_views_that_are_not_ours_are_refused(project: Project) -> None:
    foreign = {"foreign_table": f"table {{schema}}.foreign_table using {project.file_format}"}
    if project.lake.profile.name in needs_tables_of_spark.args:
        foreign["foreign_parquet"] = "table {schema}.foreign_parquet using parquet"
        foreign["foreign_view"] = "view {schema}.foreign_view"
    for statement in foreign.values():
        project.sql(f"create {statement} as select 1 as id")
    project.write({name: model(QUERY) for name in foreign})

    refused = project.fail("--select", *foreign)

    for name in foreign:
        facts = (f"{name} exists", "not made by this materialization", "adopt_table", "Or drop")
        assert_refused(refused, name, *facts)
        assert existing_tables(project, *tables_of(name)) == [name]
        assert project.rows(f"select * from {{schema}}.{name}") == [(1,)]


@pytest.mark.every_profile
def test_controls_of_others_are_refused_by_name(project: Project) -> None:
    controls = "{schema}.steered__controls"
    make = f"create table {controls} using {project.file_format} as select 1 as id"
    told = (
        "refused_state.steered__controls has the name of its controls table, but was not created",
        "Rename that table",
    )
    project.write({"steered": model(QUERY)})

    project.sql(make)
    assert_refused(project.fail("--select", "steered"), "steered", *told)
    assert_made_nothing(project, "steered")

    def make_meanwhile(sql: str, proceed: Proceed) -> None:
        if ": commit the barrier 1 */" in sql:
            project.sql(make)
        proceed()

    project.sql(f"drop table {controls}")
    project.run("--select", "steered", intercept=make_meanwhile)
    assert_refused(refuse(project, "steered"), "steered", *told)
    assert "steered" in project.operation("backfill_progress", model="steered").output

    project.sql(f"drop table {controls}")
    assert project.run("--select", "steered").message("steered") == "CAUGHT UP"
    fresh = project.rows("select id, code, name from {schema}.people")
    assert project.rows("select * from {schema}.steered") == fresh


@pytest.mark.usefixtures("twins")
def test_the_mv_is_as_it_was_after_all_refusals(project: Project) -> None:
    """A query with other comments and another layout is the same query."""
    spaced = MODELS["mv"].replace("select id,", "select -- the key\n    id,  /* and */")
    project.write({"mv": spaced + "\n-- the end"})
    try:
        result = project.run("--select", "mv")
    finally:
        project.write({"mv": MODELS["mv"]})

    assert "emptied" not in result.output
    assert project.rows("select id from {schema}.mv") == [(1,), (2,), (3,), (4,)]


@pytest.mark.every_profile
def test_a_table_property_under_which_barriers_are_not_exact_is_refused(project: Project) -> None:
    """The run is also refused if the owner of the table sets the property later."""
    name = {"delta": "delta.appendOnly", "iceberg": "write.wap.enabled"}[project.file_format]
    project.write({"tabled": model(QUERY, tblproperties={name: "true"})})
    refused = project.fail("--select", "tabled")
    assert_refused(refused, "tabled", f"'{name}': 'true'", "set it to false")
    assert_made_nothing(project, "tabled")

    alter = f"alter table {{schema}}.fed set tblproperties ('{name}' = "
    project.sql(f"{alter}'true')")
    refused = refuse(project, "fed")
    assert_refused(refused, "fed", f"has the table property '{name}' = 'true'", "ALTER TABLE")
    project.sql(f"{alter}'false')")


def test_what_a_first_run_left_gives_way_to_a_corrected_model(project: Project) -> None:
    """The failed first run has merged no rows, so the model may change its query and key."""
    project.write({"begun": model(QUERY, partition_by="no_transform(id)")})
    project.fail("--select", "begun")
    assert existing_tables(project, "begun", "begun__progress") == ["begun__progress"]

    query = f"select name as code, id from {source('letters')}"
    project.write({"begun": model(query, unique_key=["code", "id"], vnode_count=8)})
    project.run("--select", "begun")

    fresh = "select name, id from {schema}.letters"
    assert project.rows("select * from {schema}.begun") == project.rows(fresh)
    assert project.value("select count(*) from {schema}.begun__progress") == 8
    assert project.run("--select", "begun").message("begun") == "CAUGHT UP"


def test_keys_that_are_null_or_stand_twice_in_the_feed_are_refused(project: Project) -> None:
    project.sql("insert into {schema}.letters values (null, 'x'), (3, 'c')")
    assert_refused(refuse(project, "fed"), "fed", "refused_state.letters", "null in id")

    project.sql("delete from {schema}.letters where id is null")
    project.sql("insert into {schema}.letters values (5, 'one'), (5, 'two')")
    assert_refused(refuse(project, "fed"), "fed", "id is not unique", "refused_state.letters")

    project.sql("delete from {schema}.letters where name = 'two'")
    project.run("--select", "fed")
    assert project.rows("select * from {schema}.fed") == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (5, "one"),
    ]


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "thrift-delta", reason="only Delta has such a switch")
def test_a_feed_that_was_switched_off_is_refused_and_followed_again(project: Project) -> None:
    switch = "alter table {schema}.letters set tblproperties (delta.enableChangeDataFeed = "
    project.sql(switch + "false)")
    project.sql("insert into {schema}.letters values (7, 'g')")
    refused = refuse(project, "fed")
    assert_refused(refused, "fed", "refused_state.letters has no change data feed", "ALTER TABLE")

    project.sql(switch + "true)")
    project.sql("insert into {schema}.letters values (8, 'h')")
    result = project.run("--select", "fed")

    assert "re-anchored: the change data feed was switched" in result.output
    assert (7, "g") in project.rows("select * from {schema}.fed")
    assert (8, "h") in project.rows("select * from {schema}.fed")


@pytest.mark.every_profile
def test_a_gap_is_refused_where_the_model_says_so(project: Project) -> None:
    project.sql("drop table {schema}.letters")
    project.create_table("letters", "id int, name string")
    project.sql("insert into {schema}.letters values (2, 'new'), (3, 'c')")
    project.write({"fed": model(f"select id, name from {source('letters')}", on_gap="fail")})

    facts = ("would compare its query with all ", " rows read so far, because the ")
    assert_refused(refuse(project, "fed"), "fed", *facts, "on_gap='reanchor'", "--full-refresh")

    project.write({"fed": MODELS["fed"]})
    result = project.run("--select", "fed")
    assert re.search(
        r"fed compares its query with all \d+ rows read so far, because", result.output
    )
    assert "re-anchored: " in result.output
    assert project.rows("select * from {schema}.fed") == [(2, "new"), (3, "c")]


def test_a_key_of_another_type_upstream_is_refused(project: Project) -> None:
    project.sql("drop table {schema}.numbers")
    project.create_table("numbers", "id bigint, name string")
    project.sql("insert into {schema}.numbers values (1, 'a'), (2, 'b'), (3000000000, 'c')")

    refused = refuse(project, "retyped")
    assert_refused(
        refused, "retyped", "the type of id changed from int to bigint", "--full-refresh"
    )

    project.run("--full-refresh", "--select", "retyped")
    assert project.rows("select id from {schema}.retyped") == [(1,), (2,), (3000000000,)]
    assert column_types(project, "retyped")["id"] == "bigint"
    # The rebuild keeps the progress table, and adds a column for positions of the new type.
    assert column_types(project, "retyped__progress")["pk_id"] == "bigint"


def column_types(project: Project, table: str) -> dict[str, str]:
    return {row[0]: row[1] for row in project.sql(f"describe {{schema}}.{table}")}


@pytest.mark.every_profile
def test_an_mv_that_was_replaced_is_refused(project: Project) -> None:
    """The model was a `table` for a while, so dbt has replaced the MV by one of other columns."""
    backfilled = (project.models / "retyped.sql").read_text()
    project.write({"retyped": "{{ config(materialized='table') }} select 1 as id"})
    project.run("--select", "retyped")
    project.write({"retyped": backfilled})

    # Only on this profile, Spark still shows the package's properties on the replaced table.
    if project.lake.profile.name == "session-iceberg":
        facts = ("lacks the column", "--full-refresh")
    else:
        facts = ("not made by this materialization", "adopt_table")
    assert_refused(refuse(project, "retyped"), "retyped", *facts)


@pytest.mark.usefixtures("twins")
def test_a_changed_query_is_rebuilt_where_the_model_says_so(project: Project) -> None:
    project.write({"twin": model(QUERY + " where id > 1", on_query_change="rebuild")})

    result = project.run("--select", "twin")

    assert "emptied: its query changed" in result.output
    assert project.rows("select id from {schema}.twin") == [(2,), (3,), (4,)]


@pytest.mark.usefixtures("twins")
def test_a_full_refresh_accepts_another_key_and_vnode_count(project: Project) -> None:
    project.write({"mv": model(QUERY, unique_key=["code", "id"], vnode_count=8)})

    project.run("--full-refresh", "--select", "mv")

    assert project.rows("select id from {schema}.mv") == [(1,), (2,), (3,), (4,)]
    assert project.value("select count(*) from {schema}.mv__progress") == 8
    assert list(column_types(project, "mv__progress"))[-2:] == ["id", "code"]
    epochs = project.rows("select distinct epoch from {schema}.mv__progress")
    assert epochs == project.rows("select max(epoch) from {schema}.mv__barriers")
