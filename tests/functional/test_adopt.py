"""`adopt_table` turns an existing table into an MV. Later runs compare the table with the query."""

from __future__ import annotations

import contextlib
from hashlib import md5

import pytest
import yaml

from support.checks import (
    assert_refused,
    data_tests,
    existing_tables,
    model,
    refused_operation,
    rows_written,
    source,
    statuses,
)
from support.profiles import any_connection, at_home_on_iceberg, needs_tables_of_spark
from support.project import (
    Crash,
    Interceptor,
    MakeProject,
    Proceed,
    Project,
    RunResult,
    crash_before,
)
from support.scripts import dying_after

pytestmark = at_home_on_iceberg
filled_up = pytest.mark.home("session-delta", reason="only Delta has a char(n)")
cloned_by_dbt = pytest.mark.home("session-delta", reason="dbt's own clone is one of Delta")

QUERY = f"select id, upper(name) as name, id * 2 as twice from {source('people')}"
FOREIGN = "mv exists, but was not made by this materialization"


def people(ids: str = "range(1, 21)") -> str:
    return f"select cast(id as int) as id, concat('n', id) as name from {ids}"


def make_upstream(project: Project) -> None:
    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people " + people())


def rows_of(upstream: str = "{schema}.people") -> str:
    return f"select id, upper(name) as name, id * 2 as twice from {upstream}"


def make_table(
    project: Project, name: str = "mv", rows: str = "", columns: str = "", using: str = ""
) -> None:
    """Create a table without dbt. By default, the table has the rows that the query returns."""
    columns = columns or "id int, name string, twice int"
    project.sql(f"create table {{schema}}.{name} ({columns}) using {using or project.file_format}")
    project.sql(f"insert into {{schema}}.{name} " + (rows or rows_of()))


def write(project: Project, name: str = "mv", query: str = QUERY, **config: object) -> None:
    project.write(
        {name: model(query, **config)}, sources=["people"], properties=data_tests(project, name)
    )


@pytest.fixture
def adopting(project: Project) -> Project:
    """Create an upstream with 20 rows and, without dbt, a table with the rows of the query."""
    make_upstream(project)
    make_table(project)
    write(project, backfill_rate_limit=8)
    return project


def adopt(project: Project, name: str = "mv") -> str:
    return project.operation("adopt_table", model=name).output


def expected(project: Project, where: str = "true") -> list[tuple[object, ...]]:
    return project.rows(f"select * from ({rows_of()}) where {where}")


def shown(project: Project, where: str = "true", name: str = "mv") -> list[tuple[object, ...]]:
    return project.rows(f"select id, name, twice from {{schema}}.{name} where {where}")


def files(project: Project, name: str = "mv") -> set[str]:
    """Return the paths of the data files of a table."""
    column = "_file" if project.file_format == "iceberg" else "_metadata.file_path"
    return {row[0] for row in project.sql(f"select distinct {column} from {{schema}}.{name}")}


def dies_inside(project: Project, step: str) -> Interceptor:
    """Return an interceptor that ends a run after the first writing statement of this script."""

    def intercept(sql: str, proceed: Proceed) -> None:
        if step not in sql:
            return proceed()
        script = dying_after(sql, 1)
        assert script is not None
        with contextlib.suppress(Exception):
            project.sql(script)
        raise Crash(f"inside {step}")

    return intercept


@pytest.mark.every_profile
def test_where_nothing_differs_no_row_of_the_table_is_written(adopting: Project) -> None:
    project, before = adopting, files(adopting)
    refused = project.fail()
    assert_refused(refused, "mv", FOREIGN, "adopt_table --args '{model: mv}'", "replace_existing")

    marked = adopt(project)
    assert "mv will be adopted with its 20 rows." in marked
    assert "up to 8 rows of the upstream per barrier" in marked
    assert existing_tables(project, "mv__progress", "mv__barriers") == []

    first = project.run()
    assert (
        ".mv: its 20 rows are compared with its query, up to 8 rows of the upstream" in first.output
    )
    assert "· 8 of 20 rows · +8 compared ·" in first.output
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    assert "there is nothing to adopt" in adopt(project)

    write(project, backfill_rate_limit=8, barriers_per_run="all")
    assert project.run().message("mv").endswith("(100.0 %), CAUGHT UP")
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    assert files(project) == before
    assert shown(project) == expected(project)


