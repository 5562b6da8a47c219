"""`backfill_complete` and `backfill_consistent` pass after runs, and find changes by other
programs.

`test_verify_backfill.py` runs them while a barrier is not committed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.checks import data_tests, model, source
from support.profiles import at_home_on_iceberg
from support.project import MakeProject, Project, RunResult

pytestmark = at_home_on_iceberg

MV = model(
    f"select id, upper(name) as name, scores, tags from {source('people')} where name <> 'hidden'",
    backfill_rate_limit=4,
)


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    """Create an MV with a map and an array that has read a part of its upstream."""
    project = shared_project("generic_tests")
    project.create_table(
        "people", "id int, name string, scores map<string, int>, tags array<string>"
    )
    project.sql(
        "insert into {schema}.people select id, if(id = 3, 'hidden', concat('n', id)),"
        " map('b', id, 'a', id), array(string(id), null) from range(1, 11)"
    )
    properties = data_tests(project, "mv", "plain", "versioned")
    properties["models"][-1]["versions"] = [{"v": 2}]
    project.write(
        {
            "mv": MV,
            "versioned_v2": MV,
            "plain": f"{{{{ config(materialized='table') }}}} select * from {source('people')}",
        },
        sources=["people"],
        properties=properties,
    )
    project.run()
    return project


def run_tests(project: Project) -> RunResult:
    return project.dbt("test", "--select", "mv", expect=False)


def statuses(result: RunResult) -> dict[str, tuple[str, int | None]]:
    """Return the status and the number of failures of each of the two generic tests."""
    return {
        "complete" if "complete" in node.name else "consistent": (node.status, node.failures)
        for node in result.nodes
    }


@pytest.mark.every_profile
def test_a_partly_backfilled_mv_is_consistent_with_its_version_but_not_complete(
    project: Project,
) -> None:
    """The MV is compared with the upstream's version that its state records, not with the current
    one.
    """
    project.sql("update {schema}.people set name = 'later' where id = 1")

    assert statuses(run_tests(project)) == {"complete": ("fail", 4), "consistent": ("pass", 0)}


def test_a_row_above_the_position_is_not_consistent(project: Project) -> None:
    version = project.current_version("mv")
    row = "7, 'N7', map('b', 7, 'a', 7), array('7', null)"
    project.sql(f"insert into {{schema}}.mv values ({row})")

    assert statuses(run_tests(project))["consistent"] == ("fail", 1)
    project.put_back("mv", version)


@pytest.mark.every_profile
def test_a_finished_mv_passes_both(finished: Project) -> None:
    assert statuses(run_tests(finished)) == {"complete": ("pass", 0), "consistent": ("pass", 0)}


# Statements that damage the MV, and the number of rows that differ afterwards. The order of the
# entries in a map is not a difference.
TAMPERED = (
    ("insert into {schema}.mv values (99, 'N99', map('a', 1), array('x'))", 1),
    ("delete from {schema}.mv where id = 5", 1),
    ("update {schema}.mv set name = 'other' where id = 1", 2),
    ("update {schema}.mv set name = null where id = 2", 2),
    ("update {schema}.mv set scores = map('a', 4) where id = 4", 2),
    ("update {schema}.mv set tags = array('6') where id = 6", 2),
    ("insert into {schema}.mv select * from {schema}.mv where id = 7", 1),
    ("update {schema}.mv set id = 88 where id = 8", 2),
    ("update {schema}.mv set scores = map('a', id, 'b', id) where id in (9, 10)", 0),
)


@pytest.fixture
def finished(project: Project) -> Project:
    """Run until the MV has read all rows."""
    if not project.value("select bool_and(backfill_finished) from {schema}.mv__progress"):
        project.write({"mv": MV.replace("backfill_rate_limit=4", "barriers_per_run='all'")})
        project.run("--select", "mv")
    return project


@pytest.fixture
def restored(finished: Project) -> Iterator[Project]:
    """Yield the project with the finished MV, and restore the MV after the test."""
    version = finished.current_version("mv")
    yield finished
    finished.put_back("mv", version)


@pytest.mark.every_profile
def test_each_way_to_tamper_with_an_mv_is_found(restored: Project) -> None:
    for statement, _ in TAMPERED:
        restored.sql(statement)

    assert statuses(run_tests(restored)) == {
        "complete": ("pass", 0),
        "consistent": ("fail", sum(differing for _, differing in TAMPERED)),
    }


def test_an_mv_that_has_every_row_twice_is_not_consistent(restored: Project) -> None:
    restored.sql("insert into {schema}.mv select * from {schema}.mv")

    assert statuses(run_tests(restored))["consistent"] == ("fail", 9)


def test_a_table_of_another_materialization_is_refused_by_name(project: Project) -> None:
    result = project.fail("test", "--select", "plain")

    for node in result.nodes:
        assert node.status == "error"
        assert "backfilled_mv plain: " in node.message
        assert "is not a backfilled_mv" in node.message

    project.dbt("compile")
    project.dbt("docs", "generate", "--empty-catalog")


def test_a_refusal_names_the_model_as_run_operations_take_it(project: Project) -> None:
    """The model `versioned.v2` writes the table `versioned_v2`."""
    project.sql("drop table {schema}.versioned_v2__progress")
    result = project.fail("test", "--select", "versioned")

    assert len(result.nodes) == 2
    for node in result.nodes:
        assert "backfilled_mv versioned.v2: its state is missing: " in node.message
        assert "dbt run-operation adopt_table --args '{model: versioned.v2}'" in node.message
    project.operation("adopt_table", model="versioned.v2")


@pytest.mark.every_profile
def test_a_table_in_the_place_of_a_complete_mv_passes_no_test(project: Project) -> None:
    project.sql("drop table {schema}.mv")
    project.sql("create table {schema}.mv (id int, name string) using " + project.file_format)
    messages = [node.message for node in run_tests(project).nodes]
    assert len(messages) == 2
    assert all("was not made by this materialization" in message for message in messages)
