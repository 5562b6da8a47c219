"""The adapter plugin shows a failed statement in one or two lines, never as a Java stack trace."""

from __future__ import annotations

import pytest

from support.checks import model
from support.project import Project

OWN = "backfilled_mv mv: another run has committed epoch 3. Run dbt again."
RAISE = "(select if(count(*) < 9, raise_error('{text}'), true) from {{schema}}.people)"
PARSE = "java_method('java.lang.Integer', 'parseInt', 'x')"


@pytest.fixture(scope="module")
def people(make_project) -> Project:  # type: ignore[no-untyped-def]
    project: Project = make_project("plugin_errors", "spark_backfill")
    project.create_table("people", "id int")
    project.sql("insert into {schema}.people values (1), (2)")
    return project


def written(people: Project, query: str) -> str:
    """Return the error message of a `table` model whose query fails."""
    config = "{{ config(materialized='table') }}"
    people.write({"mv": f"{config} {query.format(schema=people.schema)}"})
    result = people.fail()
    assert "at org.apache" not in result.output + result.error
    return result.message("mv")


def fetched(people: Project, query: str) -> str:
    """Return the error message of a model whose `run_query` fails."""
    query = query.format(schema=people.schema)
    fetch = f'{{% if execute %}}{{% do run_query("{query}") %}}{{% endif %}}'
    people.write({"mv": f"{{{{ config(materialized='table') }}}} {fetch} select 1 as x"})
    result = people.fail()
    assert "at org.apache" not in result.output + result.error
    return result.message("mv")


@pytest.mark.parametrize("message", [written, fetched])
def test_our_own_error_is_shown_alone(people: Project, message) -> None:  # type: ignore[no-untyped-def]
    shown = message(people, f"select id from {{schema}}.people where {RAISE.format(text=OWN)}")

    assert shown.splitlines()[:2] == ["Database Error in model mv (models/mv.sql)", f"  {OWN}"]


def test_a_refusal_is_shown_alone(people: Project) -> None:
    people.write({"mv": model("select id from {{ source('lake', 'people') }}", check_key="no")},
                 sources=["people"])  # fmt: skip
    result = people.fail()

    assert result.message("mv").splitlines() == [
        "Compilation Error in model mv (models/mv.sql)",
        '  backfilled_mv mv: check_key is "no". Set it to true or false.',
        "  See docs/messages.md#option-value",
    ]
    assert "called by macro" not in result.output + result.error


@pytest.mark.parametrize("message", [written, fetched])
def test_another_error_is_shown_with_its_cause(people: Project, message) -> None:  # type: ignore[no-untyped-def]
    shown = message(people, f"select {PARSE} as x from {{schema}}.people")

    assert 'NumberFormatException: For input string: "x"' in shown
    assert "An error occurred while calling" not in shown


@pytest.mark.parametrize("message", [written, fetched])
def test_a_refused_query_is_shown_without_its_plan(people: Project, message) -> None:  # type: ignore[no-untyped-def]
    shown = message(people, "select absent from {schema}.people")

    assert "[UNRESOLVED_COLUMN.WITH_SUGGESTION]" in shown
    assert "line " in shown
    assert "Relation" not in shown