def test_what_differs_is_put_right_and_changes_are_merged_all_the_while(project: Project) -> None:
    make_upstream(project)
    make_table(project)
    write(project, backfill_rate_limit=8)
    project.sql("update {schema}.mv set name = 'other' where id = 3")
    project.sql("delete from {schema}.mv where id in (5, 14)")
    project.sql("insert into {schema}.mv values (0, 'BELOW', 0), (90, 'ABOVE', 0)")
    adopt(project)

    project.run()
    assert rows_written(project) == {"inserted": 1, "updated": 1, "deleted": 1}
    assert shown(project, "id <= 8") == expected(project, "id <= 8")

    write(project, backfill_rate_limit=0)
    assert project.run().message("mv") == "PAUSED (40.0 %)"
    write(project, backfill_rate_limit=8)

    # Change rows below and above the MV's position, and move one row from below it to above it.
    project.sql("update {schema}.people set name = 'later' where id in (2, 16)")
    project.sql("delete from {schema}.people where id in (4, 18)")
    project.sql("update {schema}.people set id = 40 where id = 6")
    project.run()
    assert shown(project, "id <= 16") == expected(project, "id <= 16")
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    project.run()
    assert "CAUGHT UP" in project.run().message("mv")

    assert shown(project) == expected(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    assert "all equal" in project.operation("verify_backfill", model="mv").output


def test_an_adoption_goes_on_after_its_first_plan_was_given_up(adopting: Project) -> None:
    project = adopting
    adopt(project)
    project.sql("update {schema}.mv set name = 'wrong' where id in (2, 12)")
    project.fail(intercept=crash_before(": merge"))
    project.operation("abandon_plan", model="mv")
    write(project, backfill_rate_limit=8, barriers_per_run="all")
    project.run()
    assert shown(project) == expected(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


@pytest.mark.every_profile
def test_rows_written_between_the_adoption_and_the_first_barrier_are_found(
    adopting: Project,
) -> None:
    project = adopting
    write(project, backfill_rate_limit=0)
    adopt(project)
    project.run()
    project.sql("insert into {schema}.mv select * from {schema}.mv where id in (5, 6, 20)")
    project.sql("insert into {schema}.mv values (null, 'x', 1)")
    write(project, backfill_rate_limit=8, barriers_per_run="all")
    project.run()
    assert shown(project) == expected(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


def test_a_table_in_whose_name_spark_sees_a_secret_is_adopted(project: Project) -> None:
    """Spark does not show a property of an Iceberg table if the property contains `url`."""
    make_upstream(project)
    make_table(project, "urls")
    write(project, "urls")
    adopt(project, "urls")

    assert project.run().message("urls").endswith("(100.0 %)")
    assert shown(project, name="urls") == expected(project)


def test_a_run_that_died_while_it_took_the_table_is_completed_by_the_next_one(
    adopting: Project,
) -> None:
    project = adopting
    project.fail(
        "run-operation", "adopt_table", "--args", "{model: mv}", intercept=crash_before(": mark mv")
    )
    assert_refused(project.fail(), "mv", FOREIGN, "adopt_table")
    adopt(project)

    # Kill the run four times: before the state exists, inside the script that creates the state,
    # before the plan exists, and after the plan exists.
    project.fail(intercept=crash_before(": create the tables"))
    assert existing_tables(project, "mv__progress") == []
    project.fail(intercept=dies_inside(project, ": create the tables"))
    assert existing_tables(project, "mv__progress") == ["mv__progress"]
    assert "dbt_backfill.id" not in project.table_properties("mv")
    assert "will be adopted" in adopt(project)
    project.fail(intercept=crash_before(": plan the barrier 1"))
    assert "dbt_backfill.id" in project.table_properties("mv")
    assert shown(project) == expected(project)
    project.fail(intercept=crash_before(": merge the range"))

    project.run()
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    write(project, barriers_per_run="all")
    project.run()
    assert shown(project) == expected(project)
    assert statuses(project)["complete"] == "pass"


def test_a_full_refresh_replaces_a_table_only_where_the_model_says_so(
    project: Project,
) -> None:
    make_upstream(project)
    make_table(
        project, rows="select 7, 'x', 8, 'more'", columns="a int, name string, b int, c string"
    )
    write(project)
    assert_refused(project.fail("--full-refresh"), "mv", FOREIGN, "set replace_existing to true")

    write(project, replace_existing=True)
    assert_refused(project.fail(), "mv", FOREIGN)
    # Kill the full refresh twice. After the first kill, the state exists but the table is not an MV
    # yet. After the second kill, the table is an MV but still has its old rows.
    project.fail("--full-refresh", intercept=dies_inside(project, ": create the tables"))
    assert_refused(project.fail(), "mv", FOREIGN, "--full-refresh")
    project.fail("--full-refresh", intercept=crash_before(": plan the barrier 1"))
    assert project.rows("select a from {schema}.mv") == [(7,)]
    refreshed = project.run()
    assert "emptied: another table had replaced it" in refreshed.output
    assert shown(project) == expected(project)


@needs_tables_of_spark
def test_a_view_is_replaced_by_what_drops_no_table(project: Project) -> None:
    make_upstream(project)
    project.sql("create view {schema}.seen as select 1 as id")
    write(project, "seen", replace_existing=True)
    project.fail(
        "--select", "seen", "--full-refresh", intercept=dies_inside(project, ": create the tables")
    )
    assert_refused(project.fail("--select", "seen"), "seen", "seen exists, but was not made by")
    assert "adopt" not in project.run("--select", "seen", "--full-refresh").output
    assert shown(project, name="seen") == expected(project)
    # Drop the view again, because dbt can send the statement twice after a lost connection.
    with contextlib.suppress(Exception):
        project.sql("drop view if exists {schema}.seen")
    assert "CAUGHT UP" in project.run("--select", "seen").message("seen")


SPOILED = {
    "lacks": ("id int, name string", "select id, upper(name)", "has no column twice"),
    "more": ("id int, name string, twice int, c int", "select *, 1", "has the column c, which"),
    "retyped": (
        "id int, name string, twice bigint",
        "select *",
        "has the column twice of the type bigint, but its query returns int",
    ),
    "ordered": (
        "id int, twice int, name string",
        "select id, twice, name",
        "has its columns in the order id, twice, name, but its query returns them in the order id,",
    ),
    "twice": (
        "id int, name string, twice int",
        "select * from t union all select *",
        "the key id is not unique in",
    ),
    "nulls": (
        "id int, name string, twice int",
        "select if(id < 3, null, id), name, twice",
        "has 2 rows with a null in id",
    ),
}


@pytest.fixture(scope="module")
def spoiled(shared_project: MakeProject) -> tuple[Project, RunResult]:
    """Create tables that have the mark of `adopt_table` but cannot be adopted, and run their
    models.
    """
    project = shared_project("not_adopted")
    make_upstream(project)
    for name, (columns, select, _) in SPOILED.items():
        make_table(project, name, f"with t as ({rows_of()}) {select} from t", columns)
    project.write({name: model(QUERY) for name in SPOILED}, sources=["people"])
    for name in SPOILED:
        mark = md5(f"model.tested.{name}".encode()).hexdigest()
        project.sql(
            f"alter table {{schema}}.{name} set tblproperties ('dbt_backfill.adopt' = '{mark}')"
        )
    return project, project.dbt("run", expect=False)


@pytest.mark.parametrize("name", SPOILED)
def test_a_table_that_cannot_be_an_mv_is_refused_before_anything_is_written(
    spoiled: tuple[Project, RunResult], name: str
) -> None:
    project, result = spoiled

    assert_refused(
        result, name, f"not_adopted.{name}" if name != "twice" else "key id", SPOILED[name][2]
    )
    assert existing_tables(project, f"{name}__progress", f"{name}__barriers") == []


@needs_tables_of_spark
def test_what_is_no_table_of_the_models_format_is_refused_by_the_operation(
    project: Project,
) -> None:
    make_upstream(project)
    project.sql("create view {schema}.seen as select 1 as id")
    make_table(project, "plain", using="parquet")
    for name in ("seen", "plain", "absent"):
        write(project, name, replace_existing=True)

    def refused(name: str) -> str:
        return refused_operation(project, "adopt_table", model=name)

    assert f"{project.schema}.seen is a view, which has no rows of its own" in refused("seen")
    assert (
        f"plain is a table of the format parquet, but file_format is {project.file_format}"
        in refused("plain")
    )
    absent = f"{project.schema}.absent does not exist. Run the model, which builds it"
    assert absent in refused("absent")
    replaced = project.fail("--select", "plain", "--full-refresh")
    assert_refused(
        replaced, "plain", "plain is a table of the format parquet, but", "Drop or rename"
    )


@pytest.fixture
def cloned(project: Project) -> Project:
    """Create the MV `prod`, which has read a part of its rows, and a model `mv` with the same
    query.
    """
    make_upstream(project)
    write(project, "prod", backfill_rate_limit=8)
    project.run()
    write(project, backfill_rate_limit=8)
    return project


def clone(project: Project, **arguments: object) -> str:
    source = f"{project.schema}.prod"
    return project.operation("clone_backfill", model="mv", source=source, **arguments).output


@pytest.mark.every_profile
@any_connection
def test_a_clone_with_its_state_goes_on_from_the_position_of_the_original(cloned: Project) -> None:
    project = cloned
    project.sql("update {schema}.people set name = 'later' where id = 2")
    project.fail(
        *operation("clone_backfill", model="mv", source=f"{project.schema}.prod"),
        intercept=crash_before(": copy the state"),
    )
    assert existing_tables(project, "mv", "mv__progress", "mv__barriers") == ["mv"]
    assert_refused(project.fail("--select", "mv"), "mv", "mv is a clone of the MV", "adopt_table")

    made = clone(project)
    assert "is a clone of" in made and "at the barrier 1 (40.0 %)" in made
    own, other = project.table_properties("mv"), project.table_properties("prod")
    assert own["dbt_backfill.id"] != other["dbt_backfill.id"]

    ran = project.run("--select", "mv")
    assert "BARRIER 2 · 80.0 % · 16 of 20 rows · +8 backfilled · 1 changed" in ran.output
    assert shown(project) == expected(project, "id <= 16")
    assert shown(project, name="prod") == [(n, f"N{n}", 2 * n) for n in sorted(range(1, 9))]
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    history = "select epoch from {schema}.mv__barriers"
    assert project.rows(history) == [(0,), (1,), (2,)]
    assert "exists, so the model already has a state" in refused_operation(
        project, "clone_backfill", model="mv", source=f"{project.schema}.prod"
    )


@pytest.mark.every_profile
def test_a_row_that_goes_before_the_first_run_of_a_clone_is_missed(cloned: Project) -> None:
    project = cloned
    clone(project)
    project.sql("delete from {schema}.mv where id = 7")
    write(project, barriers_per_run="all")
    assert "re-anchored" in project.run("--select", "mv").output
    assert shown(project) == expected(project)


def test_a_clone_is_the_first_table_of_its_schema(cloned: Project) -> None:
    project, schema = cloned, f"{cloned.schema}_ci"
    write(project, schema="ci", backfill_rate_limit=8)
    nowhere = refused_operation(project, "clone_backfill", model="mv", source="nowhere.prod")
    assert "nowhere.prod does not exist, but clone_backfill needs an MV and its state" in nowhere
    project.fail("--select", "prod", intercept=crash_before("prod: commit"))
    prod = {"model": "mv", "source": f"{project.schema}.prod"}
    assert "is not committed" in refused_operation(project, "clone_backfill", **prod)
    assert project.rows(f"show schemas like '{schema}'") == []

    project.run("--select", "prod")
    assert f"mv: {schema}.mv is a clone of {project.schema}.prod with its state" in clone(project)
    assert project.run("--select", "mv").message("mv") == "BARRIER 3 (100.0 %)"
    assert project.rows(f"select id, name, twice from {schema}.mv") == expected(project)


@cloned_by_dbt
def test_a_clone_without_its_state_is_never_taken_for_an_mv(cloned: Project) -> None:
    project, prod = cloned, f"{cloned.schema}.prod"
    copy_table(project, "prod", "mv")
    refused = project.fail("--select", "mv")
    assert_refused(
        refused, "mv", f"mv is a clone of the MV {prod}, but the state of", "adopt_table"
    )
    tested = project.dbt("test", "--select", "mv", expect=False)
    assert f"mv is a clone of the MV {prod}, but the state of" in tested.error

    # A script that copies the table and its state one after the other may copy them at different
    # barriers.
    copy_table(project, "prod__progress", "mv__progress")
    facts = f"mv and its state are copies of the MV {prod} and its state"
    assert_refused(project.fail("--select", "mv"), "mv", facts, "clone_backfill", "adopt")
    project.operation("drop_backfill", model="mv", keep_mv=True)

    adopt(project)
    write(project, barriers_per_run="all")
    project.run("--select", "mv")
    assert shown(project) == expected(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    assert project.run("--select", "prod").message("prod").startswith("BARRIER 2")


def test_an_mv_in_the_middle_of_a_barrier_is_not_cloned(cloned: Project) -> None:
    project, prod = cloned, f"{cloned.schema}.prod"
    project.fail("--select", "prod", intercept=crash_before("prod: commit"))
    refused = refused_operation(project, "clone_backfill", model="mv", source=prod)
    assert "its barrier 2 has begun but is not committed. Let a run" in refused
    assert existing_tables(project, "mv", "mv__progress", "mv__barriers") == []

    project.run("--select", "prod")
    copy_table(project, "prod", "mv")
    assert "Add replace: true" in refused_operation(
        project, "clone_backfill", model="mv", source=prod
    )
    assert "at the barrier 2" in clone(project, replace=True)
    assert "CAUGHT UP" not in project.run("--select", "mv").message("mv")
    assert shown(project) == expected(project)


def copy_table(project: Project, old: str, new: str) -> None:
    """Clone a Delta table like `dbt clone`. Copy an Iceberg table with its rows and properties."""
    if project.file_format == "delta":
        project.sql(f"create table {{schema}}.{new} shallow clone {{schema}}.{old}")
        return
    kept = {
        name: value
        for name, value in project.table_properties(old).items()
        if name.startswith(("dbt_backfill.", "write.")) or name == "format-version"
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in kept.items())
    project.sql(
        f"create table {{schema}}.{new} using iceberg tblproperties ({listed})"
        f" as select * from {{schema}}.{old}"
    )


def operation(macro: str, **arguments: object) -> tuple[str, ...]:
    return ("run-operation", macro, "--args", yaml.safe_dump(arguments))


@filled_up
def test_a_table_that_fills_its_texts_up_with_blanks_is_refused(project: Project) -> None:
    """In a select, Spark reports the type of a char(9) column as string."""
    make_upstream(project)
    make_table(project, columns="id int, name char(9), twice int")
    write(project)
    adopt(project)

    told = "has the column name of the type char(9), but its query returns string"
    assert_refused(project.fail(), "mv", told)
