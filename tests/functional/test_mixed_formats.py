"""The MV and its upstream have different table formats, and are in different catalogs."""

from __future__ import annotations

import pytest

from support.checks import assert_made_nothing, assert_refused, data_tests, model
from support.project import Project, RunResult

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles(
        "session-delta", "session-iceberg", reason="a Thrift server's catalogs are the same ones"
    ),
]

OTHER = {"delta": "iceberg", "iceberg": "delta"}

PEOPLE = "{{ source('other', 'people') }}"

# Iceberg has no tinyint and no smallint, and stores them as int.
KEYS = {"small": "tinyint", "medium": "smallint", "number": "int", "word": "string"}


@pytest.fixture
def other(project: Project) -> Project:
    """Add the source `other`, a schema in the catalog of the other table format."""
    schema, _, _ = project.table("x", OTHER[project.file_format]).rpartition(".")
    text = f"sources: [{{name: other, schema: {schema}, tables: [{{name: people}}]}}]"
    return project.write({}, files={"models/_other.yml": text})


def people(project: Project) -> str:
    return project.table("people", OTHER[project.file_format])


def counted(result: RunResult) -> list[str]:
    """Return the steps of the run, without the step that lists the other catalog.

    dbt itself lists only the session's catalog.
    """
    return [step for step in result.steps if not step.startswith("find ")]


def test_an_upstream_of_the_other_format_is_followed(other: Project) -> None:
    table = people(other)
    columns = ", ".join(f"{name} {type}" for name, type in KEYS.items())
    other.create_table("people", f"{columns}, name string", file_format=OTHER[other.file_format])
    other.sql(
        f"insert into {table} select cast(id % 3 as tinyint), cast(id % 4 as smallint), id,"
        " concat('w', id), concat('n', id) from range(1, 11)"
    )
    query = f"select {', '.join(KEYS)}, upper(name) as name from {PEOPLE}"
    other.write(
        {"mv": model(query, unique_key=list(KEYS), backfill_rate_limit=4)},
        properties=data_tests(other, "mv"),
    )
    fresh = f"select {', '.join(KEYS)}, upper(name) from {table}"

    assert other.run().message("mv") == "BARRIER 1 (40.0 %)"
    read = other.value("select max(upstream_version) from {schema}.mv__progress")
    assert read == other.current_version("people", OTHER[other.file_format])

    other.sql(f"update {table} set name = 'new' where number % 2 = 0")
    other.sql(f"delete from {table} where number in (3, 9)")
    other.sql(f"insert into {table} values (0Y, 0S, 0, 'w0', 'low'), (2Y, 3S, 99, 'w', 'high')")
    second = other.run()
    assert "re-anchored" not in second.output
    assert len(counted(second)) <= 8, second.steps
    other.test("--select", "test_name:backfill_consistent")

    while (last := other.run()).message("mv") != "CAUGHT UP":
        pass
    assert len(counted(last)) <= 4, last.steps
    assert other.rows("select * from {schema}.mv") == other.rows(fresh)
    other.test()


def test_a_view_in_another_catalog_is_refused(other: Project) -> None:
    if other.file_format == "delta":
        pytest.skip("Iceberg's Hadoop catalog has no views")
    schema, _, _ = people(other).rpartition(".")
    other.sql(f"create schema if not exists {schema}")
    other.sql(f"create view {people(other)} as select 1 as id")
    other.write({"mv": model(f"select id from {PEOPLE}")})

    refused = other.fail()

    assert_refused(refused, "mv", "people, which is not in the catalog", "Read the table under")
    assert_made_nothing(other, "mv")


def test_an_upstream_of_the_other_format_that_is_absent_is_refused(other: Project) -> None:
    schema, _, _ = people(other).rpartition(".")
    other.sql(f"create schema if not exists {schema}")
    other.write({"mv": model(f"select id from {PEOPLE}")})

    assert_refused(other.fail(), "mv", f"its upstream {people(other)} does not exist")
