"""Tests of the test harness: the other suites rely on the behaviour that is tested here."""

from __future__ import annotations

import pytest

from support.project import Crash, Project, RunFailed

pytestmark = pytest.mark.every_profile

TABLE = """
    {{ config(materialized='table') }}
    select id * 2 as id from {{ source('lake', 'numbers') }}
"""


@pytest.fixture
def numbers(project: Project) -> Project:
    project.create_table("numbers", "id int")
    project.sql("insert into {schema}.numbers values (1), (2)")
    return project.write({"doubled": TABLE}, sources=["numbers"])


def test_a_model_runs_in_the_shared_session(numbers: Project) -> None:
    result = numbers.run()

    assert result["doubled"].status == "success"
    assert numbers.rows("select * from {schema}.doubled") == [(2,), (4,)]
    assert any("create or replace table" in statement for statement in result.statements)
    assert "OK created sql table model" in result.output
    assert "partial parsing" not in result.output  # the macros were parsed for all projects


def test_a_changed_model_is_parsed_again(numbers: Project) -> None:
    numbers.run()
    numbers.write({"doubled": TABLE.replace("* 2", "* 3")})
    numbers.run()

    assert numbers.rows("select * from {schema}.doubled") == [(3,), (6,)]


def test_an_unexpected_failure_shows_what_dbt_printed(numbers: Project) -> None:
    numbers.write({"doubled": TABLE.replace("id *", "absent *")})

    with pytest.raises(RunFailed, match="UNRESOLVED_COLUMN"):
        numbers.run()
    assert "UNRESOLVED_COLUMN" in numbers.fail().message("doubled")


def test_an_expected_failure_that_succeeds_is_an_error(numbers: Project) -> None:
    with pytest.raises(AssertionError, match="succeeded"):
        numbers.fail()


def test_an_interceptor_ends_a_run_before_a_statement(numbers: Project) -> None:
    def crash(sql: str, proceed) -> None:  # type: ignore[no-untyped-def]
        if "create or replace table" in sql:
            raise Crash("driver lost")
        proceed()

    result = numbers.fail(intercept=crash)

    assert "driver lost" in result.error
    assert not numbers.exists("doubled")
    assert numbers.run().success


def test_an_interceptor_ends_a_run_after_a_statement(numbers: Project) -> None:
    def crash(sql: str, proceed) -> None:  # type: ignore[no-untyped-def]
        proceed()
        if "create or replace table" in sql:
            raise Crash("driver lost")

    numbers.fail(intercept=crash)

    assert numbers.exists("doubled")


def test_projects_have_schemas_of_their_own(new_project) -> None:  # type: ignore[no-untyped-def]
    first, second = new_project(), new_project()
    first.create_table("numbers", "id int")

    assert first.exists("numbers")
    assert not second.exists("numbers")
