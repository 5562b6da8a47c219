"""Sources and models in other catalogs of the session, which dbt calls databases.

Test of the two ways in docs/profiles.md#other-catalogs, in both directions: the session's own
catalog has Delta tables and the other one Iceberg tables, or the other way round.
"""

from __future__ import annotations

import pytest
import yaml

from support.checks import assert_made_nothing, assert_refused, data_tests, model
from support.project import Project

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles(
        "session-delta",
        "session-iceberg",
        "thrift-delta",
        reason="the server of thrift-iceberg has one catalog",
    ),
]

OTHER = {"delta": "iceberg", "iceberg": "delta"}
QUERY = "select id, upper(name) as name from {{ source('other', 'people') }}"


def place(project: Project) -> tuple[str, str]:
    """Return the other catalog and the schema of the project in it."""
    catalog, schema, _ = project.table("x", OTHER[project.file_format]).split(".")
    return catalog, schema


def write_source(project: Project, **names: str) -> None:
    source = {"name": "other", **names, "tables": [{"name": "people"}]}
    project.write({}, files={"models/_other.yml": yaml.safe_dump({"sources": [source]})})


def create_people(project: Project) -> str:
    other = OTHER[project.file_format]
    project.create_table("people", "id int, name string", file_format=other)
    people = project.table("people", other)
    project.sql(f"insert into {people} values (1, 'a'), (2, 'b'), (3, 'c')")
    return people


def dispatch(project: Project) -> None:
    """Let dbt call the macros of the package before its own."""
    path = project.root / "dbt_project.yml"
    order = {"macro_namespace": "dbt", "search_order": ["tested", "dbt_backfill", "dbt"]}
    path.write_text(path.read_text() + yaml.safe_dump({"dispatch": [order]}))


@pytest.mark.plugin
@pytest.mark.core("session-delta", "session-iceberg")
def test_sources_and_models_have_a_database(project: Project) -> None:
    """An MV of another catalog, its state, a table over it, a seed, and the commands for them.

    Tables of the same names in the session's own catalog stay as they are.
    """
    catalog, schema = place(project)
    people, other = create_people(project), OTHER[project.file_format]
    write_source(project, database=catalog, schema=schema)
    dispatch(project)
    options = {"database": catalog, "file_format": other}
    table = f"{{{{ config(materialized='table', database='{catalog}', file_format='{other}') }}}}"
    project.write(
        {
            "mv": model(QUERY, backfill_rate_limit=2, **options),
            "counts": f"{table} select count(*) as people from {{{{ ref('mv') }}}}",
        },
        properties={
            **data_tests(project, "mv"),
            "seeds": [{"name": "codes", "config": options}],
        },
        files={"seeds/codes.csv": "id,code\n1,x\n"},
    )
    namesakes = ("mv", "counts", "codes")
    for name in namesakes:
        project.create_table(name, "kept int")
        project.sql(f"insert into {{schema}}.{name} values (7)")

    assert project.run().message("mv") == "BARRIER 1 (66.7 %)"
    assert "2 rows" in project.operation("explain_backfill", model="mv").output
    for _ in range(2):
        project.dbt("seed")
    project.sql(f"delete from {people} where id = 1")
    project.run()
    assert project.run().message("mv") == "CAUGHT UP"

    mv = f"{catalog}.{schema}.mv"
    assert sorted(project.rows(f"select * from {mv}")) == [(2, "B"), (3, "C")]
    assert project.rows(f"select people from {catalog}.{schema}.counts") == [(2,)]
    assert project.value(f"select max(epoch) from {mv}__progress") == 2
    assert project.rows(f"select * from {catalog}.{schema}.codes") == [(1, "x")]
    project.test("--select", "mv")
    assert "no orphans" in project.operation("backfill_orphans").output
    project.run("--full-refresh")
    project.dbt("docs", "generate")
    project.operation("drop_backfill", model="mv")
    assert not project.rows(f"show tables in {catalog}.{schema} like 'mv*'")
    for name in namesakes:
        assert project.rows(f"select * from {{schema}}.{name}") == [(7,)]


def test_a_schema_begins_with_a_catalog(project: Project) -> None:
    """Test of the way that works with dbt-spark alone."""
    catalog, schema = place(project)
    people, other = create_people(project), OTHER[project.file_format]
    write_source(project, schema=f"{catalog}.{schema}")
    name = "{% macro generate_schema_name(name, node) %}{{ name or target.schema }}{% endmacro %}"
    options = {"schema": f"{catalog}.{schema}", "file_format": other}
    project.write(
        {"mv": model(QUERY, backfill_rate_limit=2, **options)},
        properties=data_tests(project, "mv"),
        files={"macros/names.sql": name},
    )

    assert project.run().message("mv") == "BARRIER 1 (66.7 %)"
    project.sql(f"update {people} set name = 'x' where id = 1")
    project.run()
    assert project.run().message("mv") == "CAUGHT UP"

    mv = f"{catalog}.{schema}.mv"
    assert sorted(project.rows(f"select * from {mv}")) == [(1, "X"), (2, "B"), (3, "C")]
    project.test("--select", "mv")


@pytest.mark.plugin
def test_a_database_without_the_dispatch_is_refused(project: Project) -> None:
    catalog, schema = place(project)
    create_people(project)
    write_source(project, database=catalog, schema=schema)
    project.write({"mv": model(QUERY, database=catalog)})

    refused = project.fail()

    assert_refused(refused, "mv", "database has no effect", "Other catalogs")
    assert_made_nothing(project, "mv")
