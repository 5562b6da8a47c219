"""Upstreams and keys that cannot be followed are refused before anything is written.

The models of a fixture are run once, in one dbt run; each test looks at one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.checks import (
    CHANGE_FEED,
    assert_made_nothing,
    assert_refused,
    model,
    shared_project,
    source,
    versions,
)
from support.lake import Lake
from support.project import Project, RunResult

EVENTS = source("events")

UPSTREAMS = {
    "reads_view": (source("a_view"), "refused_upstreams.a_view is a view", "Read the table under"),
    "reads_view_model": ("{{ ref('view_model') }}", "view_model is a view"),
    "reads_ephemeral": (
        "{{ ref('ephemeral_model') }}",
        "ephemeral_model is an ephemeral model",
        "Materialize ephemeral_model",
    ),
    "reads_parquet": (source("a_parquet"), "a_parquet is neither a Delta nor an Iceberg table"),
    "reads_missing": (source("absent"), "refused_upstreams.absent does not exist", "Create it"),
    "reads_nothing": ("values (1) as t(id)", "reads no model or source"),
    "reads_no_feed": (
        source("no_feed"),
        "no_feed has no change data feed",
        "from its version 2 on",
        "ALTER TABLE refused_upstreams.no_feed SET TBLPROPERTIES"
        " ('delta.enableChangeDataFeed' = 'true')",
        "it counts from the version 3",
    ),
    "null_key": (source("nulls"), "nulls", "null in id", "version 1"),
    "key_twice": (source("twice"), "id is not unique", "twice", "2"),
}

KEYS: dict[str, tuple[Any, ...]] = {
    "key_missing": (None, "id, name", "unique_key is missing"),
    "key_not_selected": ("id", "name", "does not return the column 'id'"),
    "second_key_not_selected": (
        ["id", "absent"],
        "id, name",
        "does not return the column 'absent'",
    ),
    "key_computed": ("id", "id + 1 as id, name", "'id' of unique_key", "an expression"),
    "key_cast": ("id", "cast(id as bigint) as id, name", "'id' of unique_key", "an expression"),
    "key_coalesced": ("id", "coalesce(id, 0) as id", "'id' of unique_key", "an expression"),
    "key_constant": ("id", "1 as id, name", "'id' of unique_key", "an expression"),
    "key_of_a_field": ("a", "info.a as a, name", "'a' of unique_key", "an expression"),
    "key_collated": (
        "name",
        "name collate utf8_lcase as name",
        "'name' of unique_key",
    ),
    "key_double": ("amount", "amount", "has the type double,", "Use a key of integers"),
    "key_float": ("share", "share", "has the type float,"),
    "key_struct": ("info", "info, name", "type struct<a:int,b:string>, of"),
    "key_array": ("tags", "tags, name", "type array<string>, of"),
    "key_twice_the_same": (
        ["id", "other_id"],
        "id, id as other_id",
        "two columns of unique_key carry 'id'",
    ),
}


@pytest.fixture(scope="module")
def project(
    request: pytest.FixtureRequest,
    lake: Lake,
    packages: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Project:
    project = shared_project(request, lake, packages, tmp_path_factory, "refused_upstreams")
    project.sql(
        "create table {schema}.events (id int, name string, amount double, share float,"
        f" tags array<string>, info struct<a: int, b: string>) using delta {CHANGE_FEED}"
    )
    project.sql("create view {schema}.a_view as select * from {schema}.events")
    project.sql("create table {schema}.a_parquet (id int, name string) using parquet")
    project.sql("create table {schema}.no_feed (id int, name string) using delta")
    project.sql("insert into {schema}.no_feed values (1, 'a')")
    project.sql("insert into {schema}.no_feed values (2, 'b')")
    for table, rows in {
        "nulls": "(1, 'a'), (null, 'b')",
        "twice": "(1, 'a'), (2, 'b'), (2, 'c')",
    }.items():
        project.sql(
            f"create table {{schema}}.{table} (id int, name string) using delta {CHANGE_FEED}"
        )
        project.sql(f"insert into {{schema}}.{table} values {rows}")
    models = {
        "view_model": "{{ config(materialized='view') }} select * from " + EVENTS,
        "ephemeral_model": "{{ config(materialized='ephemeral') }} select * from " + EVENTS,
    }
    models |= {name: model(f"select * from {read}") for name, (read, *_) in UPSTREAMS.items()}
    models |= {
        name: model(f"select {columns} from {EVENTS}", unique_key=key)
        for name, (key, columns, *_) in KEYS.items()
    }
    models["key_misdeclared"] = model(f"select id, name from {EVENTS}", upstream_key="name")
    tables = ["events", "a_view", "a_parquet", "no_feed", "nulls", "twice", "absent"]
    return project.write(models, sources=tables)


@pytest.fixture(scope="module")
def run(project: Project) -> RunResult:
    return project.fail()


@pytest.mark.parametrize("name", UPSTREAMS)
def test_an_upstream_that_cannot_be_followed_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = UPSTREAMS[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_cannot_be_followed_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, _, *facts = KEYS[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


def test_an_upstream_key_that_the_query_contradicts_is_refused(
    project: Project, run: RunResult
) -> None:
    assert_refused(run, "key_misdeclared", "'id' carries 'name'", "takes it from 'id'")
    assert_made_nothing(project, "key_misdeclared")


def test_refusing_writes_nothing_upstream(project: Project, run: RunResult) -> None:
    assert run.nodes
    assert versions(project, "no_feed", "nulls") == {"no_feed": 2, "nulls": 1}


def test_the_statement_in_the_message_makes_the_upstream_followable(
    project: Project, run: RunResult
) -> None:
    message = run.message("reads_no_feed")
    statement = message[message.index("ALTER TABLE") : message.index("; it counts")]
    project.sql(statement)

    project.run("--select", "reads_no_feed")

    assert project.rows("select * from {schema}.reads_no_feed") == [(1, "a"), (2, "b")]
    assert (
        project.value("select max(upstream_version) from {schema}.reads_no_feed__progress") == "3"
    )


def test_a_corrected_key_needs_no_full_refresh(project: Project, run: RunResult) -> None:
    assert_refused(run, "key_twice")
    project.write(
        {"key_twice": model(f"select * from {source('twice')}", unique_key=["id", "name"])}
    )

    project.run("--select", "key_twice")

    assert project.rows("select * from {schema}.key_twice") == [(1, "a"), (2, "b"), (2, "c")]
